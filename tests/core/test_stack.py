"""Stacks: two chains of promises, states, yields, and the moves between states."""

from functools import partial
from typing import Any

import pytest

from otavia_ft import (
    AskFailed,
    ChannelFuture,
    ChannelFutureState,
    FuturesState,
    FutureState,
    MessageFuture,
    StackError,
    StackState,
    StackYield,
    StartState,
    StateActor,
)
from otavia_ft.house.engine import run_stack
from otavia_ft.stack.promise import ChannelPromise, MessagePromise
from otavia_ft.stack.stack import ChannelStack, NoticeStack


def chain(head: Any) -> list[Any]:
    """The promises of a chain, each checked to know its neighbours."""
    found: list[Any] = []
    before = None
    while head is not None:
        assert head.prev is before
        found.append(head)
        before, head = head, head.next
    return found


def waiting(stack: NoticeStack) -> list[Any]:
    promises = chain(stack.uncompleted_head)
    assert stack.uncompleted_tail is (promises[-1] if promises else None)
    return promises


def arrived(stack: NoticeStack) -> list[Any]:
    promises = chain(stack.completed_head)
    assert stack.completed_tail is (promises[-1] if promises else None)
    return promises


class TestChains:
    @pytest.fixture
    def three(self):
        stack = NoticeStack()
        promises = [MessagePromise() for _ in range(3)]
        for promise in promises:
            stack.add_uncompleted(promise)
        return stack, promises

    def test_new_promises_are_at_the_end_of_the_uncompleted_chain(self, three):
        stack, promises = three
        assert waiting(stack) == promises
        assert arrived(stack) == []
        assert all(promise.stack is stack for promise in promises)

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0), (0, 2, 1)])
    def test_a_completed_promise_moves_over_and_keeps_the_order_of_arrival(self, three, order):
        stack, promises = three
        left = list(promises)
        for n, index in enumerate(order):
            stack.move_completed(promises[index])
            left.remove(promises[index])
            assert waiting(stack) == left
            assert arrived(stack) == [promises[i] for i in order[: n + 1]]
        assert not stack.waiting

    @pytest.mark.parametrize("index", [0, 1, 2])
    def test_a_forgotten_promise_is_in_no_chain_and_knows_no_stack(self, three, index):
        stack, promises = three
        stack.forget(promises[index])
        assert waiting(stack) == promises[:index] + promises[index + 1 :]
        assert promises[index].stack is None

    def test_all_can_be_forgotten_while_going_through_them(self, three):
        stack, _ = three
        for promise in stack.uncompleted():
            stack.forget(promise)
        assert waiting(stack) == []

    def test_entering_a_state_lets_go_of_what_has_arrived_and_keeps_what_has_not(self, three):
        stack, promises = three
        stack.move_completed(promises[1])
        state = FutureState()
        stack.set_state(state)
        assert stack.state is state
        assert arrived(stack) == []
        assert waiting(stack) == [promises[0], promises[2]]


class TestStates:
    def test_start_is_one_object_that_is_always_resumable(self):
        assert isinstance(StackState.START, StartState)
        assert FutureState.START is StackState.START
        assert StackState.START.resumable() is True
        assert StackState.START.id == 0
        assert NoticeStack().state is StackState.START

    def test_a_state_is_not_resumable_and_has_the_id_0_unless_it_says_otherwise(self):
        class Own(StackState):
            pass

        assert Own().resumable() is False
        assert Own().id == 0

    @pytest.mark.parametrize(
        "make",
        [FutureState, ChannelFutureState, partial(FuturesState, 2)],
        ids=["one", "channel", "two"],
    )
    def test_helper_states_carry_an_id_to_branch_on(self, make):
        assert make().id == 0
        assert make(id=7).id == 7
        assert make().resumable() is False

    def test_a_future_state_holds_one_future_and_a_futures_state_several(self):
        assert type(FutureState().future) is MessageFuture
        futures = FuturesState(3).futures
        assert len({id(f) for f in futures}) == 3
        assert all(type(f) is MessageFuture for f in futures)
        assert type(ChannelFutureState().future) is ChannelFuture

    def test_a_futures_state_of_nothing_is_refused(self):
        with pytest.raises(ValueError, match="at least one"):
            FuturesState(0)

    def test_there_are_two_yields_and_only_return_is_completed(self):
        assert list(StackYield) == [StackYield.SUSPEND, StackYield.RETURN]
        assert StackYield.SUSPEND.completed is False
        assert StackYield.RETURN.completed is True

    def test_suspend_notes_the_next_state_and_yields_suspend(self):
        stack, state = NoticeStack(), FutureState()
        assert stack.suspend(state) is StackYield.SUSPEND
        assert stack.next_state is state
        assert stack.state is StackState.START, "the state changes when the handler has returned"

    def test_return_yields_return(self):
        assert NoticeStack().return_() is StackYield.RETURN


