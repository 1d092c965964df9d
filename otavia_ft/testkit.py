"""Deterministic tests of actors: one thread, a virtual clock, and a probe.

    system = TestSystem()
    counter = system.build_actor(Counter)
    counter.notice(Add(1))
    assert system.ask_now(counter, Get()) == Total(1)
    system.advance(60)                      # a minute passes, timers fire, in no time

A `TestSystem` is an ordinary system with ordinary ActorThreads, whose loops are turned by the test
instead of by threads of their own. Nothing happens between two calls of the test.
"""

from __future__ import annotations

from collections import deque
from typing import Any, overload

from otavia_ft.actor.base import StateActor
from otavia_ft.address import ActorAddress, Address
from otavia_ft.doors import set_me
from otavia_ft.message import Ask
from otavia_ft.schedule.pinned import PinnedScheduler
from otavia_ft.schedule.pool import PoolScheduler
from otavia_ft.stack.stack import AskStack, NoticeStack
from otavia_ft.stack.state import FutureState, StackYield
from otavia_ft.system import ActorSystem

__all__ = ["TestProbe", "TestSystem", "VirtualClock"]


class VirtualClock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


class ManualScheduler(PinnedScheduler):
    """The pinned scheduler without threads: `run` turns the loops."""

    limit = 1_000_000

    def start(self) -> None:
        """There is nothing to start."""

    def step(self) -> bool:
        """One iteration of every thread's loop. Returns whether anything ran."""
        ran = False
        for thread in self.threads:
            set_me(thread.context)
            try:
                ran |= thread.run_once(thread.context)
            finally:
                set_me(None)
        return ran

    def run(self) -> None:
        """Turn the loops until nothing is left to do."""
        for _ in range(self.limit):
            if not self.step():
                return
        raise AssertionError(f"no rest within {self.limit} loops: some actor keeps itself busy")

    def quiet(self) -> bool:
        self.run()
        return True


class ManualPool(ManualScheduler, PoolScheduler):
    """The pool scheduler without threads."""


class TestSystem(ActorSystem):
    """An actor system for tests: nothing moves but by `run` and `advance`."""

    __test__ = False  # not a test class, whatever its name suggests to pytest

    def __init__(self, name: str = "test", **settings: Any) -> None:
        self.clock = VirtualClock()
        self._stop_wanted = False
        settings = {"workers": 1, "memory_monitor": False, **settings}
        super().__init__(name, clock=self.clock, **settings)

    def _make_scheduler(self) -> ManualScheduler:
        pool = self.config.dispatcher == "pool"
        self.manual = ManualPool(self) if pool else ManualScheduler(self)
        return self.manual

    def _start(self) -> None:
        """No threads, and a clock that we turn ourselves."""
        if self.config.pooling:
            for thread in self.manual.threads:
                thread.context.use_pools(self.config.pool_max_size, self.config.debug)

    def signal_stop(self) -> None:
        """The stop comes at the end of the `run` in hand: there is no thread to do it."""
        self._stop_wanted = True

    def run(self) -> None:
        """Handle everything that can be handled without time passing."""
        self.manual.run()
        if self._stop_wanted:
            self._stop_wanted = False
            self.stop()

    def step(self) -> bool:
        """One iteration of every thread's loop."""
        return self.manual.step()

    def advance(self, seconds: float) -> None:
        """Let time pass, firing each timer at its time and handling what it causes."""
        self.run()
        end = self.clock.time + seconds
        while (wait := self.timer.next_due()) is not None and self.clock.time + wait <= end:
            self.clock.time += wait
            self.timer.fire_due()
            self.run()
        self.clock.time = end
        self.timer.fire_due()
        self.run()

    @overload
    def ask_now[R](self, address: Address, message: Ask[R], within: float = 0) -> R: ...
    @overload
    def ask_now(self, address: Address, message: object, within: float = 0) -> Any: ...

    def ask_now(self, address: Address, message: Any, within: float = 0) -> Any:
        """Ask, run, and return the reply; it may take `within` virtual seconds."""
        future = self.ask(address, message)
        self.advance(within)
        return future.result(timeout=0)


