"""Barriers and batches."""

from dataclasses import dataclass
from typing import Any

import pytest

from otavia_ft import (
    Ask,
    AskFailed,
    Event,
    FutureState,
    Notice,
    StackState,
    StateActor,
    UnitReply,
    on,
    sleep,
)
from otavia_ft.atomic import HouseState


@dataclass(frozen=True, slots=True)
class Say(Notice):
    word: Any


@dataclass(frozen=True, slots=True)
class Get(Ask[Any]):
    word: Any


@dataclass(frozen=True, slots=True)
class Strange(Event):
    word: Any


class TestBarrier:
    def test_while_a_barrier_stands_asks_and_notices_wait_in_order(self, system, probe, guarded):
        address, log = guarded
        address.notice(Say("barrier wait"))
        asked = [system.ask(address, Get(f"ask {n}")) for n in range(2)]
        for n in range(2):
            address.notice(Say(f"notice {n}"))
        system.run()
        assert log[0] == "ask 0", "asks come before notices, so these two are not behind it"
        log.clear()
        more = [system.ask(address, Get(f"ask {n}")) for n in (2, 3)]
        address.notice(Say("notice 2"))
        system.run()
        assert log == []
        assert all(f.done() for f in asked)
        assert not any(f.done() for f in more)
        probe.expect_ask()
        probe.reply("go on")
        assert log == ["barrier wait ends", "ask 2", "ask 3", "notice 0", "notice 1", "notice 2"]

    def test_a_house_in_a_barrier_waits_for_replies_and_events_and_nothing_else_readies_it(
        self, system, probe, guarded
    ):
        address, _ = guarded
        address.notice(Say("barrier wait"))
        system.run()
        house = address.house
        turns = system.statistics().turns
        address.notice(Say("behind"))
        system.ask(address, Get("behind"))
        system.run()
        assert house.state == HouseState.WAITING, "mail behind a barrier does not keep it busy"
        assert system.statistics().turns - turns <= 2
        address.inform(Strange("now"))
        assert house.state == HouseState.READY
        system.run()
        assert house.state == HouseState.WAITING
        probe.expect_ask()
        probe.reply("go on")
        system.run()
        assert house.state == HouseState.WAITING
        assert house.barrier is None

    def test_an_ask_that_is_a_barrier_keeps_notices_out_too(self, system, probe, guarded):
        address, log = guarded
        future = system.ask(address, Get("barrier wait"))
        address.notice(Say("notice"))
        system.run()
        assert log == ["barrier wait"]
        probe.expect_ask()
        probe.reply("go on")
        assert log == ["barrier wait", "barrier wait ends", "notice"]
        assert future.result(0) is UnitReply

    def test_events_are_handled_in_a_barrier(self, system, guarded):
        address, log = guarded
        address.notice(Say("barrier wait"))
        address.notice(Say("waits"))
        address.inform(Strange("during"))
        system.run()
        address.inform(Strange("later"))
        system.run()
        assert log == ["barrier wait", "event during", "event later"]

    def test_replies_resume_other_stacks_in_a_barrier(self, system, probe, guarded):
        address, log = guarded
        address.notice(Say("wait"))
        system.run()
        probe.expect_ask()
        first = probe._next_ask
        address.notice(Say("barrier wait"))
        address.notice(Say("behind"))
        system.run()
        first.asker.answer(first.ask_id, "go on")
        system.run()
        assert log == ["wait", "barrier wait", "wait ends"]

    def test_an_error_reply_releases_the_barrier(self, system, probe, guarded):
        address, log = guarded
        address.notice(Say("barrier wait"))
        address.notice(Say("behind"))
        system.run()
        assert log == ["barrier wait"]
        probe.expect_ask()
        probe._next_ask.throw(ValueError("no"))
        system.run()
        assert log == ["barrier wait", "barrier wait ends", "behind"]

    def test_an_event_releases_the_barrier_of_a_sleeping_stack(self, system, guarded):
        address, log = guarded
        address.notice(Say("barrier sleep"))
        address.notice(Say("behind"))
        system.advance(4)
        assert log == ["barrier sleep"]
        system.advance(2)
        assert log == ["barrier sleep", "barrier sleep ends", "behind"]

    def test_a_barrier_call_that_ends_at_once_delays_nobody(self, system, guarded):
        address, log = guarded
        for word in ("barrier", "next"):
            address.notice(Say(word))
        system.run()
        assert log == ["barrier", "next"]
        assert address.house.barrier is None

    def test_a_barrier_call_that_raises_lowers_its_barrier(self, system, guarded):
        address, log = guarded
        for word in ("barrier raises", "next"):
            address.notice(Say(word))
        system.run()
        assert log == ["barrier raises", "next"]
        assert address.house.barrier is None

    def test_a_serial_actor_handles_one_message_from_beginning_to_end(self, system):
        log = []

        class Serial(StateActor):
            serial = True

            @on(Say)
            async def say(self, message):
                log.append(f"{message.word} begins")
                await sleep(1)
                log.append(f"{message.word} ends")

        address = system.build_actor(Serial)
        for n in range(2):
            address.notice(Say(n))
        system.advance(3)
        assert log == ["0 begins", "0 ends", "1 begins", "1 ends"]

    def test_without_a_barrier_waiting_handlers_interleave(self, system):
        log = []

        class Interleaved(StateActor):
            @on(Say)
            async def say(self, message):
                log.append(f"{message.word} begins")
                await sleep(1)
                log.append(f"{message.word} ends")

        address = system.build_actor(Interleaved)
        for n in range(2):
            address.notice(Say(n))
        system.advance(3)
        assert log == ["0 begins", "1 begins", "0 ends", "1 ends"]


