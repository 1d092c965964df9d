"""House queues: order, priority, ageing, stealing; against list models and with real threads."""

import gc
import signal
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from otavia_ft.lane import HouseBase, HouseQueue
from otavia_ft.schedule.queues import FIFOHouseQueue, HouseList, PriorityHouseQueue

# The queue of the native lane has to do what the one in Python does.
KINDS = [PriorityHouseQueue] if HouseQueue is None else [PriorityHouseQueue, HouseQueue]

Kind = Callable[[int], Any]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


class Seat(HouseBase):
    """What a queue needs of a house."""

    __slots__ = ("name",)

    def __init__(self, name: int, high: bool = False) -> None:
        self.name = name
        self.high_priority = high
        self.next_house = None


def names(pop: Callable[[], Any]) -> list[int]:
    found = []
    while (seat := pop()) is not None:
        found.append(seat.name)
    return found


def test_a_fifo_queue_gives_houses_in_the_order_of_their_coming() -> None:
    queue = FIFOHouseQueue()
    for i in range(5):
        queue.enqueue(Seat(i))
    assert len(queue) == 5
    assert names(queue.dequeue) == [0, 1, 2, 3, 4]
    assert len(queue) == 0


def test_an_empty_queue_gives_nothing(kind: Kind) -> None:
    assert FIFOHouseQueue().dequeue() is None
    assert kind(4).dequeue() is None
    assert kind(4).try_steal() is None


def test_a_house_that_left_a_queue_holds_on_to_no_other() -> None:
    queue = HouseList()
    first, second, third = Seat(1), Seat(2), Seat(3)
    for seat in (first, second, third):
        queue.append(seat)
    assert queue.pop() is first
    assert first.next_house is None
    assert queue.try_steal() is second
    assert second.next_house is None


def test_high_priority_goes_first_and_keeps_its_own_order(kind: Kind) -> None:
    queue = kind(100)
    for i, high in enumerate([False, True, False, True]):
        queue.enqueue(Seat(i, high))
    assert (len(queue), queue.high) == (4, 2)
    assert names(queue.dequeue) == [1, 3, 0, 2]


def test_the_priority_is_the_one_at_the_time_of_enqueueing(kind: Kind) -> None:
    queue = kind(100)
    late, high = Seat(1), Seat(2, True)
    queue.enqueue(late)
    late.high_priority = True
    queue.enqueue(high)
    assert names(queue.dequeue) == [2, 1]


def test_after_ageing_limit_high_houses_one_normal_house_has_its_turn(kind: Kind) -> None:
    queue = kind(3)
    for i in range(8):
        queue.enqueue(Seat(i, high=True))
    for i in (100, 101):
        queue.enqueue(Seat(i))
    assert names(queue.dequeue) == [0, 1, 2, 100, 3, 4, 5, 101, 6, 7]


def test_the_ageing_guard_lets_high_houses_go_on_when_no_normal_one_waits(kind: Kind) -> None:
    queue = kind(2)
    for i in range(5):
        queue.enqueue(Seat(i, high=True))
    assert names(queue.dequeue) == [0, 1, 2, 3, 4]


def test_after_the_end_of_a_slice_one_waiting_normal_house_is_next(kind: Kind) -> None:
    queue = kind(64)
    for i in range(5):
        queue.enqueue(Seat(i, high=True))
    for i in (100, 101):
        queue.enqueue(Seat(i))
    assert queue.dequeue().name == 0
    queue.end_slice()
    assert names(queue.dequeue) == [100, 1, 2, 3, 4, 101]


def test_the_end_of_a_slice_changes_nothing_when_no_normal_house_waits(kind: Kind) -> None:
    queue = kind(2)
    for i in range(3):
        queue.enqueue(Seat(i, high=True))
    queue.end_slice()
    queue.enqueue(Seat(3, high=True))
    assert [queue.dequeue().name for _ in range(2)] == [0, 1]
    queue.enqueue(Seat(100))
    assert names(queue.dequeue) == [100, 2, 3]


def test_a_house_that_keeps_itself_high_cannot_starve_a_normal_one(kind: Kind) -> None:
    queue = kind(64)
    queue.enqueue(Seat(0))
    greedy = Seat(1, high=True)
    queue.enqueue(greedy)
    order = []
    for _ in range(100):
        seat: Any = queue.dequeue()
        order.append(seat.name)
        if seat is greedy:
            queue.enqueue(seat)
    assert order.index(0) == 64


def test_enqueue_tells_how_many_wait_in_both_lists_together(kind: Kind) -> None:
    queue = kind(4)
    assert [queue.enqueue(Seat(i, high=i % 2 == 0)) for i in range(6)] == [1, 2, 3, 4, 5, 6]


def test_a_thief_takes_from_the_head_and_never_the_last_one() -> None:
    queue = HouseList()
    for i in range(3):
        queue.append(Seat(i))
    assert names(queue.try_steal) == [0, 1]
    assert len(queue) == 1
    assert names(queue.pop) == [2]


def test_a_thief_takes_high_houses_before_normal_ones_and_leaves_one_of_each(kind: Kind) -> None:
    queue = kind(4)
    for i in range(6):
        queue.enqueue(Seat(i, high=i >= 3))
    assert queue.stealable
    assert names(queue.try_steal) == [3, 4, 0, 1]
    assert not queue.stealable
    assert len(queue) == 2


