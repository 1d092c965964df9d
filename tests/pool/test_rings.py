"""The rings one call at a time: order, capacity, stealing, and who is called when."""

import gc
import weakref
from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from otavia_ft.schedule.rings import GlobalRing, LocalRing, ReadyQueue, steal_half


def ring_of(*items, index=0, capacity=8):
    ring = LocalRing(index, capacity)
    for item in items:
        assert ring.push(item)
    return ring


def emptied(ring):
    items = []
    while (item := ring.pop()) is not None:
        items.append(item)
    return items


def queue_of(workers, local=8, shared=4, poll=61):
    """A queue, and the list of calls for a sleeper that it made."""
    calls = []
    return ReadyQueue(workers, local, shared, poll, lambda: calls.append(1)), calls


# ---- a local ring


def test_a_local_ring_is_first_in_first_out_around_its_end():
    ring = LocalRing(0, 3)
    seen = []
    for number in range(10):
        ring.push(2 * number)
        ring.push(2 * number + 1)
        seen += [ring.pop(), ring.pop()]
    assert seen == list(range(20))


def test_a_push_tells_how_many_there_are_then():
    ring = LocalRing(0, 4)
    assert [ring.push(item) for item in "abcd"] == [1, 2, 3, 4]


@pytest.mark.parametrize("capacity", [2, 3, 256])
def test_a_full_ring_refuses_and_keeps_what_it_has(capacity):
    ring = ring_of(*range(capacity), capacity=capacity)
    assert ring.push("one more") == 0
    assert len(ring) == capacity
    assert emptied(ring) == list(range(capacity))


def test_an_empty_ring_gives_nothing():
    ring = LocalRing(0, 2)
    assert ring.pop() is None
    ring.push("a")
    ring.pop()
    assert ring.pop() is None
    assert len(ring) == 0


@pytest.mark.parametrize("kind", ["local", "global", "stolen"])
def test_a_ring_keeps_no_reference_to_what_was_taken(kind):
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    ring = GlobalRing(4) if kind == "global" else LocalRing(0, 4)
    thief = LocalRing(1, 4)
    ring.push(thing)
    taken = steal_half(ring, thief) if kind == "stolen" else ring.pop()
    assert taken is thing
    del thing, taken
    gc.collect()
    assert gone() is None


# ---- stealing


@pytest.mark.parametrize(
    ("items", "taken", "kept", "left"),
    [
        ("", None, "", ""),
        ("a", "a", "", ""),
        ("ab", "a", "", "b"),
        ("abc", "a", "b", "c"),
        ("abcd", "a", "b", "cd"),
        ("abcdefg", "a", "bcd", "efg"),
    ],
)
def test_a_thief_takes_half_rounded_up_the_oldest_first(items, taken, kept, left):
    victim, thief = ring_of(*items), LocalRing(1, 8)
    assert steal_half(victim, thief) == taken
    assert emptied(thief) == list(kept)
    assert emptied(victim) == list(left)


@pytest.mark.parametrize("victim_index", [0, 1])
def test_stealing_works_both_ways_along_the_lock_order(victim_index):
    victim = ring_of("a", "b", "c", index=victim_index)
    thief = LocalRing(1 - victim_index, 8)
    assert steal_half(victim, thief) == "a"
    assert emptied(thief) == ["b"]


def test_what_the_thief_has_no_room_for_stays_with_the_victim():
    victim = ring_of(*range(8))
    thief = ring_of("x", index=1, capacity=2)
    assert steal_half(victim, thief) == 0
    assert emptied(thief) == ["x", 1]
    assert emptied(victim) == [2, 3, 4, 5, 6, 7]


def test_a_thief_whose_ring_is_full_still_gets_one():
    victim, thief = ring_of(*range(6)), ring_of("x", "y", index=1, capacity=2)
    assert steal_half(victim, thief) == 0
    assert emptied(victim) == [1, 2, 3, 4, 5]


def test_a_ring_does_not_steal_from_itself():
    ring = ring_of("a", "b")
    assert steal_half(ring, ring) is None
    assert emptied(ring) == ["a", "b"]


def test_a_victim_counts_the_thefts():
    victim, thief = ring_of(*range(8)), LocalRing(1, 8)
    steal_half(victim, thief)
    steal_half(victim, thief)
    assert victim.given == 2


# ---- the global ring


def test_the_global_ring_doubles_when_it_is_full_and_keeps_the_order():
    ring = GlobalRing(4)
    for item in range(3):
        ring.push(item)
    assert [ring.pop(), ring.pop()] == [0, 1]  # so that the oldest is not in the first slot
    for item in range(3, 20):
        ring.push(item)
    assert ring.capacity == 32
    assert len(ring) == 18
    assert emptied(ring) == list(range(2, 20))


def test_the_global_ring_grows_only_when_it_must():
    ring = GlobalRing(4)
    for item in range(100):
        ring.push(item)
        ring.push(item)
        ring.pop()
        ring.pop()
    assert ring.capacity == 4


# ---- taking


def test_a_worker_takes_its_own_then_the_global_then_a_siblings():
    queue, _ = queue_of(3)
    mine, next_one, last = queue.desks
    queue.push("global")
    last.push("last's")
    next_one.push("next one's")
    mine.push("own")
    taken = [mine.take() for _ in range(5)]
    assert taken == ["own", "global", "next one's", "last's", None]


def test_thieves_start_at_the_sibling_after_them():
    queue, _ = queue_of(3)
    for desk in queue.desks:
        desk.push(f"of {desk.ring.index}")
    queue.desks[1].take()
    assert queue.desks[1].take() == "of 2"
    assert queue.desks[0].take() == "of 0"


