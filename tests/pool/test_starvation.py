"""Nobody starves: not behind hot actors, not in a blocked worker's ring, not by two thieves that
wait for each other."""

import sys
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from otavia_ft import Ask, AtomicInt, Config, ConfigError, Notice, StateActor, on
from otavia_ft.doors import set_me
from otavia_ft.schedule.pool import FunctionTask
from otavia_ft.schedule.rings import LocalRing, steal_half


@dataclass(frozen=True, slots=True)
class Say(Notice):
    word: Any


@dataclass(frozen=True, slots=True)
class Question(Ask[Any]):
    word: Any


class Hot(StateActor):
    """Keeps as many messages on their way to itself as it was told, until all is over."""

    def __init__(self, over):
        self.over = over

    @on(Say)
    def say(self, message):
        if not self.over.is_set():
            for _ in range(message.word):
                self.address.notice(Say(1))


class Cold(StateActor):
    """Has little to do, and does it when it is called."""

    @on(Question)
    def question(self, message):
        return message.word

    @on(Say)
    def say(self, message):
        message.word()


@pytest.fixture
def over():
    """Set at the end of the test, so that hot actors let their system stop."""
    event = threading.Event()
    yield event
    event.set()


def all_asleep(system):
    return all(thread.asleep for thread in system.statistics().threads)


# ---- hot actors


def run_next(worker):
    """One take and one turn of a worker that the test moves by hand."""
    item = worker.desk.take()
    set_me(worker.context)
    try:
        item.run_turn(worker.context)
    finally:
        set_me(None)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("interval", [2, 7, 61])
def test_a_cold_actor_waits_for_no_more_takes_than_the_poll_interval(
    make_manual, over, workers, interval
):
    """Every worker has a hot actor of its own, which is back in its ring after every turn; the cold
    one's wake-up lies in the global ring. Whoever comes to its `interval`th take has it."""
    system = make_manual(workers=workers, throughput_budget=4, global_poll_interval=interval)
    cold, hot = system.build_actor(Cold), [system.build_actor(Hot, over) for _ in range(workers)]
    system.run()
    for address in hot:
        address.notice(Say(8))  # more than a budget: it never goes idle
    for worker in system.scheduler.threads:
        run_next(worker)
        assert len(worker.desk.ring) == 1
    for _ in range(3):  # not only the first time
        handled = []
        cold.notice(Say(lambda: handled.append(True)))  # noqa: B023
        takes = 0
        while not handled:
            takes += 1
            assert takes <= interval, "the cold actor starves"
            for worker in system.scheduler.threads:
                run_next(worker)


def test_an_actor_that_has_yielded_gets_its_turns_however_many_are_woken(make_manual):
    """The other way round: the shortest interval there is, and the global ring is never empty."""
    system = make_manual(throughput_budget=1, global_poll_interval=2)
    worker = system.scheduler.threads[0]
    yielding = system.build_actor(Cold)
    system.run()
    order = []
    for _ in range(10):
        yielding.notice(Say(lambda: order.append("yielded")))
    run_next(worker)
    for _ in range(18):
        system.scheduler.submit(FunctionTask(lambda: order.append("woken")))
        run_next(worker)
    assert order.count("yielded") == 10
    assert order.count("woken") == 9


def test_an_interval_at_which_they_would_starve_is_refused():
    with pytest.raises(ConfigError, match=r"global_poll_interval=1 must be 2 at least: .* starve"):
        Config(global_poll_interval=1)
    with pytest.raises(ConfigError, match="between 2 and 1000000"):
        Config(global_poll_interval=0)


def test_a_cold_actor_is_not_starved_by_hot_ones_on_every_worker(make_system, dispatcher, over):
    """The same with threads: a message to the cold one gets through, many times in a row."""
    system = make_system(dispatcher=dispatcher, workers=2, throughput_budget=4)
    for _ in range(4):
        system.build_actor(Hot, over).notice(Say(8))
    cold = system.build_actor(Cold)
    for number in range(20):
        assert system.ask(cold, Question(number), timeout=30).result() == number


def test_every_one_of_many_hot_actors_goes_on(make_system, dispatcher):
    """More hot actors than workers: each handles its share, and none had to wait for the end of
    another's."""
    system = make_system(dispatcher=dispatcher, workers=2, throughput_budget=4)
    actors, share = 20, 400
    done, ended = threading.Semaphore(0), []

    class Counts(StateActor):
        def __init__(self):
            self.count = 0

        @on(Say)
        def say(self, message):
            self.count += 1
            if self.count == share:
                ended.append(message.word)
                done.release()
            self.address.notice(message)

    addresses = [system.build_actor(Counts) for _ in range(actors)]
    for number, address in enumerate(addresses):
        for _ in range(8):
            address.notice(Say(number))
    for _ in range(actors):
        assert done.acquire(timeout=30), f"{actors - len(ended)} actors starve"
    for address in addresses:
        address.stop()


# ---- blocked workers


def test_work_in_a_blocked_workers_ring_is_stolen_by_a_parked_sibling(
    make_system, eventually, blocking
):
    system = make_system(workers=2)
    done = [threading.Event() for _ in range(5)]
    blocker = blocking()

    class Loaded(FunctionTask):
        def run_turn(self, context):
            ring = context.owner.desk.ring
            ring.push(blocker)  # straight into the ring, so that nobody is called before the end
            for event in done[1:]:
                ring.push(FunctionTask(event.set))
            context.owner.reschedule(FunctionTask(done[0].set))

    eventually(lambda: all_asleep(system))
    system.scheduler.submit(Loaded(None))
    assert blocker.entered.wait(30)
    for event in done:
        assert event.wait(30), "it waits in the ring of a blocked worker"
    assert system.statistics().steals >= 1