def test_a_thief_does_not_wait_for_a_lock(in_parallel: Callable[..., list[Any]]) -> None:
    queue = HouseList()
    for i in range(3):
        queue.append(Seat(i))
    with queue._lock:
        assert in_parallel(1, lambda _: queue.try_steal()) == [None]
    assert names(queue.try_steal) == [0, 1]


def test_a_signal_handler_that_sends_finds_no_lock_held_by_its_own_thread() -> None:
    """Python runs a signal's handler after any call of the main thread's, the queue's included."""
    queue = HouseList()
    wanted, handled = 1000, 0

    def handler(*_: Any) -> None:
        nonlocal handled
        if handled < wanted:
            handled += 1
            queue.append(Seat(-1))

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
    try:
        while handled < wanted:
            queue.append(Seat(1))
            queue.pop()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(queue) == wanted
    assert len(names(queue.pop)) == wanted


class PriorityModel(RuleBasedStateMachine):
    """The priority queue against two deques and a counter."""

    kind: Any = PriorityHouseQueue

    limit = 3

    def __init__(self) -> None:
        super().__init__()
        self.queue = self.kind(self.limit)
        self.high: deque[int] = deque()
        self.normal: deque[int] = deque()
        self.row = 0
        self.next = 0

    @rule(high=st.booleans())
    def enqueue(self, high: bool) -> None:
        self.next += 1
        (self.high if high else self.normal).append(self.next)
        assert self.queue.enqueue(Seat(self.next, high)) == len(self.high) + len(self.normal)

    @rule()
    def dequeue(self) -> None:
        expected = None
        aged = self.row >= self.limit
        if aged:
            self.row = 0
        if aged and self.normal:
            expected = self.normal.popleft()
        elif self.high:
            self.row += 1
            expected = self.high.popleft()
        else:
            self.row = 0
            if self.normal:
                expected = self.normal.popleft()
        seat = self.queue.dequeue()
        assert (None if seat is None else seat.name) == expected

    @rule()
    def end_slice(self) -> None:
        self.row = self.limit
        self.queue.end_slice()

    @rule()
    def steal(self) -> None:
        expected = None
        for box in (self.high, self.normal):
            if expected is None and len(box) > 1:
                expected = box.popleft()
        seat = self.queue.try_steal()
        assert (None if seat is None else seat.name) == expected

    @invariant()
    def sizes_agree(self) -> None:
        assert len(self.queue) == len(self.high) + len(self.normal)
        assert self.queue.high == len(self.high)
        assert self.queue.stealable == (len(self.high) > 1 or len(self.normal) > 1)


class NativeModel(PriorityModel):
    kind = KINDS[-1]


PriorityModel.TestCase.settings = settings(max_examples=60, deadline=None)
NativeModel.TestCase.settings = PriorityModel.TestCase.settings
TestPriorityModel = PriorityModel.TestCase
TestNativeModel = NativeModel.TestCase


@pytest.mark.parametrize("native", KINDS[1:])
def test_the_native_queue_holds_nothing_but_houses(native: Kind) -> None:
    with pytest.raises(TypeError, match="holds houses, not 5"):
        native(1).enqueue(5)


def test_a_queue_that_goes_lets_its_houses_go(kind: Kind) -> None:
    class Mortal(Seat):
        __slots__ = ("__weakref__",)

    queue, seats = kind(1), [Mortal(n, n % 2 == 0) for n in range(4)]
    for seat in seats:
        queue.enqueue(seat)
    watches = [weakref.ref(seat) for seat in seats]
    del seat, seats, queue
    gc.collect()
    assert [watch() for watch in watches] == [None] * 4


def test_many_enqueuers_an_owner_and_a_thief_lose_and_double_nothing(
    kind: Kind, in_parallel: Callable[..., list[Any]]
) -> None:
    queue = kind(8)
    each = 3000

    def work(i: int) -> list[int]:
        if i < 2:
            for n in range(each):
                queue.enqueue(Seat(i * each + n, high=n % 3 == 0))
            return []
        got: list[int] = []
        take = queue.dequeue if i == 2 else queue.try_steal
        while len(got) < each // 2:
            seat = take()
            if seat is not None:
                got.append(seat.name)
        return got

    _, _, owned, stolen = in_parallel(4, work)
    rest = names(queue.dequeue)
    assert sorted(owned + stolen + rest) == list(range(2 * each))
    assert len(queue) == 0


def test_one_sender_s_houses_of_one_priority_leave_in_order(
    in_parallel: Callable[..., list[Any]],
) -> None:
    queue = HouseList()
    each = 3000

    def work(i: int) -> list[int]:
        if i < 2:
            for n in range(each):
                queue.append(Seat(i * each + n))
            return []
        got: list[int] = []
        while len(got) < 2 * each:
            seat = queue.pop()
            if seat is not None:
                got.append(seat.name)
        return got

    got = in_parallel(3, work)[2]
    assert [n for n in got if n < each] == list(range(each))
    assert [n for n in got if n >= each] == list(range(each, 2 * each))
