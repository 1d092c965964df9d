"""Whatever user code raises, wherever: no thread ends, no house hangs, every asker is answered."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from otavia_ft import (
    ActorStopped,
    Ask,
    AskFailed,
    AutoCleanable,
    Event,
    MessageFuture,
    Notice,
    StackState,
    StateActor,
    on,
    sleep,
)
from otavia_ft.atomic import HouseState
from otavia_ft.deadletters import DeadLetters


class Own(BaseException):
    """Derives from BaseException directly, as no library expects."""


class UnprintableError(Exception):
    """Raises again when somebody wants to print it."""

    def __str__(self):
        raise RuntimeError("cannot be printed")

    __repr__ = __str__


KINDS: dict[str, Callable[[], BaseException]] = {
    "Exception": lambda: Exception("raised on purpose"),
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "StopIteration": lambda: StopIteration(1),
    "own BaseException": lambda: Own("raised on purpose"),
    "unprintable": UnprintableError,
}


@dataclass(frozen=True, slots=True)
class Say(Notice):
    word: str


@dataclass(frozen=True, slots=True)
class Get(Ask[str]):
    word: str


@dataclass(frozen=True, slots=True)
class Later(Ask[str]):
    """Handled by a coroutine."""

    word: str


class Strange(Event):
    pass


class AnyOfTwo(StackState):
    def __init__(self, actor):
        self.actor = actor
        self.futures = [MessageFuture(), MessageFuture()]

    def resumable(self):
        self.actor.at("state")
        return True


PLACES = [
    "notice",
    "ask",
    "async notice",
    "async ask",
    "async ask after an await",
    "finally of a cancelled handler",
    "state",
    "batch notice filter",
    "batch ask filter",
    "batch notice",
    "batch ask",
    "barrier predicate of a notice",
    "barrier predicate of an ask",
    "pre_start",
    "after_mount",
    "before_restart",
    "restart",
    "after_restart",
    "post_stop",
    "timer hook",
    "event hook",
    "cleaner",
    "function of the cleaner",
]
STOPS_BY_ITSELF = {
    "pre_start",
    "after_mount",
    "before_restart",
    "restart",
    "after_restart",
    "cleaner",
}
NEEDS_A_STOP = {"post_stop", "function of the cleaner", "finally of a cancelled handler"}
FATAL = STOPS_BY_ITSELF | NEEDS_A_STOP


def bomb(place: str, kind: str, raised: list[str]) -> type[StateActor]:
    """An actor class that raises a `kind` at `place`, and notes that it did."""

    class Bomb(AutoCleanable, StateActor):
        batchable = place.startswith("batch")

        def at(self, here):
            if here == place:
                raised.append(here)
                raise KINDS[kind]()

        def pre_start(self):
            self.at("pre_start")

        def after_mount(self):
            self.at("after_mount")

        def before_restart(self):
            self.at("before_restart")

        def restart(self):
            self.at("restart")

        def after_restart(self):
            self.at("after_restart")

        def post_stop(self):
            self.at("post_stop")

        def handle_actor_timeout(self, event):
            self.at("timer hook")

        def receive_event(self, event):
            self.at("event hook")

        def batch_notice_filter(self, message):
            self.at("batch notice filter")
            return place == "batch notice"

        def batch_ask_filter(self, message):
            if message.word != "alive?":
                self.at("batch ask filter")
            return place == "batch ask" and message.word != "alive?"

        def is_barrier_call(self, message):
            if isinstance(message, Say):
                self.at("barrier predicate of a notice")
            elif message.word != "alive?":
                self.at("barrier predicate of an ask")
            return False

        def resume_batch_notice(self, stack):
            self.at("batch notice")
            return stack.return_()

        def resume_batch_ask(self, stack):
            self.at("batch ask")
            return stack.return_("reply")

        def resume_notice(self, stack):
            if stack.notice.word == "timer":
                self.after(0.001)
                return stack.return_()
            if "async" in place:
                return super().resume_notice(stack)
            self.at("notice")
            if "restart" in place:
                raise ValueError("so that it restarts")
            return stack.return_()

        def resume_ask(self, stack):
            if stack.ask.word == "alive?":
                return stack.return_("alive")
            if isinstance(stack.ask, Later):
                return super().resume_ask(stack)
            self.at("ask")
            if place == "state" and stack.state is StackState.START:
                state = AnyOfTwo(self)
                for future in state.futures:
                    self.address.ask(Get("alive?"), future)
                return stack.suspend(state)
            return stack.return_("reply")

        @on(Say)
        async def say(self, message):
            self.at("async notice")

        @on(Later)
        async def later(self, message):
            self.at("async ask")
            if place == "async ask after an await":
                await self.address.ask(Get("alive?"))
                self.at(place)
            try:
                await sleep(1000 if place in FATAL else 0)
            finally:
                self.at("finally of a cancelled handler")
            return "reply"

        def cleaner(self):
            self.at("cleaner")

            def clean():
                if place == "function of the cleaner":
                    raised.append(place)
                    raise KINDS[kind]()

            return clean

    return Bomb


def set_off(system: Any, address: Any) -> list[Any]:
    """Do everything that might make it raise; returns the futures of all asks."""
    futures = [system.ask(address, Get("first")), system.ask(address, Later("first"))]
    for word in ("one", "two", "timer"):
        address.notice(Say(word))
    address.inform(Strange())
    futures += [system.ask(address, Get("last")), system.ask(address, Later("last"))]
    return futures


def check_answers(futures: list[Any]) -> None:
    for future in futures:
        error = future.exception(20)
        if error is None:
            assert future.result() == "reply"
        else:
            assert isinstance(error, (AskFailed, ActorStopped))


class Neighbour(StateActor):
    def resume_ask(self, stack):
        return stack.return_("well")


@pytest.fixture(params=["pinned", "pool"])
def system(request, make_test_system):
    """No scheduler may be harmed."""
    return make_test_system(dispatcher=request.param)


class TestOneThread:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("place", PLACES)
    def test_a_turn_survives_and_every_asker_is_answered(self, system, place, kind):
        raised: list[str] = []
        neighbour = system.build_actor(Neighbour)
        address = system.build_actor(bomb(place, kind, raised))
        futures = set_off(system, address)
        system.advance(1)
        if place in NEEDS_A_STOP:
            address.stop()
            system.advance(1)
        assert raised, "the test has not reached its place"
        assert all(future.done() for future in futures)
        check_answers(futures)
        house = address.house
        assert house.state == HouseState.WAITING
        assert house.runner == 0
        assert house.barrier is None
        assert house.promises.count == 0
        assert system.ask_now(neighbour, "how are you?") == "well"
        if place not in FATAL:
            assert system.ask_now(address, Get("alive?")) == "alive"


class TestRealThreads:
    @pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
    @pytest.mark.parametrize("workers", [1, 2])
    @pytest.mark.parametrize("place", PLACES)
    def test_no_actor_thread_ends_and_every_asker_is_answered(
        self, make_real_system, eventually, place, workers, dispatcher
    ):
        system = make_real_system(workers=workers, dispatcher=dispatcher, timer_tick_ms=1.0)
        threads = [each.thread for each in system.scheduler.threads]
        neighbour = system.build_actor(Neighbour, num=workers)
        for kind in KINDS:
            raised: list[str] = []
            address = system.build_actor(bomb(place, kind, raised))
            futures = set_off(system, address)
            if place in NEEDS_A_STOP:
                # Not before both coroutines wait: a pill overtakes what has not begun.
                eventually(lambda house=address.house: house.promises.count == 2)
                address.stop()
            check_answers(futures)
            eventually(lambda raised=raised: raised)
            eventually(lambda house=address.house: house.state == HouseState.WAITING)
        for _ in range(2 * workers):
            assert system.ask(neighbour, "how are you?").result(20) == "well"
        assert all(thread.is_alive() for thread in threads)


class TestListeners:
    def test_no_listener_is_lost_when_two_threads_subscribe(self):
        letters, heard, begun = DeadLetters(), [], threading.Barrier(2)

        def subscribe():
            begun.wait()
            for _ in range(2000):
                letters.subscribe(heard.append)

        threads = [threading.Thread(target=subscribe) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        letters.add("message", "receiver", "reason")
        assert len(heard) == 4000

    """Code of the user's that the runtime calls without an actor around it."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_listener_for_dead_letters_may_raise(self, system, kind):
        def listener(letter):
            raise KINDS[kind]()

        system.dead_letters.subscribe(listener)
        address = system.build_actor(Neighbour)
        address.stop()
        futures = [system.ask(address, n) for n in range(3)]
        system.run()
        assert all(isinstance(f.exception(0), ActorStopped) for f in futures)

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_callback_of_an_asks_future_may_raise(self, system, kind):
        def callback(future):
            called.append(future)
            raise KINDS[kind]()

        called: list[Any] = []
        address = system.build_actor(Neighbour)
        futures = [system.ask(address, n) for n in range(3)]
        for future in futures:
            future.add_done_callback(callback)
        system.run()
        assert called == futures
        assert [f.result(0) for f in futures] == ["well"] * 3

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_callback_that_raises_at_the_systems_end_hides_no_other_ask(
        self, make_test_system, kind
    ):
        def callback(future):
            raise KINDS[kind]()

        class Mute(StateActor):
            @on(int)
            async def wait(self, message):
                await sleep(1000)

        system = make_test_system()
        address = system.build_actor(Mute)
        futures = [system.ask(address, n) for n in range(3)]
        for future in futures:
            future.add_done_callback(callback)
        system.run()
        system.stop()
        assert all(future.done() for future in futures)

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_log_handler_may_raise(self, system, kind):
        class Broken(logging.Handler):
            def emit(self, record):
                called.append(record)
                raise KINDS[kind]()

        called: list[Any] = []
        raised: list[str] = []
        handler = Broken()
        logger = logging.getLogger("otavia_ft.actor")
        logger.addHandler(handler)
        try:
            address = system.build_actor(bomb("ask", "Exception", raised))
            future = system.ask(address, Get("first"))
            address.notice(Say("next"))
            system.run()
        finally:
            logger.removeHandler(handler)
        assert called
        assert isinstance(future.exception(0), AskFailed)
        assert system.ask_now(address, Get("alive?")) == "alive"

    def test_a_timers_action_may_raise(self, make_real_system):
        system = make_real_system(workers=1, timer_tick_ms=1.0)
        fired = threading.Event()

        def action(argument):
            raise SystemExit(argument)

        system.timer.after(0.001, action, "on purpose")
        system.timer.after(0.01, lambda _: fired.set())
        assert fired.wait(20)
