"""A forced stop: some threads are stuck in a handler, and everybody else has a proper end."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from otavia_ft import (
    ActorSystem,
    Ask,
    AutoCleanable,
    Notice,
    StateActor,
    SystemStopped,
    on,
    sleep,
)
from otavia_ft.schedule import memory

MakeSystem = Callable[..., ActorSystem]
Eventually = Callable[..., Any]
DISPATCHERS = ("pinned", "pool")


class Go(Notice):
    pass


class Wait(Ask[int]):
    pass


class Polite(StateActor, AutoCleanable):
    """Notes what happens to it, in a list that the test holds."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def after_mount(self) -> None:
        self.log.append("after_mount")

    def post_stop(self) -> None:
        assert self.address.house.actor is self
        self.log.append("post_stop")

    def cleaner(self) -> Callable[[], None]:
        log = self.log
        return lambda: log.append("cleaner")

    @on(Go)
    def go(self, message: Go) -> None:
        self.log.append("go")

    @on(Wait)
    async def wait(self, message: Wait) -> int:
        try:
            await sleep(3600)
        finally:
            self.log.append("finally")
        return 0


class PoliteIO(Polite):
    has_channels = True


class Stuck(StateActor):
    """Gets stuck in its first message, until the test lets it go."""

    def __init__(self, log: list[str], entered: threading.Event, release: threading.Event) -> None:
        self.log = log
        self.entered = entered
        self.release = release

    def post_stop(self) -> None:
        self.log.append("post_stop")

    @on(Go)
    def go(self, message: Go) -> None:
        self.entered.set()
        self.release.wait()

    @on(Wait)
    def wait(self, message: Wait) -> int:
        return 1


class StuckIO(Stuck):
    has_channels = True


