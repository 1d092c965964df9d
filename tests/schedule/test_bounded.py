"""Bounded mailboxes: each policy, from one thread and from several, with exact counts."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from otavia_ft import (
    ActorSystem,
    Ask,
    ConfigError,
    MailboxFull,
    Notice,
    Overflow,
    StateActor,
    on,
)
from otavia_ft.house.bounded import BoundedHouse
from otavia_ft.house.house import House
from otavia_ft.testkit import TestSystem

MakeSystem = Callable[..., ActorSystem]
MakeTestSystem = Callable[..., TestSystem]
DISPATCHERS = ("pinned", "pool")


class Item(Notice):
    def __init__(self, n: int) -> None:
        self.n = n


class Question(Ask[int]):
    def __init__(self, n: int) -> None:
        self.n = n


class Collector(StateActor):
    """Keeps what it gets, and gives an ask's number back."""

    def __init__(self) -> None:
        self.got: list[int] = []

    @on(Item)
    def item(self, message: Item) -> None:
        self.got.append(message.n)

    @on(Question)
    def question(self, message: Question) -> int:
        self.got.append(message.n)
        return message.n


class Failing(Collector):
    mailbox_capacity = 3
    overflow = Overflow.FAIL


class DropOldest(Collector):
    mailbox_capacity = 3
    overflow = Overflow.DROP_OLDEST


class DropNewest(Collector):
    mailbox_capacity = 3
    overflow = Overflow.DROP_NEWEST


class Blocking(Collector):
    mailbox_capacity = 3
    overflow = Overflow.BLOCK


def build(system: ActorSystem, kind: type[Collector]) -> tuple[Any, Collector]:
    actor = kind()
    return system.build_actor(lambda: actor), actor


def test_an_unbounded_actor_has_the_plain_house(make_test_system: MakeTestSystem) -> None:
    system = make_test_system()
    assert type(system.build_actor(Collector).house) is House
    assert isinstance(system.build_actor(Failing).house, BoundedHouse)


def test_the_configuration_bounds_every_actor_that_does_not_say_otherwise(
    make_test_system: MakeTestSystem,
) -> None:
    class Endless(Collector):
        mailbox_capacity = 0

    system = make_test_system(mailbox_capacity=2, overflow="drop_newest")
    assert type(system.build_actor(Endless).house) is House
    address, actor = build(system, Collector)
    for n in range(5):
        address.notice(Item(n))
    system.run()
    assert actor.got == [0, 1]
    assert system.dead_letters.total == 3


@pytest.mark.parametrize("capacity", [-1, True, "3", 1.5])
def test_a_bad_capacity_is_refused_with_the_class_and_the_value(
    make_test_system: MakeTestSystem, capacity: Any
) -> None:
    class Wrong(Collector):
        mailbox_capacity = capacity

    with pytest.raises(ConfigError, match=r"Wrong\.mailbox_capacity="):
        make_test_system().build_actor(Wrong)


def test_a_bad_policy_is_refused_with_the_allowed_ones(make_test_system: MakeTestSystem) -> None:
    class Wrong(Collector):
        mailbox_capacity = 1
        overflow = "fail"  # type: ignore[assignment]

    with pytest.raises(ConfigError, match=r"Wrong\.overflow='fail'.*Overflow\.DROP_OLDEST"):
        make_test_system().build_actor(Wrong)
    with pytest.raises(ConfigError, match="overflow='grow'"):
        make_test_system(overflow="grow")


def test_a_policy_for_a_mailbox_that_never_overflows_is_refused(
    make_test_system: MakeTestSystem,
) -> None:
    class Wrong(Collector):
        overflow = Overflow.BLOCK

    class Unbounded(Wrong):
        mailbox_capacity = 0  # on purpose

    with pytest.raises(ConfigError, match=r"Wrong\.overflow=.*set mailbox_capacity"):
        make_test_system().build_actor(Wrong)
    assert type(make_test_system().build_actor(Unbounded).house) is House
    bounded = make_test_system(mailbox_capacity=2).build_actor(Wrong)
    assert isinstance(bounded.house, BoundedHouse)


