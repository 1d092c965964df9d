"""Timers on a virtual clock: when they fire, in what order, what cancels them, what they cost."""

import math
import re
import signal
import threading
import weakref
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from otavia_ft import ActorSystem, Ask, AskTimeout, StateActor, TimeoutEvent, on, sleep
from otavia_ft.bell import Bell
from otavia_ft.testkit import TestSystem, VirtualClock
from otavia_ft.timer import Timer, TimerTask, TimerThread

TICK = 0.01


class Bench:
    """A wheel, its clock, and what fired at which time."""

    def __init__(self, tick: float = TICK) -> None:
        self.clock = VirtualClock()
        self.timer = Timer(tick, self.clock)
        self.fired: list[tuple[float, Any]] = []

    def after(self, seconds: float, name: Any = None, period: float | None = None) -> TimerTask:
        return self.timer.after(seconds, self.note, name, period)

    def note(self, name: Any) -> None:
        self.fired.append((round(self.clock.time, 6), name))

    def advance(self, seconds: float) -> None:
        """As the timer's thread would: sleep until something is due, fire, and so on."""
        end = self.clock.time + seconds
        while (wait := self.timer.next_due()) is not None and self.clock.time + wait <= end:
            self.clock.time += wait
            self.timer.fire_due()
        self.clock.time = end
        self.timer.fire_due()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_one_shot_timer_fires_once_at_its_time(bench: Bench) -> None:
    task = bench.after(0.5, "a")
    bench.advance(0.49)
    assert (bench.fired, task.pending) == ([], True)
    bench.advance(10)
    assert (bench.fired, task.pending) == ([(0.5, "a")], False)
    assert len(bench.timer) == 0


def test_a_timer_at_a_time_fires_at_that_time_or_at_once_if_it_has_passed(bench: Bench) -> None:
    bench.clock.time = 5.0
    bench.timer.at(7.0, bench.note, "later")
    bench.timer.at(1.0, bench.note, "missed")
    bench.advance(0.0)
    assert bench.fired == [(5.0, "missed")]
    bench.advance(10)
    assert bench.fired[1:] == [(7.0, "later")]


@pytest.mark.parametrize(("first", "due"), [(7.0, [7, 9, 11]), (5.0, [5, 7, 9]), (2.0, [5, 6, 8])])
def test_a_periodic_timer_at_a_time_keeps_to_its_grid_even_if_it_began_in_the_past(
    bench: Bench, first: float, due: list[float]
) -> None:
    bench.clock.time = 5.0
    bench.timer.at(first, bench.note, "p", 2.0)
    bench.advance(6.5)
    assert [at for at, _ in bench.fired[:3]] == due


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-9))], ids=["UTC", "elsewhere"])
def test_a_datetime_is_converted_at_the_call_and_not_moved_by_the_wall_clock(
    zone: timezone,
) -> None:
    clock, wall = VirtualClock(), VirtualClock()
    timer = Timer(TICK, clock, wall)
    clock.time, wall.time = 50.0, 1_700_000_000.0
    when = datetime.fromtimestamp(1_700_000_060, zone)
    fired: list[str] = []
    task = timer.at(when, fired.append, "a")
    assert task.due == 110.0
    timer.at(when - timedelta(days=1), fired.append, "missed")
    wall.time += 3600.0  # somebody sets the clock
    timer.fire_due()
    assert fired == ["missed"]
    clock.time = 110.0
    timer.fire_due()
    assert fired == ["missed", "a"]


@pytest.mark.parametrize(
    ("when", "error", "says"),
    [
        (1_700_000_000.0, ValueError, "not of time.time()"),
        (1_700_000_000_000_000_000, ValueError, "not within 20 years"),
        (-1e9, ValueError, "not within 20 years"),
        pytest.param(10**400, ValueError, "not within 20 years", id="huge"),
        (math.inf, ValueError, "not within 20 years"),
        (-math.inf, ValueError, "not within 20 years"),
        (math.nan, ValueError, "not within 20 years"),
        (datetime.max.replace(tzinfo=UTC), ValueError, "not within 20 years"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=9))), ValueError, "not within"),
        (datetime(2030, 1, 1), ValueError, "has no time zone"),
        (date(2030, 1, 1), TypeError, "a datetime with a time zone"),
        (timedelta(seconds=5), TypeError, "a datetime with a time zone"),
        ("12:00", TypeError, "a datetime with a time zone"),
        (None, TypeError, "a datetime with a time zone"),
        (True, TypeError, "a datetime with a time zone"),
    ],
)
def test_a_time_that_is_none_of_this_clock_s_is_refused_at_the_call(
    bench: Bench, when: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=re.escape(says)):
        bench.timer.at(when, bench.note)
    assert len(bench.timer) == 0