def test_the_global_ring_comes_first_at_every_61st_take():
    queue, _ = queue_of(1)
    desk = queue.desks[0]
    desk.push("hot")
    for number in range(3):
        queue.push(f"cold {number}")
    order = []
    for _ in range(3 * 61):
        order.append(desk.take())
        if order[-1] == "hot":
            desk.push("hot")
    places = [place + 1 for place, item in enumerate(order) if item != "hot"]
    assert places == [61, 122, 183]
    assert [order[place - 1] for place in places] == ["cold 0", "cold 1", "cold 2"]


def test_an_empty_global_ring_costs_the_61st_take_nothing():
    queue, _ = queue_of(1, poll=2)
    desk = queue.desks[0]
    for item in range(6):
        desk.push(item)
    assert [desk.take() for _ in range(6)] == list(range(6))


def test_a_full_ring_spills_to_the_global_one():
    queue, _ = queue_of(1, local=2)
    desk = queue.desks[0]
    for item in range(5):
        desk.push(item)
    assert len(desk.ring) == 2
    assert len(queue.shared) == 3
    assert [desk.take() for _ in range(6)] == [0, 1, 2, 3, 4, None]


def test_a_single_worker_has_nobody_to_steal_from():
    queue, _ = queue_of(1)
    assert queue.desks[0].take() is None


def test_pop_any_empties_every_ring():
    queue, _ = queue_of(3)
    for desk in queue.desks:
        desk.push(desk.ring.index)
    queue.push("global")
    found = set()
    while (item := queue.pop_any()) is not None:
        found.add(item)
    assert found == {0, 1, 2, "global"}
    assert not queue.waiting


# ---- who is called


def test_every_push_to_the_global_ring_calls_a_sleeper():
    queue, calls = queue_of(2)
    queue.push("a")
    queue.push("b")
    assert len(calls) == 2


def test_a_local_push_calls_a_sleeper_when_it_leaves_more_than_one():
    queue, calls = queue_of(2)
    desk = queue.desks[0]
    desk.push("a")
    assert not calls
    desk.push("b")
    assert len(calls) == 1


def test_a_spilled_item_calls_a_sleeper():
    queue, calls = queue_of(2, local=2)
    for item in "ab":
        queue.desks[0].push(item)
    calls.clear()
    queue.desks[0].push("c")
    assert len(calls) == 1


def test_a_take_from_the_global_ring_that_passes_over_the_own_one_calls_a_sleeper():
    queue, calls = queue_of(2, poll=1)
    queue.push("global")
    queue.desks[0].push("own")
    calls.clear()
    assert queue.desks[0].take() == "global"
    assert len(calls) == 1


def test_a_take_from_the_global_ring_with_nothing_of_ones_own_calls_nobody():
    queue, calls = queue_of(2, poll=1)
    queue.push("global")
    calls.clear()
    assert queue.desks[0].take() == "global"
    assert not calls


@pytest.mark.parametrize(("items", "called"), [(1, False), (2, True), (3, True)])
def test_a_thief_that_leaves_something_anywhere_calls_a_sleeper(items, called):
    queue, calls = queue_of(3)
    for item in range(items):
        queue.desks[0].push(item)
    calls.clear()
    assert queue.desks[1].take() == 0
    assert bool(calls) is called


# ---- against a model


class RingsAgainstDeques(RuleBasedStateMachine):
    """Three workers with rings of two to four slots, against three bounded deques and one without
    bound."""

    def __init__(self):
        super().__init__()
        self.number = 0
        self.queue = None

    @precondition(lambda self: self.queue is None)
    @rule(capacity=st.integers(2, 4), poll=st.integers(1, 5))
    def build(self, capacity, poll):
        self.capacity, self.poll = capacity, poll
        self.queue, _ = queue_of(3, local=capacity, shared=2, poll=poll)
        self.local = [deque() for _ in range(3)]
        self.shared = deque()
        self.takes = [0, 0, 0]

    def _new(self):
        self.number += 1
        return self.number

    @precondition(lambda self: self.queue is not None)
    @rule()
    def push(self):
        item = self._new()
        self.queue.push(item)
        self.shared.append(item)

    @precondition(lambda self: self.queue is not None)
    @rule(worker=st.integers(0, 2))
    def push_local(self, worker):
        item = self._new()
        self.queue.desks[worker].push(item)
        full = len(self.local[worker]) == self.capacity
        (self.shared if full else self.local[worker]).append(item)

    @precondition(lambda self: self.queue is not None)
    @rule(worker=st.integers(0, 2))
    def take(self, worker):
        assert self.queue.desks[worker].take() == self._expected(worker)

    def _expected(self, worker):
        own = self.local[worker]
        self.takes[worker] += 1
        if self.takes[worker] % self.poll == 0 and self.shared:
            return self.shared.popleft()
        for source in (own, self.shared):
            if source:
                return source.popleft()
        for step in (1, 2):
            victim = self.local[(worker + step) % 3]
            if victim:
                half = [victim.popleft() for _ in range((len(victim) + 1) // 2)]
                own.extend(half[1:])
                return half[0]
        return None

    @invariant()
    def the_mirrors_are_right(self):
        if self.queue is not None:
            assert [len(ring) for ring in self.queue.rings] == [len(box) for box in self.local]
            assert len(self.queue.shared) == len(self.shared)
            assert self.queue.waiting == bool(self.shared or any(self.local))


TestRingsAgainstDeques = RingsAgainstDeques.TestCase
TestRingsAgainstDeques.settings = settings(max_examples=100, deadline=None)
