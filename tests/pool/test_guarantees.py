"""What user code may rely on, whichever scheduler runs it: every test runs under both."""

import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pytest

from otavia_ft import (
    ActorStopped,
    Ask,
    AskFailed,
    AtomicInt,
    AutoCleanable,
    Notice,
    OutsideActor,
    StateActor,
    on,
    sleep,
)


@dataclass(frozen=True, slots=True)
class Say(Notice):
    word: Any


@dataclass(frozen=True, slots=True)
class Question(Ask[Any]):
    word: Any


class Careful(StateActor):
    """Notices when two threads are in it at once, or when a producer's messages change order."""

    def __init__(self, wanted, done):
        self.wanted, self.done = wanted, done
        self.inside = AtomicInt()
        self.overlaps = 0
        self.latest = defaultdict(lambda: -1)
        self.disorder = 0
        self.count = 0

    @on(Say)
    def say(self, message):
        if self.inside.get_and_add(1) != 0:
            self.overlaps += 1
        producer, number = message.word
        if number != self.latest[producer] + 1:
            self.disorder += 1
        self.latest[producer] = number
        self.count += 1
        self.inside.get_and_add(-1)
        if self.count == self.wanted:
            self.done.release()

    @on(Question)
    def question(self, message):
        return self.overlaps, self.disorder, self.count


@pytest.mark.parametrize("burst", [1, 50], ids=["singles", "bursts"])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_an_actor_is_in_one_thread_at_a_time_and_keeps_each_producers_order(
    make_system, in_parallel, dispatcher, workers, burst
):
    system = make_system(dispatcher=dispatcher, workers=workers, throughput_budget=3)
    producers, actors, messages = 3, 4, 1000
    done = threading.Semaphore(0)
    addresses = [system.build_actor(Careful, producers * messages, done) for _ in range(actors)]

    def produce(me):
        for first in range(0, messages, burst):
            for address in addresses:
                for number in range(first, first + burst):
                    address.notice(Say((me, number)))

    in_parallel(*(lambda me=me: produce(me) for me in range(producers)))
    for _ in addresses:
        assert done.acquire(timeout=30)
    for address in addresses:
        answer = system.ask(address, Question("how was it?"), timeout=30).result()
        assert answer == (0, 0, producers * messages)


def test_producers_that_are_actors_keep_their_order_too(make_system, dispatcher):
    system = make_system(dispatcher=dispatcher, throughput_budget=2)
    producers, messages = 5, 300
    done = threading.Semaphore(0)
    target = system.build_actor(Careful, producers * messages, done)

    class Producer(StateActor):
        @on(Say)
        def say(self, message):
            me, number = message.word
            target.notice(Say((me, number)))
            if number + 1 < messages:
                self.address.notice(Say((me, number + 1)))

    for me in range(producers):
        system.build_actor(Producer).notice(Say((me, 0)))
    assert done.acquire(timeout=30)
    answer = system.ask(target, Question("how was it?"), timeout=30).result()
    assert answer == (0, 0, producers * messages)


def test_messages_between_single_wake_ups_are_never_forgotten(make_system, dispatcher):
    """One message at a time, each when the last was handled: every one meets an actor on its way
    to idle, which is where a wake-up can be lost."""
    system = make_system(dispatcher=dispatcher)
    rounds = 3000
    done = threading.Event()

    class Player(StateActor):
        @on(Say)
        def say(self, message):
            other, number = message.word
            if number == 0:
                done.set()
            else:
                other.notice(Say((self.address, number - 1)))

    for _ in range(3):
        done.clear()
        one, two = system.build_actor(Player), system.build_actor(Player)
        one.notice(Say((two, rounds)))
        assert done.wait(30)


class Lived(StateActor):
    """Writes its life down, with the threads that it was spent on."""

    def __init__(self, life, gate=None):
        self.life, self.gate = life, gate

    def _write(self, what):
        self.life.append((what, threading.current_thread().name))

    def pre_start(self):
        self._write("pre_start")

    def after_mount(self):
        self._write("after_mount")

    def before_restart(self):
        self._write("before_restart")

    def restart(self):
        self._write("restart")

    def after_restart(self):
        self._write("after_restart")

    def post_stop(self):
        self._write("post_stop")

    @on(Say)
    def say(self, message):
        self._write(message.word)
        if message.word == "raise":
            raise ValueError("as told")
        if message.word == "wait":
            self.gate.wait(30)

    @on(Question)
    def question(self, message):
        if message.word == "raise":
            raise ValueError("as told")
        return message.word


def words(life):
    return [what for what, _ in life]


def test_hooks_run_once_a_life_and_inside_turns(make_system, eventually, dispatcher):
    system = make_system(dispatcher=dispatcher)
    lives = [[] for _ in range(50)]
    addresses = [system.build_actor(Lived, life) for life in lives]
    for address in addresses:
        address.notice(Say("a"))
    eventually(lambda: all("a" in words(life) for life in lives))
    for address in addresses:
        address.stop()
        address.stop()
    system.stop()
    for life in lives:
        assert words(life) == ["pre_start", "after_mount", "a", "post_stop"]
        assert all("-worker-" in thread for _, thread in life)


def test_a_handler_that_raises_restarts_its_actor_and_the_mail_is_kept(
    make_system, eventually, dispatcher
):
    system = make_system(dispatcher=dispatcher)
    life, gate = [], threading.Event()
    address = system.build_actor(Lived, life, gate)
    for word in ("wait", "raise", "b", "c"):
        address.notice(Say(word))
    gate.set()
    eventually(lambda: "c" in words(life))
    assert words(life) == [
        *("pre_start", "after_mount", "wait", "raise"),
        *("before_restart", "restart", "after_restart", "b", "c"),
    ]


