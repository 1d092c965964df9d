"""Fairness on one thread: nobody who floods keeps the others, the channels or the timers out."""

import selectors
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from otavia_ft import ActorSystem, Notice, StateActor, TimeoutEvent, on
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


@pytest.mark.parametrize("budget", [1, 7, 32])
def test_another_actor_has_its_turn_after_one_budget_of_a_flood(
    make_test_system: MakeTestSystem, budget: int
) -> None:
    system = make_test_system(throughput_budget=budget)
    log: list[str] = []
    flood = system.build_actor(Flood, log)
    modest = system.build_actor(Modest, log)
    modest.notice(Go())  # after a first turn both are of the same priority
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
    # The flood's first turn was of normal priority too, and came first.
    assert log.index("modest") == 2 * (1 + 10)
    flood.stop()


def test_every_actor_gets_as_much_as_a_flood_does(make_test_system: MakeTestSystem) -> None:
    system = make_test_system(throughput_budget=4)
    logs: list[list[str]] = [[] for _ in range(5)]
    floods = [system.build_actor(Flood, log) for log in logs]
    system.run()
    for flood in floods:
        flood.house.high_priority = True  # as after a first turn
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
