"""The pool's workers: parking and calling, tiny rings, their number, and the pool's end."""

import itertools
import os
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from otavia_ft import Ask, AtomicInt, Config, Notice, StateActor, SystemStopped, on
from otavia_ft.atomic import HouseState, Mailbox
from otavia_ft.message import Envelope
from otavia_ft.schedule.memory import Memory
from otavia_ft.schedule.pool import FunctionTask


@dataclass(frozen=True, slots=True)
class Say(Notice):
    word: Any


@dataclass(frozen=True, slots=True)
class Question(Ask[Any]):
    word: Any


class Echo(StateActor):
    @on(Question)
    def question(self, message):
        return message.word

    @on(Say)
    def say(self, message):
        message.word()


def all_asleep(system):
    return all(thread.asleep for thread in system.statistics().threads)


# ---- parking


def test_workers_without_work_sleep_and_a_push_wakes_one(make_system, eventually):
    system = make_system(workers=3)
    eventually(lambda: all_asleep(system))
    before = sum(thread.wakeups for thread in system.statistics().threads)
    done = threading.Event()
    system.scheduler.call(done.set)
    assert done.wait(30)
    eventually(lambda: all_asleep(system))
    assert sum(thread.wakeups for thread in system.statistics().threads) == before + 1


def rings_of_the_bells(system):
    return sum(thread.wakeups for thread in system.statistics().threads)


def test_a_push_makes_no_call_while_nobody_is_parked(make_system, eventually, block):
    """Neither that of a function, nor that of a house, from outside or from another's turn."""
    system = make_system(workers=2)
    houses = [system.build_actor(Echo).house for _ in range(100)]
    eventually(lambda: all_asleep(system))
    block(system)
    block(system)
    before = rings_of_the_bells(system)
    for house in houses:
        system.scheduler.call(lambda: None)
        house.notice(Say(lambda: None))
    desk = system.scheduler.threads[0].desk
    for _ in range(300):  # more than one in the ring, and at last more than it holds
        desk.push(FunctionTask(lambda: None))
    assert len(desk.ring) == desk.ring.capacity
    assert rings_of_the_bells(system) == before


def test_many_pushes_while_one_is_parked_ring_its_bell_once(make_manual):
    """The one that found it asleep; it has not got up yet when the others come."""
    system = make_manual(workers=2)
    crew, (awake, sleeper) = system.scheduler.crew, system.scheduler.threads
    crew.asleep.get_and_add(1)
    assert sleeper.parker.fall_asleep()
    before = rings_of_the_bells(system)
    for _ in range(100):
        system.scheduler.call(lambda: None)
        awake.reschedule(FunctionTask(lambda: None))
    assert rings_of_the_bells(system) == before + 1
    crew.asleep.get_and_add(-1)
    sleeper.parker.start_looking()


def test_each_of_several_pushes_wakes_a_worker_of_its_own(make_system, eventually, in_parallel):
    """Items that block until all of them run: they need as many workers at once."""
    system = make_system(workers=4)
    for _ in range(100):
        eventually(lambda: all_asleep(system))
        together = threading.Barrier(4)
        passed = AtomicInt()

        def meet(together=together, passed=passed):
            together.wait(30)
            passed.get_and_add(1)

        in_parallel(*[lambda meet=meet: system.scheduler.call(meet)] * 4)
        eventually(lambda passed=passed: passed.load() == 4)


@pytest.mark.python_lane
def test_a_sleeper_that_was_called_by_another_in_the_meantime_does_not_count(make_manual):
    """Both pushers see the first worker asleep; the one that comes second must call the next."""
    system = make_manual(workers=2)
    crew = system.scheduler.crew
    first, second = crew.threads
    for thread in crew.threads:
        thread.parker.start_looking()
        crew.asleep.get_and_add(1)
        assert thread.parker.fall_asleep()

    class Raced:
        """The first worker's parker, with the other pusher between the look and the call."""

        asleep = True

        def wake(self):
            return False

    first.parker, parker = Raced(), first.parker
    system.scheduler.call(lambda: None)
    assert not second.parker.asleep
    first.parker = parker
    for thread in crew.threads:
        thread.parker.start_looking()
        crew.asleep.get_and_add(-1)


def test_a_worker_that_is_about_to_sleep_looks_at_every_ring_once_more(make_manual, monkeypatch):
    """An item that comes between the first look and the flag: nobody is called for it."""
    system = make_manual(workers=2)
    thief, sibling = system.scheduler.threads
    for put in (system.scheduler.queue.shared.push, sibling.desk.ring.push, thief.desk.ring.push):
        monkeypatch.setattr(thief, "parker", LatePush(thief.parker, put))
        assert not thief._lie_down(), "it would sleep over work"
        monkeypatch.undo()
        assert thief.desk.take() == "late"


class LatePush:
    """A parker; just before its flag is set, something is put into a ring."""

    def __init__(self, parker, put):
        self._parker, self._put = parker, put

    def __getattr__(self, name):
        return getattr(self._parker, name)

    def fall_asleep(self):
        self._put("late")
        return self._parker.fall_asleep()


# ---- fairness


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_rings_of_two_slots_serve_many_busy_actors(make_system, workers):
    """Everything spills, grows and is stolen all the time."""
    system = make_system(
        workers=workers, local_ring_capacity=2, global_ring_capacity=2, throughput_budget=1
    )
    actors, messages = 40, 50
    handled, done = AtomicInt(), threading.Event()

    def count():
        if handled.get_and_add(1) == actors * messages - 1:
            done.set()

    addresses = [system.build_actor(Echo) for _ in range(actors)]
    for _ in range(messages):
        for address in addresses:
            address.notice(Say(count))
    assert done.wait(60)
    assert handled.load() == actors * messages