def test_actors_in_a_blocked_workers_ring_are_stolen_by_a_sibling_that_becomes_idle(
    make_system, block, eventually
):
    """The same with actors, and the sibling was busy when they came into the ring."""
    system = make_system(workers=2, throughput_budget=1)
    addresses = [system.build_actor(Cold) for _ in range(5)]
    eventually(lambda: all_asleep(system))
    first, sibling = block(system), block(system)
    blocked, release = threading.Event(), threading.Event()
    handled = AtomicInt()

    def stick():
        blocked.set()
        release.wait(60)

    def count():
        handled.get_and_add(1)

    class Loads(FunctionTask):
        """Takes all that waits in the global ring over to its worker's own."""

        def run_turn(self, context):
            while (item := system.scheduler.queue.shared.pop()) is not None:
                context.owner.reschedule(item)

    system.scheduler.submit(Loads(None))
    for address in addresses:
        address.notice(Say(count))
    addresses[0].notice(Say(stick))
    for address in addresses[1:]:
        address.notice(Say(count))
    first.release.set()
    try:
        assert blocked.wait(30)
        assert handled.load() == 5, "every actor had its first turn, and yielded"
        sibling.release.set()
        eventually(lambda: handled.load() == 9)
        assert system.statistics().steals >= 1
    finally:
        release.set()


def test_all_actors_but_the_blocked_one_go_on_while_its_handler_blocks_a_worker(make_system):
    system = make_system(workers=2, throughput_budget=1)
    blocked, release, done = threading.Event(), threading.Event(), threading.Event()
    actors, messages = 40, 20
    handled = AtomicInt()

    def stick():
        blocked.set()
        release.wait(60)

    def count():
        if handled.get_and_add(1) == actors * messages - 1:
            done.set()

    addresses = [system.build_actor(Cold) for _ in range(actors + 1)]
    try:
        for number in range(messages):
            if number == messages // 2:
                addresses[-1].notice(Say(stick))
            for address in addresses[:-1]:
                address.notice(Say(count))
        assert blocked.wait(30)
        assert done.wait(30), f"{handled.load()} of {actors * messages} messages were handled"
    finally:
        release.set()


def test_every_thief_that_leaves_something_calls_the_next_sleeper(make_manual):
    """Victim and thieves may all be blocked for long, so one call for three items is not enough."""
    system = make_manual(workers=5)
    crew = system.scheduler.crew
    busy, *sleepers = crew.threads
    for thread in sleepers:
        crew.asleep.get_and_add(1)
        assert thread.parker.fall_asleep()
    for item in "abc":
        busy.desk.ring.push(item)
    busy.reschedule("d")
    taken = []
    for thread in sleepers:
        assert not thread.parker.asleep, f"nobody was called after {taken}"
        thread.parker.start_looking()
        crew.asleep.get_and_add(-1)
        taken.append(thread.desk.take())
    assert sorted(taken) == ["a", "b", "c", "d"]


def test_an_item_passed_over_for_the_global_ring_is_stolen_when_that_one_blocks(
    make_system, eventually, blocking
):
    system = make_system(workers=2, global_poll_interval=2)
    eventually(lambda: all_asleep(system))
    blocker, done = blocking(), threading.Event()

    class Loaded(FunctionTask):
        def run_turn(self, context):
            # Two, since at every second take only does the global ring come first; and straight
            # into the rings, so that the sibling is not called for any of these.
            for function in (lambda: None, done.set):
                context.owner.desk.ring.push(FunctionTask(function))
            system.scheduler.queue.shared.push(blocker)

    system.scheduler.submit(Loaded(None))
    assert blocker.entered.wait(30)
    assert done.wait(30)


def test_a_pool_goes_on_while_all_workers_but_one_are_blocked(make_system, block):
    system = make_system(workers=3)
    address = system.build_actor(Cold)
    block(system)
    block(system)
    for number in range(200):
        assert system.ask(address, Question(number), timeout=30).result() == number


# ---- crossed steals


@pytest.fixture
def frequent_switches():
    """On a build with the GIL too, threads should meet in the middle of things."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def emptied(*rings):
    items = []
    for ring in rings:
        while (item := ring.pop()) is not None:
            items.append(item)
    return items


@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.parametrize(
    ("thieves", "rounds"),
    [
        (2, 100_000),
        (3, 50_000),
        pytest.param(2, 1_000_000, marks=pytest.mark.stress),
    ],
)
def test_thieves_that_steal_in_a_circle_never_deadlock_lose_or_double(in_parallel, thieves, rounds):
    """Crossed steals: each steals from the next, the last from the first. Each gives one item back,
    so no ring runs dry for long."""
    rings = [LocalRing(index, 32) for index in range(thieves)]
    for number in range(6 * thieves):
        rings[number % thieves].push(number)
    stolen = [0] * thieves

    def thief(me):
        mine, other = rings[me], rings[(me + 1) % thieves]
        for _ in range(rounds):
            item = steal_half(other, mine)
            if item is not None:
                stolen[me] += 1
                assert other.push(item), "the rings hold more than there is"

    in_parallel(*(lambda me=me: thief(me) for me in range(thieves)))
    assert [ring.given for ring in rings] == [stolen[me - 1] for me in range(thieves)]
    assert min(stolen) > 0, "the thieves hardly ever met"
    assert sorted(emptied(*rings)) == list(range(6 * thieves))
