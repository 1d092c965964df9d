"""The pool's turns, one at a time: the three states, the budget, yielding, reclaiming, mounting."""

from dataclasses import dataclass
from typing import Any

import pytest

from otavia_ft import ActorStopped, Ask, Notice, PoisonPill, StateActor, TimeoutEvent, on
from otavia_ft.atomic import HouseState, Mailbox
from otavia_ft.doors import set_me
from otavia_ft.house.house import House
from otavia_ft.house.lifecycle import Restart
from otavia_ft.message import Envelope
from otavia_ft.schedule.pool import PoolHouse


@dataclass(frozen=True, slots=True)
class Say(Notice):
    word: Any


@dataclass(frozen=True, slots=True)
class Question(Ask[Any]):
    word: Any


class Diary(StateActor):
    """Writes down what it handles; `hook(word)` may do more."""

    def __init__(self, pages, hook=None):
        self.pages = pages
        self.hook = hook

    @on(Say)
    def say(self, message):
        self.pages.append(message.word)
        if self.hook is not None:
            self.hook(message.word)

    @on(Question)
    def question(self, message):
        return message.word


class Asker:
    """An asker that does not mind what it is told."""

    def answer(self, ids, reply):
        pass

    def answer_error(self, ids, error):
        pass


class Turns:
    """One worker's hands: runs turns of what lies in the rings, as the worker would."""

    def __init__(self, system, worker=0):
        self.worker = system.scheduler.threads[worker]
        self.context = self.worker.context

    def take(self):
        return self.worker.desk.take()

    def run(self, item):
        set_me(self.context)
        try:
            item.run_turn(self.context)
        finally:
            set_me(None)

    def next(self):
        item = self.take()
        self.run(item)
        return item


@pytest.fixture
def system(make_manual):
    return make_manual(throughput_budget=4)


@pytest.fixture
def turns(system):
    return Turns(system)


@pytest.fixture
def pages():
    return []


@pytest.fixture
def house(system, pages):
    address = system.build_actor(Diary, pages)
    system.run()
    return address.house


# ---- the three states


def test_a_house_is_idle_then_scheduled_in_one_ring_then_idle_again(system, turns, house, pages):
    assert house.state == HouseState.WAITING
    house.notice(Say("a"))
    house.notice(Say("b"))
    assert house.state == HouseState.READY
    assert len(system.scheduler.queue.shared) == 1
    assert turns.next() is house
    assert house.state == HouseState.WAITING
    assert pages == ["a", "b"]
    assert not system.scheduler.queue.waiting


def test_a_house_is_processing_while_its_handler_runs(system, turns):
    states = []
    address = system.build_actor(Diary, [], lambda _: states.append(address.house.state))
    system.run()
    address.notice(Say("a"))
    turns.next()
    assert states == [HouseState.RUNNING]


def test_a_stale_entry_is_dropped(system, turns, house, pages):
    house.notice(Say("a"))
    item = turns.take()
    turns.run(item)
    turns.run(item)
    assert pages == ["a"]
    assert house.state == HouseState.WAITING


def test_a_house_that_somebody_else_processes_is_not_taken_again(system, turns):
    outcomes = []
    address = system.build_actor(
        Diary, [], lambda _: outcomes.append(address.house.take_for_processing())
    )
    system.run()
    address.notice(Say("a"))
    turns.next()
    assert outcomes == [False]


def test_a_message_to_a_house_in_processing_does_not_push_it(system, turns, pages):
    """The runner finds it in the same turn: one push for both."""

    def another(word):
        if word == "a":
            address.notice(Say("b"))
            assert not system.scheduler.queue.waiting

    address = system.build_actor(Diary, pages, another)
    system.run()
    address.notice(Say("a"))
    turns.next()
    assert pages == ["a", "b"]


# ---- the budget


def test_a_turn_ends_with_the_budget_and_the_house_goes_to_the_own_ring(
    system, turns, house, pages
):
    for number in range(6):
        house.notice(Say(number))
    turns.next()
    assert pages == [0, 1, 2, 3]
    assert house.state == HouseState.READY
    assert len(turns.worker.desk.ring) == 1
    assert len(system.scheduler.queue.shared) == 0
    turns.next()
    assert pages == [0, 1, 2, 3, 4, 5]
    assert house.state == HouseState.WAITING


def test_a_house_that_yields_goes_behind_all_others_in_the_ring(system, turns, pages):
    addresses = [system.build_actor(Diary, pages) for _ in range(3)]
    system.run()
    for name, address in zip("abc", addresses, strict=True):
        for number in range(6):
            address.notice(Say(f"{name}{number}"))
    for item in [turns.take() for _ in range(3)]:
        turns.worker.reschedule(item)
    order = [address.house for address in addresses]
    assert [turns.next() for _ in range(6)] == order + order
    assert pages[:12] == [f"{name}{number}" for name in "abc" for number in range(4)]
    assert pages[12:] == [f"{name}{number}" for name in "abc" for number in (4, 5)]