class Scripted(StateActor):
    """Its notices are functions that play the handler."""

    def resume_notice(self, stack):
        return stack.notice(self, stack)

    def resume_ask(self, stack):
        return stack.ask(self, stack)


@pytest.fixture
def scripted(system):
    return system.build_actor(Scripted)


class TestSwitchState:
    def test_a_stack_goes_through_its_states_in_order(self, system, probe, scripted):
        seen = []

        def handler(actor, stack):
            seen.append(stack.state.id)
            if stack.state.id == 2:
                return stack.return_()
            state = FutureState(stack.state.id + 1)
            probe.address.ask("?", state.future)
            return stack.suspend(state)

        scripted.notice(handler)
        for _ in range(2):
            probe.expect_ask()
            probe.reply("go on")
        assert seen == [0, 1, 2]

    def test_suspending_on_the_same_state_keeps_what_has_arrived(self, system, probe, scripted):
        chains = []

        class AnyNew(StackState):
            def __init__(self):
                self.futures = [MessageFuture() for _ in range(3)]

            def resumable(self):
                return True

        def handler(actor, stack):
            if stack.state is StackState.START:
                state = AnyNew()
                for future in state.futures:
                    probe.address.ask("?", future)
                return stack.suspend(state)
            chains.append((len(arrived(stack)), len(waiting(stack))))
            if stack.waiting:
                return stack.suspend(stack.state)
            return stack.return_()

        scripted.notice(handler)
        for _ in range(3):
            probe.expect_ask()
            probe.reply("go on")
        assert chains == [(1, 2), (2, 1), (3, 0)]

    def test_a_new_state_lets_go_of_what_has_arrived(self, system, probe, scripted):
        chains = []

        def handler(actor, stack):
            chains.append(len(arrived(stack)))
            if stack.state.id == 2:
                return stack.return_()
            state = FutureState(stack.state.id + 1)
            probe.address.ask("?", state.future)
            return stack.suspend(state)

        scripted.notice(handler)
        for _ in range(2):
            probe.expect_ask()
            probe.reply("go on")
        assert chains == [0, 1, 1], "never the two of both states together"

    def test_an_early_return_lets_go_of_everything_that_is_still_awaited(
        self, system, probe, scripted
    ):
        house = scripted.house

        def handler(actor, stack):
            probe.address.ask("?", MessageFuture(), timeout=50)
            return stack.return_()

        scripted.notice(handler)
        system.run()
        assert house.promises.count == 0
        assert len(system.timer) == 0
        probe.expect_ask()
        probe.reply("too late")
        assert system.dead_letters.latest[-1].message == "too late"

    def test_a_failing_handler_lets_go_of_everything_that_is_still_awaited(
        self, system, probe, scripted
    ):
        def handler(actor, stack):
            probe.address.ask("?", MessageFuture(), timeout=50)
            raise ValueError("after asking")

        scripted.notice(handler)
        system.run()
        assert scripted.house.promises.count == 0
        assert len(system.timer) == 0

    @pytest.mark.parametrize(
        "wrong",
        [None, True, "done", StackYield.RETURN, StackYield.SUSPEND],
        ids=["None", "True", "str", "RETURN by itself", "SUSPEND by itself"],
    )
    def test_what_a_handler_returns_must_come_from_its_stack(self, system, scripted, wrong):
        future = system.ask(scripted, lambda actor, stack: wrong)
        system.run()
        with pytest.raises(AskFailed) as caught:
            future.result(0)
        assert isinstance(caught.value.cause, StackError)
        assert "must return stack.return_" in str(caught.value.cause)

    def test_a_suspend_with_nothing_pending_fails_the_stack(self, system, scripted):
        future = system.ask(scripted, lambda actor, stack: stack.suspend(FutureState()))
        system.run()
        with pytest.raises(AskFailed, match="without a pending future"):
            future.result(0)

    def test_a_suspended_stack_is_resumed_when_nothing_is_left_to_wait_for(
        self, system, probe, scripted
    ):
        """Whatever `resumable` says: otherwise it would never be resumed."""
        resumed = []

        class Never(FutureState):
            def resumable(self):
                return False

        def handler(actor, stack):
            if stack.state is StackState.START:
                state = Never()
                probe.address.ask("?", state.future)
                return stack.suspend(state)
            resumed.append(stack.state.future.get_now())
            return stack.return_()

        scripted.notice(handler)
        system.run()
        probe.expect_ask()
        probe.reply("all there")
        assert resumed == ["all there"]

    def test_attach_is_free_for_the_handler_and_kept_between_resumes(self, system, probe, scripted):
        seen = []

        def handler(actor, stack):
            seen.append(stack.attach)
            if stack.state is StackState.START:
                stack.attach = "mine"
                state = FutureState()
                probe.address.ask("?", state.future)
                return stack.suspend(state)
            return stack.return_()

        scripted.notice(handler)
        system.run()
        probe.expect_ask()
        probe.reply("go on")
        assert seen == [None, "mine"]


