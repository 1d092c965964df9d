"""The order of dispatch, the budget, mounting, the end of a turn, and priority."""

from dataclasses import dataclass
from typing import Any

import pytest

from otavia_ft import (
    Ask,
    ChannelFutureState,
    Event,
    FutureState,
    Notice,
    StackState,
    StackYield,
    StateActor,
    TimeoutEvent,
    UnitReply,
    on,
    sleep,
)
from otavia_ft.atomic import HouseState
from otavia_ft.doors import me, set_me
from otavia_ft.errors import AskFailed
from otavia_ft.house.house import House
from otavia_ft.house.lifecycle import Restart
from otavia_ft.message import Envelope


@dataclass(frozen=True, slots=True)
class Say(Notice):
    word: Any


@dataclass(frozen=True, slots=True)
class Question(Ask[Any]):
    word: Any


@dataclass(frozen=True, slots=True)
class Strange(Event):
    word: Any


class Loud(Say):
    """Has no handler of its own."""


class Sorter(StateActor):
    """A handler for each class of message; says which one got it."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    @on(int)
    def number(self, message: int) -> str:
        self.log.append(("number", message))
        return "number"

    @on(str)
    def text(self, message: str) -> str:
        self.log.append(("text", message))
        return "text"

    @on(Say)
    async def said(self, message: Say) -> None:
        self.log.append(("said", message.word))

    @on(Question)
    def question(self, message: Question) -> str:
        self.log.append(("question", message.word))
        return "question"


class Nobody:
    """An asker that keeps its answers."""

    def __init__(self):
        self.answers = []

    def answer(self, ids, reply):
        self.answers.append((ids, reply))

    def answer_error(self, ids, error):
        self.answers.append((ids, error))

    def asker_address(self):
        return None


class Diary(StateActor):
    """Writes down what it handles. `Say("wait")` leaves a stack waiting for one reply."""

    def __init__(self, target=None, log=None):
        self.target = target
        self.log = [] if log is None else log
        self.channel_promises = []

    def after_mount(self):
        self.log.append("mounted")

    def restart(self):
        self.log.append("system")

    def resume_notice(self, stack):
        if isinstance(stack.state, FutureState):
            future = stack.state.future
            self.log.append("exception" if future.is_failed else "reply")
            return stack.return_()
        if isinstance(stack.state, ChannelFutureState):
            self.log.append("channel future")
            return stack.return_()
        word = stack.notice.word
        if word == "wait":
            state = FutureState()
            self.target.ask(Question("?"), state.future)
            return stack.suspend(state)
        if word == "wait for channel":
            state = ChannelFutureState()
            stack.house.attach_channel(stack, state.future)
            self.channel_promises.append(state.future)
            return stack.suspend(state)
        if word == "later":
            self.later(lambda: self.log.append("later task"))
            return stack.return_()
        self.log.append(f"notice {word}")
        return stack.return_()

    def resume_ask(self, stack):
        self.log.append(f"ask {stack.ask.word}")
        return stack.return_(UnitReply)

    def handle_actor_timeout(self, event):
        self.log.append(f"event {event.attach}")

    def receive_event(self, event):
        self.log.append(f"event {event.word}")


class Mute(StateActor):
    """Never answers; keeps (asker, id) of what it was asked."""

    def __init__(self, kept):
        self.kept = kept

    def resume_ask(self, stack):
        self.kept.append((stack.asker, stack.ask_id))
        stack.done = True
        return StackYield.RETURN


def ask(house: House, word: Any) -> None:
    house.ask(Envelope(Nobody(), 1, Question(word)))


@pytest.fixture
def diary(system):
    """A mounted diary with two stacks waiting for replies, one for a channel; its log is empty."""
    kept: list[Any] = []
    mute = system.build_actor(Mute, kept)
    log: list[str] = []
    address = system.build_actor(Diary, mute, log)
    for word in ("wait", "wait", "wait for channel"):
        address.notice(Say(word))
    system.run()
    assert len(kept) == 2
    log.clear()
    return address, log, kept


class TestOrder:
    def test_strict_order_is_system_replies_exceptions_asks_notices_events_channel_later_tasks(
        self, system, diary
    ):
        address, log, kept = diary
        house = address.house
        # Sent in the opposite order of their handling.
        house.actor.channel_promises[0].set_success(None)
        address.inform(Strange("strange"))
        address.notice(Say("later"))
        address.notice(Say(1))
        ask(house, 1)
        (asker, first), (_, second) = kept
        asker.answer_error(first, AskFailed(ValueError("no"), "test"))
        asker.answer(second, "yes")
        address.notice(Restart())
        system.run()
        assert log == [
            "system",
            "reply",
            "exception",
            "ask 1",
            "notice 1",
            "event strange",
            "channel future",
            "later task",
        ]

    @pytest.mark.parametrize("end", ["channel future", "stop"])
    def test_later_tasks_run_at_the_end_of_every_pass_and_as_that_actor(self, system, end):
        """A pass of nothing but channel futures, and that of a stop."""
        seen = []

        class Waits(StateActor):
            def resume_notice(self, stack):
                if stack.state is StackState.START:
                    self.state = ChannelFutureState()
                    stack.house.attach_channel(stack, self.state.future)
                    return stack.suspend(self.state)
                self.later(lambda: seen.append(self.address))
                return stack.return_()

            @on(str)
            async def wait(self, message):
                try:
                    await sleep(100)
                finally:
                    self.later(lambda: seen.append(me().house.asker_address()))

        class Routed(Waits):
            resume_notice = StateActor.resume_notice

        waits = system.build_actor(Waits if end == "channel future" else Routed)
        waits.notice("wait")
        system.run()
        if end == "stop":
            waits.stop()
        else:
            set_me(system.manual.threads[0].context)  # as the reactor does, between two turns
            waits.house.actor.state.future.set_success(None)
            set_me(None)
        system.run()
        assert seen == [waits]

    def test_each_mailbox_is_first_in_first_out(self, system):
        address = system.build_actor(Diary, None, log := [])
        system.run()
        for n in range(5):
            address.notice(Say(n))
            ask(address.house, n)
            address.inform(TimeoutEvent(n, n))
        system.run()
        assert log[1:] == [f"{kind} {n}" for kind in ("ask", "notice", "event") for n in range(5)]

    def test_messages_of_one_sender_stay_in_order_over_many_turns(self, make_test_system):
        system = make_test_system(throughput_budget=3)
        address = system.build_actor(Diary, None, log := [])
        for n in range(20):
            address.notice(Say(n))
        system.run()
        assert log == ["mounted", *(f"notice {n}" for n in range(20))]

    def test_every_pass_begins_again_with_what_is_most_urgent(self, make_test_system):
        """With a budget of one message a turn, each turn takes the most urgent that there is."""
        system = make_test_system(throughput_budget=1)
        address = system.build_actor(Diary, None, log := [])
        system.run()
        for n in range(2):
            address.inform(Strange(n))
            address.notice(Say(n))
            ask(address.house, n)
        system.run()
        assert log[1:] == ["ask 0", "ask 1", "notice 0", "notice 1", "event 0", "event 1"]

    def test_any_object_may_be_a_notice(self, system):
        got = []

        class Taker(StateActor):
            def resume_notice(self, stack):
                got.append(stack.notice)
                return stack.return_()

        address = system.build_actor(Taker)
        things = [None, 0, "", (), object(), {}, NotImplemented, Exception("as a value")]
        for thing in things:
            address.notice(thing)
        system.run()
        assert got == things


class TestBudget:
    def test_a_turn_handles_no_more_messages_than_the_budget(self, make_test_system):
        system = make_test_system(throughput_budget=4)
        address = system.build_actor(Diary, None, log := [])
        system.run()
        thread = system.manual.threads[0]
        for n in range(10):
            address.notice(Say(n))
        handled = []
        while address.house.state == HouseState.READY:
            house = thread.manager.business.dequeue()
            assert house.try_schedule()
            set_me(thread.context)
            try:
                house.run_turn(thread.context)
            finally:
                set_me(None)
            handled.append(len(log) - 1)
        assert handled == [4, 8, 10]

    def test_the_budget_counts_messages_of_all_mailboxes_together(self, make_test_system):
        system = make_test_system(throughput_budget=3)
        address = system.build_actor(Diary, None, log := [])
        system.run()
        for n in range(2):
            address.notice(Say(n))
            ask(address.house, n)
        turns = system.manual.threads[0].context.turns
        system.run()
        assert system.manual.threads[0].context.turns == turns + 2
        assert log[1:] == ["ask 0", "ask 1", "notice 0", "notice 1"]

    def test_an_actor_whose_budget_is_used_up_goes_behind_the_others(self, make_test_system):
        system = make_test_system(throughput_budget=2)
        log: list[str] = []
        one = system.build_actor(Diary, None, log)
        other = system.build_actor(Diary, None, log)
        for address in (one, other):
            address.notice(Say("first"))  # after their first turn both are of the same priority
        system.run()
        log.clear()
        for n in range(4):
            one.notice(Say(f"one {n}"))
        other.notice(Say("other"))
        system.run()
        assert log.index("notice other") == 2

    def test_statistics_count_every_message_and_turn_once(self, make_test_system):
        system = make_test_system(throughput_budget=5)
        address = system.build_actor(Diary)
        system.run()
        before = system.statistics()
        for n in range(12):
            address.notice(Say(n))
        system.run()
        after = system.statistics()
        assert after.messages - before.messages == 12
        assert after.turns - before.turns == 3


class TestMount:
    def test_messages_sent_before_the_mount_come_after_after_mount_in_order(self, system):
        address = system.build_actor(Diary, None, log := [])
        for n in range(3):
            address.notice(Say(n))
        ask(address.house, "early")
        address.inform(Strange("early"))
        assert log == []
        assert address.house.state == HouseState.MOUNTING
        system.run()
        assert log == ["mounted", "ask early", *(f"notice {n}" for n in range(3)), "event early"]

    def test_a_message_before_the_mount_does_not_make_the_house_ready(self, system):
        address = system.build_actor(Diary)
        address.notice(Say(1))
        assert len(system.manual.threads[0].manager.business) == 0
        assert address.house.state == HouseState.MOUNTING

    def test_a_message_that_the_mount_hook_sends_to_its_own_actor_is_handled(self, system):
        log = []

        class Starter(Diary):
            def after_mount(self):
                self.address.notice(Say("from the hook"))

        system.build_actor(Starter, None, log)
        system.run()
        assert log == ["notice from the hook"]

    def test_actors_are_mounted_in_the_order_they_were_built(self, system):
        order = []

        class Numbered(StateActor):
            def __init__(self, n):
                self.n = n

            def after_mount(self):
                order.append(self.n)

        for n in range(5):
            system.build_actor(Numbered, n)
        system.run()
        assert order == list(range(5))


class TestCompleteRunning:
    def test_a_house_without_mail_waits(self, system):
        address = system.build_actor(Diary)
        address.notice(Say(1))
        system.run()
        assert address.house.state == HouseState.WAITING

    @pytest.mark.python_lane
    def test_a_message_that_comes_between_the_last_look_and_waiting_is_not_lost(self, system):
        """The sender saw RUNNING and left the wake-up to the runner; the runner's last look finds
        the message after it has stored WAITING."""

        class Late(House):
            """Gets one more message after the runner's decision to wait."""

            __slots__ = ("late",)

            def run_to_waiting(self):
                late, self.late = self.late, []
                for message in late:
                    assert not self.post_notice(message), "RUNNING: a sender must not win"
                return super().run_to_waiting()

        log: list[str] = []
        house = Late(Diary(None, log), system.manual.threads[0].manager, 1000)
        house.late = []
        house.scheduler.mount(house)
        system.run()
        house.late = [Say("late")]
        house.notice(Say("early"))
        system.run()
        assert log == ["mounted", "notice early", "notice late"]
        assert house.state == HouseState.WAITING

    @pytest.mark.python_lane
    def test_after_the_re_check_the_house_is_queued_exactly_once(self, system):
        """A sender that finds WAITING first wins; the runner's own try must then lose."""

        class Raced(House):
            __slots__ = ("late", "sender_won")

            def run_to_waiting(self):
                done = super().run_to_waiting()
                late, self.late = self.late, []
                for message in late:
                    self.sender_won = self.post_notice(message)
                    if self.sender_won:
                        self.scheduler.ready(self)
                return done

        log: list[str] = []
        house = Raced(Diary(None, log), system.manual.threads[0].manager, 1000)
        house.late = []
        house.scheduler.mount(house)
        system.run()
        house.late = [Say("late")]
        house.notice(Say("early"))
        system.run()
        assert house.sender_won
        assert log == ["mounted", "notice early", "notice late"]
        assert len(system.manual.threads[0].manager.business) == 0