class TestProbe:
    """An actor in the test's hands: it collects what it is sent."""

    __test__ = False

    def __init__(self, system: TestSystem) -> None:
        self._system = system
        self._notices: deque[Any] = deque()
        self._asks: deque[AskStack] = deque()
        self._replies: deque[Any] = deque()
        self.address: ActorAddress = system.build_actor(_ProbeActor, self)
        system.run()

    def tell(self, target: Address, message: Any) -> None:
        """Send a notice as the probe."""
        self.address.notice(_Do(target, message, ask=False))
        self._system.run()

    def ask(self, target: Address, message: Any) -> None:
        """Ask as the probe; `expect_reply` gets the answer."""
        self.address.notice(_Do(target, message, ask=True))
        self._system.run()

    def expect(self, message: Any, within: float = 0) -> Any:
        """The next notice, which must equal `message`."""
        got = self._next(self._notices, f"the message {message!r}", within)
        assert got == message, f"expected {message!r}, got {got!r}"
        return got

    def expect_type[T](self, kind: type[T], within: float = 0) -> T:
        """The next notice, which must be a `kind`."""
        got = self._next(self._notices, f"a {kind.__name__}", within)
        assert isinstance(got, kind), f"expected a {kind.__name__}, got {got!r}"
        return got

    def expect_nothing(self, within: float = 0) -> None:
        """No notice comes in that time."""
        self._system.advance(within)
        assert not self._notices, f"expected nothing, got {self._notices[0]!r}"

    def expect_ask(self, within: float = 0) -> Any:
        """The next ask; answer it with `reply`."""
        self._next_ask = self._next(self._asks, "an ask", within)
        return self._next_ask.ask

    def reply(self, reply: Any) -> None:
        """Answer the ask that `expect_ask` returned."""
        self._next_ask.asker.answer(self._next_ask.ask_id, reply)
        self._system.run()

    def expect_reply(self, within: float = 0) -> Any:
        """The answer to the probe's own ask; raises the error if it failed."""
        got = self._next(self._replies, "a reply", within)
        if isinstance(got, BaseException):
            raise got
        return got

    def _next(self, box: deque[Any], what: str, within: float) -> Any:
        self._system.run()
        end = self._system.clock.time + within
        while not box and self._system.clock.time < end:
            wait = self._system.timer.next_due()
            left = end - self._system.clock.time
            self._system.advance(left if wait is None else min(left, wait))
        assert box, f"expected {what} within {within} s, but nothing came"
        return box.popleft()


class _Do:
    """What the test wants the probe's actor to do."""

    def __init__(self, target: Address, message: Any, ask: bool) -> None:
        self.target = target
        self.message = message
        self.ask = ask


class _ProbeActor(StateActor):
    def __init__(self, probe: TestProbe) -> None:
        self._probe = probe

    def resume_notice(self, stack: NoticeStack) -> StackYield:
        state = stack.state
        if isinstance(state, FutureState):
            self._probe._replies.append(state.future.cause or state.future.get_now())
            return stack.return_()
        wish = stack.notice
        if not isinstance(wish, _Do):
            self._probe._notices.append(wish)
        elif wish.ask:
            waiting: FutureState[Any] = FutureState()
            wish.target.ask(wish.message, waiting.future)
            return stack.suspend(waiting)
        else:
            wish.target.notice(wish.message)
        return stack.return_()

    def resume_ask(self, stack: AskStack) -> StackYield:
        # The probe answers by hand, later: the stack is copied out and ends here without a reply.
        kept = AskStack()
        kept.house, kept.ask = stack.house, stack.ask
        kept.asker, kept.ask_id = stack.asker, stack.ask_id
        self._probe._asks.append(kept)
        stack.done = True
        return StackYield.RETURN
