"""What a worker knows of the things it runs: that they have turns, and nothing else."""

import threading

import pytest

from otavia_ft import Notice, OtaviaError, StateActor, on
from otavia_ft.context import Context
from otavia_ft.schedule.pool import FunctionTask, PoolHouse


class Countdown:
    """Has a few turns, and yields after each but the last."""

    def __init__(self, number):
        self.number = number
        self.workers = []
        self.over = threading.Event()

    def run_turn(self, context: Context) -> None:
        self.workers.append(context.owner.index)
        self.number -= 1
        if self.number:
            context.owner.reschedule(self)
        else:
            self.over.set()

    def bury(self, reason):
        raise AssertionError("it had its turns")


class Reserved:
    """Tells what it was asked for by anybody but itself."""

    def __init__(self, item):
        object.__setattr__(self, "item", item)
        object.__setattr__(self, "asked", set())

    def __getattribute__(self, name):
        if name not in ("item", "asked"):
            object.__getattribute__(self, "asked").add(name)
        return object.__getattribute__(self, name)

    def __setattr__(self, name, value):
        raise AssertionError(f"somebody has set {name}")

    def run_turn(self, context):
        self.item.run_turn(context)

    def bury(self, reason):
        self.item.bury(reason)


def test_a_worker_takes_steals_and_runs_an_item_and_asks_it_for_its_turn_only(make_manual):
    system = make_manual(workers=2)
    first, second = system.scheduler.threads
    items = [Reserved(Countdown(1)) for _ in range(4)]
    for item in items:
        system.scheduler.submit(item)
    for _ in items:
        first.reschedule(first.desk.take())
    assert second.run_once(second.context)  # it has to steal
    system.run()
    assert second.desk.steals >= 1
    assert [item.item.number for item in items] == [0] * 4
    assert set().union(*(item.asked for item in items)) == {"run_turn"}


def test_the_end_of_a_pool_asks_an_item_for_its_burial_only(make_manual):
    class Buried(Countdown):
        def bury(self, reason):
            self.reason = reason

    system = make_manual()
    item = Reserved(Buried(1))
    system.scheduler.submit(item)
    system.scheduler.close_rings()
    assert item.asked == {"bury"}
    assert item.item.reason is system.stopped_error


class TurnsOnly:
    """Has nothing but turns."""

    def run_turn(self, context):
        raise AssertionError("no worker was to come")


class BrokenBurial(TurnsOnly):
    def bury(self, reason):
        raise SystemExit("not even that")


@pytest.mark.parametrize("kind", [TurnsOnly, BrokenBurial])
def test_an_item_that_cannot_be_buried_does_not_keep_the_pool_from_ending(
    make_system, blocking, caplog, kind
):
    class Slow(StateActor):
        @on(str)
        def word(self, message):
            raise AssertionError("no worker was to come")

    system = make_system(workers=1)
    address = system.build_actor(Slow)
    blocked = blocking()
    system.scheduler.submit(blocked)
    assert blocked.entered.wait(30)
    ask = system.ask(address, "anybody?")
    system.scheduler.submit(kind())
    behind = threading.Event()
    system.scheduler.submit(FunctionTask(behind.set))
    ended = threading.Thread(target=system.stop, kwargs={"timeout": 0}, daemon=True)
    ended.start()
    ended.join(30)
    assert system.wait(0)
    assert behind.is_set()
    assert isinstance(ask.exception(0), OtaviaError)
    assert kind.__name__ in caplog.text
    buried = threading.Event()
    system.scheduler.submit(FunctionTask(buried.set))  # what comes later is buried at once
    assert buried.is_set()


def test_a_house_is_one_of_the_things_with_turns(make_manual):
    """It may lie in a ring wrapped in anything that passes its turn on."""

    class Word(Notice):
        pass

    class Heard(StateActor):
        def __init__(self, heard):
            self.heard = heard

        @on(Word)
        def word(self, message):
            self.heard.append(message)

    system, heard = make_manual(), []
    address = system.build_actor(Heard, heard)
    system.run()
    address.notice(Word())
    house = system.scheduler.queue.pop_any()
    assert isinstance(house, PoolHouse)
    wrapped = Reserved(house)
    system.scheduler.submit(wrapped)
    system.run()
    assert len(heard) == 1
    assert wrapped.asked == {"run_turn"}


def test_anything_with_turns_may_be_submitted_and_may_yield(make_manual):
    system = make_manual()
    item = Countdown(5)
    system.scheduler.submit(item)
    system.run()
    assert item.number == 0
    assert item.workers == [0] * 5


def test_it_has_all_its_turns_among_busy_workers_too(make_system):
    system = make_system(workers=2, local_ring_capacity=2)
    items = [Countdown(50) for _ in range(20)]
    for item in items:
        system.scheduler.submit(item)
    for item in items:
        assert item.over.wait(30)
        assert len(item.workers) == 50


def test_a_turn_that_raises_does_not_stop_the_worker(make_manual, caplog):
    class Broken(Countdown):
        def run_turn(self, context):
            raise SystemExit("enough")

    system = make_manual()
    item = Countdown(1)
    system.scheduler.submit(Broken(1))
    system.scheduler.submit(item)
    system.run()
    assert item.number == 0
    assert "a turn of" in caplog.text


# ---- a function as one


def test_a_function_task_is_run_once_by_some_worker(make_system, eventually):
    system = make_system(workers=2)
    calls = []
    for number in range(50):
        task = FunctionTask(lambda n=number: calls.append((n, threading.current_thread().name)))
        system.scheduler.submit(task)
    eventually(lambda: len(calls) >= 50)
    system.stop()
    assert sorted(number for number, _ in calls) == list(range(50))
    assert {name for _, name in calls} <= {"otavia-worker-0", "otavia-worker-1"}


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_function_task_that_raises_is_logged_and_the_next_is_run(make_manual, caplog, error):
    def broken():
        raise error("as told")

    system, calls = make_manual(), []
    system.scheduler.submit(FunctionTask(broken))
    system.scheduler.submit(FunctionTask(lambda: calls.append("next")))
    system.run()
    assert calls == ["next"]
    assert "as told" in caplog.text
