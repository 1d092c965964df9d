"""Stacks from the threads' pools, while their houses wander from thread to thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otavia_ft import Ask, AskStack, FutureState, Notice, NoticeStack, StackYield, StateActor
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
    """Which stacks are in use, by whom; several threads at once, each for its own stacks."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
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


class Answering(StateActor):
    def __init__(self, hands: Hands) -> None:
        self.hands = hands

    def resume_ask(self, stack: AskStack) -> StackYield:
        self.hands.take(stack, stack.ask)
        number = stack.ask.number
        self.hands.give_back(stack, stack.ask)
        return stack.return_(number)


class Running(Watched):
    """Asks on behalf of every errand; meanwhile its house may have gone to another thread."""

    def __init__(self, lab: Lab, hands: Hands, targets: list[Any]) -> None:
        super().__init__(lab)
        self.hands = hands
        self.targets = targets
        self.begun = Ledger(lab, repr(self))
        self.ended = 0

    def resume_notice(self, stack: NoticeStack) -> StackYield:
        self.enter()
        errand = stack.notice
        state: Any = stack.state
        if state is FutureState.START:
            self.hands.take(stack, errand)
            self.begun.came(errand.sender, errand.number)
            state = FutureState[int]()
            target = self.targets[errand.number % len(self.targets)]
            target.ask(Question(errand.number), state.future)
            self.leave()
            return stack.suspend(state)
        self.lab.check(state.future.get_now() == errand.number, "answered-once",
                       f"errand {errand.number} got {state.future.get_now()}")  # fmt: skip
        self.hands.give_back(stack, errand)
        self.ended += 1
        self.leave()
        return stack.return_()


class Stacks(Workload):
    """Errands that ask, on stacks from small pools: a stack serves one message at a time."""

    name = "stacks"

    @classmethod
    def settings(cls, drawn: dict[str, Any]) -> dict[str, Any]:
        return {"pooling": True, "pool_max_size": drawn["batch_limit"] % 4, "stealing": True,
                "steal_floor": 0, "steal_aggression": 1,
                "debug": drawn["deadline_stride"] == 2,
                "workers": max(2, drawn["workers"])}  # fmt: skip

    def build(self, system: Any) -> None:
        rng = self.rng
        self.system = system
        self.hands = Hands(self.lab)
        self.actors: list[Running] = []
        targets = [system.build_actor(Answering, self.hands) for _ in range(rng.choice((1, 2, 4)))]

        def made() -> Running:
            self.actors.append(Running(self.lab, self.hands, targets))
            return self.actors[-1]

        self.addresses = [system.build_actor(made) for _ in range(rng.choice((1, 3, 9)))]
        self.each, self.senders = self.burst(60), rng.choice((1, 2, 3))
        self.expected = self.each * self.senders

    def bodies(self) -> list[Callable[[], Any]]:
        def send(sender: int) -> None:
            for number in range(1, self.each + 1):
                for address in self.addresses:
                    address.notice(Errand(sender, number))

        return [lambda n=n: send(n) for n in range(self.senders)]

    def finished(self) -> bool:
        # The pools' own timers would never let the system come to rest. Each worker makes its one
        # when it starts, which may be later than the first look here.
        for thread in self.system.scheduler.threads:
            if thread._trimming is not None:
                thread._trimming.cancel()
        return all(actor.ended >= self.expected for actor in self.actors)

    def judge(self) -> None:
        for actor in self.actors:
            text = f"of {self.expected} errands {actor.ended} have ended"
            self.lab.check(actor.ended >= self.expected, "no-lost-message", text)
            self.lab.check(actor.ended <= self.expected, "no-duplicate", text)
