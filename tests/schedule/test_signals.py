"""The end of a program: Ctrl-C once and twice, SIGTERM, and a main module that just ends."""

import signal
import subprocess
from collections.abc import Callable

import pytest

StartChild = Callable[[str], "subprocess.Popen[str]"]
Complaints = Callable[[str], str]

ACTORS = """
import sys, threading, time
from otavia_ft import ActorSystem, StateActor, Notice, Ask, on, sleep

class Go(Notice): pass
class Wait(Ask[int]): pass

def say(text):
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()

class Polite(StateActor):
    def post_stop(self):
        say("goodbye")
    @on(Go)
    def go(self, message):
        say("handled")
    @on(Wait)
    async def wait(self, message):
        await sleep(3600)

class Stuck(StateActor):
    @on(Go)
    def go(self, message):
        say("stuck")
        threading.Event().wait()

class Slow(StateActor):
    @on(Go)
    def go(self, message):
        say("working")
        time.sleep(0.5)
        say("worked")
"""


def lines_until(child: "subprocess.Popen[str]", wanted: str) -> list[str]:
    """For a child that then waits: `communicate` does not see what has been read ahead."""
    assert child.stdout is not None
    lines = []
    for line in child.stdout:
        lines.append(line.strip())
        if lines[-1] == wanted:
            return lines
    raise AssertionError(f"the child ended without saying {wanted!r}: {lines}")


def test_the_first_ctrl_c_is_a_graceful_stop(start_child: StartChild) -> None:
    child = start_child(
        ACTORS
        + """
with ActorSystem(workers=2) as system:
    polite = system.build_actor(Polite)
    slow = system.build_actor(Slow)
    slow.notice(Go())
    system.wait()
"""
    )
    lines_until(child, "working")
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert sorted(out.split()) == ["goodbye", "worked"]
    assert "KeyboardInterrupt" in err
    assert child.returncode == -signal.SIGINT


def test_the_second_ctrl_c_does_not_wait_for_a_stuck_handler_but_says_goodbye(
    start_child: StartChild,
) -> None:
    child = start_child(
        ACTORS
        + """
class Announce(threading.Thread):
    def run(self):
        while system.running:
            time.sleep(0.001)
        say("stopping")

system = ActorSystem(workers=2, shutdown_timeout_s=1000)
Announce(daemon=True).start()
with system:
    polite = system.build_actor(Polite)
    stuck = system.build_actor(Stuck)
    while not system.scheduler.quiet():
        time.sleep(0.001)
    stuck.notice(Go())
    system.wait()
"""
    )
    lines_until(child, "stuck")
    child.send_signal(signal.SIGINT)
    lines_until(child, "stopping")
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert out.split() == ["goodbye"]
    assert "is stuck in a handler" in err
    assert child.returncode == -signal.SIGINT


def test_a_handler_of_a_signal_may_signal_the_stop(
    start_child: StartChild, complaints: Complaints
) -> None:
    child = start_child(
        ACTORS
        + """
import signal
system = ActorSystem(workers=2)
signal.signal(signal.SIGTERM, lambda *_: system.signal_stop())
polite = system.build_actor(Polite)
say("ready")
system.wait()
say("waited")
"""
    )
    lines_until(child, "ready")
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=60)
    assert out.split() == ["goodbye", "waited"]
    assert (complaints(err), child.returncode) == ("", 0)


