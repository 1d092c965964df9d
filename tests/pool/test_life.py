"""An actor's life and its system's, under both schedulers: every step of it is a turn."""

import threading
from dataclasses import dataclass
from typing import Any

import pytest

from otavia_ft import AtomicInt, AutoCleanable, Notice, OutsideActor, PoisonPill, StateActor, on


@dataclass(frozen=True, slots=True)
class Say(Notice):
    word: Any


class Diary(StateActor):
    """Writes down what happens to it; `does` maps what it writes to something to do then."""

    def __init__(self, pages, does=None):
        self.pages, self.does = pages, does or {}

    def _write(self, word):
        self.pages.append(word)
        if word in self.does:
            self.does[word](self)

    def pre_start(self):
        self._write("pre_start")

    def after_mount(self):
        self._write("after_mount")

    def before_restart(self):
        self._write("before_restart")

    def restart(self):
        self._write("restart")

    def after_restart(self):
        self._write("after_restart")

    def post_stop(self):
        self._write("post_stop")

    def handle_actor_timeout(self, event):
        self._write("timeout")

    @on(Say)
    def say(self, message):
        self._write(message.word)


BIRTH = ["pre_start", "after_mount"]
RESTART = ["before_restart", "restart", "after_restart"]


# ---- restart


def test_a_restart_that_a_handler_asks_for_comes_after_it_and_before_the_next_message(
    make_manual, dispatcher
):
    """The actor is Processing then: a restart that waited for that to end would wait for ever."""
    system, pages = make_manual(dispatcher=dispatcher), []

    def ask_for_it(actor):
        actor.address.restart()
        actor.pages.append("still the same handler")

    address = system.build_actor(Diary, pages, {"b": ask_for_it})
    for word in "abc":
        address.notice(Say(word))
    system.run()
    assert pages == [*BIRTH, "a", "b", "still the same handler", *RESTART, "c"]


@pytest.mark.parametrize("hook", ["pre_start", "after_mount", "restart", "timeout"])
def test_a_restart_that_a_hook_asks_for_is_a_turn_like_any_other(make_manual, dispatcher, hook):
    system, pages = make_manual(dispatcher=dispatcher), []
    asked = []

    def once(actor):
        if not asked:
            asked.append(True)
            actor.address.restart()

    does = {hook: once, "a": lambda actor: actor.after(1) if hook == "timeout" else None}
    address = system.build_actor(Diary, pages, does)
    address.notice(Say("a"))
    system.advance(2)
    if hook == "restart":
        address.restart()
        system.run()
    address.notice(Say("b"))
    system.run()
    expected = {
        "pre_start": [*BIRTH, *RESTART, "a", "b"],
        "after_mount": [*BIRTH, *RESTART, "a", "b"],
        "timeout": [*BIRTH, "a", "timeout", *RESTART, "b"],
        "restart": [*BIRTH, "a", *RESTART, *RESTART, "b"],
    }
    assert pages == expected[hook]


def test_an_idle_actor_is_restarted_without_a_message(make_manual, dispatcher):
    system, pages = make_manual(dispatcher=dispatcher), []
    address = system.build_actor(Diary, pages)
    system.run()
    address.restart()
    system.run()
    assert pages == [*BIRTH, *RESTART]


def test_a_system_message_comes_before_each_user_message(make_manual, dispatcher):
    """Not only at the beginning of a turn: every handler here asks for a restart."""
    system, pages = make_manual(dispatcher=dispatcher, throughput_budget=1000), []
    address = system.build_actor(
        Diary, pages, dict.fromkeys(range(20), lambda actor: actor.address.restart())
    )
    for number in range(20):
        address.notice(Say(number))
    system.run()
    assert pages[2:] == [word for number in range(20) for word in (number, *RESTART)]


def test_a_pill_that_a_handler_takes_acts_after_that_handler(make_manual, dispatcher):
    system, pages = make_manual(dispatcher=dispatcher, throughput_budget=1_000_000), []
    address = system.build_actor(
        Diary, pages, {4: lambda actor: actor.address.notice(PoisonPill())}
    )
    for number in range(10_000):
        address.notice(Say(number))
    system.run()
    assert pages == [*BIRTH, 0, 1, 2, 3, 4, "post_stop"]
    assert system.dead_letters.total == 10_000 - 5


class Jealous(StateActor):
    """Notices when two of its methods, hooks or handlers, run at once."""

    def __init__(self):
        self.inside = AtomicInt()
        self.overlaps = self.starts = self.stops = self.restarts = 0
        self.heard = []

    def _alone(self):
        if self.inside.get_and_add(1):
            self.overlaps += 1
        for _ in range(20):  # long enough for another worker to look in
            pass
        self.inside.get_and_add(-1)

    def pre_start(self):
        self.starts += 1
        self._alone()

    def before_restart(self):
        self._alone()

    def restart(self):
        self.restarts += 1
        self._alone()

    def post_stop(self):
        self.stops += 1
        self._alone()

    @on(Say)
    def say(self, message):
        self.heard.append(message.word)
        self._alone()


