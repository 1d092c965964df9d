"""The pool's native lane: what it refuses instead of crashing, and what the collector gets back."""

import gc
import threading
import weakref

import pytest

from otavia_ft import StateActor, on
from otavia_ft.doors import AtomicInt
from otavia_ft.lane import NATIVE_LANE, SeatBase
from otavia_ft.schedule.pool import PoolHouse
from otavia_ft.schedule.rings import Desk, GlobalRing, LocalRing, ReadyQueue, steal_half
from otavia_ft.testkit import TestSystem

native = pytest.mark.skipif(not NATIVE_LANE, reason="these checks stand between Python and C")


class Thing:
    """Something that can be part of a cycle."""


class Counts(StateActor):
    def __init__(self):
        self.count = 0

    @on(int)
    def number(self, message):
        self.count += 1


@native
def test_what_is_not_a_ring_or_has_no_slots_is_refused():
    with pytest.raises(ValueError, match="1 slot at least, not 0"):
        LocalRing(0, 0)
    with pytest.raises(ValueError, match="1 slot at least, not -1"):
        GlobalRing(-1)
    with pytest.raises(ValueError, match="1 worker at least, not 0"):
        ReadyQueue(0, 2, 2, 2, print)
    with pytest.raises(TypeError, match="two LocalRings"):
        steal_half(LocalRing(0, 2), GlobalRing(2))
    with pytest.raises(TypeError, match="cannot create"):
        Desk(None, None, None)


@native
def test_a_seat_takes_rings_and_a_desk_and_nothing_else():
    seat = SeatBase()
    with pytest.raises(RuntimeError, match="no rings"):
        seat.submit("a")
    with pytest.raises(TypeError, match=r"give_desk takes \(desk, failed\)"):
        seat.give_desk(5, print)
    with pytest.raises(TypeError):
        seat.give_rings("rings", AtomicInt(), 1, 1, 1)
    queue = ReadyQueue(1, 2, 2, 2, print)
    for arguments in [
        (0, (), PoolHouse),
        (AtomicInt(), [], PoolHouse),
        (AtomicInt(), ("a",), PoolHouse),
        (AtomicInt(), (seat,), int),
    ]:
        with pytest.raises(TypeError):
            queue.furnish(*arguments)


@native
def test_a_seat_that_cannot_sleep_is_not_called():
    queue, asleep = ReadyQueue(1, 2, 2, 2, pytest.fail), AtomicInt(1)
    queue.furnish(asleep, (SeatBase(),), PoolHouse)
    queue.push("a")
    assert queue.desks[0].take() == "a"


@native
def test_turns_want_a_context_and_a_house_an_actor(make_manual):
    system = make_manual()
    worker = system.scheduler.threads[0]
    for arguments in [
        (),
        ("x", None, worker.stopping, 1, print),
        (worker.context, None, 0, 1, print),
    ]:
        with pytest.raises(TypeError, match="run_turns takes"):
            worker.desk.run_turns(*arguments)
    with pytest.raises(ValueError, match="stride is 1 at least"):
        worker.desk.run_turns(worker.context, None, worker.stopping, 0, print)
    house = PoolHouse.__new__(PoolHouse)
    with pytest.raises(RuntimeError, match="no actor"):
        house.run_turn(worker.context)
    with pytest.raises(TypeError, match="run_turn takes a context, not 'x'"):
        house.run_turn("x")
    failed = []
    worker.desk.push(house)
    worker.desk.run_turns(
        worker.context, None, worker.stopping, 1, lambda *what: failed.append(what)
    )
    assert [(item, type(error)) for item, error in failed] == [(house, RuntimeError)]


@pytest.mark.parametrize("kind", ["local", "global", "desk"])
def test_the_collector_sees_what_is_in_a_ring(kind):
    """The ring holds a thing that holds the ring."""
    thing = Thing()
    gone = weakref.ref(thing)
    if kind == "desk":
        thing.queue = ReadyQueue(2, 2, 2, 2, print)
        thing.desk = thing.queue.desks[1]
        thing.desk.push(thing)
    else:
        thing.ring = LocalRing(0, 2) if kind == "local" else GlobalRing(2)
        thing.ring.push(thing)
    gc.collect()
    assert gone() is not None
    del thing
    gc.collect()
    assert gone() is None


def test_a_stopped_pool_is_collected_as_a_whole():
    system = TestSystem(workers=2, dispatcher="pool")
    gone = [weakref.ref(system), weakref.ref(system.scheduler), weakref.ref(system.scheduler.crew)]
    address = system.build_actor(Counts)
    address.notice(1)
    system.run()
    system.stop()
    del system, address
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3


def test_the_rings_move_and_grow_while_the_collector_stops_the_world(in_parallel):
    queue = ReadyQueue(2, 4, 1, 3, lambda: None)
    things, rounds = 64, 300
    over = threading.Event()

    def collect():
        while not over.is_set():
            gc.collect()

    def work(me):
        desk = queue.desks[me]
        try:
            for _ in range(rounds):
                for _ in range(things // 2):
                    queue.push([Thing()])
                for _ in range(things // 2):
                    item = desk.take()
                    if item is not None and len(item) < 3:
                        item.append(item)  # a cycle, which only the collector ends
                        desk.push(item)
        finally:
            over.set()

    in_parallel(collect, lambda: work(0), lambda: work(1))
    while queue.pop_any() is not None:
        pass
    assert not queue.waiting
