"""Stopping a system. The protocol:

 1. One caller wins RUNNING → STOPPING and does the rest; others wait for it to be done. From here on
    no actor is built and no ask from outside is taken.
 2. Grace: wait until everything that is queued has been handled, at most until the timeout.
 3. Goodbyes: every actor in the register is stopped on its own turn (waiting handlers are
    cancelled, `post_stop` runs, the cleaner is sent). Wait again, same limit.
 4. The threads are told to end after the turn in hand, and are joined. One that is stuck in a
    handler cannot be killed: it is named in a warning and left behind as a daemon.
 5. The timer thread ends: nothing fires any more.
 6. The managers close: mail that is left, or comes later, becomes dead letters, and its askers are
    answered.
 7. All asks from outside that are still open are answered with SystemStopped.
 8. STOPPED; whoever waits for the end is let go.

A forced stop skips 2, and gives 3 and 4 a short time. `stop()` inside a handler would wait for
itself, so it is refused there; `signal_stop()` runs the protocol on a thread of its own.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from otavia_ft.doors import AtomicInt
from otavia_ft.errors import SystemStopped
from otavia_ft.house.lifecycle import Stop

if TYPE_CHECKING:
    from otavia_ft.system import ActorSystem

__all__ = ["Shutdown"]

_log = logging.getLogger("otavia_ft.system")

RUNNING, STOPPING, STOPPED = 0, 1, 2
FORCED_S = 1.0  # for goodbyes and joining, when there is no grace left


class Shutdown:
    """The end of one system, whoever asks for it and however often."""

    def __init__(self, system: ActorSystem) -> None:
        self._system = system
        self._phase = AtomicInt(RUNNING)
        self._hurry = AtomicInt()
        self._done = threading.Event()

    @property
    def running(self) -> bool:
        return self._phase.load() == RUNNING

    def wait(self, timeout: float | None) -> bool:
        return self._done.wait(timeout)

    def force(self) -> None:
        """No more grace, for a stop that is under way too."""
        self._hurry.set(1)

    def signal(self) -> None:
        """Stop without waiting; safe inside a handler."""
        if self.running:
            name = f"{self._system.name}-stopper"
            threading.Thread(target=self.stop, args=(None,), name=name, daemon=True).start()

    def stop(self, timeout: float | None) -> None:
        """Run the protocol, or wait for whoever runs it."""
        if not self._phase.compare_and_set(RUNNING, STOPPING):
            self._done.wait()
            return
        system = self._system
        limit = system.config.shutdown_timeout_s if timeout is None else timeout
        try:
            grace = time.monotonic() + limit
            self._wait_quiet(grace)
            grace = max(grace, time.monotonic() + FORCED_S)
            for house in system.register.houses():
                house.control(Stop(system.stopped_error))
            self._wait_quiet(grace, hurry_too=True)
            system.scheduler.signal_stop()
            for name in system.scheduler.join(max(grace, time.monotonic() + FORCED_S)):
                _log.warning("%s is stuck in a handler and is left behind", name)
        finally:
            system.stop_timer()
            system.scheduler.close()
            system.outside.close(SystemStopped(f"{system.name} has stopped"))
            self._phase.set(STOPPED)
            self._done.set()

    def _wait_quiet(self, deadline: float, hurry_too: bool = False) -> None:
        pause = 0.0001
        while not self._system.scheduler.quiet():
            if time.monotonic() >= deadline or (self._hurry.load() and not hurry_too):
                return
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
