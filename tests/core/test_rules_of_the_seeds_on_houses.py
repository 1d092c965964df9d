"""Rules of messages, addresses, houses and actors that no other test has as its name.

Those of stacks, barriers, batches and pools are in `test_rules_of_the_seeds.py`.
"""

import threading

import pytest

from otavia_ft import (
    ActorAddress,
    Ask,
    AskFailed,
    AskTimeout,
    Call,
    MainActor,
    Notice,
    PoisonPill,
    Reply,
    RobinAddress,
    StateActor,
    TimeoutEvent,
    TimeoutReply,
    UnitReply,
)
from otavia_ft.actor.base import AbstractActor
from otavia_ft.atomic import HouseState, Mailbox
from otavia_ft.house.house import House
from otavia_ft.message import ChannelTimeoutEvent, Envelope, ReactorEvent
from otavia_ft.testkit import TestProbe


class Scripted(StateActor):
    """Its messages are functions that play the handler."""

    def resume_notice(self, stack):
        return stack.notice(self, stack)

    def resume_ask(self, stack):
        return stack.ask(self, stack)


@pytest.fixture
def scripted(system):
    return system.build_actor(Scripted)


class TestHouses:
    def test_a_house_is_created_then_mounting_until_its_start_hook_has_run_then_waiting(
        self, system
    ):
        states = []

        class Mounts(StateActor):
            def after_mount(self):
                states.append(self.address.house.state)

        manager = system.manual.threads[0].manager
        assert House(Mounts(), manager, 1000).state == HouseState.CREATED
        house = system.build_actor(Mounts).house
        assert house.state == HouseState.MOUNTING
        system.run()
        assert states == [HouseState.MOUNTING]
        assert house.state == HouseState.WAITING

    def test_a_message_readies_a_waiting_house_and_only_a_scheduled_one_is_run(
        self, system, scripted
    ):
        states = []

        def looks(actor, stack):
            states.append(stack.house.state)
            return stack.return_()

        system.run()
        house, thread = scripted.house, system.manual.threads[0]
        scripted.notice(looks)
        assert house.state == HouseState.READY
        assert thread.manager.business.dequeue() is house
        house.run_turn(thread.context)
        assert (states, house.state) == ([], HouseState.READY), "nobody has scheduled it"
        assert house.try_schedule()
        assert house.state == HouseState.SCHEDULED
        house.run_turn(thread.context)
        assert states == [HouseState.RUNNING]
        assert house.state == HouseState.WAITING

    def test_a_house_that_is_queued_or_running_is_not_queued_again(self, system, scripted):
        lengths = []

        def sends(actor, stack):
            scripted.notice(ends)
            scripted.notice(ends)
            lengths.append(len(business))
            return stack.return_()

        def ends(actor, stack):
            lengths.append("handled in the same turn")
            return stack.return_()

        system.run()
        business = system.manual.threads[0].manager.business
        scripted.notice(sends)
        scripted.notice(ends)
        assert len(business) == 1
        system.run()
        assert lengths == [0, *["handled in the same turn"] * 3]
        assert system.statistics().turns == 1

    @pytest.mark.parametrize("sent", [3, 4])
    def test_a_turn_that_leaves_mail_behind_ends_ready_and_queued_and_else_waiting(
        self, make_test_system, sent
    ):
        system = make_test_system(throughput_budget=3)
        address = system.build_actor(Scripted)
        system.run()
        house, thread = address.house, system.manual.threads[0]
        for _ in range(sent):
            address.notice(lambda actor, stack: stack.return_())
        business = thread.manager.business
        assert business.dequeue() is house
        assert house.try_schedule()
        house.run_turn(thread.context)
        left = sent - 3
        assert house.size(Mailbox.NOTICE) == len(business) == left
        assert house.state == (HouseState.READY if left else HouseState.WAITING)

    def test_each_way_of_sending_has_a_mailbox_of_its_own(self, system, scripted):
        """Looked at before the mount, while everything is only kept."""
        house = scripted.house
        scripted.notice(pill := PoisonPill())
        scripted.reply("reply", 1)
        scripted.throw(AskTimeout("too late"), 2)
        house.ask(envelope := Envelope(house, 3, "ask"))
        scripted.notice("notice")
        scripted.inform(event := TimeoutEvent(4))
        kept = [house.take(box, None) for box in Mailbox]
        number, error = kept[2]
        assert (number, repr(error)) == (2, "AskTimeout('too late')")
        assert kept == [pill, (1, "reply"), kept[2], envelope, "notice", event]
        assert not house.mail(), "and in no second one"


class Watching(House):
    """A house that looks at its asker when an ask arrives."""

    __slots__ = ("seen",)

    def ask(self, envelope):
        asker = envelope.asker
        promise = asker.promises.pop(envelope.message_id)
        self.seen = (promise, promise.stack.uncompleted_head)
        asker.promises.push(promise)