def test_an_ask_whose_handler_raises_fails_and_the_next_is_answered(make_system, dispatcher):
    system = make_system(dispatcher=dispatcher)
    address = system.build_actor(Lived, [])
    with pytest.raises(AskFailed):
        system.ask(address, Question("raise"), timeout=30).result()
    assert system.ask(address, Question("b"), timeout=30).result() == "b"


def test_a_restart_is_performed_as_a_turn_and_keeps_the_mail(make_system, eventually, dispatcher):
    system = make_system(dispatcher=dispatcher)
    life, gate = [], threading.Event()
    address = system.build_actor(Lived, life, gate)
    address.notice(Say("wait"))
    eventually(lambda: "wait" in words(life))
    for number in range(100):
        address.notice(Say(number))
    address.restart()
    assert "restart" not in words(life), "a restart must not overlap a handler"
    gate.set()
    eventually(lambda: 99 in words(life))
    hooks = ["before_restart", "restart", "after_restart"]
    assert words(life)[2:] == ["wait", *hooks, *range(100)]


def test_a_pill_overtakes_ten_thousand_messages(make_system, eventually, dispatcher):
    system = make_system(dispatcher=dispatcher, throughput_budget=100_000)
    life, gate = [], threading.Event()
    address = system.build_actor(Lived, life, gate)
    address.notice(Say("wait"))
    eventually(lambda: "wait" in words(life))
    for number in range(10_000):
        address.notice(Say(number))
    address.stop()
    gate.set()
    eventually(lambda: system.dead_letters.total >= 10_000 - 1)
    assert words(life)[-1] == "post_stop"
    assert len([word for word in words(life) if isinstance(word, int)]) <= 1


def test_a_stopped_actor_answers_that_it_has_stopped(make_system, dispatcher):
    system = make_system(dispatcher=dispatcher)
    address = system.build_actor(Lived, [])
    address.stop()
    with pytest.raises(ActorStopped):
        system.ask(address, Question("b"), timeout=30).result()


def test_many_actors_need_no_more_threads_than_there_are_workers(make_system, dispatcher):
    before = threading.active_count()
    system = make_system(dispatcher=dispatcher, workers=2)
    actors, seen = 5000, AtomicInt()
    threads, done = set(), threading.Event()

    class One(StateActor):
        @on(Say)
        def say(self, message):
            threads.add(threading.current_thread().name)
            if seen.get_and_add(1) == actors - 1:
                done.set()

    addresses = [system.build_actor(One) for _ in range(actors)]
    for address in addresses:
        address.notice(Say("a"))
    assert done.wait(60)
    assert threads <= {"otavia-worker-0", "otavia-worker-1"}
    assert threading.active_count() <= before + 3  # the workers, and the timer


def test_stop_is_refused_inside_a_handler_and_signal_stop_is_not(make_system, dispatcher):
    system = make_system(dispatcher=dispatcher)

    class Stopper(StateActor):
        @on(Question)
        def question(self, message):
            if message.word == "stop":
                self.system.stop()
            else:
                self.system.signal_stop()
            return "signalled"

    address = system.build_actor(Stopper)
    with pytest.raises(AskFailed) as refused:
        system.ask(address, Question("stop"), timeout=30).result()
    assert isinstance(refused.value.cause, OutsideActor)
    assert system.running
    assert system.ask(address, Question("signal"), timeout=30).result() == "signalled"
    assert system.wait(30)
    assert not system.running


def test_stop_handles_what_is_queued_and_a_second_caller_waits_too(
    make_system, in_parallel, dispatcher
):
    system = make_system(dispatcher=dispatcher)
    handled = AtomicInt()

    class One(StateActor):
        @on(Say)
        def say(self, message):
            handled.get_and_add(1)

    for _ in range(20):
        address = system.build_actor(One)
        for number in range(100):
            address.notice(Say(number))
    seen = []

    def stop():
        system.stop()
        seen.append(handled.load())

    in_parallel(stop, stop)
    assert seen == [2000, 2000]


def test_timers_and_sleeps_wake_their_actors(make_system, dispatcher):
    system = make_system(dispatcher=dispatcher, timer_tick_ms=1.0)

    class Sleeper(StateActor):
        def after_mount(self):
            self.rung = []
            self.after(0.001, "ring")

        def handle_actor_timeout(self, event):
            self.rung.append(event.attach)

        @on(Question)
        async def question(self, message):
            while not self.rung:
                await sleep(0.001)
            return self.rung

    address = system.build_actor(Sleeper)
    assert system.ask(address, Question("rung?"), timeout=30).result() == ["ring"]


def test_a_cleaner_runs_on_a_worker_after_the_last_address_is_gone(
    make_system, eventually, dispatcher
):
    system = make_system(dispatcher=dispatcher)
    cleaned = []

    class Cleaned(AutoCleanable, StateActor):
        def cleaner(self):
            return lambda: cleaned.append(threading.current_thread().name)

        @on(Question)
        def question(self, message):
            return message.word

    address = system.build_actor(Cleaned)
    assert system.ask(address, Question("a"), timeout=30).result() == "a"
    del address
    eventually(lambda: cleaned)
    assert "-worker-" in cleaned[0]
    assert len(cleaned) == 1


def test_statistics_count_turns_and_messages(make_system, dispatcher, eventually):
    system = make_system(dispatcher=dispatcher)
    life = []
    address = system.build_actor(Lived, life)
    for number in range(100):
        address.notice(Say(number))
    eventually(lambda: 99 in words(life))
    eventually(lambda: system.statistics().messages == 100)
    statistics = system.statistics()
    assert len(statistics.threads) == 2
    assert statistics.turns >= 1
    assert statistics.shared_backlog == 0
    eventually(lambda: all(thread.asleep for thread in system.statistics().threads))
