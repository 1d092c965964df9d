"""Futures: the table that finds them, what completes them, and what waits for several."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otavia_ft import (
    Ask,
    AskFailed,
    AskTimeout,
    FuturesState,
    FutureState,
    MessageFuture,
    StackError,
    StackState,
    StateActor,
    TimeoutReply,
    sleep,
)
from otavia_ft.stack.promise import MessagePromise
from otavia_ft.stack.table import INITIAL_CAPACITY, FutureDispatcher


def promise(aid: int) -> MessagePromise[Any]:
    made: MessagePromise[Any] = MessagePromise()
    made.aid = aid
    return made


def filled(n: int) -> FutureDispatcher:
    table = FutureDispatcher()
    for aid in range(n):
        table.push(promise(aid))
    return table


class TestFutureDispatcher:
    def test_what_is_pushed_is_popped_once_by_its_number(self):
        table = FutureDispatcher()
        pushed = promise(42)
        table.push(pushed)
        assert 42 in table
        assert table.pop(42) is pushed
        assert table.pop(42) is None
        assert 42 not in table

    def test_a_number_that_nobody_waits_under_gives_none(self):
        table = filled(3)
        assert table.pop(3) is None
        assert table.pop(0 + INITIAL_CAPACITY) is None, "same bucket as 0, another number"
        assert table.count == 3

    def test_numbers_that_fall_into_one_bucket_are_chained_and_all_found(self):
        table = FutureDispatcher()
        numbers = [n * INITIAL_CAPACITY for n in range(5)]
        for aid in numbers:
            table.push(promise(aid))
        assert table.capacity == INITIAL_CAPACITY
        for aid in (numbers[2], numbers[4], numbers[0], numbers[3], numbers[1]):
            assert table.pop(aid).aid == aid
        assert table.count == 0

    def test_it_grows_just_before_the_load_factor_of_2_is_reached(self):
        full = 2 * INITIAL_CAPACITY
        table = filled(full - 1)
        assert table.capacity == INITIAL_CAPACITY
        table.push(promise(full - 1))
        assert table.capacity == 2 * INITIAL_CAPACITY
        assert sorted(p.aid for p in table) == list(range(full))

    def test_it_shrinks_at_4_times_its_first_capacity_when_under_half_full(self):
        table = filled(2 * 2 * INITIAL_CAPACITY)
        assert table.capacity == 4 * INITIAL_CAPACITY
        half = table.capacity // 2
        for aid in range(2 * 2 * INITIAL_CAPACITY - half):
            table.pop(aid)
        assert table.count == half
        assert table.capacity == 4 * INITIAL_CAPACITY, "exactly half full: not yet"
        table.pop(2 * 2 * INITIAL_CAPACITY - 1)
        assert table.capacity == 2 * INITIAL_CAPACITY

    def test_it_never_shrinks_below_twice_its_first_capacity(self):
        table = filled(1000)
        for aid in range(1000):
            table.pop(aid)
        assert table.count == 0
        assert table.capacity == 2 * INITIAL_CAPACITY
        small = filled(2 * INITIAL_CAPACITY)
        for aid in range(2 * INITIAL_CAPACITY):
            small.pop(aid)
        assert small.capacity == 2 * INITIAL_CAPACITY

    @pytest.mark.python_lane
    def test_its_capacity_is_a_power_of_two_and_its_index_a_mask(self):
        for n in (0, 10, 100, 1000):
            table = filled(n)
            assert table.capacity & (table.capacity - 1) == 0
            for found in table:
                assert found in list(table._chain(found.aid & (table.capacity - 1)))

    def test_a_popped_promise_keeps_no_link_to_its_old_neighbours(self):
        table = filled(100)
        assert all(table.pop(aid).hash_next is None for aid in range(100))

    @settings(deadline=None)  # the machine may be busy with other tests
    @given(
        st.lists(
            st.tuples(st.sampled_from(["push", "pop"]), st.integers(min_value=-70, max_value=70)),
            max_size=300,
        )
    )
    def test_it_does_what_a_dict_does(self, steps):
        table = FutureDispatcher()
        model: dict[int, MessagePromise[Any]] = {}
        for what, aid in steps:
            if what == "pop":
                assert table.pop(aid) is model.pop(aid, None)
            elif aid not in model:
                model[aid] = promise(aid)
                table.push(model[aid])
            assert table.count == len(model)
            assert table.count < 2 * table.capacity
            assert (aid in table) == (aid in model)
        assert {p.aid: p for p in table} == model


class TestPromise:
    def test_one_object_is_promise_future_and_hash_node(self):
        assert MessageFuture is MessagePromise
        assert hasattr(MessageFuture(), "hash_next")

    def test_pending_it_has_neither_answer_nor_cause(self):
        future = MessageFuture()
        assert (future.is_done, future.is_success, future.is_failed) == (False, False, False)
        assert future.cause is None
        with pytest.raises(StackError, match="still pending"):
            future.get_now()

    def test_successful_it_gives_its_answer_even_if_that_is_none(self):
        future = MessageFuture()
        future.set_success(None)
        assert (future.is_done, future.is_success, future.is_failed) == (True, True, False)
        assert future.get_now() is None
        assert future.cause is None

    def test_failed_it_raises_its_cause(self):
        future = MessageFuture()
        future.set_failure(error := KeyError("x"))
        assert (future.is_done, future.is_success, future.is_failed) == (True, False, True)
        assert future.is_timeout is False
        assert future.cause is error
        with pytest.raises(KeyError):
            future.get_now()

    def test_only_a_failure_by_time_is_a_timeout(self):
        future = MessageFuture()
        future.set_failure(AskTimeout("late"))
        assert future.is_timeout is True
        answered = MessageFuture()
        answered.set_success(AskTimeout("as a value"))
        assert answered.is_timeout is False

    @pytest.mark.parametrize("second", ["success", "failure"])
    def test_it_is_completed_once(self, second):
        future = MessageFuture()
        future.set_success(1)
        with pytest.raises(StackError, match="completed already"):
            future.set_success(2) if second == "success" else future.set_failure(KeyError())
        assert future.get_now() == 1


@dataclass(frozen=True, slots=True)
class Number(Ask[Any]):
    n: int


class Waits(StateActor):
    """Hand-written: asks `target` as a script says, and appends what it sees to a log."""

    def __init__(self, target, log, make_state, timeout=None):
        self.target = target
        self.log = log
        self.make_state = make_state
        self.timeout = timeout

    def resume_notice(self, stack):
        if stack.state is StackState.START:
            state = self.make_state()
            futures = state.futures if hasattr(state, "futures") else [state.future]
            for n, future in enumerate(futures):
                self.target.ask(Number(n), future, timeout=self.timeout)
            return stack.suspend(state)
        futures = stack.state.futures if hasattr(stack.state, "futures") else [stack.state.future]
        self.log.append([f.cause or f.get_now() if f.is_done else None for f in futures])
        return stack.return_()


class AnyOf(StackState):
    """Satisfied by the first of several answers."""

    def __init__(self, n):
        self.futures = [MessageFuture() for _ in range(n)]

    def resumable(self):
        return any(future.is_done for future in self.futures)


class AtLeast(AnyOf):
    """Satisfied by `k` of them."""

    def __init__(self, n, k):
        super().__init__(n)
        self.k = k

    def resumable(self):
        return sum(future.is_done for future in self.futures) >= self.k


class TestStatesWithFutures:
    def start(self, system, probe, make_state, timeout=None):
        log: list[Any] = []
        address = system.build_actor(Waits, probe.address, log, make_state, timeout)
        address.notice("go")
        system.run()
        return address, log

    def test_a_future_state_waits_for_one_answer(self, system, probe):
        _, log = self.start(system, probe, FutureState)
        assert log == []
        probe.expect_ask()
        probe.reply("one")
        assert log == [["one"]]

    def test_a_futures_state_waits_for_all_answers_in_any_order(self, system, probe):
        _, log = self.start(system, probe, lambda: FuturesState(3))
        asks = []
        for _ in range(3):
            probe.expect_ask()
            asks.append(probe._next_ask)
        for n in (2, 0):
            asks[n].asker.answer(asks[n].ask_id, f"answer {n}")
            system.run()
            assert log == []
        asks[1].asker.answer(asks[1].ask_id, "answer 1")
        system.run()
        assert log == [["answer 0", "answer 1", "answer 2"]]

    def test_a_state_of_ones_own_may_be_satisfied_by_the_first_answer(self, system, probe):
        address, log = self.start(system, probe, lambda: AnyOf(3))
        probe.expect_ask()
        probe.expect_ask()
        probe.reply("second")
        assert log == [[None, "second", None]]
        assert address.house.promises.count == 0, "the others are let go"

    def test_a_state_of_ones_own_may_want_some_of_its_answers(self, system, probe):
        _, log = self.start(system, probe, lambda: AtLeast(3, 2))
        probe.expect_ask()
        probe.reply("a")
        assert log == []
        probe.expect_ask()
        probe.reply("b")
        assert log == [["a", "b", None]]

    def test_an_error_completes_a_future_like_a_reply(self, system, probe):
        _, log = self.start(system, probe, FutureState)
        probe.expect_ask()
        probe._next_ask.throw(ValueError("no"))
        system.run()
        [[error]] = log
        assert isinstance(error, AskFailed)
        assert isinstance(error.cause, ValueError)


class TestTimeouts:
    def test_an_ask_without_an_answer_in_time_fails_with_ask_timeout(self, system, probe):
        log = []
        address = system.build_actor(Waits, probe.address, log, FutureState, 5)
        address.notice("go")
        system.advance(4.9)
        assert log == []
        system.advance(0.2)
        [[error]] = log
        assert isinstance(error, AskTimeout)
        assert isinstance(error, TimeoutError)
        assert address.house.promises.count == 0

    def test_a_reply_in_time_cancels_the_timer(self, system, probe):
        log = []
        address = system.build_actor(Waits, probe.address, log, FutureState, 5)
        address.notice("go")
        system.advance(4)
        assert len(system.timer) == 1
        probe.expect_ask()
        probe.reply("in time")
        assert len(system.timer) == 0
        system.advance(10)
        assert log == [["in time"]]

    def test_a_reply_after_the_timeout_is_a_dead_letter(self, system, probe):
        log = []
        address = system.build_actor(Waits, probe.address, log, FutureState, 5)
        address.notice("go")
        system.advance(6)
        probe.expect_ask()
        probe.reply("too late")
        assert len(log) == 1
        letter = system.dead_letters.latest[-1]
        assert (letter.message, letter.receiver) == ("too late", address.house.name)
        assert "nobody waits" in letter.reason

    def test_if_reply_and_timeout_are_both_there_the_reply_wins(self, system, probe):
        """Replies are dispatched before events."""
        log = []
        address = system.build_actor(Waits, probe.address, log, FutureState, 5)
        address.notice("go")
        system.run()
        probe.expect_ask()
        system.clock.time += 6
        system.timer.fire_due()
        probe.reply("just in time")
        assert log == [["just in time"]]

    def test_each_of_several_asks_has_a_timeout_of_its_own(self, system, probe):
        log = []
        address = system.build_actor(Waits, probe.address, log, lambda: FuturesState(2), 5)
        address.notice("go")
        system.run()
        probe.expect_ask()
        probe.reply("one")
        system.advance(6)
        [[first, second]] = log
        assert first == "one"
        assert isinstance(second, AskTimeout)

    def test_a_timeout_at_an_awkward_fraction_of_ticks_fires(self, system, probe):
        """0.29 / 0.01 is a little less than 29 in floating point; the timer must not wait for a
        tick that, for it, never comes."""
        for hundredths in range(1, 120):
            log: list[Any] = []
            address = system.build_actor(Waits, probe.address, log, FutureState, hundredths / 100)
            address.notice("go")
            system.advance(hundredths / 100 + 0.02)
            assert len(log) == 1, hundredths


class TestSleep:
    def test_a_sleeping_stack_wakes_up_with_a_timeout_reply(self, system):
        log = []

        class Sleeper(StateActor):
            def resume_notice(self, stack):
                if stack.state is StackState.START:
                    state = FutureState()
                    stack.house.attach_sleep(stack, state.future, 3)
                    return stack.suspend(state)
                log.append(stack.state.future.get_now())
                return stack.return_()

        address = system.build_actor(Sleeper)
        address.notice("go")
        system.advance(2.9)
        assert log == []
        system.advance(0.2)
        assert log == [TimeoutReply]

    def test_others_are_handled_while_a_stack_sleeps(self, system):
        log = []

        class Sleeper(StateActor):
            def resume_notice(self, stack):
                if stack.state is StackState.START and stack.notice:
                    state = FutureState()
                    state.future = sleep(stack.notice)
                    return stack.suspend(state)
                log.append(stack.notice)
                return stack.return_()

        address = system.build_actor(Sleeper)
        for seconds in (3, 1, 2, 0):
            address.notice(seconds)
        system.advance(4)
        assert log == [0, 1, 2, 3]


class Batches(StateActor):
    """Answers batches as its script says."""

    batchable = True

    def __init__(self, script):
        self.script = script

    def resume_batch_ask(self, stack):
        return self.script(stack)


class TestBatchAskStack:
    def ask_all(self, system, script, n=3):
        address = system.build_actor(Batches, script)
        futures = [system.ask(address, Number(i)) for i in range(n)]
        system.run()
        return futures

    def test_one_reply_for_all(self, system):
        futures = self.ask_all(system, lambda stack: stack.return_("same"))
        assert [f.result(0) for f in futures] == ["same"] * 3

    @pytest.mark.parametrize("kind", [list, tuple])
    def test_a_sequence_of_pairs_answers_each_its_own(self, system, kind):
        futures = self.ask_all(
            system, lambda stack: stack.return_(kind((e, e.message.n * 10) for e in stack.asks))
        )
        assert [f.result(0) for f in futures] == [0, 10, 20]

    def test_pairs_may_come_in_any_order(self, system):
        futures = self.ask_all(
            system, lambda stack: stack.return_([(e, e.message.n) for e in reversed(stack.asks)])
        )
        assert [f.result(0) for f in futures] == [0, 1, 2]

    def test_a_list_that_holds_no_pairs_is_one_reply(self, system):
        futures = self.ask_all(system, lambda stack: stack.return_([1, 2, 3]))
        assert [f.result(0) for f in futures] == [[1, 2, 3]] * 3

    @pytest.mark.parametrize("wrong", ["one is missing", "one twice", "a stranger"])
    def test_pairs_that_do_not_fit_are_refused_and_all_askers_hear_of_it(self, system, wrong):
        def script(stack):
            pairs = [(e, e.message.n) for e in stack.asks]
            if wrong == "one is missing":
                return stack.return_(pairs[1:])
            if wrong == "one twice":
                return stack.return_([*pairs, pairs[0]])
            return stack.return_([*pairs, "stranger"])

        for future in self.ask_all(system, script):
            error = future.exception(0)
            assert isinstance(error, AskFailed)
            assert isinstance(error.cause, StackError)

    def test_throw_answers_all_with_the_error(self, system):
        cause = ValueError("all of you")
        futures = self.ask_all(system, lambda stack: stack.throw(cause))
        errors = [f.exception(0) for f in futures]
        assert [repr(error.cause) for error in errors] == ["ValueError('all of you')"] * 3
        assert len({id(error.cause) for error in errors}) == 3, "each has its own to raise"

    def test_several_asks_of_one_actor_get_one_answer_with_all_their_numbers(self, system):
        log: list[Any] = []
        answers: list[Any] = []

        def script(stack):
            answers.extend(ids for _, ids in stack._by_asker())
            return stack.return_("same")

        batches = system.build_actor(Batches, script)
        system.build_actor(Waits, batches, log, lambda: FuturesState(4)).notice("go")
        system.ask(batches, Number(9))
        system.run()
        assert log == [["same"] * 4]
        assert sorted(len(ids) for ids in answers if isinstance(ids, tuple)) == [4]

    def test_a_batch_that_waits_is_answered_when_its_actor_stops(self, system, probe):
        def script(stack):
            state = FutureState()
            probe.address.ask("?", state.future)
            return stack.suspend(state)

        address = system.build_actor(Batches, script)
        futures = [system.ask(address, Number(i)) for i in range(3)]
        system.run()
        assert not any(f.done() for f in futures)
        address.stop()
        system.run()
        assert all("has stopped" in str(f.exception(0)) for f in futures)
