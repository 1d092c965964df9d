"""The callback contract of docs/actors.md, row by row: on which thread, and what if it raises.

The page is the list of what is tested here: a row without a case fails, and so does an effect that
nobody knows how to check. What is raised is SystemExit, the rudest of them; test_robustness.py
raises the other kinds at the same places.
"""

import re
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from otavia_ft import (
    ActorStopped,
    Ask,
    AskFailed,
    AutoCleanable,
    Directive,
    Event,
    MessageFuture,
    Notice,
    StackState,
    StateActor,
    Supervisor,
    on,
    sleep,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "actors.md"


def table(number: int) -> list[tuple[str, str, str]]:
    """Of every row of one of the two tables: what is called, on which thread, what if it raises."""
    section = PAGE.read_text().split("## The callback contract")[1].split("\n## ")[0]
    blocks = [block for block in section.split("\n\n") if block.startswith("|")]
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")] for row in blocks[number].split("\n")
    ]
    return [(row[0], row[2], row[4]) for row in rows[2:]]


# What is called -> the places in `bomb` where it is.
PLACES = {
    "`pre_start()`": ["pre_start"],
    "`after_mount()`": ["after_mount"],
    "`@on` handler of a notice": ["route of a notice", "async route of a notice"],
    "`@on` handler of an ask": ["route of an ask", "async route of an ask"],
    "`resume_notice(stack)`": ["resume_notice"],
    "`resume_ask(stack)`": ["resume_ask"],
    "`resume_batch_notice(stack)`": ["resume_batch_notice"],
    "`resume_batch_ask(stack)`": ["resume_batch_ask"],
    "`is_barrier_call(message)`": ["is_barrier_call of a notice", "is_barrier_call of an ask"],
    "`batch_ask_filter(message)`, `batch_notice_filter(message)`": [
        "batch_ask_filter", "batch_notice_filter",
    ],
    "`StackState.resumable()`": ["resumable"],
    "`handle_actor_timeout(event)`": [
        "handle_actor_timeout of after", "handle_actor_timeout of at",
    ],
    "`receive_event(event)`": ["receive_event"],
    "function given to `later(...)`": ["later"],
    "`before_restart()`, `restart()`, `after_restart()`": [
        "before_restart", "restart", "after_restart",
    ],
    "`finally` of a waiting `async def` handler": ["finally"],
    "`post_stop()`": ["post_stop"],
    "`cleaner()`": ["cleaner"],
    "function returned by `cleaner()`": ["function of the cleaner"],
}  # fmt: skip


@dataclass(frozen=True)
class Say(Notice):
    word: str = ""


@dataclass(frozen=True)
class Get(Ask[str]):
    word: str = ""


@dataclass(frozen=True)
class Alive(Ask[str]):
    pass


@dataclass(frozen=True)
class Wait(Ask[str]):
    pass


class Strange(Event):
    pass


class AnyOf(StackState):
    def __init__(self, at):
        self.at = at
        self.futures = [MessageFuture(), MessageFuture()]

    def resumable(self):
        self.at("resumable")
        return False


def bomb(place, called):
    """A class whose instances note every call, with its thread, and raise at one place."""

    def at(here):
        called.append((here, threading.current_thread()))
        if here == place:
            raise SystemExit(here)

    class Bomb(AutoCleanable, StateActor):
        batchable = "batch" in place

        def cleaner(self):
            at("cleaner")
            return lambda: at("function of the cleaner")

        def pre_start(self):
            at("pre_start")

        def after_mount(self):
            at("after_mount")

        def before_restart(self):
            at("before_restart")

        def restart(self):
            at("restart")

        def after_restart(self):
            at("after_restart")

        def post_stop(self):
            at("post_stop")

        def handle_actor_timeout(self, event):
            at(f"handle_actor_timeout of {event.attach}")

        def receive_event(self, event):
            at("receive_event")

        def batch_ask_filter(self, message):
            if type(message) is not Get:
                return False
            at("batch_ask_filter")
            return place == "resume_batch_ask"

        def batch_notice_filter(self, message):
            at("batch_notice_filter")
            return place == "resume_batch_notice"

        def is_barrier_call(self, message):
            if type(message) is Say:
                at("is_barrier_call of a notice")
            elif type(message) is Get:
                at("is_barrier_call of an ask")
            return False

        def resume_notice(self, stack):
            if "route" in place:
                return super().resume_notice(stack)
            if stack.notice.word == "timer":
                self.after(0.01, "after")
                self.at(self.system.timer.time() + 0.01, "at")
                self.later(lambda: at("later"))
                return stack.return_()
            at("resume_notice")
            return stack.return_()

        def resume_ask(self, stack):
            if type(stack.ask) in (Alive, Wait) or "route" in place:
                return super().resume_ask(stack)
            at("resume_ask")
            if stack.state is StackState.START and place == "resumable":
                state = AnyOf(at)
                for future in state.futures:
                    self.address.ask(Alive(), future)
                return stack.suspend(state)
            return stack.return_("reply")

        def resume_batch_notice(self, stack):
            at("resume_batch_notice")
            return stack.return_()

        def resume_batch_ask(self, stack):
            at("resume_batch_ask")
            return stack.return_("reply")

        @on(Alive)
        def alive(self, message):
            return "alive"

        @on(Wait)
        async def wait(self, message):
            try:
                await sleep(1e6)
            finally:
                at("finally")
            return "never"

        if "async" in place:

            @on(Say)
            async def say(self, message):
                at("async route of a notice")

            @on(Get)
            async def get(self, message):
                at("async route of an ask")
                return "reply"

        else:

            @on(Say)
            def say(self, message):
                at("route of a notice")

            @on(Get)
            def get(self, message):
                at("route of an ask")
                return "reply"

    return Bomb