def test_restarts_from_everywhere_never_overlap_a_handler_and_lose_no_message(
    make_system, in_parallel, eventually, dispatcher
):
    system = make_system(dispatcher=dispatcher, workers=3, throughput_budget=2)
    actor = Jealous()
    address = system.build_actor(lambda: actor)
    messages, restarts = 1500, 500

    def send(me):
        for number in range(messages):
            address.notice(Say((me, number)))

    def restart():
        for _ in range(restarts):
            address.restart()

    in_parallel(lambda: send(0), lambda: send(1), restart, restart)
    eventually(lambda: len(actor.heard) == 2 * messages and actor.restarts == 2 * restarts)
    for me in (0, 1):
        assert [n for who, n in actor.heard if who == me] == list(range(messages))
    assert (actor.overlaps, actor.starts, actor.stops) == (0, 1, 0)


def test_stops_and_restarts_that_race_end_a_life_once(make_system, in_parallel, dispatcher):
    system = make_system(dispatcher=dispatcher, workers=3, throughput_budget=2)
    actors = [Jealous() for _ in range(50)]
    addresses = [system.build_actor(lambda actor=actor: actor) for actor in actors]

    def all_of(what):
        for address in addresses:
            what(address)

    in_parallel(
        lambda: all_of(lambda address: address.stop()),
        lambda: all_of(lambda address: address.restart()),
        lambda: all_of(lambda address: address.notice(PoisonPill())),
        lambda: all_of(lambda address: address.notice(Say("a"))),
    )
    system.stop()
    assert {(a.starts, a.stops, a.overlaps) for a in actors} == {(1, 1, 0)}


# ---- start and stop of the whole


def test_starting_again_starts_nothing(make_system, in_parallel, dispatcher):
    system = make_system(dispatcher=dispatcher)
    before = [thread.thread for thread in system.scheduler.threads]
    alive = set(threading.enumerate())
    in_parallel(*[system.scheduler.start] * 4)
    assert [thread.thread for thread in system.scheduler.threads] == before
    assert {thread.name for thread in set(threading.enumerate()) - alive} == set()
    system.stop()
    system.scheduler.start()
    assert not any(thread.thread.is_alive() for thread in system.scheduler.threads)


class Cleaned(AutoCleanable, Diary):
    """The cleaner's turn belongs to no actor, but it is one."""

    def cleaner(self):
        does, pages = self.does.get("cleaner"), self.pages

        def clean():
            pages.append("cleaner")
            if does is not None:
                does(None)

        return clean


TURNS = ["pre_start", "after_mount", "a", "timeout", "restart", "post_stop", "cleaner"]


def live(system, pages, turn, does, eventually):
    """One life with all kinds of turns; `does` is called in one of them."""

    def first(actor):
        actor.after(0.001)
        if turn == "a":
            does(actor)

    address = system.build_actor(Cleaned, pages, {turn: does, "a": first})
    address.notice(Say("a"))
    address.restart()
    eventually(lambda: turn in pages or {"timeout", "restart"} <= set(pages))
    address.stop()
    eventually(lambda: turn in pages)


@pytest.mark.parametrize("turn", TURNS)
def test_stop_is_an_error_in_every_kind_of_turn(make_system, eventually, dispatcher, turn):
    system = make_system(dispatcher=dispatcher, timer_tick_ms=1.0)
    pages, refused = [], []

    def stop(actor):
        try:
            system.stop()
        except OutsideActor as error:
            refused.append(str(error))

    live(system, pages, turn, stop, eventually)
    eventually(lambda: refused)
    assert "signal_stop" in refused[0]
    assert system.running


@pytest.mark.parametrize("turn", TURNS)
def test_signal_stop_is_safe_in_every_kind_of_turn(make_system, eventually, dispatcher, turn):
    system = make_system(dispatcher=dispatcher, timer_tick_ms=1.0)
    pages, returned = [], []

    def signal(actor):
        system.signal_stop()
        system.signal_stop()  # once more is no more
        returned.append(True)

    live(system, pages, turn, signal, eventually)
    assert system.wait(30)
    assert returned == [True]
    assert not system.running
    assert not any(thread.thread.is_alive() for thread in system.scheduler.threads)
    assert pages.count("pre_start") == pages.count("post_stop") == 1


def test_stop_waits_until_the_turns_in_hand_have_ended(make_system, dispatcher):
    system, pages = make_system(dispatcher=dispatcher), []
    inside, go_on = threading.Event(), threading.Event()

    def linger(actor):
        inside.set()
        go_on.wait(30)
        actor.pages.append("end of the turn")

    address = system.build_actor(Diary, pages, {"a": linger})
    address.notice(Say("a"))
    assert inside.wait(30)
    stopper = threading.Thread(target=lambda: (system.stop(), pages.append("stopped")))
    stopper.start()
    address.notice(Say("b"))
    go_on.set()
    stopper.join(30)
    assert pages == [*BIRTH, "a", "end of the turn", "b", "post_stop", "stopped"]
