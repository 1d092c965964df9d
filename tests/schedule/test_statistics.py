"""Statistics: frozen records whose numbers add up."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from otavia_ft import ActorSystem, Ask, Notice, StateActor, on, sleep
from otavia_ft.testkit import TestSystem

MakeSystem = Callable[..., ActorSystem]


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
    for record in (statistics, statistics.threads[0], statistics.threads[0].queues):
        for field in fields(record):
            with pytest.raises(FrozenInstanceError):
                setattr(record, field.name, 0)


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
def test_the_system_s_numbers_are_the_sums_of_the_threads(
    make_system: MakeSystem, dispatcher: str
) -> None:
    system = make_system(workers=3, dispatcher=dispatcher)
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
    assert statistics.actors_built == 30
    assert 30 <= statistics.turns <= 600 + 30
    assert [t.index for t in statistics.threads] == [0, 1, 2]
    assert not statistics.running


def test_what_waits_is_shown_by_queue(make_test_system: Callable[..., TestSystem]) -> None:
    class IO(Quiet):
        has_channels = True

    system = make_test_system()
    state = [system.build_actor(Quiet) for _ in range(3)]
    io = system.build_actor(IO)

    def queues() -> tuple[int, ...]:
        found: Any = system.statistics().threads[0].queues
        return found.mounting, found.channels, found.business, found.business_high

    assert queues() == (4, 0, 0, 0)
    system.run()
    assert queues() == (0, 0, 0, 0)
    for address in state[1:]:
        address.house.high_priority = False
    for address in (*state, io):
        address.notice(Go())
    assert queues() == (0, 1, 3, 1)
    system.run()


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