def test_a_handler_of_a_signal_may_ask_whatever_it_interrupts(
    start_child: StartChild, complaints: Complaints
) -> None:
    """The main thread asks with timeouts, and so does the handler that comes between its lines."""
    child = start_child(
        ACTORS
        + """
import signal
class Count(Ask[int]): pass
class Counter(StateActor):
    @on(Count)
    def count(self, message):
        return 1

with ActorSystem(workers=1) as system:
    counter = system.build_actor(Counter)
    futures = []
    def ask(*_):
        if len(futures) < 500:
            futures.append(system.ask(counter, Count(), timeout=60))
    signal.signal(signal.SIGALRM, ask)
    signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
    while len(futures) < 500:
        system.ask(counter, Count(), timeout=60).result()
    signal.setitimer(signal.ITIMER_REAL, 0)
    # The handler may interrupt itself, so there may be one or two more.
    say(str(sum(future.result() for future in futures) == len(futures) >= 500))
"""
    )
    out, err = child.communicate(timeout=60)
    assert (out.split(), complaints(err), child.returncode) == (["True"], "", 0)


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
def test_a_program_that_ends_without_a_stop_is_stopped_in_order(
    start_child: StartChild, complaints: Complaints, dispatcher: str
) -> None:
    child = start_child(
        ACTORS
        + f"""
system = ActorSystem(workers=2, dispatcher="{dispatcher}")
other = ActorSystem("other", workers=1)
kept = [system.build_actor(Polite), other.build_actor(Polite)]
for address in kept:
    address.notice(Go())
future = system.ask(kept[0], Wait())
future.add_done_callback(lambda f: say("answered"))
"""
    )
    out, err = child.communicate(timeout=60)
    assert sorted(out.split()) == ["answered", "goodbye", "goodbye", "handled", "handled"]
    assert (complaints(err), child.returncode) == ("", 0)


def test_a_program_that_fails_is_stopped_in_order_too(
    start_child: StartChild, complaints: Complaints
) -> None:
    child = start_child(
        ACTORS
        + """
system = ActorSystem(workers=2)
kept = system.build_actor(Polite)
raise SystemExit(3)
"""
    )
    out, err = child.communicate(timeout=60)
    assert (out.split(), complaints(err), child.returncode) == (["goodbye"], "", 3)


def test_a_stuck_handler_does_not_keep_the_program_from_ending(start_child: StartChild) -> None:
    child = start_child(
        ACTORS
        + """
system = ActorSystem(workers=2)
stuck = system.build_actor(Stuck)
stuck.notice(Go())
while not any(thread.context.house for thread in system.scheduler.threads):
    time.sleep(0.001)
"""
    )
    out, err = child.communicate(timeout=60)
    assert out.split() == ["stuck"]
    assert "left behind" in err
    assert child.returncode == 0


@pytest.mark.parametrize("method", ["__init__", "start"])
def test_a_second_ctrl_c_that_comes_before_the_stop_has_begun_stops_all_the_same(
    start_child: StartChild, method: str
) -> None:
    """There is a moment between the two when nobody runs the protocol yet."""
    child = start_child(
        ACTORS
        + f"""
import signal
original = threading.Thread.{method}
def interrupted(self, *args, **kwargs):
    if "stopper" in kwargs.get("name", getattr(self, "_name", "")):
        threading.Thread.{method} = original
        signal.raise_signal(signal.SIGINT)
    original(self, *args, **kwargs)
with ActorSystem(workers=1) as system:
    polite = system.build_actor(Polite)
    while not system.scheduler.quiet():  # one that is not mounted yet would not start any more
        time.sleep(0.001)
    threading.Thread.{method} = interrupted
"""
    )
    out, err = child.communicate(timeout=60)
    assert out.split() == ["goodbye"]
    assert "KeyboardInterrupt" in err
    assert child.returncode == -signal.SIGINT


def test_a_second_ctrl_c_that_the_start_of_a_thread_makes_another_error_of_is_none_the_less(
    start_child: StartChild,
) -> None:
    """In a condition's wait, between the release of its lock and the `try` that takes it again, it
    becomes a RuntimeError: the `with` around releases the lock once more."""
    child = start_child(
        ACTORS
        + """
import signal
start = threading.Thread.start
def interrupted(self):
    start(self)
    if "stopper" in self.name:
        threading.Thread.start = start
        while system.running:
            time.sleep(0.001)
        condition = threading.Condition(threading.Lock())
        with condition:
            condition.release()
            signal.raise_signal(signal.SIGINT)
with ActorSystem(workers=2, shutdown_timeout_s=1000) as system:
    polite = system.build_actor(Polite)
    stuck = system.build_actor(Stuck)
    stuck.notice(Go())
    threading.Thread.start = interrupted
"""
    )
    out, err = child.communicate(timeout=60)
    assert sorted(out.split()) == ["goodbye", "stuck"]
    assert "is stuck in a handler" in err
    assert "KeyboardInterrupt" in err
    assert child.returncode == -signal.SIGINT


