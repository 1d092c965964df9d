"""Stacks from the threads' pools, while their houses wander from thread to thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otavia_ft import (
    Ask,
    AskStack,
    FutureState,
    Notice,
    NoticeStack,
    StackError,
    StackYield,
    StateActor,
)
from otavia_ft.doors import me
from stress.parallel.lab import Lab
from stress.parallel.workloads.base import Ledger, Watched, Workload

__all__ = ["Stacks"]


class Errand(Notice):
    __slots__ = ("number", "sender")

    def __init__(self, sender: int, number: int) -> None:
        self.sender = sender
        self.number = number


class Question(Ask[int]):
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Hands:
    """Which stacks one actor has in use, and for which message.

    Only the actor's runner touches it. That two actors share a stack shows as well: the stack
    itself carries the message, and comes back with another's, or with none.
    """

    def __init__(self, lab: Lab, config: Any) -> None:
        self._lab = lab
        self._debug = config.debug
        self._reused = config.pool_max_size > 0
        self._used: dict[int, tuple[Any, Any]] = {}  # the stack is kept: its id stays its own

    def take(self, stack: Any, message: Any) -> None:
        other = self._used.get(id(stack))
        if other is not None:
            text = f"a stack serves {message} and {other[1]} at the same time"
            self._lab.report("pool-private", text)
        if stack.pool is not None and stack.pool not in me().pools:
            self._lab.report("pool-private", "a thread got a stack of another thread's pool")
        if stack.attach is not None:
            self._lab.report("pool-private", f"a stack comes with the past of {stack.attach}")
        self._used[id(stack)] = (stack, message)
        stack.attach = message

    def give_back(self, stack: Any, message: Any) -> None:
        held = self._used.pop(id(stack), None)
        if held is None or held[1] is not message or stack.attach is not message:
            text = f"the stack of {message} has become that of {held and held[1]}"
            self._lab.report("pool-private", text)

    def keep(self, stack: Any) -> Any:
        """What no handler may do, and what debug mode is for: a stack that outlives its message."""
        return stack if self._debug else None

    def poke(self, kept: Any) -> None:
        """A kept stack refuses to be used, unless it serves the next message by now."""
        try:
            done = kept.done
        except StackError:
            return
        if not self._reused:
            text = f"a stack that was recycled can still be used: done is {done}"
            self._lab.report("pool-private", text)


class Answering(StateActor):
    def __init__(self, lab: Lab, config: Any) -> None:
        self.hands = Hands(lab, config)

    def resume_ask(self, stack: AskStack) -> StackYield:
        self.hands.take(stack, stack.ask)
        number = stack.ask.number
        self.hands.give_back(stack, stack.ask)
        return stack.return_(number)


class Running(Watched):
    """Asks on behalf of every errand; meanwhile its house may have gone to another thread."""

    def __init__(self, lab: Lab, config: Any, targets: list[Any]) -> None:
        super().__init__(lab)
        self.hands = Hands(lab, config)
        self.targets = targets
        self.begun = Ledger(lab, repr(self))
        self.ended = 0
        self.kept: Any = None

    def resume_notice(self, stack: NoticeStack) -> StackYield:
        self.enter()
        errand = stack.notice
        state: Any = stack.state
        if state is FutureState.START:
            if self.kept is not None:
                self.hands.poke(self.kept)
            self.hands.take(stack, errand)
            self.begun.came(errand.sender, errand.number)
            state = FutureState[int]()
            target = self.targets[errand.number % len(self.targets)]
            target.ask(Question(errand.number), state.future)
            self.leave()
            return stack.suspend(state)
        if state.future.get_now() != errand.number:
            text = f"errand {errand.number} got {state.future.get_now()}"
            self.lab.report("answered-once", text)
        self.hands.give_back(stack, errand)
        self.kept = self.hands.keep(stack)
        self.ended += 1
        self.leave()
        return stack.return_()


class Stacks(Workload):
    """Errands that ask, on stacks from small pools: a stack serves one message at a time."""

    name = "stacks"

    @classmethod
    def settings(cls, drawn: dict[str, Any]) -> dict[str, Any]:
        return {"pooling": True, "stealing": True, "steal_floor": 0, "steal_aggression": 1,
                "workers": max(2, drawn["workers"])}  # fmt: skip

    def build(self, system: Any) -> None:
        rng = self.rng
        self.system = system
        self.actors: list[Running] = []
        many, config = rng.choice((1, 2, 4)), system.config
        targets = [system.build_actor(Answering, self.lab, config) for _ in range(many)]

        def made() -> Running:
            self.actors.append(Running(self.lab, config, targets))
            return self.actors[-1]

        self.addresses = [system.build_actor(made) for _ in range(rng.choice((1, 3, 9)))]
        self.each, self.senders = self.burst(60), rng.choice((1, 2, 3))
        self.expected = self.each * self.senders

    def bodies(self) -> list[Callable[[], Any]]:
        def send(sender: int) -> None:
            for number in range(1, self.each + 1):
                self.pace(number, self.addresses)
                for address in self.addresses:
                    address.notice(Errand(sender, number))

        return [lambda n=n: send(n) for n in range(self.senders)]

    def finished(self) -> bool:
        return all(actor.ended >= self.expected for actor in self.actors)

    def judge(self) -> None:
        for actor in self.actors:
            text = f"of {self.expected} errands {actor.ended} have ended"
            self.lab.check(actor.ended >= self.expected, "no-lost-message", text)
            self.lab.check(actor.ended <= self.expected, "no-duplicate", text)