class Seen:
    """What became of an actor to which everything was done that could make it raise."""

    def __init__(self, system, place, log):
        self.called = []
        self.log = log
        self.place = place
        address = system.build_actor(bomb(place, self.called))
        self.house = address.house
        waiting = system.ask(address, Wait())
        system.run()
        self.asks = [system.ask(address, Get("one")), system.ask(address, Get("two"))]
        for word in ("one", "two", "timer"):
            address.notice(Say(word))
        address.inform(Strange())
        system.advance(1)
        self.restarts = self.times("before_restart")
        if place in ("before_restart", "restart", "after_restart"):
            address.restart()
            system.run()
        self.stopped = self.house.stop_reason is not None
        future = system.ask(address, Alive())
        system.run()
        self.goes_on = future.exception(0) is None and future.result(0) == "alive"
        self.refusal = future.exception(0)
        address.stop()
        system.run()
        self.waiting = waiting.exception(0)

    def times(self, place):
        return [here for here, _ in self.called].count(place)

    @property
    def logged(self):
        return f"SystemExit: {self.place}" in self.log.text


def stopped_and_answered(seen):
    assert seen.stopped
    assert all(isinstance(future.exception(0), ActorStopped) for future in seen.asks)
    assert isinstance(seen.waiting, ActorStopped)


def strategy_of_notices(seen):
    assert seen.restarts == seen.times(seen.place)  # the default strategy: restart, each time
    assert seen.goes_on


def strategy_once(seen):
    assert seen.restarts == seen.times(seen.place) == 1, "one batch, two notices or three"
    assert seen.goes_on


def asker_is_told(seen):
    for future in seen.asks:
        error = future.exception(0)
        assert isinstance(error, AskFailed)
        assert isinstance(error.cause, SystemExit)
    assert seen.restarts == 0
    assert seen.goes_on


def as_the_handler(seen):
    if "ask" in seen.place or seen.place == "resumable":
        asker_is_told(seen)
    else:
        strategy_of_notices(seen)


def logged_and_goes_on(seen):
    assert seen.logged
    assert not seen.stopped
    assert seen.goes_on


def logged_and_stops(seen):
    assert seen.logged
    assert isinstance(seen.house.stop_reason, ActorStopped)
    assert isinstance(seen.waiting, ActorStopped)


def stopped(seen):
    assert seen.stopped
    assert isinstance(seen.refusal, ActorStopped)


EFFECTS = {
    "the actor is stopped; its mail is answered": stopped_and_answered,
    "`notice_exception_strategy`": strategy_of_notices,
    "`notice_exception_strategy`, once": strategy_once,
    "`AskFailed` to the asker": asker_is_told,
    "`AskFailed` to every asker": asker_is_told,
    "as if the message's handler had raised": as_the_handler,
    "as if the handler had raised": as_the_handler,
    "logged; the actor goes on": logged_and_goes_on,
    "logged": logged_and_goes_on,
    "logged; the stop goes on": logged_and_stops,
    "the actor is stopped": stopped,
}

CASES = [(place, cell, what) for cell, _, what in table(0) for place in PLACES.get(cell, ())]


