"""Rules of stacks, promises, barriers, batches and pools that no other test has as its name."""

import threading
from types import SimpleNamespace

import pytest

from otavia_ft import (
    AskFailed,
    AskTimeout,
    ChannelFutureState,
    Config,
    FutureState,
    MessageFuture,
    StackState,
    StateActor,
    on,
)
from otavia_ft.house.engine import run_stack
from otavia_ft.message import Envelope
from otavia_ft.pool import ThreadPool
from otavia_ft.stack.stack import BatchAskStack, ChannelStack, NoticeStack
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


@pytest.fixture
def pooling(make_test_system):
    return make_test_system(pooling=True)


def idle(system, kind) -> int:
    """How many objects of a type wait for their next user."""
    (pool,) = [p for p in system.manual.threads[0].context.pools if p._type.__name__ == kind]
    return len(pool)


class TestResuming:
    @pytest.mark.parametrize("kind", ["notice", "ask", "batch_notice", "batch_ask"])
    def test_a_stack_begins_in_the_start_state_and_is_resumed_by_the_method_that_began_it(
        self, system, probe, kind
    ):
        calls = []

        def resume(name):
            def method(actor, stack):
                calls.append((name, type(stack).__name__, stack.state.id, stack.actor is actor))
                if stack.state is not StackState.START:
                    return stack.return_("reply") if name.endswith("ask") else stack.return_()
                state = FutureState(7)
                probe.address.ask("?", state.future)
                return stack.suspend(state)

            return method

        names = ["notice", "ask", "batch_notice", "batch_ask"]
        methods = {f"resume_{name}": resume(name) for name in names}
        actor = type("Resumed", (StateActor,), {"batchable": "batch" in kind, **methods})
        address = system.build_actor(actor)
        if kind.endswith("ask"):
            system.ask(address, "message")
        else:
            address.notice("message")
        probe.expect_ask()
        probe.reply("!")
        stack = "".join(word.capitalize() for word in kind.split("_")) + "Stack"
        assert calls == [(kind, stack, 0, True), (kind, stack, 7, True)]

    def test_a_channel_promise_is_in_its_stacks_chain_and_not_in_the_table(self, system, scripted):
        seen = []

        def waits(actor, stack):
            if stack.state is not StackState.START:
                return stack.return_()
            state = ChannelFutureState()
            stack.house.attach_channel(stack, state.future)
            seen.append((state.future, stack.uncompleted_head, stack.house.promises.count))
            return stack.suspend(state)

        scripted.notice(waits)
        system.run()
        ((promise, in_chain, in_table),) = seen
        assert in_chain is promise
        assert in_table == 0

    def test_in_the_start_state_the_first_completed_promise_resumes(self, system, probe, scripted):
        seen = []

        def handler(actor, stack):
            if stack.attach is None:
                stack.attach = [probe.address.ask(n) for n in range(2)]
                return stack.suspend(StackState.START)
            seen.append([future.is_done for future in stack.attach])
            return stack.return_()

        scripted.notice(handler)
        assert probe.expect_ask() == 0
        probe.reply("first")
        assert seen == [[True, False]]

    def test_a_state_is_not_asked_when_nothing_is_left_to_wait_for(self, system, probe, scripted):
        """A stack whose promises have all come is resumed whatever its state would say."""
        asked = []

        class Never(StackState):
            def __init__(self):
                self.futures = [MessageFuture(), MessageFuture()]

            def resumable(self):
                asked.append([future.is_done for future in self.futures])
                return False

        def handler(actor, stack):
            if stack.state is not StackState.START:
                asked.append("resumed")
                return stack.return_()
            state = Never()
            for future in state.futures:
                probe.address.ask("?", future)
            return stack.suspend(state)

        scripted.notice(handler)
        for _ in range(2):
            probe.expect_ask()
            probe.reply("!")
        assert asked == [[True, False], "resumed"]

    def test_a_promise_has_moved_to_the_completed_chain_when_its_state_is_asked(
        self, system, probe, scripted
    ):
        chains = []

        class Looks(StackState):
            def __init__(self, stack):
                self.stack = stack
                self.futures = [MessageFuture(), MessageFuture()]

            def resumable(self):
                chains.append((self.stack.completed_head, self.stack.uncompleted_head))
                return False

        def handler(actor, stack):
            if stack.state is not StackState.START:
                return stack.return_()
            state = Looks(stack)
            chains.append(tuple(state.futures))
            for future in state.futures:
                probe.address.ask("?", future)
            return stack.suspend(state)

        scripted.notice(handler)
        for _ in range(2):
            probe.expect_ask()
            probe.reply("!")
        assert chains[1] == chains[0]

    def test_a_restart_keeps_the_stacks_that_wait_and_drops_only_the_failing_one(
        self, system, probe, scripted
    ):
        ended = []

        def waits(actor, stack):
            if stack.state is StackState.START:
                state = FutureState()
                probe.address.ask("?", state.future)
                return stack.suspend(state)
            ended.append(stack.state.future.get_now())
            return stack.return_()

        def fails(actor, stack):
            raise ValueError("a reason to restart")

        scripted.notice(waits)
        scripted.notice(fails)
        system.run()
        assert scripted.house.promises.count == 1
        probe.expect_ask()
        probe.reply("after the restart")
        assert ended == ["after the restart"]

    @pytest.mark.parametrize("answer", ["reply", "error", "timeout"])
    def test_a_promise_has_left_the_table_when_its_stack_is_resumed(
        self, system, probe, scripted, answer
    ):
        counts = []

        def handler(actor, stack):
            counts.append(stack.house.promises.count)
            if stack.state is not StackState.START:
                return stack.return_()
            state = FutureState()
            probe.address.ask("?", state.future, timeout=5)
            counts.append((stack.house.promises.count, state.future.aid))
            return stack.suspend(state)

        scripted.notice(handler)
        probe.expect_ask()
        (_, (_, number)) = counts
        if answer == "reply":
            scripted.reply("!", number)
        elif answer == "error":
            scripted.throw(AskTimeout("no"), number)
        system.advance(5 if answer == "timeout" else 0)
        assert counts == [0, (1, number), 0]

    def test_an_early_return_cancels_the_timeouts_of_what_it_leaves(self, system, probe, scripted):
        def leaves(actor, stack):
            probe.address.ask("?", timeout=5)
            timers.append(len(system.timer))
            return stack.return_()

        timers = []
        scripted.notice(leaves)
        system.run()
        assert timers == [1]
        assert len(system.timer) == 0

    def test_a_suspended_stack_is_resumed_on_its_actors_own_thread(self, make_real_system):
        """Whichever thread has the actor that answers."""
        system = make_real_system(workers=2, stealing=False)
        answering = system.build_actor(Scripted, num=2)

        def name(actor, stack):
            return stack.return_(threading.current_thread().name)

        def asks(actor, stack):
            if stack.attach is None:
                stack.attach = ([], [])
            here, there = stack.attach
            here.append(threading.current_thread().name)
            if stack.state is not StackState.START:
                there.append(stack.state.future.get_now())
            if len(here) == 5:
                return stack.return_(stack.attach)
            state = FutureState()
            answering.ask(name, state.future)
            return stack.suspend(state)

        here, there = system.ask(system.build_actor(Scripted), asks).result(20)
        assert len(set(here)) == 1
        assert len(set(there)) == 2, "half of the answers came from another thread"


