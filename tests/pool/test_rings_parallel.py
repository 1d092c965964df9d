"""The rings under real threads: nothing lost, nothing doubled, no deadlock."""

import sys
import threading
from collections import Counter

import pytest

from otavia_ft.doors import AtomicInt, SpinLock
from otavia_ft.schedule.rings import GlobalRing, LocalRing, ReadyQueue, steal_half

ROUNDS = 50_000


@pytest.fixture(autouse=True)
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


def test_every_item_of_an_owner_with_thieves_is_taken_exactly_once(in_parallel):
    ring, loot = LocalRing(0, 8), [LocalRing(1, 8), LocalRing(2, 8)]
    taken = [[], [], []]
    owner_done = AtomicInt()

    def owner():
        for number in range(ROUNDS):
            while not ring.push(number):
                if (item := ring.pop()) is not None:
                    taken[0].append(item)
        taken[0].extend(emptied(ring))
        owner_done.set(1)

    def thief(me):
        mine = loot[me - 1]
        while not owner_done.load() or len(ring):
            if (item := steal_half(ring, mine)) is not None:
                taken[me].append(item)
                taken[me].extend(emptied(mine))

    in_parallel(owner, lambda: thief(1), lambda: thief(2))
    assert Counter(taken[0] + taken[1] + taken[2]) == Counter(range(ROUNDS))
    # Everybody takes from the head, so what each of them has is in the order of the pushes.
    assert all(items == sorted(items) for items in taken)


def test_the_global_ring_keeps_each_producers_order_while_it_grows(in_parallel):
    ring = GlobalRing(2)
    taken = []
    producers = 3

    def produce(me):
        for number in range(ROUNDS // 2):
            ring.push((me, number))

    def consume():
        while len(taken) < producers * (ROUNDS // 2):
            if (item := ring.pop()) is not None:
                taken.append(item)

    in_parallel(consume, *(lambda me=me: produce(me) for me in range(producers)))
    for me in range(producers):
        assert [number for who, number in taken if who == me] == list(range(ROUNDS // 2))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_takes_with_steals_spills_and_outside_pushes_lose_and_double_nothing(in_parallel, workers):
    """Each item goes around a few times: pushed from outside, yielded, and at last finished."""
    lives, items = 4, 8_000
    queue = ReadyQueue(workers, 4, 2, 7, lambda: None)
    finished = AtomicInt()
    runs = [[0] * items for _ in range(workers)]
    in_hand = [AtomicInt() for _ in range(items)]
    lives_left = [lives] * items

    def produce():
        for number in range(items):
            queue.push(number)

    def work(me):
        desk = queue.desks[me]
        while finished.load() < items:
            number = desk.take()
            if number is None:
                continue
            assert in_hand[number].get_and_set(1) == 0, "two workers have the same item"
            runs[me][number] += 1
            lives_left[number] -= 1
            done = lives_left[number] == 0
            in_hand[number].set(0)
            if done:
                finished.get_and_add(1)
            else:
                desk.push(number)

    in_parallel(produce, *(lambda me=me: work(me) for me in range(workers)))
    assert [sum(column) for column in zip(*runs, strict=True)] == [lives] * items
    assert not queue.waiting


@pytest.mark.python_lane
def test_locks_are_taken_in_the_order_of_the_indexes_whoever_steals():
    order = []

    class Watched:
        def __init__(self, name):
            self._name, self._lock = name, SpinLock()

        def __enter__(self):
            order.append(self._name)
            self._lock.lock()

        def __exit__(self, *_):
            self._lock.unlock()

    low, high = LocalRing(3, 4), LocalRing(7, 4)
    low.push("a")
    high.push("b")
    low._lock, high._lock = Watched("low"), Watched("high")
    steal_half(low, high)
    steal_half(high, low)
    assert order == ["low", "high", "low", "high"]


@pytest.mark.python_lane
def test_sizes_are_read_without_the_locks_and_an_empty_ring_costs_none():
    """The lock is held here all the time; it does not let a second one in, nor its holder twice."""
    full, empty, thief, shared = LocalRing(0, 4), LocalRing(1, 4), LocalRing(2, 4), GlobalRing(4)
    full.push("a")
    rings = (full, empty, thief, shared)
    for ring in rings:
        ring._lock.lock()
    try:
        assert [len(ring) for ring in rings] == [1, 0, 0, 0]
        assert empty.pop() is shared.pop() is steal_half(empty, thief) is None
    finally:
        for ring in rings:
            ring._lock.unlock()


@pytest.mark.python_lane
def test_a_steal_holds_both_locks_until_both_sizes_are_right():
    """The other owner is kept out: its pop waits until the steal is over."""
    victim, thief = LocalRing(0, 4), LocalRing(1, 4)
    for item in "abcd":
        victim.push(item)
    inside, go_on = threading.Event(), threading.Event()

    class Slow(list):
        def __setitem__(self, at, item):
            super().__setitem__(at, item)
            if not go_on.is_set():
                inside.set()
                go_on.wait(30)

    thief._slots = Slow(thief._slots)
    robbery = threading.Thread(target=steal_half, args=(victim, thief))
    robbery.start()
    assert inside.wait(30)
    assert not victim._lock.try_lock()
    assert not thief._lock.try_lock()
    go_on.set()
    robbery.join()
    assert (len(victim), len(thief)) == (2, 1)
