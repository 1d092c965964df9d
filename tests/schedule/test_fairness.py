"""Fairness on one thread: nobody who floods keeps the others, the channels or the timers out."""

import selectors
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from otavia_ft import ActorSystem, Ask, Notice, StackYield, StateActor, TimeoutEvent, on
from otavia_ft.doors import set_me
from otavia_ft.testkit import TestSystem

MakeTestSystem = Callable[..., TestSystem]
MakeSystem = Callable[..., ActorSystem]


class Go(Notice):
    pass


class Flood(StateActor):
    """Sends itself what it gets, so that its mailbox is never empty (within a test's patience)."""

    def __init__(self, log: list[str], left: int = 100_000) -> None:
        self.log = log
        self.left = left

    @on(Go)
    def go(self, message: Go) -> None:
        self.log.append("flood")
        self.left -= 1
        if self.left > 0:
            self.address.notice(message)


class FloodIO(Flood):
    has_channels = True


class Modest(StateActor):
    def __init__(self, log: list[str]) -> None:
        self.log = log

    @on(Go)
    def go(self, message: Go) -> None:
        self.log.append("modest")


class Never(Ask[int]):
    pass


class Mute(StateActor):
    """Answers nothing, ever."""

    def resume_ask(self, stack: Any) -> Any:
        stack.done = True
        return StackYield.RETURN


class Awaiting(Modest):
    """Awaits an answer that does not come, so it is of normal priority after its first turn."""

    def __init__(self, log: list[str], target: Any) -> None:
        super().__init__(log)
        self.target = target

    @on(Never)
    async def never(self, message: Never) -> int:
        return await self.target.ask(message)


@pytest.fixture
def awaiting() -> Callable[..., Any]:
    """Build an actor that awaits an answer, in a test system that is at rest then."""

    def build(system: TestSystem, log: list[str]) -> Any:
        address = system.build_actor(Awaiting, log, system.build_actor(Mute))
        address.notice(Never())
        system.run()
        assert not address.house.high_priority
        return address

    return build


@pytest.mark.parametrize("budget", [1, 7, 32])
def test_a_new_actor_has_its_turn_after_one_turn_of_an_old_flood(
    make_test_system: MakeTestSystem, budget: int
) -> None:
    system = make_test_system(throughput_budget=budget)
    log: list[str] = []
    flood = system.build_actor(Flood, log)
    for _ in range(5 * budget):
        flood.notice(Go())
    system.step()
    assert flood.house.high_priority
    log.clear()
    system.build_actor(Modest, log).notice(Go())
    system.step()
    assert log.index("modest") == budget
    flood.stop()


@pytest.mark.parametrize("stride", [1, 3])
def test_a_waiting_normal_actor_is_next_after_each_slice_of_business_that_a_flood_has_filled(
    make_test_system: MakeTestSystem, awaiting: Callable[..., Any], stride: int
) -> None:
    system = make_test_system(throughput_budget=1, deadline_stride=stride)
    log: list[str] = []
    normal = awaiting(system, log)
    flood = system.build_actor(Flood, log)
    system.run()
    flood.notice(Go())
    thread = system.manual.threads[0]
    slices = []
    set_me(thread.context)
    try:
        for _ in range(4):
            normal.notice(Go())  # of which there is one in its mailbox, or two
            log.clear()
            thread.run_business(thread.context, 1)  # a deadline that has passed: one stride
            slices.append(list(log))
    finally:
        set_me(None)
    full, shared = ["flood"] * stride, ["modest"] + ["flood"] * (stride - 1)
    assert slices == [full, shared, shared, shared]
    flood.stop()


def test_a_slice_that_ends_because_nothing_is_left_owes_nobody_a_turn(
    make_test_system: MakeTestSystem, awaiting: Callable[..., Any]
) -> None:
    system = make_test_system()
    log: list[str] = []
    normal = awaiting(system, log)
    high = system.build_actor(Flood, log, 1)
    high.notice(Go())
    system.run()
    log.clear()
    normal.notice(Go())
    high.notice(Go())
    system.run()
    assert log == ["flood", "modest"]


