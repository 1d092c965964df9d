"""Object pools: one for each type and thread, never shared.

An idle object waits in a plain list that only its thread touches, so neither `get` nor `recycle`
needs a lock. An object remembers the pool it came from; one that is recycled on another thread is
simply dropped (creator affinity), because handing it over would cost more than making a new one.

On this interpreter making a stack anew is cheaper than cleaning a used one (bench/pools.py, figures
in docs/performance), so pooling is off unless `Config.pooling` is set. The seam is the same for all
kinds of stacks: `Context.new_*_stack` makes one, `Context.recycle` takes it back.

In debug mode a recycled object changes its class to one that refuses everything, so that a handler
that kept its stack fails loudly instead of answering somebody else's message.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

from otavia_ft.doors import now
from otavia_ft.errors import StackError

__all__ = ["Poolable", "ThreadPool"]


class Poolable(Protocol):
    """What a pool needs of an object: a slot for its pool, and `clean` to forget its past."""

    pool: ThreadPool[Any] | None

    def clean(self) -> None: ...


class ThreadPool[T: Poolable]:
    """Idle objects of one type on one thread. Only that thread may call it."""

    __slots__ = ("_debug", "_idle", "_idle_since", "_type", "_used", "max_size")

    def __init__(self, kind: type[T], max_size: int, debug: bool = False) -> None:
        self._type = kind
        self._idle: list[T] = []
        self._idle_since = now()
        self._used = False
        self._debug = debug
        self.max_size = max_size

    def get(self) -> T:
        """An idle object, or a new one."""
        self._used = True
        if self._idle:
            used = self._idle.pop()
            if self._debug:
                used.__class__ = self._type  # back from the stale type
            return used
        made = self._type()
        made.pool = self
        return made

    def recycle(self, used: T) -> None:
        """Clean an object; keep it if it is ours and there is room."""
        used.clean()
        if used.pool is self and len(self._idle) < self.max_size:
            self._idle.append(used)
        if self._debug:
            used.__class__ = _stale(self._type)

    def trim(self, idle_seconds: float, keep: int) -> None:
        """Cut down to `keep` objects if nobody needed one for `idle_seconds`.

        Called now and then: the clock is read here and not in `get`, where it would cost more than
        the pool saves. So an idle time counts from the first call that finds the pool unused.
        """
        if self._used:
            self._used = False
            self._idle_since = now()
        elif now() - self._idle_since >= idle_seconds:
            del self._idle[keep:]

    def __len__(self) -> int:
        return len(self._idle)


@cache
def _stale[T](kind: type[T]) -> type[T]:
    """The same layout, and nothing works any more."""

    def refuse(self: Any, name: str, *_: Any) -> Any:
        raise StackError(
            f"this {kind.__name__} was recycled, its message is finished: nothing may keep a stack "
            f"after it has ended ({name!r} was wanted)"
        )

    def describe(self: Any) -> str:
        return f"<recycled {kind.__name__}>"

    body: dict[str, Any] = {"__slots__": (), "__getattribute__": refuse, "__repr__": describe}
    stale: type[T] = type(f"Recycled{kind.__name__}", (kind,), body)
    return stale