class Batcher(StateActor):
    """Even numbers go into batches; -1 is a barrier call that waits, and never in a batch."""

    batchable = True

    def __init__(self, log, target=None):
        self.log = log
        self.target = target

    def batch_notice_filter(self, message):
        return message.word % 2 == 0

    def batch_ask_filter(self, message):
        return message.word % 2 == 0

    def is_barrier_call(self, message):
        return message.word == -1

    def resume_notice(self, stack):
        self.log.append(stack.notice.word)
        if stack.notice.word == -1 and stack.state is StackState.START:
            state = FutureState()
            self.target.ask(Get(0), state.future)
            return stack.suspend(state)
        return stack.return_()

    def resume_ask(self, stack):
        self.log.append(stack.ask.word)
        return stack.return_(stack.ask.word)

    def resume_batch_notice(self, stack):
        self.log.append([notice.word for notice in stack.notices])
        return stack.return_()

    def resume_batch_ask(self, stack):
        self.log.append([envelope.message.word for envelope in stack.asks])
        return stack.return_([(e, e.message.word) for e in stack.asks])


class TestBatch:
    @pytest.mark.parametrize("kind", ["ask", "notice"])
    @pytest.mark.parametrize(
        "name", ["batchable", "batch_ask_filter", "batch_notice_filter", "is_barrier_call"]
    )
    def test_a_property_that_raises_in_place_of_a_hook_fails_the_message(self, system, kind, name):
        """The message, and not the turn, which would begin with it again for ever."""

        def broken(self):
            raise SystemExit(f"{name} is broken")

        def fine(self, stack):
            return stack.return_()

        body = {"batchable": True, "resume_batch_notice": fine, name: property(broken)}
        body["resume_batch_ask"] = lambda self, stack: stack.return_("reply")
        body["resume_ask"] = body["resume_batch_ask"]
        address = system.build_actor(type("Broken", (StateActor,), body))
        system.manual.limit = 100
        if kind == "notice":
            address.notice("first")
            system.run()
        else:
            future = system.ask(address, "first")
            system.run()
            touched = name not in ("batch_notice_filter", "is_barrier_call")
            assert (type(future.exception(0)) is AskFailed) == touched
        assert not address.house.mail()

    def test_consecutive_messages_that_pass_the_filter_are_one_stack_in_order(self, system):
        address = system.build_actor(Batcher, log := [])
        for n in (0, 2, 4):
            address.notice(Say(n))
        system.run()
        assert log == [[0, 2, 4]]

    def test_one_that_does_not_pass_is_handled_alone_between_the_batches(self, system):
        address = system.build_actor(Batcher, log := [])
        for n in (0, 2, 1, 3, 4, 6):
            address.notice(Say(n))
        system.run()
        assert log == [[0, 2], 1, 3, [4, 6]]

    def test_a_batch_may_be_of_one(self, system):
        address = system.build_actor(Batcher, log := [])
        address.notice(Say(2))
        system.run()
        assert log == [[2]]

    def test_asks_are_batched_apart_from_notices_and_before_them(self, system):
        address = system.build_actor(Batcher, log := [])
        address.notice(Say(0))
        futures = [system.ask(address, Get(n)) for n in (2, 4, 1)]
        address.notice(Say(6))
        system.run()
        assert log == [[2, 4], 1, [0, 6]]
        assert [f.result(0) for f in futures] == [2, 4, 1]

    def test_a_batch_is_never_longer_than_the_limit(self, make_test_system):
        system = make_test_system(batch_limit=2)
        address = system.build_actor(Batcher, log := [])
        for n in range(0, 10, 2):
            address.notice(Say(n))
        system.run()
        assert log == [[0, 2], [4, 6], [8]]

    def test_a_batch_is_never_longer_than_the_budget_of_a_turn(self, make_test_system):
        system = make_test_system(throughput_budget=3)
        address = system.build_actor(Batcher, log := [])
        for n in range(0, 8, 2):
            address.notice(Say(n))
        system.run()
        assert log == [[0, 2, 4], [6]]

    def test_by_default_every_message_of_a_batchable_actor_passes(self, system):
        got = []

        class All(StateActor):
            batchable = True

            def resume_batch_notice(self, stack):
                got.append(list(stack.notices))
                return stack.return_()

        address = system.build_actor(All)
        for n in range(3):
            address.notice(n)
        system.run()
        assert got == [[0, 1, 2]]

    def test_a_barrier_flushes_the_batch_before_it_and_keeps_out_what_is_behind_it(
        self, system, probe
    ):
        address = system.build_actor(Batcher, log := [], probe.address)
        for n in (0, 2, -1, 4, 6):
            address.notice(Say(n))
        system.run()
        assert log == [[0, 2], -1]
        probe.expect_ask()
        probe.reply("go on")
        assert log == [[0, 2], -1, -1, [4, 6]]

    def test_a_batch_that_waits_does_not_keep_later_batches_out(self, system):
        log = []

        class Slow(StateActor):
            batchable = True

            def resume_batch_notice(self, stack):
                if stack.state is not StackState.START:
                    log.append("woke up")
                    return stack.return_()
                log.append(list(stack.notices))
                state = FutureState()
                stack.house.attach_sleep(stack, state.future, 1)
                return stack.suspend(state)

        address = system.build_actor(Slow)
        address.notice(1)
        system.run()
        address.notice(2)
        system.run()
        assert log == [[1], [2]]
        system.advance(2)
        assert log == [[1], [2], "woke up", "woke up"]
