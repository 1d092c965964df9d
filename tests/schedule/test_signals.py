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