def test_a_budget_that_is_just_enough_does_not_yield(system, turns, house):
    for number in range(4):
        house.notice(Say(number))
    turns.next()
    assert house.state == HouseState.WAITING
    assert not system.scheduler.queue.waiting


def test_system_messages_use_the_same_budget(system, turns, house, pages):
    for _ in range(3):
        house.control(Restart())
    for number in range(3):
        house.notice(Say(number))
    turns.next()
    assert pages == [0]
    assert house.state == HouseState.READY


def test_the_budget_is_32_unless_told_otherwise(make_manual, pages):
    system = make_manual()
    address = system.build_actor(Diary, pages)
    system.run()
    for number in range(100):
        address.notice(Say(number))
    Turns(system).next()
    assert len(pages) == 32


# ---- system messages first


def test_a_pill_behind_ten_thousand_messages_acts_after_the_message_in_hand(make_manual, pages):
    system = make_manual(throughput_budget=1000)

    def pill(word):
        if word == 5:
            address.notice(PoisonPill())

    address = system.build_actor(Diary, pages, pill)
    system.run()
    for number in range(10_000):
        address.notice(Say(number))
    system.run()
    assert pages == [0, 1, 2, 3, 4, 5]
    assert system.dead_letters.total == 10_000 - 6


def test_a_restart_is_a_turn_and_keeps_the_messages(system, turns, pages):
    class Restarted(Diary):
        def restart(self):
            self.pages.append("restart")

    address = system.build_actor(Restarted, pages)
    system.run()
    for number in range(3):
        address.notice(Say(number))
    address.restart()
    assert pages == []
    turns.next()
    assert pages == ["restart", 0, 1, 2]


# ---- finish or reclaim: step by step in the Python lane, both lanes in test_turns_parallel.py


class Meddled(PoolHouse):
    """A house in which something happens between two steps of its end of turn."""

    __slots__ = ("after_idle", "after_look")

    def run_to_waiting(self):
        done = super().run_to_waiting()
        self._once("after_idle")
        return done

    def has_mail(self, mask):
        seen = super().has_mail(mask)
        if self.state == HouseState.WAITING:
            self._once("after_look")
        return seen

    def _once(self, name):
        action = getattr(self, name, None)
        if action is not None:
            setattr(self, name, None)
            action()


@pytest.fixture
def meddled(system, pages, monkeypatch):
    monkeypatch.setattr(system.scheduler, "house_type", Meddled)
    address = system.build_actor(Diary, pages)
    system.run()
    return address.house


@pytest.mark.python_lane
def test_mail_that_comes_before_the_store_of_idle_is_found_in_the_same_turn(
    system, turns, meddled, pages
):
    """The sender saw Processing and did not push, so the runner has to look again."""
    meddled.after_idle = lambda: meddled.put(
        Mailbox.NOTICE, Say("late")
    )  # put, but no look at the state
    meddled.notice(Say("a"))
    before = turns.context.turns
    turns.next()
    assert pages == ["a", "late"]
    assert turns.context.turns == before + 1
    assert meddled.state == HouseState.WAITING
    assert not system.scheduler.queue.waiting


@pytest.mark.python_lane
@pytest.mark.parametrize("box", list(Mailbox), ids=lambda box: box.name.lower())
def test_the_look_after_idle_is_at_every_mailbox(system, turns, meddled, pages, box):
    """At the system mailbox as at those of the user: mail in any of them is reason to reclaim."""
    mail = {
        Mailbox.SYSTEM: Restart(),
        Mailbox.REPLY: (1, "an answer"),
        Mailbox.EXCEPTION: (1, ActorStopped("an error")),
        Mailbox.ASK: Envelope(Asker(), 1, Question("b")),
        Mailbox.NOTICE: Say("b"),
        Mailbox.EVENT: TimeoutEvent(1, None),
    }
    meddled.after_idle = lambda: meddled.put(box, mail[box])
    meddled.notice(Say("a"))
    before = turns.context.turns
    turns.next()
    assert turns.context.turns == before + 1
    assert meddled.mail() == 0
    assert meddled.state == HouseState.WAITING
    assert not system.scheduler.queue.waiting