class TestBarriers:
    def test_a_reply_releases_the_barrier_if_the_barriers_stack_ends_with_it(self, system, probe):
        """A reply after which the stack goes on waiting leaves it standing."""

        class Serial(Scripted):
            serial = True

        def asks_twice(actor, stack):
            log.append(f"barrier {stack.state.id}")
            if stack.state.id == 2:
                return stack.return_()
            state = FutureState(stack.state.id + 1)
            probe.address.ask("?", state.future)
            return stack.suspend(state)

        def waits_behind(actor, stack):
            log.append("behind it")
            return stack.return_()

        log = []
        address = system.build_actor(Serial)
        address.notice(asks_twice)
        address.notice(waits_behind)
        probe.expect_ask()
        probe.reply("first")
        assert log == ["barrier 0", "barrier 1"]
        assert address.house.barrier is not None
        probe.expect_ask()
        probe.reply("second")
        assert log[2:] == ["barrier 2", "behind it"]
        assert address.house.barrier is None


class Batching(StateActor):
    batchable = True

    def __init__(self, script, log):
        self.script = script
        self.log = log

    def is_barrier_call(self, message):
        self.log.append(message)
        return True

    def resume_batch_notice(self, stack):
        return self.script(stack)

    def resume_batch_ask(self, stack):
        return self.script(stack)


