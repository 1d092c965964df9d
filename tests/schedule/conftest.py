"""Shared by the scheduler's tests: systems that are stopped for certain, patient looking, gates."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from otavia_ft import ActorSystem, Notice, StateActor
from otavia_ft.testkit import TestSystem

PATIENCE_S = 30.0  # for things that happen at once unless the machine is very busy


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
def make_system() -> Iterator[Callable[..., ActorSystem]]:
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
        end = time.monotonic() + PATIENCE_S
        pause = threading.Event()
        while not (seen := condition()):
            assert time.monotonic() < end, "it did not happen"
            pause.wait(0.001)
        return seen

    return look


class Hold(Notice):
    """Holds up the thread of whoever gets it, from `entered` until `release`."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.release = threading.Event()

    def wait_inside(self) -> None:
        assert self.entered.wait(PATIENCE_S), "nobody took the hold"


class Holder(StateActor):
    """An actor that does nothing but be held up."""

    def resume_notice(self, stack: Any) -> Any:
        stack.notice.entered.set()
        assert stack.notice.release.wait(PATIENCE_S), "the test forgot to release a hold"
        return stack.return_()


@pytest.fixture
def hold() -> Iterator[Callable[..., Hold]]:
    """`hold(system)` keeps the next thread in turn busy until `.release.set()`."""
    made: list[Hold] = []

    def take(system: ActorSystem, address: Any = None) -> Hold:
        made.append(Hold())
        (address or system.build_actor(Holder)).notice(made[-1])
        made[-1].wait_inside()
        return made[-1]

    yield take
    for each in made:
        each.release.set()


@pytest.fixture
def holder() -> type[Holder]:
    return Holder


@pytest.fixture
def in_parallel() -> Callable[..., list[Any]]:
    """Run `function(i)` on `n` threads that start together; their results, or the first error."""

    def run(n: int, function: Callable[[int], Any]) -> list[Any]:
        barrier = threading.Barrier(n)
        results: list[Any] = [None] * n
        errors: list[BaseException] = []

        def body(i: int) -> None:
            try:
                barrier.wait(PATIENCE_S)
                results[i] = function(i)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=body, args=(i,)) for i in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a thread of the test hangs"
        if errors:
            raise errors[0]
        return results

    return run


@pytest.fixture
def start_child(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start `python -c code` and hand it over; whatever is left of it at the end is killed."""
    children: list[subprocess.Popen[str]] = []

    def start(code: str) -> subprocess.Popen[str]:
        children.append(
            subprocess.Popen(
                [sys.executable, "-W", "error", "-X", "faulthandler", "-c", code],
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return children[-1]

    yield start
    for child in children:
        if child.poll() is None:
            child.kill()
        child.communicate()
