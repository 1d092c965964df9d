"""Stopping a system. The protocol:

 1. One caller wins RUNNING → STOPPING and does the rest; others wait for it to be done. From here
    on no actor is built and no ask from outside is taken.
 2. Grace: wait until everything that is queued has been handled, at most until the timeout.
 3. Goodbyes: the register closes, so no actor that has one to say is started any more. Every actor
    in it is stopped on its own turn (waiting handlers are cancelled, `post_stop` runs, the cleaner
    is sent). Wait again, same limit.
 4. The threads are told to end after the turn in hand, and are joined. One that is stuck in a
    handler cannot be killed: it is named in a warning and left behind as a daemon.
 5. The timer closes: nothing fires any more. Its thread is joined.
 6. The managers close: mail that is left, or comes later, becomes dead letters, and its askers are
    answered. An actor that step 3 has not reached, because its thread is stuck or time was short,
    says its goodbye now, on whatever thread buries its mail. The handler that is stuck is the one
    exception: its own actor's goodbye, and its mail's burial, come when it returns.
 7. All asks from outside that are still open are answered with SystemStopped.
 8. STOPPED; whoever waits for the end is let go.

A forced stop skips 2, and gives the others a short time each. User code runs in 5 (an action that
is under way) and in 6 (hooks), and may be stuck there as in any handler. So 6 gets a thread of its
own, unless nothing is left to bury, and either thread is named and left behind if need be.

`stop()` inside a handler would wait for itself, so it is refused there; `signal_stop()` runs the
protocol on a thread of its own. So does `stop()` on the main thread: a second Ctrl-C is raised
there, and must interrupt the waiting, not the protocol. (At the interpreter's end no thread can be
started any more; then it runs in place.)

Some threads must not wait for the end, because it needs them: the one that runs the protocol, the
timer's, and the one of step 6. Code of the user's runs on all of them, a callback of a future for
example, or a subscriber to the dead letters. There `stop()` and `wait()` return at once: the stop
is under way.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from otavia_ft.doors import AtomicInt
from otavia_ft.errors import SystemStopped
from otavia_ft.house.lifecycle import Stop

if TYPE_CHECKING:
    from otavia_ft.house.house import House
    from otavia_ft.system import ActorSystem

__all__ = ["Shutdown"]

_log = logging.getLogger("otavia_ft.system")

RUNNING, STOPPING, STOPPED = 0, 1, 2
SLICE_S = 0.2
LOOK_S = 0.05
FORCED_S = 1.0  # for goodbyes and joining, when there is no grace left


class _End:
    """What the end is waited for with: `threading.Event`, but safe from Ctrl-C.

    KeyboardInterrupt may leave an Event's inner lock locked (it is raised after any call, and
    `Condition.__enter__` makes one that returns with the lock), and then `set` blocks for ever.
    Here every waiter has a lock of its own to leave behind.
    """

    def __init__(self) -> None:
        self._over = AtomicInt()
        self._gates: list[threading.Lock] = []

    def set(self) -> None:
        """Once. Says so first and opens the gates second; a waiter does it the other way round."""
        self._over.get_and_set(1)
        for gate in list(self._gates):
            gate.release()

    def is_set(self) -> bool:
        return self._over.get_and_add(0) == 1

    def wait(self, timeout: float) -> bool:
        gate = threading.Lock()
        gate.acquire()
        self._gates.append(gate)
        try:
            return self.is_set() or gate.acquire(timeout=timeout)
        finally:
            self._gates.remove(gate)


class Shutdown:
    """The end of one system, whoever asks for it and however often."""

    def __init__(self, system: ActorSystem) -> None:
        self._system = system
        self._phase = AtomicInt(RUNNING)
        self._hurry = AtomicInt()
        self._done = _End()
        self._needed: set[int] = set()  # the threads that run the protocol
        self._stoppers: list[threading.Thread] = []  # those of them that were started here
        self._stuck: list[str] = []

    @property
    def running(self) -> bool:
        return self._phase.load() == RUNNING

    def wait(self, timeout: float | None) -> bool:
        """Until the end, with all threads that it took."""
        if self.needs_this_thread:
            return self._done.is_set()
        over = self._wait(timeout)
        if over and threading.current_thread() not in self._stoppers:
            for stopper in list(self._stoppers):
                stopper.join()  # it has nothing left to do, but should not be seen any more
        return over

    def _wait(self, timeout: float | None) -> bool:
        """In slices: a signal that comes just before the main thread blocks is not noticed by it
        before the next wake-up, and Ctrl-C would seem to do nothing."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self._done.wait(max(0.0, min(SLICE_S, end - time.monotonic()))):
            if time.monotonic() >= end:
                return False
        return True

    def force(self) -> None:
        """No more grace, for a stop that is under way too."""
        self._hurry.set(1)

    def signal(self) -> None:
        """Stop without waiting; safe inside a handler."""
        if self.running:
            self._spawn(None)

    def stop_and_wait(self, timeout: float | None) -> None:
        """Stop and wait for the end; an exception in the waiting thread stops only the waiting."""
        if not self.running and self.needs_this_thread:
            return
        on_main = threading.current_thread() is threading.main_thread()
        if on_main and self._system.scheduler.started:
            try:
                self._spawn(timeout)
            except RuntimeError as error:
                if isinstance(error.__context__, KeyboardInterrupt):
                    # Raised in the middle of the condition that `start` waits on, which then lets
                    # go of a lock that it does not hold. It is a second Ctrl-C all the same.
                    raise error.__context__ from None
                self.stop(timeout)
        else:
            self.stop(timeout)
        self.wait(None)

    def _spawn(self, timeout: float | None) -> None:
        name = f"{self._system.name}-stopper"
        threading.Thread(target=self._stopper, args=(timeout,), name=name, daemon=True).start()

    def _stopper(self, timeout: float | None) -> None:
        self._stoppers.append(threading.current_thread())
        self.stop(timeout)

    def stop(self, timeout: float | None) -> None:
        """Run the protocol, or wait for whoever runs it."""
        if not self._phase.compare_and_set(RUNNING, STOPPING):
            self._wait(None)
            return
        self._needed.add(threading.get_ident())
        system = self._system
        limit = system.config.shutdown_timeout_s if timeout is None else timeout
        grace = time.monotonic() + limit
        with ExitStack() as end:
            # Steps 8 to 5: the last one named is the first one taken, and each of them is, whatever
            # becomes of those before. Whoever waits for the end must not wait for ever.
            end.callback(self._let_go)
            end.callback(system.outside.close, SystemStopped(f"{system.name} has stopped"))
            end.callback(self._bury, grace)
            end.callback(self._stop_timer, grace)
            self._wait_quiet(grace)
            told = system.register.close()
            for house in told:
                house.control(Stop(system.stopped_error))
            self._wait_quiet(grace, FORCED_S, told)
            system.scheduler.signal_stop()
            self._soon(self._join_workers, grace)
            for name in self._stuck:
                _log.warning("%s is stuck in a handler and is left behind", name)

    def _join_workers(self) -> bool:
        self._stuck = self._system.scheduler.join(time.monotonic() + LOOK_S)
        return not self._stuck

    def _stop_timer(self, grace: float) -> None:
        """Step 5."""
        if not self._soon(lambda: self._system.stop_timer(LOOK_S), grace):
            name = self._system.name
            _log.warning("%s-timer is stuck in a callback or an action and is left behind", name)

    def _bury(self, grace: float) -> None:
        """Step 6. With all threads ended and nothing queued, no hook is left to run."""
        scheduler, name = self._system.scheduler, f"{self._system.name}-burier"
        if not self._stuck and not scheduler.left_over:
            scheduler.close()
            return
        burier = threading.Thread(target=self._close_scheduler, name=name, daemon=True)
        try:
            burier.start()
        except RuntimeError:  # the interpreter ends, and starts no more threads
            scheduler.close()
            return
        if not self._soon(lambda: _has_ended(burier), grace):
            _log.warning("%s is stuck in a last hook or callback and is left behind", name)

    def _close_scheduler(self) -> None:
        self._needed.add(threading.get_ident())
        try:
            self._system.scheduler.close()
        finally:
            self._needed.discard(threading.get_ident())

    def _let_go(self) -> None:
        self._phase.set(STOPPED)
        self._system.forget()
        self._done.set()
        self._needed.discard(threading.get_ident())

    def _wait_quiet(self, grace: float, least: float = 0.0, told: Sequence[House] = ()) -> None:
        """Until all is quiet or the grace has passed; `least` seconds stay even in a hurry.

        Those who were told to stop must have done it: a house may have its mail and be in no queue
        yet, because the sender that has made it ready, some thread outside, was interrupted there.
        """
        start = time.monotonic()
        pause = 0.0001
        quiet = self._system.scheduler.quiet
        while not (quiet() and all(house.stop_reason is not None for house in told)):
            if self._out_of_time(grace, start + least):
                return
            time.sleep(pause)
            pause = min(2 * pause, 0.01)

    def _soon(self, happens: Callable[[], bool], grace: float) -> bool:
        """Whether it happens within the time that is left; each look may block for a moment."""
        least = time.monotonic() + FORCED_S
        while not happens():
            if self._out_of_time(grace, least):
                return False
        return True

    @property
    def needs_this_thread(self) -> bool:
        """Whether the end would wait for the caller."""
        return threading.get_ident() in self._needed or self._system.on_timer_thread

    def _out_of_time(self, grace: float, least: float) -> bool:
        limit = least if self._hurry.load() else max(grace, least)
        return time.monotonic() >= limit


def _has_ended(thread: threading.Thread) -> bool:
    thread.join(LOOK_S)
    return not thread.is_alive()
