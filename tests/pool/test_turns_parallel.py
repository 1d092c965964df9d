"""The end of a turn against senders, with real threads: no message is left behind.

What happens between two steps of it is shown one by one in test_turns.py, in the Python lane. Here
both lanes run, as fast as they can; a lost wake-up is a message that nobody ever handles.
"""

import sys
import threading
import time
from dataclasses import dataclass

import pytest

from otavia_ft import Notice, StateActor, on
from otavia_ft.atomic import HouseState
from otavia_ft.doors import set_me

PATIENCE_S = 30.0
ROUNDS, ENOUGH_S = 20_000, 1.0  # as many as that, or as there is time for on a busy machine


@dataclass(frozen=True, slots=True)
class Number(Notice):
    number: int


class Counts(StateActor):
    """Counts what it is sent; anybody may look."""

    def __init__(self):
        self.count = 0
        self.inside = False
        self.overlaps = 0

    @on(Number)
    def number(self, message):
        self.overlaps += self.inside
        self.inside = True
        self.count += 1
        self.inside = False


@pytest.fixture(autouse=True)
def frequent_switches():
    """On a build with the GIL too, threads should meet in the middle of things."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def be_polite(spins):
    """There may be fewer cores than threads that spin."""
    if spins % 200 == 0:
        time.sleep(0)


def run_worker(worker, over):
    """A worker that never sleeps: what it must not miss, it must not miss without being woken."""
    context = worker.context
    set_me(context)
    try:
        idle = 0
        while not over.is_set():
            item = worker.desk.take()
            if item is not None:
                item.run_turn(context)
            else:
                idle += 1
                be_polite(idle)
    finally:
        set_me(None)


def sent_and_handled(actor, house, number):
    """Send as soon as the one before is handled: its turn is just about to end."""
    house.notice(Number(number))
    end, spins = time.monotonic() + PATIENCE_S, 0
    while actor.count <= number:
        spins += 1
        be_polite(spins)
        if spins % 200 == 0 and time.monotonic() > end:
            return False
    return True


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("budget", [1, 32])
def test_a_message_that_comes_as_a_turn_ends_is_handled(make_manual, in_parallel, workers, budget):
    """With a budget of one the turn has nothing left when the message comes, and yields."""
    system = make_manual(workers=workers, throughput_budget=budget)
    actor, over = Counts(), threading.Event()
    house = system.build_actor(lambda: actor).house
    system.run()

    rounds = []

    def send():
        end = time.monotonic() + ENOUGH_S
        try:
            for number in range(ROUNDS):
                assert sent_and_handled(actor, house, number), f"message {number} was left behind"
                rounds.append(number)
                if time.monotonic() > end:
                    break
        finally:
            over.set()

    threads = system.scheduler.threads
    in_parallel(send, *(lambda worker=worker: run_worker(worker, over) for worker in threads))
    assert (actor.count, actor.overlaps) == (len(rounds), 0)
    assert house.state == HouseState.WAITING
    assert not system.scheduler.queue.waiting