@given(st.lists(st.floats(0, 100, allow_nan=False), min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
def test_no_timer_fires_early_or_more_than_a_tick_late(delays: list[float]) -> None:
    bench = Bench()
    exact: list[tuple[float, float]] = []
    for delay in delays:
        bench.timer.after(delay, lambda due: exact.append((due, bench.clock.time)), delay)
    bench.advance(101)
    assert sorted(due for due, _ in exact) == sorted(delays)
    for due, at in exact:
        assert due <= at <= due + TICK + 1e-9


@pytest.mark.parametrize("ticks", [29, 57, 58, 113, 115])
def test_a_tick_that_a_float_quotient_falls_short_of_is_still_reached(
    bench: Bench, ticks: int
) -> None:
    assert any(math.floor(n * TICK / TICK) != n for n in (29, 57, 58))  # such ticks do exist
    bench.after(ticks * TICK, "a")
    bench.advance(ticks * TICK + TICK)
    assert len(bench.fired) == 1


def test_timers_of_one_tick_fire_in_the_order_of_their_registration(bench: Bench) -> None:
    for name in range(20):
        bench.after(1.0, name)
    bench.advance(1.0)
    assert [name for _, name in bench.fired] == list(range(20))


def test_a_periodic_timer_does_not_drift(bench: Bench) -> None:
    bench.after(0.25, "p", 0.25)
    bench.advance(2.5)
    assert bench.fired == [(0.25 * n, "p") for n in range(1, 11)]


def test_a_driver_that_comes_late_does_not_shift_a_periodic_timer(bench: Bench) -> None:
    bench.after(1.0, "p", 1.0)
    for at in (1.3, 2.9, 3.0, 4.5):
        bench.clock.time = at
        bench.timer.fire_due()
    assert [time for time, _ in bench.fired] == [1.3, 2.9, 3.0, 4.5]
    assert bench.timer.next_due() == pytest.approx(0.5)


def test_firings_that_were_missed_altogether_are_skipped_not_made_up_for(bench: Bench) -> None:
    bench.after(1.0, "p", 1.0)
    bench.clock.time = 5.5
    bench.timer.fire_due()
    assert len(bench.fired) == 1
    bench.advance(1.0)
    assert bench.fired == [(5.5, "p"), (6.0, "p")]


def test_cancel_tells_whether_it_came_in_time(bench: Bench) -> None:
    task = bench.after(1.0, "a")
    other = bench.after(1.0, "b")
    assert task.cancel()
    assert not task.cancel()
    bench.advance(2.0)
    assert [name for _, name in bench.fired] == ["b"]
    assert not other.cancel()


def test_a_periodic_timer_that_is_cancelled_by_its_own_firing_never_fires_again(
    bench: Bench,
) -> None:
    tasks: list[TimerTask] = []

    def stop(_: Any) -> None:
        bench.note("last")
        tasks[0].cancel()

    tasks.append(bench.timer.after(1.0, stop, None, 1.0))
    bench.advance(5.0)
    assert bench.fired == [(1.0, "last")]
    assert len(bench.timer) == 0


def test_update_moves_a_timer_both_ways_and_revives_one_that_has_fired(bench: Bench) -> None:
    task = bench.after(1.0, "a")
    task.update(3.0)
    bench.advance(2.0)
    assert bench.fired == []
    task.update(0.5)
    bench.advance(1.0)
    assert bench.fired == [(2.5, "a")]
    task.update(1.0)
    bench.advance(2.0)
    assert bench.fired == [(2.5, "a"), (4.0, "a")]


def test_updates_from_several_threads_leave_one_timer(
    bench: Bench, in_parallel: Callable[..., list[Any]]
) -> None:
    task = bench.after(1.0, "a")

    def move(i: int) -> None:
        for n in range(500):
            task.update(1.0 + (n * 7 + i) % 50)

    in_parallel(3, move)
    assert len(bench.timer) == 1
    bench.advance(100)
    assert len(bench.fired) == 1


def test_an_action_may_cancel_or_move_a_timer_of_its_own_tick(bench: Bench) -> None:
    tasks: list[TimerTask] = []

    def first(_: Any) -> None:
        assert tasks[0].cancel()
        tasks[1].update(1.0)

    bench.timer.after(1.0, first)
    tasks += [bench.after(1.0, "cancelled"), bench.after(1.0, "moved"), bench.after(1.0, "stays")]
    bench.advance(1.5)
    assert bench.fired == [(1.0, "stays")]
    bench.advance(1.0)
    assert bench.fired == [(1.0, "stays"), (2.0, "moved")]
    assert len(bench.timer) == 0


def test_cancelling_while_it_fires_leaves_no_firing_for_later(
    bench: Bench, in_parallel: Callable[..., list[Any]]
) -> None:
    """Cancels race with the re-adding of periodic timers: each is over once cancel returns."""
    for _ in range(30):
        tasks = [bench.after(0.0, n, 0.5) for n in range(20)]
        bench.clock.time += TICK

        def work(i: int, tasks: list[TimerTask] = tasks) -> None:
            if i == 0:
                bench.timer.fire_due()
            else:
                for task in tasks:
                    task.cancel()

        in_parallel(2, work)
        assert not any(task.pending for task in tasks)
        assert len(bench.timer) == 0
        bench.fired.clear()
        bench.advance(1.0)
        assert bench.fired == []


def test_an_action_that_raises_does_not_keep_others_from_firing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Any) -> None:
        raise SystemExit("an action must not end the timer's thread")

    bench.timer.after(1.0, fail)
    bench.after(1.0, "b")
    bench.advance(1.0)
    assert bench.fired == [(1.0, "b")]
    assert "failed" in caplog.text


@pytest.mark.parametrize("seconds", [-1, math.inf, math.nan])
def test_a_delay_that_is_no_delay_is_refused(bench: Bench, seconds: float) -> None:
    with pytest.raises(ValueError, match="a delay of"):
        bench.after(seconds)
    task = bench.after(1.0)
    with pytest.raises(ValueError, match="a delay of"):
        task.update(seconds)
    with pytest.raises(ValueError, match="a period of"):
        bench.after(1.0, period=seconds)
    with pytest.raises(ValueError, match="a period of"):
        bench.timer.at(1.0, bench.note, period=seconds)


def test_a_period_too_short_to_be_counted_is_refused(bench: Bench) -> None:
    """The number of missed ones would be infinite, and that in the timer's own thread."""
    with pytest.raises(ValueError, match="a period of 1e-320"):
        bench.after(0.0, period=1e-320)
    bench.after(0.0, "p", 1e-9)
    bench.clock.time = 1e6
    bench.timer.fire_due()
    assert set(bench.fired) == {(1e6, "p")}


def test_a_delay_far_beyond_any_wheel_s_turn_is_one_entry_and_no_early_look(bench: Bench) -> None:
    year = 365 * 24 * 3600.0
    bench.after(year, "a")
    assert bench.timer.next_due() == pytest.approx(year, abs=TICK)
    bench.advance(year - 1)
    assert bench.fired == []
    bench.advance(2)
    assert [name for _, name in bench.fired] == ["a"]


def test_a_bell_waits_even_longer_than_poll_can() -> None:
    bell = Bell()
    bell.ring()
    assert bell.wait(1e9)
    bell.close()


def test_a_million_pending_timers_are_one_heap_entry_a_tick() -> None:
    bench = Bench(tick=1 / 128)
    action = bench.fired.append
    after = bench.timer.after
    for n in range(1_000_000):
        task = after(1.0 + (n & 63) / 128, action, (0.0, n))
    assert len(bench.timer) == 1_000_000
    assert bench.timer.next_due() == 1.0
    assert (len(bench.timer._ticks), len(bench.timer._buckets)) == (64, 64)
    assert task.cancel()
    bench.advance(1.0 + 7 / 128)
    assert len(bench.fired) == 8 * 1_000_000 // 64
    assert (len(bench.timer._ticks), len(bench.timer._buckets)) == (56, 56)


def test_a_timer_that_is_added_and_cancelled_again_and_again_leaves_no_trail(
    bench: Bench,
) -> None:
    """What every ask with a timeout does."""
    for _ in range(10_000):
        bench.after(30.0).cancel()
    assert len(bench.timer._buckets) == 1
    assert bench.timer.next_due() is None
    assert not bench.timer._ticks
    assert not bench.timer._buckets


def test_a_signal_handler_that_asks_with_a_timeout_finds_no_lock_held_by_its_own_thread() -> None:
    """Python runs a signal's handler after any call of the main thread's, the timer's included."""
    timer = Timer(0.0001)
    wanted, handled = 1000, 0
    kept: list[TimerTask] = []

    def handler(*_: Any) -> None:
        nonlocal handled
        if handled < wanted:
            handled += 1
            kept.append(timer.after(3600.0 + handled, print))
            timer.after(1.0, print).cancel()
            kept[0].update(7200.0)

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
    try:
        while handled < wanted:
            tasks = [timer.after(0.0, str, None, 0.001), timer.after(handled, str)]
            timer.fire_due()
            timer.next_due()
            for task in tasks:
                task.cancel()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert all(task.pending for task in kept)


class WheelModel(RuleBasedStateMachine):
    """The wheel against a dict of due times."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(tick=1.0)
        self.tasks: dict[int, TimerTask] = {}
        self.due: dict[int, int] = {}
        self.period: dict[int, int | None] = {}
        self.next = 0

    @rule(delay=st.integers(0, 20), period=st.none() | st.integers(1, 5))
    def add(self, delay: int, period: int | None) -> None:
        self.next += 1
        self.tasks[self.next] = self.bench.after(delay, self.next, period)
        self.due[self.next] = int(self.bench.clock.time) + delay
        self.period[self.next] = period

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.tasks:
            number = data.draw(st.sampled_from(sorted(self.tasks)))
            assert self.tasks[number].cancel() == (number in self.due)
            self.due.pop(number, None)
            self.period[number] = None

    @rule(data=st.data(), delay=st.integers(0, 20))
    def update(self, data: st.DataObject, delay: int) -> None:
        if self.tasks:
            number = data.draw(st.sampled_from(sorted(self.tasks)))
            self.tasks[number].update(delay)
            self.due[number] = int(self.bench.clock.time) + delay

    @rule(seconds=st.integers(0, 12))
    def advance(self, seconds: int) -> None:
        end = int(self.bench.clock.time) + seconds
        expected = []
        for number, due in list(self.due.items()):
            period = self.period[number]
            while due <= end:
                expected.append((due, number))
                if period is None:
                    del self.due[number]
                    break
                due += period
                self.due[number] = due
        self.bench.fired.clear()
        self.bench.advance(seconds)
        assert sorted(self.bench.fired) == sorted(expected)

    @invariant()
    def counts_agree(self) -> None:
        assert len(self.bench.timer) == len(self.due)
        for number, task in self.tasks.items():
            assert task.pending == (number in self.due)


WheelModel.TestCase.settings = settings(max_examples=60, deadline=None)
TestWheelModel = WheelModel.TestCase


# ---- timers of actors


class Ringing(StateActor):
    def __init__(self) -> None:
        self.rung: list[Any] = []

    def after_mount(self) -> None:
        self.after(1.0, "once")
        self.after(2.0, "often", every=2.0)

    def handle_actor_timeout(self, event: TimeoutEvent) -> None:
        self.rung.append(event.attach)


def test_an_actor_s_timers_come_as_its_timeouts_and_end_with_it(
    make_test_system: Callable[..., TestSystem],
) -> None:
    system = make_test_system()
    actor = Ringing()
    address = system.build_actor(lambda: actor)
    system.advance(5.0)
    assert actor.rung == ["once", "often", "often"]
    assert len(system.timer) == 1
    address.stop()
    system.run()
    assert len(system.timer) == 0
    system.advance(10.0)
    assert actor.rung == ["once", "often", "often"]


class RingingAt(Ringing):
    def after_mount(self) -> None:
        now = self.system.timer.time()
        self.tasks = [self.at(now + 1.0, "once"), self.at(now + 2.0, "often", every=2.0)]
        self.at(datetime.now(UTC) + timedelta(hours=1), "in an hour", every=86_400)


def test_an_actor_s_timers_at_a_time_come_as_its_timeouts_and_end_with_it(
    make_test_system: Callable[..., TestSystem],
) -> None:
    system = make_test_system()
    actor = RingingAt()
    address = system.build_actor(lambda: actor)
    system.advance(5.0)
    assert actor.rung == ["once", "often", "often"]
    assert [task.pending for task in actor.tasks] == [False, True]
    assert actor.tasks[1].cancel()
    system.advance(3600.0)
    assert actor.rung[3:] == ["in an hour"]
    system.advance(86_400.0)
    assert actor.rung[4:] == ["in an hour"]
    assert len(system.timer) == 1
    address.stop()
    system.run()
    assert len(system.timer) == 0
    system.advance(86_400.0)
    assert len(actor.rung) == 5


def test_a_timer_of_the_last_hook_ends_with_the_actor_too(
    make_test_system: Callable[..., TestSystem],
) -> None:
    class Clinging(Ringing):
        def post_stop(self) -> None:
            self.after(1.0, "late", every=1.0)

    system = make_test_system()
    actor = Clinging()
    address = system.build_actor(lambda: actor)
    system.run()
    address.stop()
    system.run()
    assert len(system.timer) == 0
    system.advance(10.0)
    assert actor.rung == []


def test_an_update_does_not_revive_the_timer_of_a_dead_actor(
    make_test_system: Callable[..., TestSystem],
) -> None:
    class Keeping(Ringing):
        def after_mount(self) -> None:
            self.kept = [self.after(1.0), self.after(1.0, every=1.0)]

    system = make_test_system()
    actor = Keeping()
    address = system.build_actor(lambda: actor)
    system.run()
    house = weakref.ref(address.house)
    address.stop()
    system.run()
    for task in actor.kept:
        assert not task.cancel()
        task.update(1e6)
        assert not task.pending
    assert len(system.timer) == 0
    del address
    assert house() is None  # nor does the handle keep the house


def test_a_timer_that_is_moved_while_its_tick_is_still_firing_ends_with_its_actor(
    make_test_system: Callable[..., TestSystem],
) -> None:
    class Moving(StateActor):
        def after_mount(self) -> None:
            self.moved = self.after(1.0)

        def handle_actor_timeout(self, event: TimeoutEvent) -> None:
            for _ in range(4):  # so many that the house forgets those that are over
                self.after(1e6)
            self.moved.update(1e6)

    system = make_test_system()
    actor = Moving()
    address = system.build_actor(lambda: actor)
    system.run()
    # Of the same tick and behind it, so the driver has both in hand while the actor has its turn.
    system.timer.after(1.0, lambda _: system.run())
    system.advance(2.0)
    assert actor.moved.pending
    address.stop()
    system.run()
    assert len(system.timer) == 0


def test_a_firing_that_was_under_way_when_its_task_ended_does_nothing(bench: Bench) -> None:
    tasks: list[TimerTask] = []
    bench.timer.after(1.0, lambda _: tasks[0].end())
    tasks.append(bench.after(1.0))
    bench.advance(2.0)
    assert bench.fired == []
    assert len(bench.timer) == 0


def test_an_answered_ask_leaves_no_timer_and_an_unanswered_one_times_out(
    make_test_system: Callable[..., TestSystem],
) -> None:
    class Get(Ask[int]):
        pass

    class Never(Ask[int]):
        pass

    class Answering(StateActor):
        @on(Get)
        def get(self, message: Get) -> int:
            return 1

        @on(Never)
        async def never(self, message: Never) -> int:
            await sleep(3600)
            return 0

    system = make_test_system()
    address = system.build_actor(Answering)
    answered = system.ask(address, Get(), timeout=5)
    system.run()
    assert answered.result(0) == 1
    assert len(system.timer) == 0
    silent = system.ask(address, Never(), timeout=5)
    system.advance(4.9)
    assert not silent.done()
    system.advance(0.1)
    with pytest.raises(AskTimeout):
        silent.result(0)
    assert len(system.timer) == 1  # the handler's own sleep
    address.stop()
    system.run()
    assert len(system.timer) == 0


# ---- the thread that drives them


def test_the_timer_thread_fires_what_is_due_and_nothing_after_its_end(
    eventually: Callable[..., Any],
) -> None:
    timer = Timer(0.001)
    thread = TimerThread(timer, "under-test")
    thread.start()
    fired: list[int] = []
    timer.after(0.0, fired.append, 1)
    eventually(lambda: fired == [1])
    thread.stop()
    timer.after(0.0, fired.append, 2)
    assert fired == [1]


def test_a_new_timer_that_is_due_earlier_ends_the_thread_s_sleep(
    eventually: Callable[..., Any],
) -> None:
    timer = Timer(0.001)
    thread = TimerThread(timer, "under-test")
    thread.start()
    fired: list[str] = []
    timer.after(3600.0, fired.append, "late")
    eventually(lambda: thread._parker.asleep)
    timer.after(0.001, fired.append, "early")
    eventually(lambda: fired == ["early"])
    thread.stop()


def test_an_action_may_stop_the_timer_thread_that_runs_it(
    make_system: Callable[..., ActorSystem],
) -> None:
    """The callback of an ask that timed out runs there, and may stop the system."""
    system = make_system(workers=1)
    never = system.build_actor(StateActor)
    system.timer.after(0.0, lambda _: system.stop())
    assert system.wait(30)
    assert never.house.scheduler.system is system


def test_a_list_is_filled_from_a_dict_in_one_step_whoever_changes_the_dict_meanwhile() -> None:
    """A property of CPython that `Timer.close` relies on."""
    changing, over = dict.fromkeys(range(500)), threading.Event()

    def change() -> None:
        first = 0
        while not over.is_set():
            changing[first + 500] = None
            del changing[first]
            first += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(5_000):
            assert len([*changing.values()]) in (500, 501)
            assert len(list(changing)) in (500, 501)
    finally:
        over.set()
        thread.join()
