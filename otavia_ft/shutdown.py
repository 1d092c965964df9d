"""Stopping a system. The protocol:

 1. One caller wins RUNNING → STOPPING and does the rest; others wait for it to be done. From here
    on no actor is built and no ask from outside is taken.
 2. Grace: wait until everything that is queued has been handled, at most until the timeout.
 3. Goodbyes: the register closes, so no actor that has one to say is started any more. Every actor
    in it is stopped on its own turn (waiting handlers are cancelled, `post_stop` runs, the cleaner
    is sent). Wait again, same limit.
 4. The threads are told to end after the turn in hand, and are joined. One that is stuck in a
    handler cannot be killed: it is named in a warning and left behind as a daemon.
 5. The timer thread ends: nothing fires any more.
 6. The managers close: mail that is left, or comes later, becomes dead letters, and its askers are
    answered.
 7. All asks from outside that are still open are answered with SystemStopped.
 8. STOPPED; whoever waits for the end is let go.

A forced stop skips 2, and gives 3 and 4 a short time. `stop()` inside a handler would wait for
itself, so it is refused there; `signal_stop()` runs the protocol on a thread of its own. So does
`stop()` on the main thread: a second Ctrl-C is raised there, and must interrupt the waiting, not
the protocol. (At the interpreter's end no thread can be started any more; then it runs in place.)

Two threads must not wait for the end, because it needs them: the one that runs the protocol and the
timer's. Code of the user's runs on both, a callback of a future for example, or a subscriber to the
dead letters. There `stop()` and `wait()` return at once: the stop is under way.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
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
        self._runner: int | None = None  # the thread that runs the protocol

    @property
    def running(self) -> bool:
        return self._phase.load() == RUNNING

    def wait(self, timeout: float | None) -> bool:
        """Until the end, in slices: a signal that comes just before the main thread blocks is not
        noticed by it before the next wake-up, and Ctrl-C would seem to do nothing."""
        if self._needs_this_thread():
            return self._done.is_set()
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
        if not self.running and self._needs_this_thread():
            return
        on_main = threading.current_thread() is threading.main_thread()
        if on_main and self._system.scheduler.started:
            try:
                stopper = self._spawn(timeout)
            except RuntimeError as error:
                if isinstance(error.__context__, KeyboardInterrupt):
                    # Raised in the middle of the condition that `start` waits on, which then lets
                    # go of a lock that it does not hold. It is a second Ctrl-C all the same.
                    raise error.__context__ from None
                self.stop(timeout)
            else:
                self.wait(None)
                stopper.join()  # it has nothing left to do, but should not be seen any more
        else:
            self.stop(timeout)

    def _spawn(self, timeout: float | None) -> threading.Thread:
        name = f"{self._system.name}-stopper"
        stopper = threading.Thread(target=self.stop, args=(timeout,), name=name, daemon=True)
        stopper.start()
        return stopper

    def stop(self, timeout: float | None) -> None:
        """Run the protocol, or wait for whoever runs it."""
        if not self._phase.compare_and_set(RUNNING, STOPPING):
            self.wait(None)
            return
        self._runner = threading.get_ident()
        system = self._system
        limit = system.config.shutdown_timeout_s if timeout is None else timeout
        with ExitStack() as end:
            # Steps 8 to 5: the last one named is the first one taken, and each of them is, whatever
            # becomes of those before. Whoever waits for the end must not wait for ever.
            end.callback(self._let_go)
            end.callback(system.outside.close, SystemStopped(f"{system.name} has stopped"))
            end.callback(system.scheduler.close)
            end.callback(system.stop_timer)
            grace = time.monotonic() + limit
            self._wait_quiet(grace)
            told = system.register.close()
            for house in told:
                house.control(Stop(system.stopped_error))
            self._wait_quiet(grace, FORCED_S, told)
            system.scheduler.signal_stop()
            for name in self._join(grace):
                _log.warning("%s is stuck in a handler and is left behind", name)

    def _let_go(self) -> None:
        self._phase.set(STOPPED)
        self._system.forget()
        self._done.set()

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

    def _join(self, grace: float) -> list[str]:
        """Wait for the threads as `_wait_quiet` does; the names of those that are still there."""
        least = time.monotonic() + FORCED_S
        while stuck := self._system.scheduler.join(time.monotonic() + 0.05):
            if self._out_of_time(grace, least):
                break
        return stuck

    def _needs_this_thread(self) -> bool:
        return threading.get_ident() == self._runner or self._system.on_timer_thread

    def _out_of_time(self, grace: float, least: float) -> bool:
        limit = least if self._hurry.load() else max(grace, least)
        return time.monotonic() >= limit