@pytest.mark.python_lane
def test_a_reclaim_does_not_renew_the_budget(system, turns, meddled, pages):
    def late():
        for number in range(5):
            meddled.put(Mailbox.NOTICE, Say(number))

    meddled.after_idle = late
    meddled.notice(Say("a"))
    turns.next()
    assert pages == ["a", 0, 1, 2]
    assert meddled.state == HouseState.READY
    assert len(turns.worker.desk.ring) == 1


@pytest.mark.python_lane
def test_mail_that_comes_when_the_budget_is_used_up_and_idle_is_stored_yields(
    system, turns, meddled, pages
):
    meddled.after_idle = lambda: meddled.put(Mailbox.NOTICE, Say("late"))
    for number in range(4):
        meddled.notice(Say(number))
    turns.next()
    assert pages == [0, 1, 2, 3]
    assert len(turns.worker.desk.ring) == 1
    turns.next()
    assert pages[4:] == ["late"]


@pytest.mark.python_lane
def test_a_sender_that_wins_the_house_has_pushed_it_and_the_runner_lets_go(
    system, turns, meddled, pages
):
    meddled.after_idle = lambda: meddled.notice(Say("late"))
    meddled.notice(Say("a"))
    turns.next()
    assert pages == ["a"]
    assert meddled.state == HouseState.READY
    assert len(system.scheduler.queue.shared) == 1
    assert turns.next() is meddled
    assert pages == ["a", "late"]


@pytest.mark.python_lane
def test_mail_that_comes_after_the_look_pushes_the_house(system, turns, meddled, pages):
    meddled.after_look = lambda: meddled.notice(Say("late"))
    meddled.notice(Say("a"))
    turns.next()
    assert pages == ["a"]
    assert turns.next() is meddled
    assert pages == ["a", "late"]


@pytest.mark.python_lane
def test_a_house_that_another_worker_has_taken_since_is_let_go(make_manual, pages, monkeypatch):
    """Between Idle and the look a second worker may run the house to its end, or be at it."""
    system = make_manual(workers=2)
    monkeypatch.setattr(system.scheduler, "house_type", Meddled)
    house = system.build_actor(Diary, pages).house
    system.run()
    first, second = Turns(system, 0), Turns(system, 1)

    def somebody_else():
        house.notice(Say("late"))
        assert second.next() is house

    house.after_idle = somebody_else
    house.notice(Say("a"))
    first.next()
    assert pages == ["a", "late"]
    assert house.state == HouseState.WAITING
    assert not system.scheduler.queue.waiting


@pytest.mark.python_lane
def test_a_house_that_yields_may_be_stolen_and_run_as_soon_as_it_is_in_the_ring(
    make_manual, pages, monkeypatch
):
    """Scheduled first, pushed second: a thief would drop what it cannot take."""
    system = make_manual(workers=2, throughput_budget=4)
    house = system.build_actor(Diary, pages).house
    system.run()
    first, second = Turns(system, 0), Turns(system, 1)
    push = first.worker.reschedule

    def push_and_be_robbed(item):
        push(item)
        assert second.next() is item

    monkeypatch.setattr(first.worker, "reschedule", push_and_be_robbed)
    for number in range(6):
        house.notice(Say(number))
    first.next()
    assert pages == [0, 1, 2, 3, 4, 5]
    assert house.state == HouseState.WAITING


# ---- what else has turns


def test_the_start_hooks_run_in_a_turn_and_messages_wait_for_it(system, turns, pages):
    class Started(Diary):
        def pre_start(self):
            self.pages.append("pre_start")

        def after_mount(self):
            self.pages.append(f"after_mount of {self.address.house.name}")

    address = system.build_actor(Started, pages)
    address.notice(Say("a"))
    assert pages == []
    assert address.house.state == HouseState.MOUNTING
    assert len(system.scheduler.queue.shared) == 1
    turns.next()
    assert pages == ["pre_start", f"after_mount of {address.house.name}"]
    turns.next()
    assert pages[2:] == ["a"]


def test_pooled_actors_sit_in_pool_houses_and_io_actors_in_pinned_ones(make_manual, pages):
    class Io(Diary):
        has_channels = True

    system = make_manual(workers=2)
    pooled, pinned = system.build_actor(Diary, pages), system.build_actor(Io, pages)
    assert type(pooled.house) is PoolHouse
    assert type(pinned.house) is House
    system.run()
    for number in range(3):
        pinned.notice(Say(number))
    assert not system.scheduler.queue.waiting
    system.run()
    assert pages == [0, 1, 2]


def test_several_actors_at_once_are_not_called_load_balanced_in_a_pool(make_manual, pages):
    """No actor is nearer to an asker than another, so asks take turns."""
    system = make_manual(workers=2)
    robin = system.build_actor(Diary, pages, num=2)
    assert not robin.load_balanced
    assert robin._for_ask() is not robin._for_ask()