class TestMessages:
    def test_a_class_may_be_notice_and_ask_and_how_it_is_sent_decides(self, system):
        class Both(Notice, Ask[str]):
            pass

        came = []

        class Takes(StateActor):
            def resume_notice(self, stack):
                came.append("notice")
                return stack.return_()

            def resume_ask(self, stack):
                came.append("ask")
                return stack.return_("reply")

        address = system.build_actor(Takes)
        address.notice(Both())
        assert system.ask_now(address, Both()) == "reply"
        assert sorted(came) == ["ask", "notice"]

    def test_notices_and_asks_are_calls_and_replies_are_not(self):
        assert issubclass(Notice, Call)
        assert issubclass(Ask, Call)
        assert not issubclass(Reply, Call)
        assert isinstance(UnitReply, Reply)
        assert isinstance(TimeoutReply, Reply)

    @pytest.mark.parametrize("kind", [ActorAddress, lambda house: RobinAddress([house])])
    def test_an_ask_is_awaited_by_its_stack_and_its_actor_before_it_is_on_its_way(
        self, system, scripted, kind
    ):
        """Or its reply, from another thread, could come before anybody waits for it."""
        target = Watching(StateActor(), system.manual.threads[0].manager, 1000)
        address = kind(target)
        futures = []

        def asks(actor, stack):
            futures.append(address.ask("?"))
            return stack.return_()

        scripted.notice(asks)
        system.run()
        (future,) = futures
        assert target.seen == (future, future)

    def test_an_actor_numbers_its_asks_one_after_the_other_whomever_it_asks(
        self, system, probe, scripted
    ):
        numbers = []

        def asks(actor, stack):
            numbers.extend(to.ask("?").aid for to in (probe.address, other.address, probe.address))
            return stack.return_()

        other = TestProbe(system)
        scripted.notice(asks)
        scripted.notice(asks)
        system.run()
        assert numbers == list(range(numbers[0], numbers[0] + 6))

    def test_a_notice_carries_neither_envelope_nor_sender_nor_number(self, system, probe, scripted):
        seen = []

        def looks(actor, stack):
            # One lane has the fields empty, the other has never filled them.
            seen.append((getattr(stack, "asker", None), getattr(stack, "ask_id", 0)))
            return stack.return_()

        scripted.notice(message := object())
        assert scripted.house.take(Mailbox.NOTICE, None) is message
        probe.tell(scripted, looks)
        assert seen == [(None, 0)]

    @pytest.mark.parametrize("event", [ChannelTimeoutEvent(1, "channel"), ReactorEvent("channel")])
    def test_events_of_channels_go_to_receive_event_and_a_state_actor_buries_them(
        self, system, scripted, event
    ):
        received = []

        class Channels(StateActor):
            def receive_event(self, event):
                received.append(event)

            def handle_actor_timeout(self, event):
                received.append("a timer of the actor's own")

        system.build_actor(Channels).inform(event)
        system.run()
        assert (received, system.dead_letters.total) == ([event], 0)
        scripted.inform(event)
        system.run()
        assert system.dead_letters.latest[-1].message is event

    def test_an_ask_without_a_handler_is_answered_with_an_error(self, system, probe):
        probe.ask(system.build_actor(StateActor), "?")
        with pytest.raises(AskFailed, match="no handler for str"):
            probe.expect_reply()

    def test_a_robin_address_counts_notices_and_asks_apart(self, system):
        class Takes(StateActor):
            def resume_notice(self, stack):
                came.append(("notice", stack.house.id))
                return stack.return_()

            def resume_ask(self, stack):
                came.append(("ask", stack.house.id))
                return stack.return_(None)

        came = []
        robin = system.build_actor(Takes, num=3)
        for _ in range(3):
            robin.notice("!")
            system.ask_now(robin, "?")
        ids = [address.house.id for address in robin.addresses]
        assert came == [(kind, n) for n in ids for kind in ("ask", "notice")]

    def test_a_robin_address_takes_no_answers_and_no_events(self):
        for way in ("reply", "throw", "inform"):
            assert hasattr(ActorAddress, way)
            assert not hasattr(RobinAddress, way)


class TestActors:
    def test_a_main_actor_is_a_state_actor_and_both_have_the_engine(self):
        assert MainActor.__bases__ == (StateActor,)
        assert StateActor.__bases__ == (AbstractActor,)

    def test_the_factory_runs_at_once_on_the_callers_thread_inside_a_handler_too(
        self, make_real_system
    ):
        system = make_real_system(workers=2, stealing=False)
        made = []

        def factory():
            made.append(threading.current_thread().name)
            return Scripted()

        def builds(actor, stack):
            for _ in range(2):  # one on each thread
                actor.system.build_actor(factory)
            return stack.return_((threading.current_thread().name, list(made)))

        caller, seen = system.ask(system.build_actor(Scripted), builds).result(20)
        assert seen == [caller, caller]
        made.clear()
        system.build_actor(factory)
        assert made == [threading.current_thread().name]

    def test_restart_hooks_run_in_order_and_the_failing_stack_is_dropped_after_them(
        self, system, probe
    ):
        class Hooks(Scripted):
            def __init__(self):
                self.log = []

            def _note(self, hook):
                self.log.append((hook, self.address.house.promises.count))

            def before_restart(self):
                self._note("before_restart")

            def restart(self):
                self._note("restart")

            def after_restart(self):
                self._note("after_restart")

        def fails(actor, stack):
            probe.address.ask("?")
            raise ValueError("a reason to restart")

        address = system.build_actor(Hooks)
        address.notice(fails)
        system.run()
        log = address.house.actor.log
        assert log == [("before_restart", 1), ("restart", 1), ("after_restart", 1)]
        assert address.house.promises.count == 0

    def test_a_failing_ask_restarts_nobody(self, system, probe):
        class Hooks(Scripted):
            restarted = False

            def restart(self):
                self.restarted = True

        def fails(actor, stack):
            raise ValueError("no reason to restart")

        address = system.build_actor(Hooks)
        probe.ask(address, fails)
        with pytest.raises(AskFailed, match="no reason to restart"):
            probe.expect_reply()
        assert not address.house.actor.restarted
        address.notice(fails)
        system.run()
        assert address.house.actor.restarted, "as a notice it is one"