class TestBatches:
    def test_a_message_of_a_batch_is_never_a_barrier(self, system, probe):
        """The predicate would say that every message is one; it is not even asked."""

        def waits(stack):
            if stack.state is StackState.START:
                state = FutureState()
                probe.address.ask("?", state.future)
                return stack.suspend(state)
            return stack.return_()

        address = system.build_actor(Batching, waits, asked := [])
        address.notice("one")
        system.run()
        assert address.house.barrier is None
        assert asked == []

    @pytest.mark.parametrize("end", ["throw", "return_"])
    def test_asks_of_one_asker_get_one_answer_with_all_their_numbers(self, end):
        class Asker:
            def __init__(self):
                self.answers = []

            def answer(self, ids, reply):
                self.answers.append(("return_", ids))

            def answer_error(self, ids, error):
                self.answers.append(("throw", ids))

        one, other = Asker(), Asker()
        stack = BatchAskStack()
        stack.house = SimpleNamespace(name="batching")
        stack.asks = [Envelope(asker, n, "?") for n, asker in enumerate((one, other, one, one))]
        getattr(stack, end)(KeyError("all of you"))
        assert one.answers == [(end, (0, 2, 3))]
        assert other.answers == [(end, 1)], "a single one is no tuple"

    def test_a_failing_batch_of_notices_is_a_matter_of_the_strategy(self, system):
        class Restarts(Batching):
            def restart(self):
                self.log.append("restart")

        def fails(stack):
            raise ValueError(f"{len(stack.notices)} at once")

        address = system.build_actor(Restarts, fails, log := [])
        for n in range(3):
            address.notice(n)
        system.run()
        assert log == ["restart"], "once for all of them"

    def test_a_failing_batch_of_asks_is_an_error_for_each_of_its_askers_and_no_restart(
        self, system
    ):
        class Restarts(Batching):
            def restart(self):
                self.log.append("restart")

        def fails(stack):
            raise ValueError(f"{len(stack.asks)} at once")

        address = system.build_actor(Restarts, fails, log := [])
        futures = [system.ask(address, n) for n in range(2)]
        system.run()
        for future in futures:
            error = future.exception(0)
            assert isinstance(error, AskFailed)
            assert str(error.cause) == "2 at once"
        assert log == []


