"""With pools on, no object ever serves two users at once: replies are never mixed up.

Every number that is asked is asked once and echoed back, so a reply that reaches the wrong asker is
seen. Futures that a handler keeps are read again after every step: one that was recycled under its
holder would tell another's answer.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otavia_ft import (
    ActorStopped,
    Ask,
    AskFailed,
    AskTimeout,
    FutureState,
    StateActor,
    TimeoutReply,
    first_of,
    gather,
    on,
    sleep,
)
from otavia_ft.stack.state import FuturesState
from otavia_ft.testkit import TestSystem


class Say(Ask[int]):
    def __init__(self, number):
        self.number = number


class Slowly(Say):
    pass


class Fail(Say):
    pass


class Script(Ask[str]):
    def __init__(self, steps):
        self.steps = steps


class Echo(StateActor):
    pause = 2.0

    @on(Say)
    def say(self, message):
        return message.number

    @on(Slowly)
    async def slowly(self, message):
        await sleep(self.pause)
        return message.number

    @on(Fail)
    def fail(self, message):
        raise ValueError(message.number)


class Batching(StateActor):
    batchable = True

    def resume_batch_ask(self, stack):
        return stack.return_([(envelope, envelope.message.number) for envelope in stack.asks])


class Serial(StateActor):
    """Every ask is a barrier; by hand, through both helper states."""

    def __init__(self, echo):
        self.echo = echo

    def is_barrier_call(self, message):
        return True

    def resume_ask(self, stack):
        number = stack.ask.number
        if stack.state.id == 0:
            state = FutureState.reused(1)
            self.echo.ask(Say(number), state.future)
            return stack.suspend(state)
        if stack.state.id == 1:
            stack.attach = stack.state.future.get_now()
            state = FuturesState.reused(3, 2)
            for future in state.futures:
                self.echo.ask(Say(number), future)
            return stack.suspend(state)
        answers = {future.get_now() for future in stack.state.futures}
        return stack.return_(number if answers == {stack.attach} else -1)


class Player(StateActor):
    """Plays scripts. What it sees that it should not see goes to `wrong`."""

    def __init__(self, echo, batching, serial, numbers, wrong):
        self.echo = echo
        self.batching = batching
        self.serial = serial
        self.numbers = numbers
        self.wrong = wrong

    def check(self, step, seen, expected):
        if seen != expected:
            self.wrong.append((step, seen, expected))

    @on(Script)
    async def play(self, message):
        kept = []
        for step in message.steps:
            await getattr(self, step)(kept)
            for number, future in kept:
                if future.is_done:
                    self.check(f"kept, after {step}", future.get_now(), number)
        for number, future in kept:
            self.check("kept, awaited", await future, number)
            self.check("kept, awaited again", await future, number)
        return "played"

    async def ask(self, kept):
        number = next(self.numbers)
        self.check("ask", await self.echo.ask(Say(number)), number)

    async def ask_with_time(self, kept):
        number = next(self.numbers)
        self.check("time", await self.echo.ask(Slowly(number), timeout=1000), number)

    async def ask_too_long(self, kept):
        number = next(self.numbers)
        try:
            self.check("too long", await self.echo.ask(Slowly(number), timeout=1), number)
        except AskTimeout as error:
            self.check("too long", error.__cause__, None)

    async def keep(self, kept):
        for kind in (Say, Slowly):
            number = next(self.numbers)
            kept.append((number, self.echo.ask(kind(number))))

    async def fail(self, kept):
        number = next(self.numbers)
        try:
            self.check("fail", await self.echo.ask(Fail(number)), "an error")
        except AskFailed as error:
            self.check("fail", error.__cause__.args, (number,))

    async def gather(self, kept):
        numbers = [next(self.numbers) for _ in range(3)]
        asks = [self.echo.ask(kind(n)) for kind, n in zip((Say, Slowly, Say), numbers, strict=True)]
        self.check("gather", await gather(*asks), numbers)

    async def first_of(self, kept):
        slow, fast = next(self.numbers), next(self.numbers)
        loser = self.echo.ask(Slowly(slow))
        index, answer = await first_of(loser, self.echo.ask(Say(fast)))
        self.check("first_of", answer, (slow, fast)[index])
        kept.append((slow, loser))

    async def sleep(self, kept):
        self.check("sleep", await sleep(self.echo_pause()), TimeoutReply)

    def echo_pause(self):
        return Echo.pause / 2

    async def through_a_batch(self, kept):
        numbers = [next(self.numbers) for _ in range(2)]
        self.check("batch", await gather(*(self.batching.ask(Say(n)) for n in numbers)), numbers)

    async def through_a_barrier(self, kept):
        number = next(self.numbers)
        self.check("barrier", await self.serial.ask(Say(number)), number)

    async def ask_and_leave(self, kept):
        self.echo.ask(Slowly(next(self.numbers)))


STEPS = [
    "ask", "ask_with_time", "ask_too_long", "keep", "fail", "gather", "first_of", "sleep",
    "through_a_batch", "through_a_barrier", "ask_and_leave",
]  # fmt: skip

scripts = st.lists(st.lists(st.sampled_from(STEPS), max_size=8), min_size=1, max_size=6)


def cast(system, players):
    """The actors of a play; returns the players' addresses and what they saw that is wrong."""
    wrong = []
    echo = system.build_actor(Echo)
    batching = system.build_actor(Batching)
    serial = system.build_actor(Serial, echo)
    numbers = iter(range(1, 1 << 30))
    if players > 1:  # `next` on one iterator from several threads would itself mix numbers up
        numbers = [iter(range(n + 1, 1 << 30, players)) for n in range(players)]
        made = [Player(echo, batching, serial, mine, wrong) for mine in numbers]
    else:
        made = [Player(echo, batching, serial, numbers, wrong)]
    return [system.build_actor(lambda one=one: one) for one in made], wrong


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
@pytest.mark.parametrize("debug", [False, True])
class TestOneThreadThatTheTestTurns:
    @settings(max_examples=60, deadline=None, derandomize=True,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(plays=scripts, stops=st.lists(st.integers(0, 2), max_size=2), size=st.integers(0, 3))
    def test_replies_timeouts_errors_and_stops_reach_the_right_handler(
        self, dispatcher, debug, plays, stops, size
    ):
        with TestSystem(
            dispatcher=dispatcher, workers=2, pooling=True, debug=debug, pool_max_size=size
        ) as system:
            players, wrong = cast(system, 3)
            system.run()
            results = [
                (n % 3, system.ask(players[n % 3], Script(steps))) for n, steps in enumerate(plays)
            ]
            system.advance(1.5)
            for stopped in stops:
                players[stopped].stop()
            system.advance(1000)
            for player, result in results:
                if player in stops:
                    error = result.exception(0)
                    assert error is None or isinstance(error, ActorStopped)
                else:
                    assert result.result(0) == "played"
            assert wrong == []

    def test_every_step_is_played_on_reused_objects(self, dispatcher, debug):
        """That the play above means something: after a few scenes all comes from the pools."""
        with TestSystem(dispatcher=dispatcher, pooling=True, debug=debug) as system:
            (player,), wrong = cast(system, 1)
            pools = system.manual.threads[0].context.pools

            def scene():
                results = [system.ask(player, Script(STEPS)) for _ in range(3)]
                system.advance(1000)
                assert [result.result(0) for result in results] == ["played"] * 3
                return {pool._type.__name__: sorted(map(id, pool._idle)) for pool in pools}

            scene()
            once, again = scene(), scene()
            assert wrong == []
            used = {"AskStack", "BatchAskStack", "MessagePromise", "Envelope", "CoroutineState",
                    "FutureState", "FuturesState"}  # fmt: skip
            assert {kind for kind, idle in again.items() if idle} == used
            for kind in used:
                assert set(once[kind]) & set(again[kind]), f"{kind} is made anew every time"


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
@pytest.mark.parametrize("debug", [False, True])
def test_on_threads_replies_reach_the_right_handler_while_houses_wander(
    make_real_system, monkeypatch, dispatcher, debug
):
    monkeypatch.setattr(Echo, "pause", 0.004)
    system = make_real_system(
        dispatcher=dispatcher, pooling=True, debug=debug, pool_max_size=2, timer_tick_ms=1.0,
        steal_floor=0, steal_aggression=1,
    )  # fmt: skip
    players, wrong = cast(system, 5)
    results = [
        system.ask(player, Script(STEPS[n % 3 :] + STEPS[::-1] + STEPS[: n % 3]), timeout=60)
        for n in range(4)
        for player in players
    ]
    assert [result.result() for result in results] == ["played"] * len(results)
    assert wrong == []
