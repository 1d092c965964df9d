"""Object pools: one for each type and thread, never shared.

An idle object waits in a plain list that only its thread touches, so neither `get` nor `recycle`
needs a lock. An object remembers the pool it came from; one that is recycled on another thread is
simply dropped (creator affinity), because handing it over would cost more than making a new one.

When does an object's life end? A stack's ends with its message: it is recycled then, whoever keeps
it. Promises, envelopes and states pass through the hands of handlers, and Python code keeps what it
likes: a future in a variable, a state on the actor, an exception whose traceback leads to either.
So the runtime recycles one of those only if nobody else has it, and it knows by counting: if the
count of references says that the caller's own is the last (`alone`), no other thread and no handler
can ever get at the object again. What somebody still holds is left to him, and never pooled.

On this interpreter making an object anew is cheaper than cleaning a used one (bench/pools.py,
figures in docs/configuration), so pooling is off unless `Config.pooling` is set. The seam is the
same for all types: `Context.new_*` makes one, `Context.recycle` (stacks) and `Context.let_go` (all
others) take it back.

In debug mode a recycled object changes its class to one that refuses everything, so that a handler
that kept its stack fails loudly instead of answering somebody else's message.
"""

from __future__ import annotations

from functools import cache
from sys import getrefcount
from typing import Any, Protocol

from otavia_ft.doors import now
from otavia_ft.errors import StackError

__all__ = ["ALONE", "Poolable", "ThreadPool", "alone", "pooled"]


class Poolable(Protocol):
    """What a pool needs of an object: a slot for its pool, and `clean` to forget its past."""

    pool: ThreadPool[Any] | None

    def clean(self) -> None: ...


class ThreadPool[T: Poolable]:
    """Idle objects of one type on one thread. Only that thread may call it."""

    __slots__ = ("_blank", "_debug", "_idle", "_idle_since", "_type", "_used", "max_size")

    def __init__(
        self, kind: type[T], max_size: int, debug: bool = False, blank: tuple[Any, ...] = ()
    ) -> None:
        self._type = kind
        self._blank = blank  # the arguments for a new object that says nothing yet
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
                object.__setattr__(used, "__class__", self._type)  # back from the stale type
            return used
        made = self._type(*self._blank)
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
def pooled[T](kind: type[T]) -> type[T]:
    """The same type for objects that a pool has made: they also remember their pool.

    The pool's place is here and not in the type itself, so that an object of an ordinary system is
    not larger for it. (Stacks have always had it.)
    """
    made: type[T] = type(kind.__name__, (kind,), {"__slots__": ("pool",), "__doc__": kind.__doc__})
    return made


@cache
def _stale[T](kind: type[T]) -> type[T]:
    """The same layout, and nothing works any more."""

    def refuse(self: Any, name: str = "__await__", *_: Any) -> Any:
        raise StackError(
            f"this {kind.__name__} was recycled, its message is finished: nothing may keep it "
            f"after that ({name!r} was wanted)"
        )

    def describe(self: Any) -> str:
        return f"<recycled {kind.__name__}>"

    body: dict[str, Any] = {
        "__slots__": (),
        "__getattribute__": refuse,
        "__setattr__": refuse,
        "__await__": refuse,
        "__repr__": describe,
    }
    stale: type[T] = type(f"Recycled{kind.__name__}", (kind,), body)
    return stale


def alone(thing: object) -> bool:
    """Whether the caller's reference, in a variable or an attribute, is the only one there is."""
    return getrefcount(thing) == ALONE


def _one_reference() -> int:
    """What `alone` counts then: its own references come on top, how many is the interpreter's."""

    def counted(thing: object) -> int:
        return getrefcount(thing)

    probe = object()
    return counted(probe)


ALONE = _one_reference()