def test_fail_raises_at_the_sender_of_a_notice_and_keeps_what_waits(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system()
    address, actor = build(system, Failing)
    for n in range(3):
        address.notice(Item(n))
    with pytest.raises(MailboxFull, match="Failing#1"):
        address.notice(Item(3))
    system.run()
    address.notice(Item(4))
    system.run()
    assert actor.got == [0, 1, 2, 4]
    assert system.dead_letters.total == 0


@pytest.mark.parametrize("kind", [Failing, DropNewest], ids=lambda kind: kind.__name__)
def test_an_ask_that_finds_no_room_is_answered_with_mailbox_full(
    make_test_system: MakeTestSystem, kind: type[Collector]
) -> None:
    system = make_test_system()
    address, _ = build(system, kind)
    futures = [system.ask(address, Question(n)) for n in range(5)]
    assert [future.done() for future in futures] == [False, False, False, True, True]
    for future in futures[3:]:
        with pytest.raises(MailboxFull):
            future.result(0)
    system.run()
    assert [future.result(0) for future in futures[:3]] == [0, 1, 2]


def test_an_actor_s_own_ask_that_finds_no_room_fails_where_it_is_awaited(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system()
    address, _ = build(system, Failing)

    class Asker(StateActor):
        failed = 0

        @on(Item)
        async def go(self, message: Item) -> None:
            try:
                await address.ask(Question(message.n))
            except MailboxFull:
                Asker.failed += 1

    asker = system.build_actor(Asker)
    for n in range(5):
        asker.notice(Item(n))
    system.run()
    assert Asker.failed == 2


def test_drop_newest_makes_a_dead_letter_of_what_comes_last(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system()
    address, actor = build(system, DropNewest)
    items = [Item(n) for n in range(5)]
    for item in items:
        address.notice(item)
    system.run()
    assert actor.got == [0, 1, 2]
    assert [letter.message for letter in system.dead_letters.latest] == items[3:]
    assert {letter.reason for letter in system.dead_letters.latest} == {
        "dropped: the mailbox is full"
    }


def test_drop_oldest_makes_room_for_what_comes_last(make_test_system: MakeTestSystem) -> None:
    system = make_test_system()
    address, actor = build(system, DropOldest)
    items = [Item(n) for n in range(8)]
    for item in items:
        address.notice(item)
    system.run()
    assert actor.got == [5, 6, 7]
    assert [letter.message for letter in system.dead_letters.latest] == items[:5]
    assert "dropped for a newer one" in system.dead_letters.latest[0].reason


def test_a_dropped_ask_is_answered_and_its_message_is_the_dead_letter(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system()
    address, actor = build(system, DropOldest)
    questions = [Question(n) for n in range(5)]
    futures = [system.ask(address, question) for question in questions]
    for future in futures[:2]:
        with pytest.raises(MailboxFull):
            future.result(0)
    system.run()
    assert [future.result(0) for future in futures[2:]] == [2, 3, 4]
    assert [letter.message for letter in system.dead_letters.latest] == questions[:2]
    assert actor.got == [2, 3, 4]


def test_asks_and_notices_have_a_capacity_each(make_test_system: MakeTestSystem) -> None:
    system = make_test_system()
    address, actor = build(system, Failing)
    for n in range(3):
        address.notice(Item(n))
    answers = [system.ask(address, Question(10 + n)) for n in range(3)]
    system.run()
    assert [answer.result(0) for answer in answers] == [10, 11, 12]
    assert actor.got == [10, 11, 12, 0, 1, 2]


def test_what_is_in_hand_takes_no_room(make_test_system: MakeTestSystem) -> None:
    class Echo(Collector):
        mailbox_capacity = 1
        overflow = Overflow.FAIL

        @on(Item)
        def item(self, message: Item) -> None:
            self.got.append(message.n)
            if message.n < 5:
                self.address.notice(Item(message.n + 1))

    system = make_test_system()
    address, actor = build(system, Echo)
    address.notice(Item(0))
    system.run()
    assert actor.got == [0, 1, 2, 3, 4, 5]


def test_a_notice_to_oneself_at_the_front_is_never_refused(
    make_test_system: MakeTestSystem,
) -> None:
    class Eager(Collector):
        mailbox_capacity = 2
        overflow = Overflow.FAIL

        @on(Item)
        def item(self, message: Item) -> None:
            self.got.append(message.n)
            if message.n == 0:
                self.address.notice(Item(3))
                self.notice_self_first(Item(1))

    system = make_test_system()
    address, actor = build(system, Eager)
    address.notice(Item(0))
    address.notice(Item(2))
    system.run()
    assert actor.got == [0, 1, 2, 3]


def test_what_is_left_in_a_stopped_actor_s_mailbox_is_buried(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system()
    address, actor = build(system, DropOldest)
    system.run()
    future = system.ask(address, Question(1))
    address.notice(Item(2))
    address.stop()
    system.run()
    assert actor.got == []
    assert system.dead_letters.total == 2
    assert "stopped" in str(future.exception(0))


def test_batches_and_barriers_work_on_a_bounded_mailbox(make_test_system: MakeTestSystem) -> None:
    class Batched(StateActor):
        mailbox_capacity = 4
        overflow = Overflow.DROP_OLDEST
        batchable = True

        def __init__(self) -> None:
            self.batches: list[list[int]] = []

        def resume_batch_notice(self, stack: Any) -> Any:
            self.batches.append([item.n for item in stack.notices])
            return stack.return_()

    system = make_test_system()
    actor = Batched()
    address = system.build_actor(lambda: actor)
    for n in range(6):
        address.notice(Item(n))
    system.run()
    assert actor.batches == [[2, 3, 4, 5]]


def test_block_fails_at_once_on_an_actor_thread_and_says_why(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system()
    address, actor = build(system, Blocking)
    errors: list[BaseException] = []

    class Sender(StateActor):
        @on(Item)
        def flood(self, message: Item) -> None:
            for n in range(message.n):
                try:
                    address.notice(Item(n))
                except MailboxFull as error:
                    errors.append(error)

    system.build_actor(Sender).notice(Item(5))
    system.run()
    assert actor.got == [0, 1, 2]
    assert len(errors) == 2
    assert "only threads outside the system wait" in str(errors[0])


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_block_lets_a_thread_outside_wait_until_there_is_room(
    make_system: MakeSystem, in_parallel: Callable[..., list[Any]], dispatcher: str
) -> None:
    system = make_system(dispatcher=dispatcher)
    address, actor = build(system, Blocking)
    each = 500

    def send(i: int) -> None:
        for n in range(each):
            address.notice(Item(i * each + n))

    in_parallel(3, send)
    assert system.ask(address, Question(-1), timeout=30).result() == -1
    system.stop()
    assert sorted(actor.got) == list(range(-1, 3 * each))
    for i in range(3):
        mine = [n for n in actor.got if i * each <= n < (i + 1) * each]
        assert mine == sorted(mine)
    assert system.dead_letters.total == 0


def test_block_gives_up_after_the_timeout(
    make_system: MakeSystem, hold: Callable[..., Any], holder: type[StateActor]
) -> None:
    class Stuck(holder):  # type: ignore[valid-type,misc]
        mailbox_capacity = 1
        overflow = Overflow.BLOCK

    system = make_system(workers=1, overflow_timeout_s=0.02)
    address = system.build_actor(Stuck)
    held = hold(system, address)
    waiting = type(held)()
    waiting.release.set()
    address.notice(waiting)
    with pytest.raises(MailboxFull, match=r"full for 0\.02 s"):
        address.notice(Item(1))
    first = system.ask(address, Question(1))
    with pytest.raises(MailboxFull):
        system.ask(address, Question(2)).result(30)
    assert not first.done()
    first.cancel()


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.parametrize("policy", [Overflow.FAIL, Overflow.DROP_NEWEST, Overflow.DROP_OLDEST])
def test_of_many_senders_to_a_busy_actor_exactly_the_capacity_gets_in(
    make_system: MakeSystem,
    hold: Callable[..., Any],
    in_parallel: Callable[..., list[Any]],
    dispatcher: str,
    policy: Overflow,
) -> None:
    gate = threading.Event()

    class Gated(Collector):
        mailbox_capacity = 50
        overflow = policy

        @on(Item)
        def item(self, message: Item) -> None:
            gate.wait(30)
            super().item(message)

    system = make_system(dispatcher=dispatcher)
    address, actor = build(system, Gated)
    address.notice(Item(-1))
    house = address.house
    while house.size(4):  # until the first one is in hand and blocks the actor
        threading.Event().wait(0.001)
    each = 400

    def send(i: int) -> int:
        refused = 0
        for n in range(each):
            try:
                address.notice(Item(i * each + n))
            except MailboxFull:
                refused += 1
        return refused

    refused = sum(in_parallel(3, send))
    gate.set()
    system.stop()
    assert len(actor.got) == 51
    lost = 3 * each - 50
    assert (refused, system.dead_letters.total) == (
        (lost, 0) if policy is Overflow.FAIL else (0, lost)
    )
    for i in range(3):
        mine = [n for n in actor.got if i * each <= n < (i + 1) * each]
        assert mine == sorted(mine)
        if policy is Overflow.DROP_OLDEST and mine:
            assert mine[-1] == (i + 1) * each - 1


@pytest.mark.parametrize("policy", list(Overflow), ids=lambda policy: policy.name)
def test_under_full_load_every_message_is_handled_or_accounted_for(
    make_system: MakeSystem, in_parallel: Callable[..., list[Any]], policy: Overflow
) -> None:
    class Small(Collector):
        mailbox_capacity = 4
        overflow = policy

    system = make_system()
    address, actor = build(system, Small)
    each = 1000

    def send(i: int) -> int:
        refused = 0
        for n in range(each):
            try:
                address.notice(Item(i * each + n))
            except MailboxFull:
                refused += 1
        return refused

    refused = sum(in_parallel(3, send))
    system.stop()
    assert len(set(actor.got)) == len(actor.got)
    assert len(actor.got) + refused + system.dead_letters.total == 3 * each
    if policy is Overflow.BLOCK:
        assert len(actor.got) == 3 * each
    if policy is Overflow.DROP_OLDEST:  # what was sent last of all is never the oldest
        assert actor.got[-1] % each == each - 1
