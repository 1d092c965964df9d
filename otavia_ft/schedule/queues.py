"""House queues: where READY houses wait for their thread.

A `HouseList` is a linked list threaded through the houses themselves (`next_house`), so queueing
allocates nothing; a SpinLock protects it for the few instructions of a link or an unlink. A house is
in at most one list at a time: only the winner of a transition to READY may enqueue it.

`FIFOHouseQueue` is one such list. `PriorityHouseQueue` is two, each with its own lock: the priority
is read once, when the house is enqueued. High ones go first, strictly, with one exception of our
own: after `ageing_limit` high houses in a row, one normal house gets its turn, so that a house that
keeps itself high cannot starve the others for ever.

The size is mirrored in an atomic that is written under the lock and read without it. A lazy set is
enough for it: whoever has to be woken is woken after the unlock, by an exchange (parking.py), and
that exchange makes the mirror visible before the sleeper looks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otavia_ft.doors import AtomicInt, SpinLock

if TYPE_CHECKING:
    from otavia_ft.house.house import House

__all__ = ["FIFOHouseQueue", "HouseList", "PriorityHouseQueue"]


class HouseList:
    """A linked list of houses under one spin lock."""

    __slots__ = ("_count", "_head", "_lock", "_size", "_tail")

    def __init__(self) -> None:
        self._lock = SpinLock()
        self._head: House | None = None
        self._tail: House | None = None
        self._count = 0
        self._size = AtomicInt()

    def __len__(self) -> int:
        """How many there are, about now."""
        return self._size.load()

    def append(self, house: House) -> int:
        """To the tail; returns how many there are then. Any thread."""
        lock = self._lock
        lock.lock()
        try:
            tail = self._tail
            if tail is None:
                self._head = house
            else:
                tail.next_house = house
            self._tail = house
            self._count = count = self._count + 1
            self._size.lazy_set(count)
            return count
        finally:
            lock.unlock()

    def pop(self) -> House | None:
        """From the head; None when empty. An empty list costs one load and no lock."""
        if self._size.load() == 0:
            return None
        lock = self._lock
        lock.lock()
        try:
            return self._unlink()
        finally:
            lock.unlock()

    def try_steal(self) -> House | None:
        """From the head, by another thread: never waits, and never takes the last one.

        The last one stays because its owner is about to take it, and would find nothing.
        """
        if self._size.load() <= 1 or not self._lock.try_lock():
            return None
        try:
            return self._unlink() if self._count > 1 else None
        finally:
            self._lock.unlock()

    def _unlink(self) -> House | None:
        head = self._head
        if head is None:
            return None
        following = head.next_house
        head.next_house = None
        self._head = following
        if following is None:
            self._tail = None
        self._count = count = self._count - 1
        self._size.lazy_set(count)
        return head


class FIFOHouseQueue:
    """First in, first out: the houses that wait to be mounted."""

    __slots__ = ("_houses",)

    def __init__(self) -> None:
        self._houses = HouseList()

    def enqueue(self, house: House) -> None:
        self._houses.append(house)

    def dequeue(self) -> House | None:
        return self._houses.pop()

    def __len__(self) -> int:
        return len(self._houses)


class PriorityHouseQueue:
    """High-priority houses before normal ones."""

    __slots__ = ("_ageing_limit", "_high", "_high_in_a_row", "_normal")

    def __init__(self, ageing_limit: int) -> None:
        self._high = HouseList()
        self._normal = HouseList()
        self._ageing_limit = ageing_limit
        self._high_in_a_row = 0  # the owner's own count; a thief leaves it alone

    def enqueue(self, house: House) -> int:
        """Any thread. The priority is the one that the house has now. Returns its list's length."""
        return (self._high if house.high_priority else self._normal).append(house)

    def dequeue(self) -> House | None:
        """The owner only."""
        if self._high_in_a_row >= self._ageing_limit:
            self._high_in_a_row = 0
            house = self._normal.pop()
            if house is not None:
                return house
        house = self._high.pop()
        if house is not None:
            self._high_in_a_row += 1
            return house
        self._high_in_a_row = 0
        return self._normal.pop()

    def try_steal(self) -> House | None:
        """A thief: one house, high before normal; None when contended or too few."""
        return self._high.try_steal() or self._normal.try_steal()

    @property
    def stealable(self) -> bool:
        """Whether a thief could get something now."""
        return len(self._high) > 1 or len(self._normal) > 1

    @property
    def high(self) -> int:
        """How many of them are of high priority."""
        return len(self._high)

    def __len__(self) -> int:
        """How many houses are ready."""
        return len(self._high) + len(self._normal)
