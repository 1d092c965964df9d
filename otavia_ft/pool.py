"""Object pools: one for each type and thread, never shared.

An idle object waits in a plain list that only its thread touches, so neither `get` nor `recycle`
needs a lock. An object remembers the pool it came from; one that is recycled on another thread is
simply dropped (creator affinity), because handing it over would cost more than making a new one.

A pool that was not used for a while is cut down by `trim`, which the thread's own resource timer
calls. What pooling gains for each type on this interpreter stands in docs/performance; a type for
which it gains nothing has `max_size` 0 and keeps only the seam.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from otavia_ft.doors import now

__all__ = ["Poolable", "ThreadPool"]


class Poolable(Protocol):
    """What a pool needs of an object: a slot for its pool, and `clean` to forget its past."""

    pool: ThreadPool[Poolable] | None

    def clean(self) -> None: ...


class ThreadPool[T: Poolable]:
    """Idle objects of one type on one thread. Only that thread may call it."""

    __slots__ = ("_idle", "_last_get", "_make", "max_size")

    def __init__(self, make: Callable[[], T], max_size: int) -> None:
        self._make = make
        self._idle: list[T] = []
        self._last_get = now()
        self.max_size = max_size

    def get(self) -> T:
        """An idle object, or a new one."""
        if self._idle:
            return self._idle.pop()
        made = self._make()
        made.pool = self  # type: ignore[assignment]  # the pool of T is the pool of its Poolable
        return made

    def recycle(self, used: T) -> None:
        """Clean an object; keep it if it is ours and there is room."""
        used.clean()
        if used.pool is self and len(self._idle) < self.max_size:
            self._idle.append(used)

    def trim(self, idle_seconds: float, keep: int) -> None:
        """Cut down to `keep` objects if nobody needed one for `idle_seconds`."""
        if now() - self._last_get >= idle_seconds:
            del self._idle[keep:]

    def touch(self) -> None:
        """Note that the pool is in use. Called once a turn, not once an object: a clock costs."""
        self._last_get = now()

    def __len__(self) -> int:
        return len(self._idle)
