"""The stash, and handlers that wait, on real threads: one thread at a time, and nobody's order
changes."""

import threading

import pytest

from otavia_ft import AtomicInt, StateActor, on

PRODUCERS, MESSAGES = 3, 1500


class Door(StateActor):
    """Closed at first; while it is closed everything is stashed."""

    def __init__(self, seen):
        self.seen = seen
        self.open = False
        self.stashed = 0

    @on(tuple)
    def message(self, message):
        if self.open:
            self.seen.append(message)
            return message
        self.stashed += 1
        self.stash()
        return "not the answer"

    @on(bool)
    def turn(self, open_now):
        self.open = open_now
        if open_now:
            self.unstash_all()

    @on(str)
    def count(self, message):
        return self.stashed


def run_all(*functions):
    threads = [threading.Thread(target=function, daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def test_each_producers_order_outlives_the_stash(real_system, eventually):
    """The door closes and opens while three threads send. What comes back from the stash is in
    front of all that came meanwhile, so no message overtakes another of its producer."""
    seen, done = [], threading.Event()
    door = real_system.build_actor(Door, seen)

    def produce(me):
        for number in range(1, MESSAGES):
            door.notice((me, number))

    def toggle():
        while not done.is_set():
            door.notice(True)
            door.notice(False)

    for me in range(PRODUCERS):
        door.notice((me, 0))
    toggler = threading.Thread(target=toggle, daemon=True)
    toggler.start()
    try:
        run_all(*(lambda me=me: produce(me) for me in range(PRODUCERS)))
    finally:
        done.set()
        toggler.join(30)
    door.notice(True)
    eventually(lambda: len(seen) >= PRODUCERS * MESSAGES)
    assert real_system.ask(door, "how many were stashed?").result(30) >= PRODUCERS
    for me in range(PRODUCERS):
        assert [n for who, n in seen if who == me] == list(range(MESSAGES))


def test_every_stashed_ask_is_answered_by_its_handler_once(real_system):
    seen, asks = [], 200
    door = real_system.build_actor(Door, seen)
    futures = [real_system.ask(door, (0, number)) for number in range(asks)]
    assert real_system.ask(door, "how many were stashed?").result(30) == asks
    assert not any(future.done() for future in futures)
    door.notice(True)
    assert [future.result(30) for future in futures] == [(0, number) for number in range(asks)]
    assert seen == [(0, number) for number in range(asks)]


class Counsel(StateActor):
    """Answers when it has been asked by `company` at once, and not before."""

    def __init__(self, company):
        self.company = company
        self.waiting = 0
        self.answering = 0

    @on(int)
    def question(self, number):
        if self.answering:
            self.answering -= 1
            return number
        self.waiting += 1
        if self.waiting == self.company:
            self.waiting = 0
            self.answering = self.company
            self.stash()
            self.unstash_all()
        else:
            self.stash()
        return None


class Waits(StateActor):
    """Asks its counsel about every message; writes down when a handler begins and ends."""

    def __init__(self, counsel, log):
        self.counsel, self.log = counsel, log
        self.inside = AtomicInt()
        self.overlaps = 0

    def _alone(self, word):
        if self.inside.get_and_add(1):
            self.overlaps += 1
        self.log.append(word)
        self.inside.get_and_add(-1)

    @on(int)
    async def message(self, number):
        self._alone(("begin", number))
        answer = await self.counsel.ask(number)
        self._alone(("end", answer))

    @on(str)
    def report(self, message):
        return self.overlaps


class Serial(Waits):
    serial = True


@pytest.mark.parametrize(("kind", "company"), [(Serial, 1), (Waits, 1), (Waits, 3)])
def test_a_serial_actor_ends_what_it_began_and_another_begins_the_next_meanwhile(
    real_system, eventually, kind, company
):
    """A counsel that wants three asks at once is answered by nobody who waits for the first."""
    messages, log = 600, []
    counsel = real_system.build_actor(Counsel, company)
    actor = real_system.build_actor(kind, counsel, log)
    for number in range(messages):
        actor.notice(number)
    eventually(lambda: len(log) == 2 * messages)
    assert real_system.ask(actor, "overlaps?").result(30) == 0
    ended = [number for word, number in log if word == "end"]
    assert sorted(ended) == list(range(messages))
    assert [number for word, number in log if word == "begin"] == list(range(messages))
    if kind is Serial:
        assert log == [(word, n) for n in range(messages) for word in ("begin", "end")]
    if company == 3:
        assert log[:3] == [("begin", 0), ("begin", 1), ("begin", 2)]