# ---- settings


def test_a_pool_has_two_workers_at_least_unless_told_otherwise(monkeypatch):
    monkeypatch.setattr(os, "process_cpu_count", lambda: 1)
    assert Config(dispatcher="pool").worker_count() == 2
    assert Config(dispatcher="pool", workers=1).worker_count() == 1
    assert Config(dispatcher="pinned").worker_count() == 1
    monkeypatch.setattr(os, "process_cpu_count", lambda: 8)
    assert Config(dispatcher="pool").worker_count() == 8


def test_the_rings_have_the_sizes_of_the_settings(make_manual):
    queue = make_manual().scheduler.queue
    assert queue.shared.capacity == 64
    assert (queue.rings[0].capacity, queue.poll_interval) == (256, 61)
    queue = make_manual(
        local_ring_capacity=2, global_ring_capacity=4, global_poll_interval=7
    ).scheduler.queue
    assert queue.shared.capacity == 4
    assert (queue.rings[0].capacity, queue.poll_interval) == (2, 7)


def test_the_memory_monitor_watches_a_pool_too(make_system, eventually):
    memory = [Memory(limit=1 << 40, used=(1 << 40) - 1)]
    system = make_system(
        memory_monitor=True,
        memory_interval_ms=1,
        timer_tick_ms=1.0,
        memory_probe=lambda: memory[0],
    )
    eventually(lambda: system.busy)
    memory[0] = Memory(limit=1 << 40, used=0)
    eventually(lambda: not system.busy)


def test_statistics_show_what_waits_where(make_manual):
    system = make_manual(workers=2)
    for _ in range(3):
        system.scheduler.call(lambda: None)
    system.scheduler.threads[1].desk.push(FunctionTask(lambda: None))
    statistics = system.statistics()
    assert statistics.shared_backlog == 3
    assert statistics.ready == 4
    assert [thread.queues.business.ready for thread in statistics.threads] == [0, 1]


# ---- the end


class Asker:
    """An asker that keeps its answers."""

    def __init__(self):
        self.answers = []

    def answer(self, ids, reply):
        self.answers.append(reply)

    def answer_error(self, ids, error):
        self.answers.append(error)


def test_mail_that_is_left_at_the_end_is_buried_and_its_askers_are_answered(make_manual):
    system = make_manual(workers=2)
    shared, own, unmounted = (system.build_actor(Echo).house for _ in range(3))
    queue = system.scheduler.queue
    items = [queue.pop_any() for _ in range(3)]
    for item in items[:2]:
        item.run_turn(system.scheduler.threads[0].context)
    queue.push(items[2])
    asker = Asker()
    for house in (shared, own, unmounted):
        house.ask(Envelope(asker, 1, Question("anybody?")))
    queue.desks[1].push(queue.pop_any())  # so that a local ring has something too
    system.scheduler.close_rings()
    assert [type(answer) for answer in asker.answers] == [SystemStopped] * 3
    assert system.dead_letters.total == 3
    assert not queue.waiting


def test_mail_that_comes_after_the_end_is_buried_at_once(make_system):
    system = make_system()
    address = system.build_actor(Echo)
    assert system.ask(address, Question("a"), timeout=30).result() == "a"
    system.stop()
    before = system.dead_letters.total
    address.house.notice(Say("late"))
    assert system.dead_letters.total == before + 1
    assert address.house.state == HouseState.WAITING
    assert not system.scheduler.queue.waiting


def test_a_function_that_is_left_at_the_end_is_run_all_the_same(make_manual):
    system = make_manual()
    calls = []
    system.scheduler.call(lambda: calls.append("before"))
    system.scheduler.close_rings()
    system.scheduler.call(lambda: calls.append("after"))
    assert calls == ["before", "after"]


def test_a_function_that_raises_at_the_end_keeps_nobody_from_the_rest(make_manual, caplog):
    system = make_manual()
    calls = []

    def broken():
        raise ValueError("as told")

    system.scheduler.call(broken)
    system.scheduler.call(lambda: calls.append("next"))
    system.scheduler.close_rings()
    assert calls == ["next"]
    assert "function failed" in caplog.text


def test_burying_a_long_chain_of_askers_is_a_loop_and_not_a_recursion(make_manual):
    """Each buried ask makes its asker's house ready, which has an ask of another one, and so on."""
    system = make_manual()
    houses = [system.build_actor(Echo).house for _ in range(5000)]
    system.run()
    for house, asker in itertools.pairwise(houses):
        house.put(Mailbox.ASK, Envelope(asker, 1, Question("a")))
    system.scheduler.close_rings()
    houses[0].notice(Say("the first stone"))
    assert all(house.mail() == 0 for house in houses)
    assert system.dead_letters.total >= 5000


def test_a_worker_that_is_stuck_is_left_behind_and_buries_its_own_leftovers(
    make_system, eventually, caplog
):
    system = make_system(workers=1, throughput_budget=1)
    entered, release = threading.Event(), threading.Event()

    def stick():
        entered.set()
        release.wait(60)

    address = system.build_actor(Echo)
    address.notice(Say(stick))
    assert entered.wait(30)
    address.notice(Say("never handled"))  # beyond the budget: the house will yield
    system.stop(timeout=0)
    assert "is stuck in a handler" in caplog.text
    assert system.dead_letters.total == 0
    release.set()
    eventually(lambda: system.dead_letters.total == 1)
    eventually(lambda: not system.scheduler.threads[0].thread.is_alive())
    assert not system.scheduler.queue.waiting
