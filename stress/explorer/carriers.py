"""What carries a simulated thread: greenlets, or OS threads where greenlet is missing.

Both give the same four things: `current()`, `Carrier(job)`, `carrier.switch()` (go there; come back
when somebody switches here) and `carrier.throw(exception)`. A greenlet switch costs under a
microsecond, a hand-over between OS threads twenty or more: the second driver is a fallback, and a
check that nothing depends on greenlets.

Carriers are kept and used again, because making a greenlet costs more than twenty switches.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any, Protocol

try:
    with warnings.catch_warnings():
        # greenlet turns the GIL on, and the interpreter warns. The explorer is single-threaded.
        warnings.filterwarnings("ignore", "The global interpreter lock", RuntimeWarning)
        import greenlet
except ImportError:  # the explorer still works, slowly
    greenlet = None  # type: ignore[assignment]

__all__ = ["Abandon", "Carriers", "GreenletCarriers", "OsThreadCarriers", "default_carriers"]


class Abandon(BaseException):
    """Thrown into threads that are still under way when their world ends."""


class Carriers(Protocol):
    """A pool of carriers that all return to the one who made the pool (the hub)."""

    hub: Any

    def start(self, job: Callable[[], None]) -> Any:
        """A carrier that begins `job` now; returns at its first switch to the hub, or its end."""
        ...

    def release(self, carrier: Any) -> None:
        """Take a carrier back whose job has ended."""
        ...


class GreenletCarriers(Carriers):
    def __init__(self) -> None:
        self.hub = greenlet.getcurrent()
        self._idle: list[Any] = []

    def start(self, job: Callable[[], None]) -> Any:
        if self._idle:
            carrier = self._idle.pop()
        else:
            carrier = greenlet.greenlet(self._serve, self.hub)
            carrier.switch()
        carrier.switch(job)
        return carrier

    def _serve(self) -> None:
        switch = self.hub.switch
        while True:
            job = switch()
            try:
                job()
            except Abandon:
                pass

    def release(self, carrier: Any) -> None:
        self._idle.append(carrier)


class _OsThread:
    """One side of a hand-over: it runs only between a switch to it and its next switch away."""

    def __init__(self, pool: OsThreadCarriers) -> None:
        self._pool = pool
        self._turn = threading.Semaphore(0)
        self._thrown: BaseException | None = None
        self.job: Callable[[], None] | None = None

    def switch(self) -> None:
        here = self._pool.here
        self._pool.here = self
        self._turn.release()
        here._turn.acquire()
        thrown, here._thrown = here._thrown, None
        if thrown is not None:
            raise thrown

    def throw(self, exception: BaseException) -> None:
        self._thrown = exception
        self.switch()

    def serve(self) -> None:
        self._turn.acquire()
        while True:
            assert self.job is not None
            try:
                self.job()
            except Abandon:
                pass
            self.job = None
            self._pool.hub.switch()


class OsThreadCarriers(Carriers):
    def __init__(self) -> None:
        self.hub = self.here = _OsThread(self)
        self._idle: list[_OsThread] = []

    def start(self, job: Callable[[], None]) -> _OsThread:
        if self._idle:
            carrier = self._idle.pop()
        else:
            carrier = _OsThread(self)
            threading.Thread(target=carrier.serve, daemon=True, name="explorer carrier").start()
        carrier.job = job
        carrier.switch()
        return carrier

    def release(self, carrier: _OsThread) -> None:
        self._idle.append(carrier)


_latest: Carriers | None = None


def default_carriers() -> Carriers:
    """The pool of this greenlet or, without greenlet, a pool of OS threads."""
    global _latest
    if greenlet is None:
        if _latest is None:
            _latest = OsThreadCarriers()
    elif _latest is None or _latest.hub is not greenlet.getcurrent():
        _latest = GreenletCarriers()
    return _latest
