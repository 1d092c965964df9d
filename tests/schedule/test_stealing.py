"""Work stealing: when, from whom, what; and that it happens with thieves that sleep."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from otavia_ft import ActorSystem, Notice, StateActor, on
from otavia_ft.doors import me, set_me
from otavia_ft.schedule import crew as crew_module
from otavia_ft.testkit import TestSystem

MakeSystem = Callable[..., ActorSystem]
MakeTestSystem = Callable[..., TestSystem]


class Go(Notice):
    pass


class Here(StateActor):
    """Notes the index of the thread that runs it."""

    def __init__(self, log: list[int]) -> None:
        self.log = log

    @on(Go)
    def go(self, message: Go) -> None:
        self.log.append(me().owner.index)


class HereIO(Here):
    has_channels = True


def pile(system: ActorSystem, kind: type[Here], n: int, log: list[int]) -> list[Any]:
    """`n` actors that all live on thread 0."""
    workers = system.scheduler.workers
    addresses = [system.build_actor(kind, log) for _ in range(n * workers)]
    home = system.scheduler.threads[0].manager
    return [address for address in addresses if address.house.scheduler is home]


def fill(system: TestSystem, n: int, kind: type[Here] = Here) -> tuple[list[int], list[Any]]:
    """A test system whose thread 0 has `n` ready houses and whose thread 1 has none."""
    log: list[int] = []
    addresses = pile(system, kind, n, log)
    system.run()
    for address in addresses:
        address.notice(Go())
    return log, addresses


@pytest.mark.parametrize(
    ("backlog", "loops"),
    [(32, None), (33, 4), (42, 4), (43, 3), (63, 3), (64, 2), (127, 2), (128, 1), (500, 1)],
)
def test_the_deeper_the_backlog_the_fewer_idle_loops_until_a_theft(
    make_test_system: MakeTestSystem, backlog: int, loops: int | None
) -> None:
    system = make_test_system(workers=2)
    fill(system, backlog)
    thief = system.manual.threads[1]
    thief._idle_count = 0
    stolen_after = None
    for loop in range(1, 50):
        thief.run_once(thief.context)
        if thief.steals_taken:
            stolen_after = loop
            break
    assert stolen_after == loops


def test_a_theft_is_one_house_run_by_the_thief_and_counted_on_both_sides(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system(workers=2)
    log, _ = fill(system, 200)
    victim, thief = system.manual.threads
    set_me(thief.context)
    try:
        thief.run_once(thief.context)
    finally:
        set_me(None)
    assert log == [1]
    assert len(victim.manager.business) == 199
    assert (thief.steals_taken, victim.steals_given.load()) == (1, 1)


def test_a_thread_with_work_of_its_own_does_not_steal(make_test_system: MakeTestSystem) -> None:
    system = make_test_system(workers=2)
    own = next(
        address
        for address in (system.build_actor(Here, []) for _ in range(2))
        if address.house.scheduler is system.manual.threads[1].manager
    )
    fill(system, 200)
    thief = system.manual.threads[1]
    for _ in range(20):
        own.notice(Go())
        thief.run_once(thief.context)
    assert thief.steals_taken == 0


def test_work_of_its_own_makes_a_thread_begin_to_count_its_idle_loops_anew(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system(workers=2)
    own = next(
        address
        for address in (system.build_actor(Here, []) for _ in range(2))
        if address.house.scheduler is system.manual.threads[1].manager
    )
    fill(system, 33)  # four idle loops are wanted for that
    thief = system.manual.threads[1]
    thief._idle_count = 0
    for _ in range(5):
        for _ in range(3):
            thief.run_once(thief.context)
        own.notice(Go())
        thief.run_once(thief.context)
    assert thief.steals_taken == 0
    for _ in range(4):
        thief.run_once(thief.context)
    assert thief.steals_taken == 1


class Contended:
    """A queue with a backlog, whose lock somebody else holds."""

    tries = 0

    def __len__(self) -> int:
        return 130

    def try_steal(self) -> None:
        self.tries += 1


@pytest.mark.parametrize("start", range(4))
def test_the_scan_starts_at_a_random_thread_and_skips_itself_and_those_that_are_locked(
    make_test_system: MakeTestSystem, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    """Thread 3 is the thief; of the others 1 is locked by somebody else."""
    asked: list[int] = []

    def choose(n: int) -> int:
        asked.append(n)
        return start

    monkeypatch.setattr(crew_module, "choose", choose)
    system = make_test_system(workers=4)
    addresses = [system.build_actor(Here, []) for _ in range(4 * 130)]
    system.run()
    *victims, thief = system.manual.threads
    for address in addresses:
        if address.house.scheduler is not thief.manager:
            address.notice(Go())
    contended = Contended()
    monkeypatch.setattr(victims[1].manager, "business", contended)
    asked.clear()
    stolen = system.scheduler.crew.steal(thief, 1)
    assert stolen is not None
    victim, house = stolen
    assert asked == [4]
    assert victim.index == {0: 0, 1: 2, 2: 2, 3: 0}[start]
    assert house.scheduler is victim.manager
    assert contended.tries == (1 if start == 1 else 0)


def test_a_stolen_house_that_has_more_to_do_returns_to_its_owner_s_queue(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system(workers=2, throughput_budget=1)
    _, addresses = fill(system, 130)
    for address in addresses:
        address.notice(Go())
    victim, thief = system.manual.threads
    thief.run_once(thief.context)
    assert thief.steals_taken == 1
    assert len(victim.manager.business) == 130
    assert len(thief.manager.business) == 0
    assert all(address.house.scheduler is victim.manager for address in addresses)


def test_io_actors_are_never_stolen(make_test_system: MakeTestSystem) -> None:
    system = make_test_system(workers=2)
    fill(system, 300, HereIO)
    victim, thief = system.manual.threads
    for _ in range(50):
        thief.run_once(thief.context)
    assert thief.steals_taken == 0
    assert len(victim.manager.channels) == 300


def test_a_thread_that_has_to_end_steals_nothing(make_test_system: MakeTestSystem) -> None:
    system = make_test_system(workers=2)
    fill(system, 300)
    thief = system.manual.threads[1]
    thief.stopping.set(1)
    for _ in range(5):
        thief.run_once(thief.context)
    assert thief.steals_taken == 0


def test_without_stealing_nobody_steals(make_test_system: MakeTestSystem) -> None:
    system = make_test_system(workers=2, stealing=False)
    fill(system, 300)
    thief = system.manual.threads[1]
    for _ in range(50):
        thief.run_once(thief.context)
    assert thief.steals_taken == 0


def test_a_house_s_priority_does_not_hide_a_backlog_from_the_thief(
    make_test_system: MakeTestSystem,
) -> None:
    """The floor is compared with both lists together, also when a sleeper is to be called."""
    system = make_test_system(workers=2, steal_floor=8, steal_aggression=8)
    victim = system.manual.threads[0]
    log: list[int] = []
    addresses = pile(system, Here, 10, log)
    system.run()
    calls: list[Any] = []
    victim.crew.asleep.get_and_add(1)  # nobody is called if nobody sleeps
    victim.crew.call_thief = calls.append  # type: ignore[method-assign]
    for i, address in enumerate(addresses):
        address.house.high_priority = i % 2 == 0
        address.notice(Go())
    assert calls == [victim, victim]  # the ninth and the tenth


def test_a_sleeping_thief_is_woken_and_takes_all_above_the_floor_from_a_stuck_owner(
    make_system: MakeSystem,
    hold: Callable[..., Any],
    holder: type[StateActor],
    eventually: Callable[..., Any],
) -> None:
    system = make_system(workers=2)
    log: list[int] = []
    addresses = pile(system, Here, 200, log)
    owner, thief = system.scheduler.threads
    seats = [system.build_actor(holder) for _ in range(2)]
    stuck = next(seat for seat in seats if seat.house.scheduler is owner.manager)
    eventually(lambda: owner.idle and thief.idle)
    held = hold(system, stuck)
    eventually(lambda: thief.idle)
    for address in addresses:
        address.notice(Go())
    # Down to the floor the thief takes everything; what is left waits for its owner.
    eventually(lambda: len(log) == 200 - system.config.steal_floor)
    assert set(log) == {1}
    eventually(lambda: thief.idle)
    statistics = system.statistics()
    assert statistics.steals == statistics.threads[1].steals_taken == 168
    assert statistics.threads[0].steals_given == 168
    held.release.set()
    eventually(lambda: len(log) == 200)
    assert Counter(log) == {1: 168, 0: 32}


def test_a_stolen_actor_runs_on_one_thread_at_a_time_and_loses_nothing(
    make_system: MakeSystem, in_parallel: Callable[..., list[Any]]
) -> None:
    class Careful(StateActor):
        def __init__(self) -> None:
            self.inside = threading.Lock()
            self.count = 0

        @on(Go)
        def go(self, message: Go) -> None:
            assert self.inside.acquire(blocking=False), "two threads in one actor"
            self.count += 1
            self.inside.release()

    system = make_system(workers=3, steal_floor=1, steal_aggression=1, throughput_budget=2)
    actors: list[Careful] = []

    def make() -> Careful:
        actors.append(Careful())
        return actors[-1]

    addresses = [system.build_actor(make) for _ in range(90)]
    home = system.scheduler.threads[0].manager
    hot = [address for address in addresses if address.house.scheduler is home]

    def send(_: int) -> None:
        for _ in range(100):
            for address in hot:
                address.notice(Go())

    in_parallel(2, send)
    system.stop()
    assert sum(actor.count for actor in actors) == 2 * 100 * len(hot)
    assert system.dead_letters.total == 0


def test_balanced_load_is_not_stolen(
    make_system: MakeSystem, eventually: Callable[..., Any]
) -> None:
    """Both threads are busy all the time: neither has reason to help the other."""

    turns = [0, 0]
    stop = threading.Event()

    class Busy(StateActor):
        @on(Go)
        def go(self, message: Go) -> None:
            turns[me().owner.index] += 1
            if not stop.is_set():
                self.address.notice(message)

    system = make_system(workers=2)
    addresses = [system.build_actor(Busy) for _ in range(200)]
    for address in addresses:
        address.notice(Go())
    eventually(lambda: min(turns) > 5000)
    before = system.statistics().steals
    reached = [count + 5000 for count in turns]
    eventually(lambda: all(now > goal for now, goal in zip(turns, reached, strict=True)))
    assert system.statistics().steals == before
    stop.set()