class Trap:
    """One actor that is stuck, and the way out for it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.entered = threading.Event()
        self.release = threading.Event()

    def shut(self, system: ActorSystem, kind: type[Stuck] = Stuck) -> Any:
        address = system.build_actor(kind, self.log, self.entered, self.release)
        address.notice(Go())
        assert self.entered.wait(30)
        return address


@pytest.fixture
def trap() -> Iterator[Trap]:
    made = Trap()
    yield made
    made.release.set()


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.parametrize(("stuck", "polite"), [(Stuck, Polite), (StuckIO, PoliteIO)])
def test_who_lives_on_the_thread_of_a_stuck_handler_has_a_proper_end(
    make_system: MakeSystem,
    eventually: Eventually,
    trap: Trap,
    dispatcher: str,
    stuck: type[Stuck],
    polite: type[Polite],
) -> None:
    system = make_system(workers=1, dispatcher=dispatcher)
    logs: list[list[str]] = [[] for _ in range(3)]
    addresses = [system.build_actor(polite, log) for log in logs]
    ask = system.ask(addresses[0], Wait())
    eventually(lambda: addresses[0].house.promises.count == 1 and logs[2])
    trap.shut(system, stuck)
    addresses[1].notice(Go())
    system.stop(timeout=0)
    assert logs[0] == ["after_mount", "finally", "post_stop", "cleaner"]
    assert logs[1] == logs[2] == ["after_mount", "post_stop", "cleaner"]
    assert [letter.message.__class__ for letter in system.dead_letters.latest] == [Go]
    assert isinstance(ask.exception(0), SystemStopped)
    assert trap.log == []
    trap.release.set()
    eventually(lambda: not system.scheduler.threads[0].thread.is_alive())
    assert trap.log == ["post_stop"]
    assert [len(log) for log in logs] == [4, 3, 3]


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_an_actor_that_waits_for_its_mount_behind_a_stuck_handler_does_not_begin(
    make_system: MakeSystem, trap: Trap, dispatcher: str
) -> None:
    system = make_system(workers=1, dispatcher=dispatcher)
    trap.shut(system)
    log: list[str] = []
    address = system.build_actor(Polite, log)
    ask = system.ask(address, Wait())
    system.stop(timeout=0)
    assert log == ["cleaner"]
    assert isinstance(ask.exception(0), SystemStopped)
    assert address.house.actor is None


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_a_family_behind_a_stuck_handler_ends_from_the_leaves_up(
    make_system: MakeSystem, eventually: Eventually, trap: Trap, dispatcher: str
) -> None:
    log: list[str] = []

    class Leaf(StateActor):
        def __init__(self, name: str) -> None:
            self.name = name

        def post_stop(self) -> None:
            log.append(self.name)

    class Root(Leaf):
        def after_mount(self) -> None:
            for number in range(2):
                self.build_child(Leaf, f"leaf {number}")
            log.append("mounted")

    system = make_system(workers=2, dispatcher=dispatcher)
    root = system.build_actor(Root, "root")
    eventually(lambda: log == ["mounted"] and len(system.register) == 3)
    trap.shut(system)
    other = Trap()
    other.shut(system)
    system.stop(timeout=0)
    other.release.set()
    assert sorted(log[1:3]) == ["leaf 0", "leaf 1"]
    assert log[3:] == ["root"]
    assert root.house.actor is None


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_a_parent_of_a_stuck_child_answers_at_once_and_says_goodbye_after_it(
    make_system: MakeSystem, eventually: Eventually, trap: Trap, dispatcher: str
) -> None:
    class Parent(Polite):
        def after_mount(self) -> None:
            self.child = self.build_child(Stuck, trap.log, trap.entered, trap.release)

        @on(Go)
        def go(self, message: Go) -> None:
            self.child.notice(message)

    system, asking = make_system(workers=1, dispatcher=dispatcher), make_system(name="asking")
    log: list[str] = []
    parent = system.build_actor(Parent, log)

    class Asker(StateActor):
        @on(Wait)
        async def wait(self, message: Wait) -> int:
            return await parent.ask(Wait())

    first = asking.ask(asking.build_actor(Asker), Wait())
    eventually(lambda: parent.house.promises.count == 1)
    parent.notice(Go())
    assert trap.entered.wait(30)
    second = asking.ask(asking.build_actor(Asker), Wait())
    eventually(lambda: parent.house.mail())
    system.stop(timeout=0)
    assert "raised SystemStopped" in str(first.exception(30))
    assert "raised SystemStopped" in str(second.exception(30))
    assert log == ["finally"]
    trap.release.set()
    eventually(lambda: not system.scheduler.threads[0].thread.is_alive())
    assert trap.log == ["post_stop"]
    assert log == ["finally", "post_stop", "cleaner"]


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_an_asker_in_another_system_is_answered(
    make_system: MakeSystem, eventually: Eventually, trap: Trap, dispatcher: str
) -> None:
    one, two = make_system(name="one"), make_system(name="two", workers=1, dispatcher=dispatcher)
    asked = two.build_actor(Polite, [])

    class Asker(StateActor):
        @on(Wait)
        async def wait(self, message: Wait) -> int:
            try:
                return await asked.ask(Wait())
            except SystemStopped:
                return 7

    future = one.ask(one.build_actor(Asker), Wait())
    eventually(lambda: asked.house.promises.count == 1)
    trap.shut(two)
    two.stop(timeout=0)
    assert future.result(30) == 7


def test_an_actor_that_first_asks_after_the_goodbyes_is_told_of_the_end(
    make_system: MakeSystem, eventually: Eventually
) -> None:
    """It was not in the register when all who are in there were told."""
    one, two = make_system(name="one"), make_system(name="two")

    class Late(StateActor):
        @on(Wait)
        async def wait(self, message: Wait) -> int:
            two.signal_stop()
            eventually(lambda: two.register.closed)
            await sleep(3600)
            return 0

    late = two.build_actor(Late)

    class Asker(StateActor):
        @on(Wait)
        async def wait(self, message: Wait) -> int:
            return await late.ask(Wait())

    asker = one.build_actor(Asker)
    assert "raised SystemStopped" in str(one.ask(asker, Wait()).exception(30))
    assert two.wait(30)


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_a_last_hook_that_is_stuck_is_named_and_the_stop_ends(
    make_system: MakeSystem,
    eventually: Eventually,
    trap: Trap,
    caplog: pytest.LogCaptureFixture,
    dispatcher: str,
) -> None:
    release = threading.Event()

    class Hanging(Polite):
        def post_stop(self) -> None:
            release.wait()
            super().post_stop()

    system = make_system(workers=1, dispatcher=dispatcher, name="hanging")
    log: list[str] = []
    address = system.build_actor(Hanging, log)
    future = system.ask(address, Wait())
    eventually(lambda: address.house.promises.count == 1)
    trap.shut(system)
    system.stop(timeout=0)
    assert "hanging-burier is stuck in a last hook" in caplog.text
    assert isinstance(future.exception(0), SystemStopped)
    release.set()
    eventually(lambda: log[-1] == "cleaner")
    assert Counter(log) == {"after_mount": 1, "finally": 1, "post_stop": 1, "cleaner": 1}


def test_a_last_hook_may_stop_and_wait_where_the_end_needs_it(
    make_system: MakeSystem, trap: Trap
) -> None:
    returned: list[Any] = []

    class Again(StateActor):
        def post_stop(self) -> None:
            returned.append(self.system.wait())
            returned.append(self.system.stop())

    system = make_system(workers=1)
    kept = system.build_actor(Again)
    trap.shut(system)
    system.stop(timeout=0)
    assert returned == [False, None]
    assert kept.house.actor is None


def test_a_cleaner_that_comes_after_the_end_runs_where_it_comes(
    make_system: MakeSystem, trap: Trap
) -> None:
    system = make_system(workers=1)
    trap.shut(system)
    ran: list[str] = []
    thread = system.scheduler.threads[0]
    thread.call(lambda: ran.append("before"))
    system.stop(timeout=0)
    assert ran == ["before"]
    thread.call(lambda: ran.append("after"))
    assert ran == ["before", "after"]


def test_time_outs_of_a_stuck_thread_s_own_resources_are_not_handled_elsewhere(
    make_system: MakeSystem, trap: Trap, eventually: Eventually
) -> None:
    handled: list[Any] = []

    class Thing:
        handle_timeout = handled.append

    system = make_system(workers=1)
    trap.shut(system)
    thread = system.scheduler.threads[0]
    thread.resource_timeout(Thing(), 0.0)
    eventually(lambda: thread.left_over)
    system.stop(timeout=0)
    assert handled == []
    assert not thread.left_over


@pytest.mark.parametrize("what", ["an action", "a probe", "a callback"])
def test_a_timer_s_thread_that_is_stuck_is_named_and_the_stop_ends(
    make_system: MakeSystem, trap: Trap, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    def block(_: Any = None) -> Any:
        trap.entered.set()
        trap.release.wait()
        return memory.Memory(limit=1, used=1) if what == "a probe" else None

    late: list[int] = []
    settings = {"memory_probe": block, "memory_monitor": True, "memory_interval_ms": 1}
    system = make_system(name="timeless", **(settings if what == "a probe" else {}))
    if what == "a callback":
        never = system.build_actor(Polite, [])
        system.ask(never, Wait(), timeout=0.01).add_done_callback(block)
    elif what == "an action":
        system.timer.after(0.0, block)
    assert trap.entered.wait(30)
    system.timer.after(0.0, late.append, 1)
    system.stop(timeout=0)
    assert "timeless-timer is stuck" in caplog.text
    timer_thread = system._timer_thread
    assert timer_thread is not None
    trap.release.set()
    assert timer_thread.stop(30)
    assert late == []
    assert not system.busy


def test_no_timer_is_left_and_none_is_added_after_the_end(
    make_system: MakeSystem, eventually: Eventually
) -> None:
    """Also of an actor that is in no register, because it has nothing to say at the end."""

    class Plain(StateActor):
        def after_mount(self) -> None:
            self.after(3600, every=3600)
            self.after(3600)

    system = make_system()
    address = system.build_actor(Plain)
    eventually(lambda: system.statistics().timers >= 2)
    system.stop()
    assert system.statistics().timers == 0
    assert not system.timer.after(3600, print).pending
    task = system.timer.after(0, print, period=1)
    task.update(3600)
    assert not task.pending
    assert system.statistics().timers == 0
    assert address.house.stop_reason is None


def test_nobody_sees_the_stopper_after_the_wait(make_system: MakeSystem) -> None:
    for number in range(50):
        system = make_system(name=f"waited-{number}", workers=1)
        system.signal_stop()
        system.signal_stop()
        assert system.wait(30)
        names = [thread.name for thread in threading.enumerate()]
        assert [name for name in names if name.startswith(system.name + "-")] == []
