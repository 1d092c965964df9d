"""Death watch: to be told, once, that another actor has ended.

The watcher keeps a weak reference to the watched house, the watched house one to the watcher, so
neither keeps the other alive. An end is reported in one of three ways, all of them errands to the
watcher's system mailbox:
 - the watched actor stops, and tells those that it knows to watch it;
 - it was dead before: the errand that should make the watcher known finds that and goes back;
 - nobody had its address any more: the weak reference says so.
Two of them may come. The watcher's own book, which only its runner touches, has one entry for each
watched actor; whichever errand comes first takes it out and is delivered, others find nothing.

It is delivered as a notice, `Terminated`, behind what the watched actor has sent before it ended.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otavia_ft.doors import Mailbox
from otavia_ft.errors import ActorStopped, OtaviaError, StackError, fresh
from otavia_ft.house.family import family_of
from otavia_ft.house.lifecycle import Errand
from otavia_ft.message import Notice

if TYPE_CHECKING:
    from otavia_ft.address import ActorAddress
    from otavia_ft.context import Context
    from otavia_ft.house.house import House

__all__ = ["Terminated", "Watches", "unwatch", "watch"]

NOTICE = int(Mailbox.NOTICE)

# Numbers are given by systems, and one may watch across systems.
Key = tuple[int, int]


def _key(house: House) -> Key:
    return id(house.scheduler.system), house.id


@dataclass(frozen=True, slots=True)
class Terminated(Notice):
    """A watched actor has ended. Its address still tells it apart, but leads to dead letters."""

    address: ActorAddress
    reason: OtaviaError


class _Watch(weakref.ref["House"]):
    """The watcher's entry for one watched house, and the alarm for when that is collected."""

    __slots__ = ("key", "plan", "scheduler", "watcher")

    key: Key
    plan: Any
    scheduler: Any
    watcher: weakref.ref[House]


class Watches:
    """Whom an actor watches, and who watches it."""

    __slots__ = ("watchers", "watching")

    def __init__(self) -> None:
        self.watching: dict[Key, _Watch] = {}
        self.watchers: dict[Key, weakref.ref[House]] = {}

    def ended(self, house: House, reason: OtaviaError) -> None:
        """The actor has stopped: tell its watchers, and leave those that it watched."""
        for watcher in self.watchers.values():
            _tell(watcher, house, reason)
        for entry in self.watching.values():
            watched = entry()
            if watched is not None:
                watched.control(_BeLeft(_key(house)))


def _watches_of(house: House) -> Watches:
    family = family_of(house)
    if family.watches is None:
        family.watches = Watches()
    return family.watches


def watch(house: House, target: House) -> None:
    """Begin to watch; nothing new if it is watched already."""
    if target is house:
        raise ValueError(f"{house.name} cannot watch itself: use post_stop")
    if house.stop_reason is not None:
        raise StackError(f"{house.name} has stopped: there is nobody to tell")
    watching = _watches_of(house).watching
    key = _key(target)
    if key in watching:
        return
    entry = _Watch(target, _collected)
    entry.key = key
    entry.plan = target.plan
    entry.scheduler = target.scheduler
    entry.watcher = weakref.ref(house)
    watching[key] = entry
    target.control(_BeWatched(_key(house), entry.watcher))


def unwatch(house: House, target: House) -> None:
    """Watch no longer; no Terminated comes after this, unless one is in the mailbox already."""
    watches = None if house.family is None else house.family.watches
    if watches is not None and watches.watching.pop(_key(target), None) is not None:
        target.control(_BeLeft(_key(house)))


def _collected(entry: Any, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
    # On whatever thread dropped the last reference: only leave word. (When the interpreter ends,
    # this module's names may be gone.)
    watcher = None if at_exit() else entry.watcher()
    if watcher is not None:
        watcher.control(_Ended(entry.key, None, None))


class _BeWatched(Errand):
    __slots__ = ("key", "watcher")

    def __init__(self, key: Key, watcher: weakref.ref[House]) -> None:
        self.key = key
        self.watcher = watcher

    def run(self, context: Context, house: House) -> None:
        if house.stop_reason is not None:
            _tell(self.watcher, house, house.stop_reason)
            return
        watches = _watches_of(house)
        if len(watches.watchers) & (len(watches.watchers) - 1) == 0:
            # At every power of two: forget those that are gone, at O(1) a watcher.
            watches.watchers = {k: w for k, w in watches.watchers.items() if w() is not None}
        watches.watchers[self.key] = self.watcher


class _BeLeft(Errand):
    __slots__ = ("key",)

    def __init__(self, key: Key) -> None:
        self.key = key

    def run(self, context: Context, house: House) -> None:
        if house.family is not None and house.family.watches is not None:
            house.family.watches.watchers.pop(self.key, None)


class _Ended(Errand):
    """To the watcher. Without an address: the watched one was collected."""

    __slots__ = ("address", "key", "reason")

    def __init__(self, key: Key, address: ActorAddress | None, reason: OtaviaError | None) -> None:
        self.key = key
        self.address = address
        self.reason = reason

    def run(self, context: Context, house: House) -> None:
        family = house.family
        if family is None or family.watches is None:
            return
        entry = family.watches.watching.pop(self.key, None)
        if entry is None:
            return  # told before, or not watched any more
        address, reason = self.address, self.reason
        if address is None or reason is None:
            address, reason = _tombstone(entry)
        house.put(NOTICE, Terminated(address, reason))


def _tell(watcher: weakref.ref[House], dead: House, reason: OtaviaError) -> None:
    house = watcher()
    if house is not None:
        house.control(_Ended(_key(dead), dead.asker_address(), fresh(reason)))


def _tombstone(entry: _Watch) -> tuple[ActorAddress, OtaviaError]:
    """An address for an actor that has none left: a stopped house of the same name and number."""
    from otavia_ft.actor.base import StateActor  # a stone needs some body; only its class is read

    house = entry.scheduler.house_type(StateActor(), entry.scheduler, entry.key[1])
    house.settle(None, entry.plan, entry.scheduler, house.promises, house.id)
    house.stop_reason = reason = ActorStopped(
        f"{house.name} is gone: nobody had its address any more"
    )
    house.begin_mount()
    house.end_mount()
    return house.asker_address(), reason
