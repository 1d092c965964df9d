"""Shared by the tests of supervision: systems under either scheduler, and an obedient actor."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from otavia_ft import ActorSystem, StateActor, Terminated, on
from otavia_ft.testkit import TestSystem

PATIENCE_S = 30.0  # for things that happen at once unless the machine is very busy


@pytest.fixture(params=["pinned", "pool"])
def dispatcher(request: pytest.FixtureRequest) -> str:
    """Each of the two schedulers in turn."""
    return str(request.param)


@pytest.fixture
def system(dispatcher: str) -> Iterator[TestSystem]:
    """A system that moves only when the test says so, under each scheduler."""
    system = TestSystem(dispatcher=dispatcher)
    yield system
    system.stop()


@pytest.fixture
def real_system(dispatcher: str) -> Iterator[ActorSystem]:
    """A system with threads of its own."""
    system = ActorSystem(workers=2, memory_monitor=False, dispatcher=dispatcher)
    yield system
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


@dataclass(frozen=True)
class Do:
    """Have an actor call a function with itself, as a notice or an ask."""

    what: Callable[[Any], Any]


class Member(StateActor):
    """Writes down its life under its name; raises the exceptions it is sent."""

    def __init__(self, name: str, log: list[Any]) -> None:
        self.name = name
        self.log = log

    def write(self, word: Any) -> None:
        self.log.append((self.name, word))

    def pre_start(self) -> None:
        self.write("pre_start")

    def restart(self) -> None:
        self.write("restart")

    def post_stop(self) -> None:
        self.write("post_stop")

    @on(Do)
    def do(self, message: Do) -> Any:
        return message.what(self)

    @on(Terminated)
    def terminated(self, message: Terminated) -> None:
        self.write(message)

    @on(BaseException)
    def fail(self, message: BaseException) -> None:
        self.write("raises")
        raise message

    @on(int, str)
    def note(self, message: Any) -> Any:
        self.write(message)
        return message


class Family:
    """A parent and children in the test's hands, and what they have written down."""

    def __init__(self, system: TestSystem) -> None:
        self.system = system
        self.log: list[Any] = []

    def build(self, name: str, supervisor: Any = None, **attributes: Any) -> Any:
        """An actor that the system builds."""
        address = self.system.build_actor(self._make, name, supervisor, attributes)
        self.system.run()
        return address

    def child(self, parent: Any, name: str, supervisor: Any = None, **attributes: Any) -> Any:
        """An actor that another one builds."""
        return self.do(parent, lambda me: me.build_child(self._make, name, supervisor, attributes))

    def _make(self, name: str, supervisor: Any, attributes: dict[str, Any]) -> Member:
        kind = type("Member", (Member,), attributes)
        member = kind(name, self.log)
        member.supervisor = supervisor
        return member

    def do(self, address: Any, what: Callable[[Any], Any]) -> Any:
        """Run a function inside an actor; returns what it returns."""
        return self.system.ask_now(address, Do(what))

    def of(self, name: str) -> list[Any]:
        """What one of them has written down."""
        return [word for who, word in self.log if who == name]

    def send(self, address: Any, *messages: Any) -> None:
        for message in messages:
            address.notice(message)
        self.system.run()


@pytest.fixture
def family(system: TestSystem) -> Family:
    return Family(system)


@pytest.fixture
def do() -> type[Do]:
    """The message class."""
    return Do