class TestChannelPromise:
    """Channel operations complete like asks, but never inside the call that completes them."""

    def start(self, system, scripted, inside=None):
        """A stack that waits for a channel operation; returns its promise and the log."""
        log: list[str] = []
        promises: list[ChannelPromise[Any]] = []

        def handler(actor, stack):
            if stack.state is not StackState.START:
                log.append(repr(stack.state.future))
                return stack.return_()
            state = ChannelFutureState(1)
            promises.append(state.future)
            stack.house.attach_channel(stack, state.future)
            if inside is not None:
                inside(state.future)
            log.append("suspends")
            return stack.suspend(state)

        scripted.notice(handler)
        system.run()
        return promises[0], log

    def test_completed_inside_the_handler_it_resumes_the_stack_after_the_handler(
        self, system, scripted
    ):
        """A resume inside a resume of the same stack must not happen."""
        _, log = self.start(system, scripted, inside=lambda p: p.set_success("bound"))
        assert log == ["suspends", "<ChannelPromise success 'bound'>"]

    def test_completed_between_two_turns_it_wakes_its_actor(self, system, scripted):
        promise, log = self.start(system, scripted)
        promise.set_failure(OSError("refused"))
        assert log == ["suspends"], "not inside the call"
        system.run()
        assert log == ["suspends", "<ChannelPromise failure OSError('refused')>"]

    def test_the_callback_is_called_once_or_at_once_if_it_comes_late(self):
        promise: ChannelPromise[str] = ChannelPromise("channel", "ask")
        called = []
        promise.on_completed(called.append)
        promise.set_success("done")
        assert called == [promise]
        promise.on_completed(called.append)
        assert called == [promise, promise]
        assert (promise.channel, promise.ask) == ("channel", "ask")

    def test_it_is_completed_once(self):
        promise: ChannelPromise[str] = ChannelPromise()
        promise.set_success("first")
        with pytest.raises(StackError, match="completed already"):
            promise.set_failure(OSError("second"))
        assert promise.get_now() == "first"

    def test_an_actor_that_stops_answers_the_asker_of_a_stack_that_waits_for_a_channel(
        self, system, scripted
    ):
        promises = []

        def handler(actor, stack):
            state = ChannelFutureState()
            stack.house.attach_channel(stack, state.future)
            promises.append(state.future)
            return stack.suspend(state)

        future = system.ask(scripted, handler)
        system.run()
        assert not future.done()
        scripted.stop()
        system.run()
        assert "has stopped" in str(future.exception(0))
        promises[0].set_success("too late")
        system.run()

    def test_a_stack_that_ended_is_not_resumed_by_its_channel_operation(self, system, scripted):
        seen = []

        def handler(actor, stack):
            seen.append("called")
            promise: ChannelPromise[str] = ChannelPromise()
            stack.house.attach_channel(stack, promise)
            promise_of.append(promise)
            return stack.return_()

        promise_of: list[ChannelPromise[str]] = []
        scripted.notice(handler)
        system.run()
        assert promise_of[0].stack is None
        assert not scripted.house.channel_promises
        promise_of[0].set_success("nobody cares")
        system.run()
        assert seen == ["called"]

    def test_a_promise_serves_one_operation(self, system, scripted):
        used: ChannelPromise[str] = ChannelPromise()
        used.set_success("before")

        def handler(actor, stack):
            stack.house.attach_channel(stack, used)

        future = system.ask(scripted, handler)
        system.run()
        with pytest.raises(AskFailed, match="used before"):
            future.result(0)