class TestHighPriority:
    @pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
    def test_a_new_house_is_high_from_its_mount_on_since_it_awaits_nothing(
        self, make_test_system, dispatcher
    ):
        system = make_test_system(dispatcher=dispatcher)
        address = system.build_actor(Diary)
        assert address.house.high_priority is False
        system.run()
        assert address.house.high_priority is True

    def test_mail_that_came_before_the_mount_is_queued_with_high_priority(self, system):
        business = system.manual.threads[0].manager.business
        address = system.build_actor(Diary)
        address.notice(Say(1))
        thread = system.manual.threads[0]
        thread.manager.run_channels_actors(thread.context)
        assert (len(business), business.high) == (1, 1)

    def test_without_an_outstanding_ask_it_is_high_after_a_turn(self, system):
        address = system.build_actor(Diary)
        address.notice(Say(1))
        system.run()
        assert address.house.high_priority is True

    def test_with_an_outstanding_ask_it_is_normal_after_a_turn(self, system, diary):
        address, _, kept = diary
        assert address.house.promises.count == 2
        assert address.house.high_priority is False
        asker, first = kept[0]
        asker.answer(first, "yes")
        system.run()
        assert address.house.high_priority is False
        asker.answer(kept[1][1], "yes")
        system.run()
        assert address.house.promises.count == 0
        assert address.house.high_priority is True

    def test_more_than_two_replies_make_it_high_at_once_set_by_the_sender(self, diary):
        address, _, _ = diary
        house = address.house
        for n in (1, 2):
            house.answer(-n, "stray")
            assert house.high_priority is False, f"after {n} replies"
        house.answer(-3, "stray")
        assert house.high_priority is True

    def test_more_than_four_events_make_it_high_at_once_set_by_the_sender(self, diary):
        address, _, _ = diary
        house = address.house
        for n in range(4):
            address.inform(Strange(n))
            assert house.high_priority is False, f"after {n + 1} events"
        address.inform(Strange(4))
        assert house.high_priority is True

    def test_notices_and_asks_never_make_it_high(self, diary):
        address, _, _ = diary
        for n in range(50):
            address.notice(Say(n))
            ask(address.house, n)
        assert address.house.high_priority is False

    def test_the_flag_is_evaluated_anew_by_the_owner_after_every_turn(self, system, diary):
        address, _, _ = diary
        house = address.house
        for n in range(5):
            address.inform(Strange(n))
        assert house.high_priority is True
        system.run()
        assert house.promises.count == 2
        assert house.high_priority is False, "two asks are open and no backlog is left"

    @pytest.mark.parametrize(("left", "high"), [(4, False), (5, True)])
    def test_a_backlog_of_events_that_a_turn_leaves_behind_counts(
        self, make_test_system, left, high
    ):
        system = make_test_system(throughput_budget=4)
        kept: list[Any] = []
        address = system.build_actor(Diary, system.build_actor(Mute, kept))
        address.notice(Say("wait"))
        system.run()
        house, thread = address.house, system.manual.threads[0]
        for n in range(4 + left):
            address.inform(Strange(n))
        assert house.high_priority is True
        assert thread.manager.business.dequeue() is house
        assert house.try_schedule()
        house.run_turn(thread.context)
        assert house.state == HouseState.READY
        assert house.high_priority is high
        assert thread.manager.business.high == (1 if high else 0)

    def test_priority_is_decided_when_the_house_is_queued_and_not_later(self, system, diary):
        address, _, _ = diary
        business = system.manual.threads[0].manager.business
        address.notice(Say("queues it"))
        assert (len(business), business.high) == (1, 0)
        for n in range(5):
            address.inform(Strange(n))
        assert address.house.high_priority is True
        assert (len(business), business.high) == (1, 0), "no promotion inside the queue"

    def test_the_flag_is_set_before_the_house_is_queued(self, make_test_system):
        """With a limit of zero the very reply that makes the house ready makes it high."""
        system = make_test_system(high_priority_replies=0)
        kept: list[Any] = []
        address = system.build_actor(Diary, system.build_actor(Mute, kept))
        address.notice(Say("wait"))
        system.run()
        assert address.house.high_priority is False
        asker, number = kept[0]
        asker.answer(number, "yes")
        assert system.manual.threads[0].manager.business.high == 1

    def test_high_houses_run_before_normal_ones(self, system, diary):
        normal, log, _ = diary
        high = system.build_actor(Diary, None, log)
        system.run()
        high.notice(Say("makes it high"))
        system.run()
        log.clear()
        normal.notice(Say("normal"))
        high.notice(Say("high"))
        system.run()
        assert log == ["notice high", "notice normal"]


def test_in_one_pass_each_message_goes_to_the_handler_of_its_own_class(system):
    """However often the class changes, between asks and notices too, and with one that nobody
    handles in between."""
    sorter = system.build_actor(Sorter)
    system.run()
    actor = sorter.house.actor
    answers = [system.ask(sorter, message) for message in (1, "two", Question(3), 4, "five")]
    strange = system.ask(sorter, object())
    notices: list[Any] = [1, 2, "three", Say(4), Loud(5), 6, object(), 7, "eight", True, Say(9)]
    for message in notices:
        sorter.notice(message)
    system.run()
    replies = [answer.result() for answer in answers]
    assert replies == ["number", "text", "question", "number", "text"]
    assert isinstance(strange.exception(), AskFailed)
    assert actor.log == [
        ("number", 1), ("text", "two"), ("question", 3), ("number", 4), ("text", "five"),
        ("number", 1), ("number", 2), ("text", "three"), ("said", 4), ("said", 5), ("number", 6),
        ("number", 7), ("text", "eight"), ("number", True), ("said", 9),
    ]  # fmt: skip
