"""House queues: where READY houses wait for their thread.

A `HouseList` is a linked list threaded through the houses themselves (`next_house`), so queueing
allocates nothing; a SpinLock protects it for the few instructions of a link or an unlink. A house
is in at most one list at a time: only the winner of a transition to READY may enqueue it.

`FIFOHouseQueue` is one such list. `PriorityHouseQueue` is two, each with its own lock: the priority
is read once, when the house is enqueued. High ones go first, strictly, with one exception of our
own: after `ageing_limit` high houses in a row, or at the end of a slice of business, whichever
comes first, one normal house gets its turn. So a house that keeps itself high cannot starve the
others.

No call is made between lock and unlock. CPython runs the handlers of signals, and the collector
with any `__del__`, right after a call; a handler that sends a message would come back here, on the
same thread, for a lock that this thread holds. `with` is not such a place, a plain `lock()` would
be. (A thief's `try_lock` is a call, but a thief is never the main thread, where signals arrive.)

The size is therefore counted outside the lock, in an atomic that is read without it, and for a
moment it is off by the threads that are just between the two. It goes up after the house is linked
and before anybody is woken, so whoever is woken for a house finds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otavia_ft.doors import AtomicInt, SpinLock

if TYPE_CHECKING:
    from otavia_ft.house.house import House

__all__ = ["FIFOHouseQueue", "HouseList", "PriorityHouseQueue"]


class HouseList:
    """A linked list of houses under one spin lock."""

    __slots__ = ("_count", "_head", "_lock", "_tail", "size")

    def __init__(self) -> None:
        self._lock = SpinLock()
        self._head: House | None = None
        self._tail: House | None = None
        self._count = 0
        self.size = AtomicInt()

    def __len__(self) -> int:
        """How many there are, about now."""
        return max(0, self.size.load())

    def append(self, house: House) -> int:
        """To the tail; returns how many there are then. Any thread."""
        with self._lock:
            tail = self._tail
            if tail is None:
                self._head = house
            else:
                tail.next_house = house
            self._tail = house
            self._count = count = self._count + 1
        # A read-modify-write: the enqueuer goes on to look whether somebody sleeps (crew.py) or has
        # closed (manager.py), and those look at the size after they have said so.
        self.size.get_and_add(1)
        return count

    def pop(self) -> House | None:
        """From the head; None when empty. An empty list costs one load and no lock."""
        if self.size.load() <= 0:
            return None
        with self._lock:
            head = self._head
            if head is None:
                return None
            self._head = following = head.next_house
            head.next_house = None
            if following is None:
                self._tail = None
            self._count -= 1
        self.size.get_and_add(-1)
        return head

    def try_steal(self) -> House | None:
        """From the head, by another thread: never waits, and never takes the last one.

        The last one stays because its owner is about to take it, and would find nothing.
        """
        if self.size.load() <= 1 or not self._lock.try_lock():
            return None
        head = self._head
        if head is not None and self._count > 1:
            self._head = head.next_house
            head.next_house = None
            self._count -= 1
        else:
            head = None
        self._lock.unlock()
        if head is not None:
            self.size.get_and_add(-1)
        return head


class FIFOHouseQueue:
    """First in, first out: the houses that wait to be mounted."""

    __slots__ = ("_houses",)

    high = 0  # it knows no priorities

    def __init__(self) -> None:
        self._houses = HouseList()

    def enqueue(self, house: House) -> None:
        self._houses.append(house)

    def dequeue(self) -> House | None:
        return self._houses.pop()

    take = dequeue

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
        """Any thread. The priority is the one that the house has now. Returns how many wait."""
        if house.high_priority:
            return self._high.append(house) + self._normal.size.load()
        return self._normal.append(house) + self._high.size.load()

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

    def end_slice(self) -> None:
        """The owner, whose time for business is over: if a normal house waits, it is next."""
        self._high_in_a_row = self._ageing_limit

    def take(self) -> House | None:
        """Any thread, at the end: one house, the last one too."""
        return self._high.pop() or self._normal.pop()

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
