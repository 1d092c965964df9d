"""Defects that other implementations of this model have had; none of them here."""

import threading
from dataclasses import dataclass
from typing import Any

import pytest

from otavia_ft import (
    Ask,
    BatchAskStack,
    BatchNoticeStack,
    ChannelStack,
    Event,
    FutureState,
    Notice,
    StackState,
    StateActor,
)
from otavia_ft.message import Envelope
from otavia_ft.stack.stack import AskStack, NoticeStack


@dataclass(frozen=True, slots=True)
class Say(Notice):
    word: Any


@dataclass(frozen=True, slots=True)
class Get(Ask[Any]):
    word: Any


@dataclass(frozen=True, slots=True)
class Strange(Event):
    word: Any


class TestDefectsOfOthers:
    @pytest.mark.parametrize("kind", ["notice from an event", "ask from a notice"])
    def test_defect_1_mail_for_a_mailbox_that_the_pass_has_visited_is_handled(self, system, kind):
        """A "has messages" hint that is cleared at the end of a pass loses what the pass itself put
        into a mailbox visited before; the house then spins without handling it."""
        log = []

        class SelfSender(StateActor):
            def receive_event(self, event):
                self.address.notice(Say("from the event"))

            def resume_notice(self, stack):
                log.append(stack.notice.word)
                if stack.notice.word == "ask yourself":
                    self.address.ask(Get("from the notice"))
                return stack.return_()

            def resume_ask(self, stack):
                log.append(stack.ask.word)
                return stack.return_(None)

        address = system.build_actor(SelfSender)
        system.run()
        if kind == "notice from an event":
            address.inform(Strange(1))
        else:
            address.notice(Say("ask yourself"))
        steps = 0
        while system.step():
            steps += 1
            assert steps < 20, "the house keeps running without handling its mail"
        assert log[-1] == ("from the event" if kind.startswith("notice") else "from the notice")

    @pytest.mark.parametrize("mailbox", ["asks", "notices"])
    def test_defect_2_what_was_behind_a_barrier_needs_no_new_message_to_be_handled(
        self, system, probe, guarded, mailbox
    ):
        """Messages taken out of the mailbox together with the barrier call were stranded after the
        barrier until another of their kind came."""
        address, log = guarded
        futures = []
        for word in ("barrier wait", "one", "two", "three"):
            if mailbox == "asks":
                futures.append(system.ask(address, Get(word)))
            else:
                address.notice(Say(word))
        system.run()
        assert log == ["barrier wait"]
        probe.expect_ask()
        probe.reply("go on")
        assert log == ["barrier wait", "barrier wait ends", "one", "two", "three"]
        assert all(f.done() for f in futures)

    @pytest.mark.parametrize("end", ["returns", "raises"])
    def test_defect_3_the_end_of_another_stack_does_not_lower_the_barrier(
        self, system, probe, guarded, end
    ):
        """Any stack of the actor that ended cleared the barrier, not only the barrier's own."""
        address, log = guarded
        address.notice(Say("wait"))
        system.run()
        probe.expect_ask()
        older = probe._next_ask
        address.notice(Say("barrier wait"))
        address.notice(Say("behind"))
        system.run()
        barrier = address.house.barrier
        assert barrier is not None
        if end == "returns":
            older.asker.answer(older.ask_id, "go on")
        else:
            address.house.actor.log = None  # the older stack's next step raises
            older.asker.answer(older.ask_id, "go on")
            system.run()
            address.house.actor.log = log
        system.run()
        assert address.house.barrier is barrier
        assert "behind" not in log
        probe.expect_ask()
        probe.reply("go on")
        assert log[-2:] == ["barrier wait ends", "behind"]

    def test_defect_4_the_count_of_open_asks_is_right_before_during_and_after(self, system, probe):
        """The count was only ever lowered, so the table never grew, and "nothing awaited" was true
        until the first reply and never again."""

        class Asker(StateActor):
            def resume_notice(self, stack):
                if stack.state is StackState.START:
                    state = FutureState()
                    probe.address.ask(Get(stack.notice), state.future)
                    return stack.suspend(state)
                return stack.return_()

        address = system.build_actor(Asker)
        table = lambda: address.house.promises  # noqa: E731  # it is replaced by the first ask
        assert table().count == 0
        for n in range(100):
            address.notice(n)
        system.run()
        assert table().count == 100
        assert table().capacity >= 50, "the table has grown with its contents"
        assert address.house.high_priority is False
        for left in range(99, -1, -1):
            probe.expect_ask()
            probe.reply("yes")
            assert table().count == left
            assert address.house.high_priority is (left == 0)

    def test_defect_5_nobody_can_run_an_actor_whose_mount_hook_is_running(
        self, make_real_system, eventually
    ):
        """The state was WAITING during the hook, so a message made the house ready, and an idle
        thread ran it while the hook was still running on its owner."""
        system = make_real_system(workers=2, steal_floor=0, steal_aggression=1)
        in_hook, go_on = threading.Event(), threading.Event()
        log = []

        class Slow(StateActor):
            def after_mount(self):
                in_hook.set()
                go_on.wait(20)
                log.append("mounted")

            def resume_notice(self, stack):
                log.append(stack.notice)
                return stack.return_()

        address = system.build_actor(Slow)
        assert in_hook.wait(20)
        for n in range(3):
            address.notice(n)
        assert address.house.state == 1, "MOUNTING"
        assert not address.house.try_ready()
        assert log == []
        go_on.set()
        eventually(lambda: len(log) == 4)
        assert log == ["mounted", 0, 1, 2]

    def test_defect_9_a_notice_put_first_into_an_empty_mailbox_survives_the_next(self, system):
        """Put at the head of an empty list, it was overwritten by the next put at the tail; and
        nothing made the actor run for it."""
        log = []

        class Forward(StateActor):
            def after_mount(self):
                self.notice_self_first("first of all")
                self.address.notice("second")

            def resume_notice(self, stack):
                log.append(stack.notice)
                if stack.notice == "again":
                    self.notice_self_first("b")
                    self.address.notice("c")
                    self.notice_self_first("a")
                return stack.return_()

        address = system.build_actor(Forward)
        system.run()
        assert log == ["first of all", "second"]
        address.notice("again")
        system.run()
        assert log[2:] == ["again", "a", "b", "c"]

    @pytest.mark.parametrize("place", ["timer hook", "event hook", "filter", "barrier predicate"])
    def test_defect_10_what_hooks_and_predicates_raise_ends_neither_thread_nor_turn(
        self, make_real_system, place
    ):
        """They were called without protection: what they raised ended the thread, with the house
        RUNNING for ever."""
        system = make_real_system(workers=1)

        class Touchy(StateActor):
            batchable = place == "filter"

            def handle_actor_timeout(self, event):
                raise SystemExit(place)

            def receive_event(self, event):
                raise SystemExit(place)

            def batch_notice_filter(self, message):
                raise SystemExit(place)

            def batch_ask_filter(self, message):
                return False

            def is_barrier_call(self, message):
                if place == "barrier predicate" and isinstance(message, Say):
                    raise SystemExit(place)
                return False

            def resume_notice(self, stack):
                if place == "timer hook":
                    self.after(0.001)
                return stack.return_()

            def resume_ask(self, stack):
                return stack.return_("alive")

        address = system.build_actor(Touchy)
        address.notice(Say(1))
        if place == "event hook":
            address.inform(Strange(1))
        for _ in range(3):
            assert system.ask(address, Get("?")).result(20) == "alive"
        assert system.scheduler.threads[0].thread.is_alive()

    @pytest.mark.parametrize(
        "kind", [NoticeStack, AskStack, BatchNoticeStack, BatchAskStack, ChannelStack]
    )
    def test_defect_12_nothing_of_a_message_survives_the_recycling_of_its_stack(self, kind):
        """`attach` and the next state were still there when the stack served the next message."""
        stack = kind()
        secret = object()
        given = [
            name
            for klass in kind.__mro__
            for name in getattr(klass, "__slots__", ())
            if name not in ("house", "actor", "pool")
        ]
        for name in given:
            setattr(stack, name, secret)
        stack.clean()
        for name in given:
            assert getattr(stack, name, None) is not secret, name
        assert stack.state is StackState.START
        assert stack.next_state is None
        assert stack.attach is None
        assert stack.done is False

    def test_defect_13_a_batch_of_asks_keeps_its_envelopes_until_its_end(self, system, probe):
        """The envelopes were emptied before the handler saw them, and recycled twice."""

        class Slow(StateActor):
            batchable = True

            def resume_batch_ask(self, stack):
                for envelope in stack.asks:
                    assert isinstance(envelope, Envelope)
                    assert envelope.message is not None
                if stack.state is StackState.START:
                    state = FutureState()
                    probe.address.ask("?", state.future)
                    return stack.suspend(state)
                return stack.return_([(e, e.message.word * 2) for e in stack.asks])

        address = system.build_actor(Slow)
        futures = [system.ask(address, Get(n)) for n in range(3)]
        system.run()
        probe.expect_ask()
        probe.reply("go on")
        assert [f.result(0) for f in futures] == [0, 2, 4]
