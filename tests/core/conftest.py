"""Shared by the tests of the core: systems that are stopped for certain, and patient looking."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from otavia_ft import ActorSystem, FutureState, StateActor, UnitReply
from otavia_ft.testkit import TestProbe, TestSystem

PATIENCE_S = 20.0  # for things that happen at once unless the machine is very busy


@pytest.fixture
def make_test_system() -> Iterator[Callable[..., TestSystem]]:
    """Make test systems with settings; each is stopped at the end."""
    made: list[TestSystem] = []

    def make(**settings: Any) -> TestSystem:
        made.append(TestSystem(**settings))
        return made[-1]

    yield make
    for system in made:
        system.stop()


@pytest.fixture
def system(make_test_system: Callable[..., TestSystem]) -> TestSystem:
    """A system that moves only when the test says so."""
    return make_test_system()


@pytest.fixture
def probe(system: TestSystem) -> TestProbe:
    """An actor in the test's hands."""
    return TestProbe(system)


@pytest.fixture
def make_real_system() -> Iterator[Callable[..., ActorSystem]]:
    """Make systems with threads of their own; each is stopped at the end."""
    made: list[ActorSystem] = []

    def make(**settings: Any) -> ActorSystem:
        made.append(ActorSystem(**{"workers": 2, "memory_monitor": False, **settings}))
        return made[-1]

    yield make
    for system in made:
        system.stop(timeout=PATIENCE_S)


@pytest.fixture
def eventually() -> Callable[[Callable[[], Any]], Any]:
    """Look again and again until a condition holds; fail when patience is at its end."""

    def look(condition: Callable[[], Any]) -> Any:
        pause = threading.Event()
        end = time.monotonic() + PATIENCE_S
        while not (result := condition()):
            assert time.monotonic() < end, "what the test waits for did not happen"
            pause.wait(0.001)
        return result

    return look


class Guarded(StateActor):
    """Words that begin with "barrier" are barrier calls; "barrier wait" and "wait" ask `target`."""

    def __init__(self, target, log):
        self.target = target
        self.log = log

    def is_barrier_call(self, message):
        return message.word.startswith("barrier")

    def _resume(self, stack, word, reply):
        if isinstance(stack.state, FutureState):
            self.log.append(f"{word} ends")
            return stack.return_(*reply)
        self.log.append(word)
        if word == "barrier raises":
            raise ValueError(word)
        if word.endswith("wait"):
            state = FutureState()
            self.target.ask(word, state.future)
            return stack.suspend(state)
        if word.endswith("sleep"):
            state = FutureState()
            stack.house.attach_sleep(stack, state.future, 5)
            return stack.suspend(state)
        return stack.return_(*reply)

    def resume_notice(self, stack):
        return self._resume(stack, stack.notice.word, ())

    def resume_ask(self, stack):
        return self._resume(stack, stack.ask.word, (UnitReply,))

    def receive_event(self, event):
        self.log.append(f"event {event.word}")


@pytest.fixture
def guarded(system, probe):
    log: list[str] = []
    return system.build_actor(Guarded, probe.address, log), log
