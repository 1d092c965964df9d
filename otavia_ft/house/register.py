"""The register: houses that have something to say at the end.

Most actors can simply be forgotten, and cost nothing here. Those that override `post_stop`, have a
cleaner, or have ever asked (so that a handler of theirs may be waiting) are found through this
register when the system stops. It holds them weakly: an entry goes away with its house, and if the
house had a cleaner, that is when the cleaner is sent to the owner's thread.

Three kinds it holds strongly, because nothing else may: an actor whose user mail is held back, a
child, and an actor with a waiting handler. The garbage collector must never find one of those: it
would run the handler's `finally` on whatever thread it happens to be on, outside of any turn, and
would take a child together with the parent that has to stop it.
"""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otavia_ft.doors import AtomicInt

if TYPE_CHECKING:
    from otavia_ft.house.house import House, Scheduler

__all__ = ["Register", "check_cleaner"]

Cleaner = Callable[[], None]


class _Entry(weakref.ref["House"]):
    """A weak reference that knows what to do when its house is gone."""

    __slots__ = ("clean", "number", "scheduler")

    clean: Cleaner | None
    number: int
    scheduler: Scheduler


class Register:
    """Weak references to houses, by their id. Any thread: every step is one dict operation."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._held: dict[int, House] = {}  # their user mail waits
        self._children: dict[int, House] = {}
        self.waiting: dict[int, Any] = {}  # tables with open promises in them: see stack/table.py
        self._closed = AtomicInt()

    def add(self, house: House, clean: Cleaner | None = None) -> None:
        """Remember a house. Its cleaner, if it has one, is given the first time."""
        if house.id in self._entries:
            return
        entry = _Entry(house, self._gone)
        entry.number = house.id
        entry.scheduler = house.scheduler
        entry.clean = clean
        self._entries[house.id] = entry

    def remove(self, house: House) -> Cleaner | None:
        """Forget a house that has stopped; returns its cleaner, which is now the caller's."""
        self._held.pop(house.id, None)
        self._children.pop(house.id, None)
        entry = self._entries.pop(house.id, None)
        return None if entry is None else entry.clean

    def hold(self, house: House) -> None:
        """Remember a house that must not go away before it is released or stops."""
        self.add(house)
        self._held[house.id] = house

    def release(self, house: House) -> None:
        """It may go away again."""
        self._held.pop(house.id, None)

    def close(self) -> list[House]:
        """From now on whoever looks is too late to start. Those who have started: all others.

        Pairs with `lifecycle.start`, which enters a house first and looks at `closed` second: it
        sees that we have closed, or we see the house. Both sides need a fence between the two,
        which is what the read-modify-writes are for.
        """
        self._closed.get_and_set(1)
        return self.houses()

    @property
    def closed(self) -> bool:
        return self._closed.get_and_add(0) == 1

    def keep(self, child: House) -> None:
        """Remember a child, which must not go away before its parent."""
        self._children[child.id] = child

    def let_go(self, child: House) -> None:
        """Its parent is gone, and it knows."""
        self._children.pop(child.id, None)

    def houses(self) -> list[House]:
        """Those that are still there."""
        alive = (entry() for entry in list(self._entries.values()))
        return [house for house in alive if house is not None]

    def __len__(self) -> int:
        return len(self._entries)

    def _gone(self, entry: Any) -> None:
        # On whatever thread dropped the last reference: only hand the cleaner over.
        if self._entries.pop(entry.number, None) is not None and entry.clean is not None:
            entry.scheduler.call(entry.clean)


def check_cleaner(clean: Any, actor: Any, house: House) -> None:
    """Refuse a cleaner that keeps its own actor alive, as far as that can be seen."""
    if not callable(clean):
        raise TypeError(f"{house.name}: cleaner() must return a function, not {clean!r}")
    from otavia_ft.address import ActorAddress  # an address is made of houses, not they of it

    seen: set[int] = set()
    nearby: list[Any] = [clean]
    for _ in range(4):  # bound method, closure cell, partial, container: no need to go deeper
        following: list[Any] = []
        for thing in nearby:
            if thing is actor or (isinstance(thing, ActorAddress) and thing.house is house):
                raise TypeError(
                    f"{house.name}: its cleaner {clean!r} refers to the actor or its address, so "
                    "the actor would never go away: give it only what has to be cleaned up"
                )
            if id(thing) not in seen and not isinstance(thing, (type, types.ModuleType)):
                seen.add(id(thing))
                # A function's globals are not what it holds on to, nor are the builtins, which are
                # many, and which threads that start actors at once would all look through.
                skip = [id(getattr(thing, name, None)) for name in ("__globals__", "__builtins__")]
                following.extend(r for r in gc.get_referents(thing) if id(r) not in skip)
        nearby = following
