"""Shared by the tests of the pool: systems under either scheduler, and patient looking."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from otavia_ft import ActorSystem
from otavia_ft.testkit import TestSystem

PATIENCE_S = 30.0  # for things that happen at once unless the machine is very busy


@pytest.fixture(params=["pinned", "pool"])
def dispatcher(request: pytest.FixtureRequest) -> str:
    """Each of the two schedulers in turn."""
    return str(request.param)


@pytest.fixture
def make_system() -> Iterator[Callable[..., ActorSystem]]:
    """Make pools (or what the settings say) with threads of their own, stopped at the end."""
    made: list[ActorSystem] = []

    def make(**settings: Any) -> ActorSystem:
        defaults = {"workers": 2, "memory_monitor": False, "dispatcher": "pool"}
        made.append(ActorSystem(**{**defaults, **settings}))
        return made[-1]

    yield make
    for system in made:
        system.stop(timeout=PATIENCE_S)


@pytest.fixture
def make_manual() -> Iterator[Callable[..., TestSystem]]:
    """Make pools (or what the settings say) that move only when the test says so."""
    made: list[TestSystem] = []

    def make(**settings: Any) -> TestSystem:
        made.append(TestSystem(**{"dispatcher": "pool", **settings}))
        return made[-1]

    yield make
    for system in made:
        system.stop()


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


@pytest.fixture
def in_parallel() -> Callable[..., None]:
    """Run functions on threads of their own, let go at once; what they raise, the test raises."""

    def run(*functions: Callable[[], Any]) -> None:
        gate = threading.Barrier(len(functions))
        raised: list[BaseException] = []

        def body(function: Callable[[], Any]) -> None:
            gate.wait()
            try:
                function()
            except BaseException as error:
                raised.append(error)

        threads = [threading.Thread(target=body, args=(f,), daemon=True) for f in functions]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 2 * PATIENCE_S
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        assert not raised, raised[0]
        stuck = [thread for thread in threads if thread.is_alive()]
        assert not stuck, f"{len(stuck)} of {len(threads)} threads did not end: a deadlock"

    return run


class Blocking:
    """An item whose turn blocks its worker until the test lets it go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.release = threading.Event()

    def run_turn(self, context: Any) -> None:
        self.entered.set()
        self.release.wait(2 * PATIENCE_S)

    def bury(self, reason: Any) -> None:
        raise AssertionError("it was to have its turn")


@pytest.fixture
def blocking() -> Iterator[Callable[[], Blocking]]:
    """Make items that block a worker each; all are released at the end."""
    made: list[Blocking] = []

    def make() -> Blocking:
        made.append(Blocking())
        return made[-1]

    yield make
    for item in made:
        item.release.set()


@pytest.fixture
def block(blocking: Callable[[], Blocking]) -> Callable[[ActorSystem], Blocking]:
    """Block one worker of a system, from now on."""

    def make(system: ActorSystem) -> Blocking:
        item = blocking()
        scheduler: Any = system.scheduler
        scheduler.submit(item)
        assert item.entered.wait(PATIENCE_S)
        return item

    return make