class TestPools:
    def test_the_seeds_figures_are_the_defaults(self):
        config = Config()
        assert config.pool_check_s == 60, "the trigger"
        assert config.pool_idle_s == 30, "unused for so long"
        assert config.pool_keep == 10, "cut down to"
        assert config.pool_max_size == 256

    def test_the_one_given_back_last_is_taken_first(self):
        """Its memory is the warmest."""
        pool = ThreadPool(NoticeStack, 10)
        used = [pool.get() for _ in range(3)]
        for stack in used:
            pool.recycle(stack)
        assert [pool.get() for _ in range(3)] == used[::-1]

    def test_an_envelope_is_recycled_when_it_is_opened_and_not_with_its_stack(self, pooling):
        seen = []

        def looks(actor, stack):
            seen.append(idle(pooling, "Envelope"))
            return stack.return_("done")

        class Asks(StateActor):
            @on(str)
            async def go(self, message: str) -> None:
                await target.ask(looks)

        target = pooling.build_actor(Scripted)
        pooling.build_actor(Asks).notice("go")
        pooling.run()
        assert seen == [1], "while its handler runs, the envelope is free for the next ask"

    def test_the_envelopes_of_a_batch_are_recycled_with_their_stack(self, pooling):
        probe = TestProbe(pooling)

        def waits(stack):
            if stack.state is StackState.START:
                state = FutureState()
                probe.address.ask("?", state.future)
                return stack.suspend(state)
            return stack.return_("done")

        class Asks(StateActor):
            @on(str)
            def go(self, message: str) -> None:
                for n in range(5):
                    batching.ask(n)

        batching = pooling.build_actor(Batching, waits, [])
        pooling.build_actor(Asks).notice("go")
        pooling.run()
        probe.expect_ask()
        before = idle(pooling, "Envelope")
        probe.reply("go on")
        # The last one may still be in a variable of the loop that took it out.
        assert idle(pooling, "Envelope") - before >= 4

    def test_a_promise_is_recycled_when_its_state_is_left_and_not_while_it_is_the_same(
        self, pooling
    ):
        probe = TestProbe(pooling)
        steps = []

        class Waits(StackState):
            def resumable(self):
                return True

        same, other = Waits(), Waits()

        def handler(actor, stack):
            steps.append(idle(pooling, "MessagePromise"))
            if len(steps) == 4:
                return stack.return_()
            probe.address.ask(len(steps))
            return stack.suspend(same if len(steps) < 3 else other)

        pooling.build_actor(Scripted).notice(handler)
        for _ in range(3):
            probe.expect_ask()
            probe.reply("!")
        pooling.run()
        # Two came in the same state and were kept; entering the other one let both go.
        assert steps == [0, 0, 0, 2]

    def test_a_state_is_recycled_when_another_is_entered_or_its_stack_ends(self, pooling):
        probe = TestProbe(pooling)
        steps = []

        def handler(actor, stack):
            steps.append(idle(pooling, "FutureState"))
            if stack.state.id == 2:
                return stack.return_()
            state = FutureState.reused(stack.state.id + 1)
            probe.address.ask("?", state.future)
            return stack.suspend(state)

        pooling.build_actor(Scripted).notice(handler)
        for _ in range(2):
            probe.expect_ask()
            probe.reply("!")
        pooling.run()
        assert steps == [0, 0, 1]
        assert idle(pooling, "FutureState") == 2

    def test_a_channel_stack_is_not_recycled_by_the_runtime_but_left_to_its_channel(self, pooling):
        class Channels(StateActor):
            def resume_channel(self, stack):
                return stack.return_("result")

        address = pooling.build_actor(Channels)
        pooling.run()
        stack = ChannelStack()
        stack.house, stack.actor = address.house, address.house.actor
        stack.channel, stack.inbound, stack.message_id = object(), "bytes", 7
        run_stack(pooling.manual.threads[0].context, address.house, stack)
        assert (stack.done, stack.result, stack.message_id) == (True, "result", 7)

    def test_a_promise_given_up_before_its_answer_is_nobodys_next(self, pooling):
        """Its answer may still come; it finds nobody, and above all no new owner."""
        probe = TestProbe(pooling)
        got = []

        def leaves(actor, stack):
            probe.address.ask("first")
            return stack.return_()

        def stays(actor, stack):
            if stack.state is StackState.START:
                state = FutureState.reused()
                probe.address.ask("second", state.future)
                return stack.suspend(state)
            got.append(stack.state.future.get_now())
            return stack.return_()

        address = pooling.build_actor(Scripted)
        address.notice(leaves)
        address.notice(stays)
        assert probe.expect_ask() == "first"
        probe.reply("late")
        assert pooling.dead_letters.latest[-1].message == "late"
        assert probe.expect_ask() == "second"
        probe.reply("in time")
        assert got == ["in time"]