def test_every_row_of_an_actors_callbacks_has_a_case_here():
    assert [cell for cell, _, _ in table(0)] == list(PLACES)
    assert {what for _, _, what in table(0)} <= set(EFFECTS)


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
@pytest.mark.parametrize(("place", "cell", "what"), CASES, ids=[case[0] for case in CASES])
def test_if_it_raises_the_page_says_what_happens(
    make_test_system, caplog, dispatcher, place, cell, what
):
    seen = Seen(make_test_system(dispatcher=dispatcher), place, caplog)
    assert seen.times(place), "the test has not reached its place"
    EFFECTS[what](seen)


@pytest.mark.parametrize("place", ["", "route", "batch"])
def test_the_owner_runs_what_the_page_says_only_the_owner_runs(make_real_system, eventually, place):
    """Many actors on two threads that steal: whoever runs a turn, start and end are the owner's."""
    system = make_real_system(workers=2, steal_floor=0, steal_aggression=1, timer_tick_ms=1.0)
    owners = {each.manager: each.thread for each in system.scheduler.threads}
    made = []
    for _ in range(20):
        called = []
        address = system.build_actor(bomb(place, called))
        made.append((address.house, called))
        for n in range(20):
            address.notice(Say("timer" if n == 0 else "one"))
        address.inform(Strange())
        address.restart()
        assert system.ask(address, Get("one")).result(20) == "reply"
        address.stop()
    eventually(lambda: all(called[-1][0] == "function of the cleaner" for _, called in made))
    of_the_owner = {
        place for cell, thread, _ in table(0) if thread == "owner" for place in PLACES[cell]
    }
    assert {"pre_start", "after_mount", "cleaner", "function of the cleaner"} == of_the_owner
    for house, called in made:
        owner = owners[house.scheduler]
        for here, thread in called:
            assert thread in owners.values(), here
            if here in of_the_owner:
                assert thread is owner, here


class TestFunctionsThatAreNotAnActors:
    NAMES = (
        "factory given to `build_actor`",
        "`Supervisor.decide(error)`",
        "function given to `system.dead_letters.subscribe`",
        "callback of the future of `system.ask`",
    )

    def test_every_row_has_a_test_in_this_class(self):
        assert tuple(cell for cell, _, _ in table(1)) == self.NAMES
        tests = [name for name in vars(type(self)) if re.match("test_(a|the)_", name)]
        assert len(tests) == len(self.NAMES)

    def test_a_factory_that_raises_raises_at_its_caller_and_builds_nothing(self, system):
        def factory():
            raise SystemExit("no actor today")

        before = len(system.register)
        with pytest.raises(SystemExit, match="no actor today"):
            system.build_actor(factory)
        system.run()
        assert len(system.register) == before

    def test_a_decide_that_raises_stops_the_child(self, system):
        class Undecided(Supervisor):
            def decide(self, error: BaseException) -> Directive:
                raise SystemExit("ask somebody else")

        class Child(StateActor):
            @on(Say)
            def say(self, message: Say) -> None:
                raise ValueError(message.word)

        class Parent(StateActor):
            supervisor = Undecided()

            @on(Get)
            def get(self, message: Get):
                return self.build_child(Child)

            @on(Alive)
            def alive(self, message: Alive):
                return "alive"

        parent = system.build_actor(Parent)
        child = system.ask_now(parent, Get())
        child.notice(Say("fail"))
        system.run()
        assert child.house.stop_reason is not None
        assert system.ask_now(parent, Alive()) == "alive"

    def test_a_dead_letters_listener_that_raises_is_logged_and_its_sender_goes_on(
        self, system, caplog
    ):
        def listener(letter):
            raise SystemExit("too many letters")

        system.dead_letters.subscribe(listener)
        address = system.build_actor(bomb("", []))
        address.reply("to nobody", 7)
        system.run()
        assert "SystemExit: too many letters" in caplog.text
        assert system.ask_now(address, Alive()) == "alive"

    def test_the_callback_of_a_future_that_raises_is_logged_and_its_ask_has_ended(
        self, system, caplog
    ):
        def callback(future):
            raise SystemExit("not now")

        address = system.build_actor(bomb("", []))
        future = system.ask(address, Alive())
        future.add_done_callback(callback)
        system.run()
        assert future.result(0) == "alive"
        assert "SystemExit: not now" in caplog.text
        assert system.ask_now(address, Alive()) == "alive"
