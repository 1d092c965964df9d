"""Supervision on real threads: nothing is lost, nothing is said twice, nobody waits for ever."""

import logging
import random
import threading
from collections import Counter

import pytest

from otavia_ft import (
    ActorStopped,
    Directive,
    StateActor,
    Supervisor,
    SupervisorStrategy,
    Terminated,
    on,
)

SENDERS, CHILDREN, EACH = 4, 6, 1500


@pytest.fixture(autouse=True)
def quiet_log():
    """Thousands of expected tracebacks say nothing."""
    logger = logging.getLogger("otavia_ft.actor")
    level, logger.level = logger.level, logging.CRITICAL
    yield
    logger.setLevel(level)


class Worker(StateActor):
    def __init__(self, book):
        self.book = book
        self.starts = self.restarts = self.stops = 0
        self.seen = []
        self.raised = []
        self.inside = 0
        self.overlaps = 0
        book.append(self)

    def pre_start(self):
        self.starts += 1

    def restart(self):
        self.restarts += 1

    def post_stop(self):
        self.stops += 1

    @on(tuple)
    def take(self, message):
        self.inside += 1
        self.overlaps += self.inside != 1
        self.inside -= 1
        kind, number = message
        if kind == "ok":
            self.seen.append(number)
            return number
        self.raised.append(number)
        raise {"restart": ValueError, "resume": KeyError, "stop": MemoryError}[kind](number)


class Boss(StateActor):
    def __init__(self, book, told, supervisor):
        self.book, self.told = book, told
        self.supervisor = supervisor
        self.stops = 0

    @on(int)
    def build(self, count):
        children = [self.build_child(Worker, self.book) for _ in range(count)]
        for child in children:
            self.watch(child)
        return children

    @on(Terminated)
    def terminated(self, message):
        self.told.append(message.address)

    def post_stop(self):
        self.stops += 1
        self.left = [worker for worker in self.book if worker.stops != 1]


def supervisor(**options):
    return (
        Supervisor(Directive.RESTART, **options)
        .directive(KeyError, Directive.RESUME)
        .directive(MemoryError, Directive.STOP)
    )


def send(children, kinds, weights, asks):
    """From four threads at once; returns what was sent to whom, and the futures."""
    sent = [Counter() for _ in children]
    lock = threading.Lock()

    def body(sender):
        coin = random.Random(sender)
        for n in range(EACH):
            index = coin.randrange(len(children))
            (kind,) = coin.choices(kinds, weights)
            message = (kind, (sender, n))
            if kind == "ok" and coin.random() < 0.1:
                future = children[index].house.scheduler.system.ask(children[index], message)
                with lock:
                    asks.append((message, future))
            else:
                children[index].notice(message)
            with lock:
                sent[index][message] += 1

    threads = [threading.Thread(target=body, args=(n,), daemon=True) for n in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return sent


@pytest.mark.parametrize("strategy", list(SupervisorStrategy), ids=lambda s: s.value)
def test_no_message_is_lost_over_restarts_and_resumes(real_system, eventually, strategy):
    book, asks = [], []
    boss = real_system.build_actor(Boss, book, [], supervisor(strategy=strategy))
    children = real_system.ask(boss, CHILDREN).result(30)
    sent = send(children, ("ok", "restart", "resume"), (90, 5, 5), asks)
    total = SENDERS * EACH
    eventually(lambda: sum(len(w.seen) + len(w.raised) for w in book) >= total)
    assert [future.result(30) for _, future in asks] == [message[1] for message, _ in asks]
    eventually(lambda: real_system.scheduler.quiet())
    restarts = 0
    for worker, mail in zip(book, sent, strict=True):
        assert sorted(worker.seen) == sorted(n for kind, n in mail.elements() if kind == "ok")
        assert sorted(worker.raised) == sorted(n for kind, n in mail.elements() if kind != "ok")
        assert (worker.starts, worker.stops, worker.overlaps) == (1, 0, 0)
        restarts += sum(kind == "restart" for kind, _ in mail.elements())
    everybody = CHILDREN if strategy is SupervisorStrategy.ONE_FOR_ALL else 1
    assert sum(worker.restarts for worker in book) == restarts * everybody
    assert real_system.dead_letters.total == 0


def test_what_a_stopped_child_did_not_handle_is_a_dead_letter_and_all_asks_end(
    real_system, eventually
):
    book, told, asks, letters = [], [], [], []
    real_system.dead_letters.subscribe(lambda letter: letters.append(letter.message))
    boss = real_system.build_actor(Boss, book, told, supervisor(backoff=0.001, max_backoff=0.002))
    children = real_system.ask(boss, CHILDREN).result(30)
    kinds = ("ok", "restart", "resume", "stop")
    sent = send(children, kinds, (978, 10, 10, 2), asks)
    total = SENDERS * EACH

    def handled():
        return sum(len(w.seen) + len(w.raised) for w in book) + len(letters)

    eventually(lambda: handled() >= total)
    eventually(lambda: real_system.scheduler.quiet())
    seen = Counter(number for worker in book for number in worker.seen + worker.raised)
    seen.update(message[1] for message in letters)
    assert seen == Counter(number for mail in sent for _, number in mail.elements())
    for message, future in asks:
        error = future.exception(30)
        assert isinstance(error, ActorStopped) if error else future.result() == message[1]
    stopped = [c for c, worker in zip(children, book, strict=True) if worker.stops]
    eventually(lambda: len(told) >= len(stopped))
    assert Counter(told) == Counter(stopped)
    assert all(w.starts == 1 and w.stops <= 1 and not w.overlaps for w in book)


def test_a_family_under_load_ends_children_first_each_once(real_system, eventually):
    book, asks = [], []
    boss = real_system.build_actor(Boss, book, [], supervisor())
    actor = boss.house.actor
    children = real_system.ask(boss, CHILDREN).result(30)
    stopper = threading.Thread(target=boss.stop, daemon=True)
    stopper.start()
    send(children, ("ok", "restart"), (95, 5), asks)
    stopper.join(30)
    eventually(lambda: actor.stops)
    assert actor.left == []
    assert [(w.starts, w.stops) for w in book] == [(1, 1)] * CHILDREN
    for message, future in asks:
        error = future.exception(30)
        assert isinstance(error, ActorStopped) if error else future.result() == message[1]


def test_a_watch_that_races_with_the_end_is_told_once(real_system, eventually):
    told = []

    class Watcher(StateActor):
        @on(list)
        def start_watch(self, message):
            self.watch(message.pop())

        @on(Terminated)
        def terminated(self, message):
            told.append(message.address.house.id)

    watcher = real_system.build_actor(Watcher)
    numbers = []
    for n in range(600):
        victim = real_system.build_actor(StateActor)
        numbers.append(victim.house.id)
        if n % 3 == 0:
            victim.stop()
        watcher.notice([victim])
        if n % 3 == 1:
            victim.stop()
        del victim  # every third goes with its last address, perhaps after its stop
    eventually(lambda: len(told) >= len(numbers))
    eventually(lambda: real_system.scheduler.quiet())
    assert sorted(told) == numbers