class TestReplies:
    def test_a_reply_is_sent_when_return_is_called_not_when_the_handler_ends(
        self, system, scripted
    ):
        order = []

        def handler(actor, stack):
            result = stack.return_("now")
            order.append(future.done())
            return result

        future = system.ask(scripted, handler)
        system.run()
        assert order == [True]

    def test_an_ask_stack_knows_who_asked(self, system, probe, scripted):
        seen = []

        def handler(actor, stack):
            seen.append(stack.sender)
            return stack.return_(None)

        probe.ask(scripted, handler)
        probe.expect_reply()
        system.ask_now(scripted, handler)
        assert seen == [probe.address, None]

    def test_throw_answers_with_the_error_as_the_cause(self, system, scripted):
        cause = KeyError("what")
        future = system.ask(scripted, lambda actor, stack: stack.throw(cause))
        system.run()
        error = future.exception(0)
        assert isinstance(error, AskFailed)
        assert error.cause is cause
        assert error.__cause__ is cause


class TestChannelStack:
    """It records its result; to write that out, and to recycle the stack, is the channel's part."""

    def run(self, system, actor_class):
        address = system.build_actor(actor_class)
        system.run()
        context = system.manual.threads[0].context
        stack = ChannelStack()
        stack.house, stack.actor = address.house, address.house.actor
        stack.channel, stack.inbound, stack.message_id = object(), "bytes", 7
        run_stack(context, address.house, stack)
        return stack

    def test_return_records_the_result(self, system):
        class Echo(StateActor):
            def resume_channel(self, stack):
                return stack.return_(stack.inbound.upper())

        stack = self.run(system, Echo)
        assert (stack.done, stack.result, stack.error) == (True, "BYTES", None)
        assert (stack.inbound, stack.message_id) == ("bytes", 7), "the channel recycles it"

    @pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(3)])
    def test_an_error_is_recorded_whether_thrown_or_raised(self, system, raised):
        class Throws(StateActor):
            def resume_channel(self, stack):
                return stack.throw(raised)

        class Raises(StateActor):
            def resume_channel(self, stack):
                raise raised

        for actor_class in (Throws, Raises):
            stack = self.run(system, actor_class)
            assert (stack.done, stack.result, stack.error) == (True, None, raised)

    def test_a_state_actor_refuses_channels(self, system):
        stack = self.run(system, StateActor)
        assert isinstance(stack.error, StackError)
        assert "cannot handle channels" in str(stack.error)