def test_ctrl_c_leaves_nothing_locked_that_the_stop_needs(
    start_child: StartChild, complaints: Complaints
) -> None:
    """It may be raised at the end of any call, `Condition.__enter__`'s of its lock for example."""
    child = start_child(
        ACTORS
        + """
import signal
class Stopper(StateActor):
    @on(Go)
    def go(self, message):
        waiting.wait()
        self.system.signal_stop()

waiting = threading.Event()
enter = threading.Condition.__enter__
def interrupted(self):
    entered = enter(self)
    if threading.get_ident() == threading.main_thread().ident:
        threading.Condition.__enter__ = enter
        signal.raise_signal(signal.SIGINT)
    return entered

with ActorSystem(workers=1) as system:
    polite = system.build_actor(Polite)
    stopper = system.build_actor(Stopper)
    stopper.notice(Go())
    waiting.set()
    threading.Condition.__enter__ = interrupted
    try:
        system.wait()
    except KeyboardInterrupt:
        pass
    threading.Condition.__enter__ = enter
say("ended")
"""
    )
    out, err = child.communicate(timeout=60)
    assert (out.split(), complaints(err), child.returncode) == (["goodbye", "ended"], "", 0)


def test_ctrl_c_while_a_program_ends_hurries_all_systems_and_skips_none(
    start_child: StartChild,
) -> None:
    child = start_child(
        ACTORS
        + """
slow_system = ActorSystem(workers=2)
other = ActorSystem("other", workers=1)
kept = [slow_system.build_actor(Polite), other.build_actor(Polite)]
stuck = slow_system.build_actor(Stuck)
for system in slow_system, other:
    while not system.scheduler.quiet():  # one that is not mounted yet would not start any more
        time.sleep(0.001)
stuck.notice(Go())
import otavia_ft.system as module
module.EXIT_GRACE_S = 1000.0
class Announce(threading.Thread):
    def run(self):
        while slow_system.running:
            time.sleep(0.001)
        say("stopping")
Announce(daemon=True).start()
"""
    )
    lines_until(child, "stopping")
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert [line for line in out.split() if line != "stuck"] == ["goodbye", "goodbye"]
    assert "KeyboardInterrupt" not in err
    assert child.returncode == 0


WAITING = """
from concurrent.futures import ThreadPoolExecutor
system = ActorSystem(workers=2)
kept = system.build_actor(Polite)
asked = threading.Event()
def wait():
    future = system.ask(kept, Wait())
    asked.set()
    say(type(future.exception()).__name__)
"""


@pytest.mark.parametrize(
    "begin", ["threading.Thread(target=wait).start()", "ThreadPoolExecutor(1).submit(wait)"]
)
def test_a_thread_that_waits_for_an_answer_does_not_keep_the_program_from_ending(
    start_child: StartChild, complaints: Complaints, begin: str
) -> None:
    child = start_child(ACTORS + WAITING + begin + "\nasked.wait()\n")
    out, err = child.communicate(timeout=60)
    assert sorted(out.split()) == ["SystemStopped", "goodbye"]
    assert (complaints(err), child.returncode) == ("", 0)


def test_a_forked_child_does_not_stop_its_parent_s_systems(
    start_child: StartChild, complaints: Complaints
) -> None:
    child = start_child(
        ACTORS
        + """
import os, warnings
from otavia_ft import system as module
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
system = ActorSystem(workers=1)
kept = system.build_actor(Polite)
if os.fork() == 0:
    say(f"the child knows {len(module._running)}")
    os._exit(0)
os.wait()
say(f"the parent knows {len(module._running)}")
"""
    )
    out, err = child.communicate(timeout=60)
    assert out.splitlines() == ["the child knows 0", "the parent knows 1", "goodbye"]
    assert (complaints(err), child.returncode) == ("", 0)
