"""Handlers written as `async def`, routing by type, and both styles side by side."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from otavia_ft import (
    Ask,
    AskCancelled,
    AskFailed,
    AskTimeout,
    FutureState,
    MessageFuture,
    Notice,
    StackError,
    StackState,
    StateActor,
    TimeoutReply,
    first_of,
    gather,
    on,
    sleep,
)


@dataclass(frozen=True, slots=True)
class Run(Ask[Any]):
    """Its function plays the handler: `await script(actor)`."""

    script: Any


@dataclass(frozen=True, slots=True)
class Tell(Notice):
    script: Any


@dataclass(frozen=True, slots=True)
class Double(Ask[int]):
    n: int


@dataclass(frozen=True, slots=True)
class Fail(Ask[int]):
    error: BaseException


class Watched(MessageFuture[Any]):
    """Counts how often somebody looks at one of its kind."""

    looks = 0

    @property
    def is_done(self):
        Watched.looks += 1
        return super().is_done

    @property
    def is_failed(self):
        Watched.looks += 1
        return super().is_failed


class Silent(StateActor):
    @on(object)
    async def never_answer(self, message):
        await sleep(1000)


class Player(StateActor):
    @on(Run, Tell)
    async def play(self, message):
        return await message.script(self)


class Math(StateActor):
    @on(Double)
    def double(self, message):
        return 2 * message.n

    @on(Fail)
    def fail(self, message):
        raise message.error


@pytest.fixture(params=["pinned", "pool"])
def system(request, make_test_system):
    """Stacks do not know which scheduler runs their house."""
    return make_test_system(dispatcher=request.param)


@pytest.fixture
def player(system):
    return system.build_actor(Player)


@pytest.fixture
def math(system):
    return system.build_actor(Math)


class TestAwait:
    def test_awaiting_an_ask_gives_its_reply(self, system, player, math):
        async def script(actor):
            return [await math.ask(Double(n)) for n in range(4)]

        assert system.ask_now(player, Run(script)) == [0, 2, 4, 6]

    def test_what_an_async_handler_returns_is_the_reply(self, system, player):
        async def script(actor):
            return "without waiting"

        assert system.ask_now(player, Run(script)) == "without waiting"

    def test_coroutines_may_await_coroutines(self, system, player, math):
        async def inner(n):
            return await math.ask(Double(n))

        async def script(actor):
            return await inner(await inner(1))

        assert system.ask_now(player, Run(script)) == 4

    def test_an_awaited_ask_may_be_asked_before_and_awaited_later(self, system, player, math):
        async def script(actor):
            later = math.ask(Double(1))
            await sleep(1)
            assert later.is_done
            return await later

        assert system.ask_now(player, Run(script), within=2) == 2

    def test_a_future_may_be_awaited_twice(self, system, player, math):
        async def script(actor):
            future = math.ask(Double(3))
            return await future + await future

        assert system.ask_now(player, Run(script)) == 12

    def test_an_error_of_the_asked_actor_is_raised_at_the_await(self, system, player, math):
        cause = LookupError("nothing there")

        async def script(actor):
            try:
                await math.ask(Fail(cause))
            except AskFailed as error:
                return error.cause

        assert system.ask_now(player, Run(script)) is cause

    def test_an_error_that_nobody_catches_goes_on_to_the_asker(self, system, player, math):
        cause = LookupError("nothing there")

        async def script(actor):
            await math.ask(Fail(cause))

        future = system.ask(player, Run(script))
        system.run()
        outer = future.exception(0)
        assert isinstance(outer, AskFailed)
        assert isinstance(outer.cause, AskFailed)
        assert outer.cause.cause is cause

    def test_a_timeout_is_raised_at_the_await(self, system, probe, player):
        async def script(actor):
            try:
                await probe.address.ask("?", timeout=3)
            except AskTimeout:
                return "too late"

        assert system.ask_now(player, Run(script), within=4) == "too late"

    def test_an_actor_may_await_its_own_answer_when_there_is_no_barrier(self, system, player):
        async def inner(actor):
            return "inner"

        async def script(actor):
            return await actor.address.ask(Run(inner))

        assert system.ask_now(player, Run(script)) == "inner"

    def test_many_waiting_handlers_of_one_actor_keep_their_own_variables(self, system, player):
        def script_of(n):
            async def script(actor):
                await sleep(10 - n)
                return n

            return script

        futures = [system.ask(player, Run(script_of(n))) for n in range(10)]
        system.advance(11)
        assert [f.result(0) for f in futures] == list(range(10))

    def test_a_notice_may_be_handled_by_a_coroutine_too(self, system, player, math):
        got = []

        async def script(actor):
            got.append(await math.ask(Double(5)))

        player.notice(Tell(script))
        system.run()
        assert got == [10]


class TestSleep:
    def test_sleep_takes_virtual_time_and_gives_a_timeout_reply(self, system, player):
        async def script(actor):
            return await sleep(2.5)

        future = system.ask(player, Run(script))
        system.advance(2.4)
        assert not future.done()
        system.advance(0.2)
        assert future.result(0) is TimeoutReply

    def test_sleeping_for_no_time_goes_on_at_once(self, system, player):
        async def script(actor):
            await sleep(0)
            return "awake"

        assert system.ask_now(player, Run(script)) == "awake"

    @pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
    def test_a_time_that_cannot_be_slept_is_refused_at_the_call(self, system, player, seconds):
        async def script(actor):
            with pytest.raises(ValueError, match="cannot sleep"):
                sleep(seconds)
            return "refused"

        assert system.ask_now(player, Run(script)) == "refused"
        assert player.house.promises.count == 0


class TestGather:
    def test_it_gives_all_answers_in_the_order_of_the_asks(self, system, player, math):
        async def script(actor):
            return await gather(*(math.ask(Double(n)) for n in range(5)))

        assert system.ask_now(player, Run(script)) == [0, 2, 4, 6, 8]

    def test_the_asks_run_side_by_side(self, system, player):
        async def script(actor):
            await gather(sleep(3), sleep(3), sleep(3))
            return actor.system.clock.time

        assert system.ask_now(player, Run(script), within=4) == pytest.approx(3, abs=0.1)

    def test_the_first_failure_is_raised_without_waiting_for_the_rest(self, system, player, math):
        cause = KeyError("gone")

        async def script(actor):
            await gather(sleep(100), math.ask(Fail(cause)))

        future = system.ask(player, Run(script))
        system.run()
        assert future.exception(0).cause.cause is cause
        assert len(system.timer) == 0, "the sleep is let go"

    def test_of_nothing_it_is_an_empty_list(self, system, player):
        async def script(actor):
            return await gather()

        assert system.ask_now(player, Run(script)) == []

    def test_of_what_has_come_already_it_does_not_wait(self, system, player, math):
        async def script(actor):
            first = math.ask(Double(1))
            await first
            return await gather(first, sleep(0))

        assert system.ask_now(player, Run(script)) == [2, TimeoutReply]

    @pytest.mark.parametrize("last", [1, -1], ids=["no failure", "the last one fails"])
    def test_it_looks_at_each_answer_once_however_many_there_are(self, system, player, math, last):
        """Looking at all of them for every answer would be quadratic."""
        futures = [Watched() for _ in range(500)]
        Watched.looks = 0

        async def script(actor):
            for n, future in enumerate(futures[:-1]):
                math.ask(Double(n), future)
            math.ask(Double(499) if last == 1 else Fail(KeyError("x")), futures[-1])
            return await gather(*futures)

        future = system.ask(player, Run(script))
        system.run()
        assert Watched.looks < 10 * len(futures)
        if last == 1:
            assert future.result(0) == [2 * n for n in range(500)]
        else:
            assert isinstance(future.exception(0).cause, AskFailed)

    @pytest.mark.parametrize("failed", range(4))
    def test_a_failure_ends_it_wherever_it_stands_and_whenever_it_came(
        self, system, player, math, failed
    ):
        async def script(actor):
            futures = [sleep(100) for _ in range(4)]
            stray = math.ask(Fail(KeyError("stray")))
            with pytest.raises(AskFailed):
                await stray
            futures[failed] = math.ask(Fail(ValueError("told")))
            others = math.ask(Fail(KeyError("awaited by nobody")))
            with pytest.raises(AskFailed, match="told"):
                await gather(*futures)
            with pytest.raises(AskFailed, match="told"):
                await gather(*futures)
            with pytest.raises(AskFailed, match="nobody"):
                await others
            return actor.system.clock.time

        assert system.ask_now(player, Run(script)) == 0

    def test_a_failure_that_nobody_awaits_does_not_end_it(self, system, player, math):
        async def script(actor):
            first, second = sleep(1), sleep(2)
            math.ask(Fail(KeyError("awaited by nobody")))
            return await gather(first, second)

        assert system.ask_now(player, Run(script), within=3) == [TimeoutReply] * 2


class TestFirstOf:
    def test_it_does_not_look_at_all_of_them_for_a_stranger_that_comes(self, system, player, math):
        futures = [Watched() for _ in range(500)]
        Watched.looks = 0

        async def script(actor):
            for future in futures:
                actor.silent.ask("?", future)
            for n in range(500):
                math.ask(Double(n))
            return await first_of(*futures, sleep(1))

        player.house.actor.silent = system.build_actor(Silent)
        assert system.ask_now(player, Run(script), within=2) == (500, TimeoutReply)
        assert Watched.looks < 10 * len(futures)

    def test_it_gives_the_index_and_answer_of_the_first(self, system, player):
        async def script(actor):
            return await first_of(sleep(3), sleep(1), sleep(2))

        assert system.ask_now(player, Run(script), within=1.5) == (1, TimeoutReply)

    def test_it_raises_if_the_first_has_failed(self, system, player, math):
        async def script(actor):
            await first_of(sleep(1), math.ask(Fail(KeyError("x"))))

        future = system.ask(player, Run(script))
        system.run()
        assert isinstance(future.exception(0).cause, AskFailed)

    def test_the_others_can_be_awaited_afterwards(self, system, player):
        async def script(actor):
            slow, fast = sleep(2), sleep(1)
            await first_of(slow, fast)
            await slow
            return actor.system.clock.time

        assert system.ask_now(player, Run(script), within=3) == pytest.approx(2, abs=0.1)

    def test_a_loser_that_comes_while_something_else_is_awaited_wakes_nobody(self, system, player):
        times = []

        async def script(actor):
            await first_of(sleep(1), sleep(2))
            times.append(round(actor.system.clock.time))
            await sleep(4)
            times.append(round(actor.system.clock.time))

        player.notice(Tell(script))
        system.advance(10)
        assert times == [1, 5]

    def test_of_nothing_it_is_refused(self):
        with pytest.raises(ValueError, match="wait for ever"):
            first_of()


class TestWhatCannotBeAwaited:
    @pytest.mark.parametrize("name", ["gather", "first_of"])
    @pytest.mark.parametrize("thing", [1, None, "text", "coroutine"])
    def test_only_futures_can_be_gathered(self, name, thing):
        async def coroutine():
            pass

        with pytest.raises(TypeError, match=f"{name}\\(\\) takes futures"):
            {"gather": gather, "first_of": first_of}[name](
                coroutine() if thing == "coroutine" else thing
            )

    def test_awaiting_asyncio_is_a_clear_error_that_can_be_caught(self, system, player):
        async def script(actor):
            with pytest.raises(StackError, match="no asyncio loop"):
                await asyncio.sleep(0)
            return "still here"

        assert system.ask_now(player, Run(script)) == "still here"

    def test_awaiting_the_future_of_another_handler_is_refused(self, system, player, probe):
        shared = []

        async def first(actor):
            shared.append(probe.address.ask("?"))
            await shared[0]

        async def second(actor):
            with pytest.raises(StackError, match="another message's execution"):
                await shared[0]
            return "refused"

        player.notice(Tell(first))
        system.run()
        assert system.ask_now(player, Run(second)) == "refused"

    def test_awaiting_a_future_that_was_never_asked_is_refused(self, system, player):
        async def script(actor):
            with pytest.raises(StackError):
                await MessageFuture()
            return "refused"

        assert system.ask_now(player, Run(script)) == "refused"

    @pytest.mark.parametrize("style", ["plain", "async"])
    def test_returning_a_future_instead_of_awaiting_it_is_a_clear_error(self, system, math, style):
        class Forgetful(StateActor):
            @on(Run)
            def plain(self, message):
                return math.ask(Double(1))

            @on(Double)
            async def later(self, message):
                return math.ask(Double(1))

        forgetful = system.build_actor(Forgetful)
        future = system.ask(forgetful, Run(None) if style == "plain" else Double(1))
        system.run()
        with pytest.raises(AskFailed, match="await"):
            future.result(0)


class TestCancellation:
    def test_a_stop_runs_the_finally_blocks_of_waiting_handlers(self, system, probe, player):
        log = []

        def script_of(name, waiting_for):
            async def script(actor):
                try:
                    await waiting_for()
                finally:
                    log.append(name)

            return script

        player.notice(Tell(script_of("ask", lambda: probe.address.ask("?"))))
        player.notice(Tell(script_of("sleep", lambda: sleep(100))))
        system.run()
        assert log == []
        player.stop()
        system.run()
        assert sorted(log) == ["ask", "sleep"]

    def test_the_handler_sees_ask_cancelled(self, system, player):
        seen = []

        async def script(actor):
            try:
                await sleep(100)
            except BaseException as error:
                seen.append(type(error))
                raise

        player.notice(Tell(script))
        system.run()
        player.stop()
        system.run()
        assert seen == [AskCancelled]

    def test_its_asker_is_answered_although_it_swallows_the_cancellation(self, system, player):
        async def script(actor):
            while True:
                try:
                    await sleep(100)
                except AskCancelled:
                    pass
                except StackError:
                    return "sleep() is refused once the actor stops"

        future = system.ask(player, Run(script))
        system.run()
        player.stop()
        system.run()
        assert "has stopped" in str(future.exception(0))

    def test_asking_in_a_finally_block_of_a_cancelled_handler_is_refused(
        self, system, probe, player
    ):
        seen = []

        async def script(actor):
            try:
                await sleep(100)
            finally:
                with pytest.raises(StackError, match="finished"):
                    probe.address.ask("?")
                seen.append("refused")

        player.notice(Tell(script))
        system.run()
        player.stop()
        system.run()
        assert seen == ["refused"]

    def test_a_system_stop_cancels_waiting_handlers_too(self, make_test_system):
        system = make_test_system()
        player = system.build_actor(Player)
        log = []

        async def script(actor):
            try:
                await sleep(100)
            finally:
                log.append("finally")

        player.notice(Tell(script))
        system.run()
        system.stop()
        assert log == ["finally"]


class TestMixedStyles:
    def test_one_actor_may_write_notices_by_hand_and_asks_as_coroutines(self, system, math):
        got = []

        class Mixed(StateActor):
            def resume_notice(self, stack):
                if stack.state is StackState.START:
                    state = FutureState()
                    math.ask(stack.notice, state.future)
                    return stack.suspend(state)
                got.append(stack.state.future.get_now())
                return stack.return_()

            @on(Double)
            async def double(self, message):
                return await math.ask(message)

        mixed = system.build_actor(Mixed)
        mixed.notice(Double(1))
        assert system.ask_now(mixed, Double(2)) == 4
        assert got == [2]

    def test_a_hand_written_method_may_leave_the_rest_to_the_routes(self, system):
        class Mixed(StateActor):
            def resume_ask(self, stack):
                if stack.ask == "by hand":
                    return stack.return_("by hand")
                return super().resume_ask(stack)

            @on(Double)
            async def double(self, message):
                await sleep(1)
                return 2 * message.n

        mixed = system.build_actor(Mixed)
        assert system.ask_now(mixed, "by hand") == "by hand"
        assert system.ask_now(mixed, Double(4), within=2) == 8

    def test_a_stack_suspended_by_hand_needs_a_hand_written_method_to_go_on(self, system, math):
        class Half(StateActor):
            def resume_ask(self, stack):
                if stack.state is StackState.START:
                    state = FutureState()
                    math.ask(Double(1), state.future)
                    return stack.suspend(state)
                return super().resume_ask(stack)

        future = system.ask(system.build_actor(Half), "?")
        system.run()
        with pytest.raises(AskFailed, match="by its default resume method"):
            future.result(0)
