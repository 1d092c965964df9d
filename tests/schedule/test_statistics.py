"""Statistics: frozen records whose numbers add up."""

import selectors
import socket
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from otavia_ft import ActorSystem, Ask, Notice, StateActor, on, sleep
from otavia_ft.testkit import TestSystem

MakeSystem = Callable[..., ActorSystem]
Eventually = Callable[[Callable[[], bool]], None]


class Go(Notice):
    pass


class Wait(Ask[int]):
    pass


class Quiet(StateActor):
    @on(Go)
    def go(self, message: Go) -> None:
        pass

    @on(Wait)
    async def wait(self, message: Wait) -> int:
        await sleep(3600)
        return 0


def test_every_record_is_frozen(make_system: MakeSystem) -> None:
    statistics = make_system().statistics()
    thread = statistics.threads[0]
    for record in (statistics, thread, thread.queues, thread.queues.business):
        for field in fields(record):
            with pytest.raises(FrozenInstanceError):
                setattr(record, field.name, 0)


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
def test_the_system_s_numbers_are_the_sums_of_the_threads(
    make_system: MakeSystem, eventually: Eventually, dispatcher: str
) -> None:
    system = make_system(workers=3, dispatcher=dispatcher)
    eventually(lambda: all(thread.idle for thread in system.scheduler.threads))
    addresses = [system.build_actor(Quiet) for _ in range(30)]
    for _ in range(20):
        for address in addresses:
            address.notice(Go())
    system.stop()
    statistics = system.statistics()
    assert statistics.messages == sum(t.messages for t in statistics.threads) == 600
    assert statistics.turns == sum(t.turns for t in statistics.threads)
    assert statistics.steals == sum(t.steals_taken for t in statistics.threads)
    assert statistics.steals == sum(t.steals_given for t in statistics.threads)
    assert statistics.parks == sum(t.parks for t in statistics.threads) >= 3
    assert statistics.wakeups == sum(t.wakeups for t in statistics.threads) >= 1
    assert statistics.actors_built == 30
    assert 30 <= statistics.turns <= 600 + 30
    assert [t.index for t in statistics.threads] == [0, 1, 2]
    assert not statistics.running


class IO(Quiet):
    has_channels = True


def test_what_waits_is_shown_by_queue_with_how_much_of_it_is_high(
    make_test_system: Callable[..., TestSystem],
) -> None:
    system = make_test_system()
    state = [system.build_actor(Quiet) for _ in range(3)]
    io = [system.build_actor(IO) for _ in range(2)]

    def queues() -> list[tuple[int, int]]:
        found = system.statistics().threads[0].queues
        both = (found.mounting, found.channels, found.business)
        return [(queue.ready, queue.high) for queue in both]

    def sums() -> tuple[int, int]:
        statistics = system.statistics()
        return statistics.ready, statistics.high

    assert (queues(), sums()) == ([(5, 0), (0, 0), (0, 0)], (5, 0))
    system.run()
    assert (queues(), sums()) == ([(0, 0), (0, 0), (0, 0)], (0, 0))
    for address in (*state, *io):
        address.house.high_priority = address in (state[0], *io)
        address.notice(Go())
    assert (queues(), sums()) == ([(0, 0), (2, 2), (3, 1)], (5, 3))
    system.run()


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
def test_a_selector_that_was_rebuilt_is_in_the_thread_s_record_and_in_the_sum(
    make_test_system: Callable[..., TestSystem], dispatcher: str
) -> None:
    class Dry(selectors.SelectSelector):
        """Comes back empty-handed, as some kernels' do."""

        def select(self, timeout: float | None = None) -> Any:
            return []

    system = make_test_system(workers=2, dispatcher=dispatcher, selector_rebuild_threshold=3)
    reactor = system.scheduler.threads[1].reactor
    reactor._make_selector = Dry
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reactor.register(ours, selectors.EVENT_READ, lambda _: None)
        for _ in range(6):
            reactor.wait()
    statistics = system.statistics()
    assert [thread.selector_rebuilds for thread in statistics.threads] == [0, 2]
    assert statistics.selector_rebuilds == 2


def test_open_asks_timers_and_dead_letters_are_counted(
    make_test_system: Callable[..., TestSystem],
) -> None:
    system = make_test_system()
    address = system.build_actor(Quiet)
    futures = [system.ask(address, Wait(), timeout=60) for _ in range(3)]
    system.run()
    statistics = system.statistics()
    assert (statistics.open_asks, statistics.timers) == (3, 6)  # a timeout and a sleep each
    futures[0].cancel()
    assert system.statistics().open_asks == 2
    address.notice("nobody handles this")
    system.run()
    assert system.statistics().dead_letters == 1
    address.stop()
    system.run()
    statistics = system.statistics()
    assert (statistics.open_asks, statistics.timers) == (0, 0)
    assert all(future.done() for future in futures)


def test_a_record_does_not_change_afterwards(make_test_system: Callable[..., TestSystem]) -> None:
    system = make_test_system()
    address = system.build_actor(Quiet)
    before = system.statistics()
    address.notice(Go())
    system.run()
    assert before.messages == 0
    assert system.statistics().messages == 1