@pytest.mark.parametrize("budget", [1, 7, 32])
def test_another_actor_has_its_turn_after_one_budget_of_a_flood(
    make_test_system: MakeTestSystem, budget: int
) -> None:
    system = make_test_system(throughput_budget=budget)
    log: list[str] = []
    flood = system.build_actor(Flood, log)
    modest = system.build_actor(Modest, log)
    system.run()
    flood.notice(Go())
    for _ in range(5 * budget):
        flood.notice(Go())
    system.step()
    log.clear()
    modest.notice(Go())
    system.step()
    assert log.index("modest") <= budget
    flood.stop()


def test_an_actor_of_lower_priority_has_its_turn_after_ageing_limit_turns_of_a_flood(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system(throughput_budget=2, ageing_limit=10)
    log: list[str] = []
    flood = system.build_actor(Flood, log)
    modest = system.build_actor(Modest, log)
    system.run()
    for _ in range(5):
        flood.notice(Go())
    modest.house.high_priority = False
    modest.notice(Go())
    for _ in range(5):
        system.step()
    assert log.index("modest") == 2 * 10
    flood.stop()


def test_every_actor_gets_as_much_as_a_flood_does(make_test_system: MakeTestSystem) -> None:
    system = make_test_system(throughput_budget=4)
    logs: list[list[str]] = [[] for _ in range(5)]
    floods = [system.build_actor(Flood, log) for log in logs]
    system.run()
    for flood in floods:
        flood.notice(Go())
    for _ in range(200):
        system.step()
    counts = [len(log) for log in logs]
    assert min(counts) > 100
    assert max(counts) - min(counts) <= 4
    for flood in floods:
        flood.stop()


def test_an_io_actor_that_floods_itself_leaves_time_for_business(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system()
    log: list[str] = []
    flood = system.build_actor(FloodIO, log)
    modest = system.build_actor(Modest, log)
    system.run()
    flood.notice(Go())
    modest.notice(Go())
    system.step()
    assert log.count("modest") == 1
    assert log.count("flood") == system.config.throughput_budget
    flood.stop()


@pytest.mark.parametrize("kind", [Flood, FloodIO], ids=lambda kind: kind.__name__)
def test_channels_timers_and_new_actors_are_served_during_a_flood(
    make_system: MakeSystem, eventually: Callable[..., Any], kind: type[Flood]
) -> None:
    class Drop(list[str]):
        def append(self, item: str) -> None:
            """A flood's log would only grow."""

    rung = threading.Event()

    class Ringing(StateActor):
        def after_mount(self) -> None:
            self.after(0.02)

        def handle_actor_timeout(self, event: TimeoutEvent) -> None:
            rung.set()

    system = make_system(workers=1)
    flood = system.build_actor(kind, Drop(), 10**9)
    flood.notice(Go())
    eventually(lambda: system.statistics().messages > 100)
    ringing = system.build_actor(Ringing)
    assert rung.wait(30)
    thread = system.scheduler.threads[0]
    ours, theirs = socket.socketpair()
    got: list[bytes] = []
    with ours, theirs:
        thread.call(
            lambda: thread.reactor.register(
                ours, selectors.EVENT_READ, lambda _: got.append(ours.recv(9))
            )
        )
        theirs.send(b"hello")
        eventually(lambda: got == [b"hello"])
        thread.call(lambda: thread.reactor.unregister(ours))
        eventually(lambda: thread.reactor.channels == 0)
    flood.stop()
    ringing.stop()


def test_a_pill_overtakes_a_flood(make_system: MakeSystem, eventually: Callable[..., Any]) -> None:
    system = make_system(workers=1)
    log: list[str] = []
    flood = system.build_actor(Flood, log, 10**9)
    for _ in range(1000):
        flood.notice(Go())
    eventually(lambda: len(log) > 100)
    flood.stop()
    eventually(lambda: flood.house.stop_reason is not None)
    system.stop()
    assert system.dead_letters.total == 1000
