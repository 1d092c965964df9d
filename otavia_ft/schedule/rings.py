"""Ready rings: where the pool's work waits, and how every worker gets at it.

Lineage: the dispatcher of GoAkt, and behind it the schedulers of Go and Tokio. Every worker has a
small ring of its own, all share a global one, and whoever has nothing takes half of a sibling's.

    from outside, and every wake-up ──▶ global ring ──┐
    an actor that used up its budget ──▶ own ring ────┼──▶ take: own, global, steal, (park)
    half of the first sibling that has some ──────────┘

Unlike GoAkt's: the global ring comes first at every 61st take; a worker that leaves work behind
calls a parked sibling; and each worker parks on a condition variable of its own, its bell
(`parking.py`), since it may have channels to wait for as well. It is signalled only by one who has
found it parked.

Guarantees. An item that was pushed is taken exactly once. A ring is first in, first out, for its
owner and for thieves. Nothing waits in any ring while a worker is parked, but for the moment that
the one which was called needs to get up. The oldest item in the global ring waits for no more than
61 takes of a worker that is not blocked.

Assumptions. An item is pushed once for each transition that makes it ready (the house's state word
sees to that; the rings would not notice). `push` and `take` of a `Desk` are its worker's own, and
after a push the worker takes before it runs anything: it is an item's last act to yield.

The orders that could go wrong, and why they cannot:

 1. *Two thieves steal from each other.* Each needs both locks. They take them in the order of the
    rings' indexes, so of two that want the same pair one waits for the other before it holds
    anything the other needs. The global ring's lock is never held together with another.

 2. *A size that is read without the lock.* The mirror is a hint: one that is too large costs a
    lock and finds nothing, one that is too small hides an item. Only a worker on its way to bed
    could be hurt by the latter; hence number 3.

 3. *A push and a worker that parks.* The worker announces itself (an add to `asleep`), sets its
    flag ASLEEP (a compare-and-set), and then looks at every mirror once more. The pusher writes the
    mirror first, then reads `asleep` by adding zero, then the flags. If the pusher saw no
    announcement, the add of the worker came later in the order of that one cell, and its look
    therefore sees the mirror. If the pusher saw the announcement but not yet the flag, the flag was
    set later, and again the look comes after the mirror. Otherwise it sees the flag and wakes.

 4. *Two pushes and two sleepers.* If both pushers called the same sleeper, the second item would
    wait for the first one's handler while the other worker sleeps. Only the caller that changed the
    flag from ASLEEP has called it; any other goes on to the next sleeper (`Crew.call_thief`).

 5. *A worker that runs something while more waits in its own ring.* Its handler may block, so
    somebody else must know. There are three ways to get there: a push that leaves more than one
    (the worker takes only one), a take from the global ring while its own is not empty, and a
    steal that leaves something, here or with the victim. Each of them calls one sleeper, which in
    turn calls the next as long as it leaves something.

 6. *Items in the middle of a steal.* They are under both locks, in neither mirror for certain, and
    a worker that looks then may see none of them and park. The thief is awake, publishes both
    mirrors, and then calls a sleeper by number 5.

 7. *The global ring starves.* A worker whose own ring never empties takes from it for ever; and an
    actor that is always busy comes back to that ring after each turn. So every 61st take looks at
    the global ring first.

 8. *The lock's holder comes back for the lock.* CPython runs signal handlers, and deletes objects
    that other threads have let go of, right after a call or at the end of a loop's round; a deleted
    actor's cleaner is pushed here. So between lock and unlock there is no call and no loop: items
    move by slices, and the mirrors, which are method calls, follow after the unlock. (`with` itself
    is not such a place; schedule/queues.py keeps the same rule.)

In the native lane all of this is C (`_atomics/rings.h`, `rings.c`), whose comments refer to these
numbers. There no Python runs under a lock whatever happens, so the mirrors are written under it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from otavia_ft.doors import AtomicInt, SpinLock, now_ns
from otavia_ft.lane import twin_class, twin_function

if TYPE_CHECKING:
    from otavia_ft.context import Context

__all__ = ["Desk", "GlobalRing", "LocalRing", "ReadyQueue", "Schedulable", "steal_half"]


class Schedulable(Protocol):
    """What can wait in a ring. A worker calls `run_turn` and knows nothing else of it.

    It may have a `bury(reason)` too, which a pool that has closed calls on what is left in its
    rings, since no worker will come: to end that in order. On any thread, once.
    """

    def run_turn(self, context: Context) -> None:
        """Do a limited amount of work. A stale entry finds nothing to do and returns."""


@twin_class("LocalRing")
class LocalRing:
    """One worker's ring, of a fixed size. Its owner pushes and pops; siblings steal."""

    __slots__ = ("_count", "_head", "_lock", "_size", "_slots", "capacity", "given", "index")

    def __init__(self, index: int, capacity: int) -> None:
        self.index = index
        self.capacity = capacity
        self.given = 0  # how often siblings have stolen from here; written under the lock
        self._slots: list[Schedulable | None] = [None] * capacity
        self._head = 0
        self._count = 0
        self._lock = SpinLock()
        self._size = AtomicInt()

    def __len__(self) -> int:
        """How many there are, about now. Costs a load and no lock."""
        return max(0, self._size.load())

    def push(self, item: Schedulable) -> int:
        """To the tail; returns how many there are then, or 0: it is full, and nothing was done."""
        with self._lock:
            count, capacity = self._count, self.capacity
            if count == capacity:
                return 0
            self._slots[(self._head + count) % capacity] = item
            self._count = count = count + 1
        self._size.get_and_add(1)
        return count

    def pop(self) -> Schedulable | None:
        """From the head; None when empty."""
        if self._size.load() <= 0:
            return None
        with self._lock:
            count, head = self._count, self._head
            if count == 0:
                return None  # stolen since the look
            item = self._slots[head]
            self._slots[head] = None  # an actor's life ends with its last reference: keep none
            self._head = (head + 1) % self.capacity
            self._count = count - 1
        self._size.get_and_add(-1)
        return item


@twin_function
def steal_half(victim: LocalRing, thief: LocalRing) -> Schedulable | None:
    """Half of the victim's items, rounded up, oldest first: one to run now, the rest to keep.

    What the thief's ring has no room for stays where it is. None if there is nothing to steal.
    """
    if victim is thief or victim._size.load() <= 0:
        return None
    first, second = (victim, thief) if victim.index < thief.index else (thief, victim)
    with first._lock, second._lock:
        count, head, capacity = victim._count, victim._head, victim.capacity
        if count == 0:
            return None
        kept, room = (count + 1) // 2 - 1, thief.capacity - thief._count
        if kept > room:
            kept = room
        # Take 1 + kept from the head; the slots may go round the end.
        slots, end = victim._slots, head + 1 + kept
        taken = slots[head:end]
        slots[head:end] = [None] * (1 + kept)
        if end > capacity:
            del slots[capacity:]
            taken = taken + slots[: end - capacity]
            slots[: end - capacity] = [None] * (end - capacity)
        victim._head = end % capacity
        victim._count = count - 1 - kept
        victim.given += 1
        # Put all but the first of them behind the thief's own.
        slots, tail = thief._slots, (thief._head + thief._count) % thief.capacity
        straight = thief.capacity - tail
        slots[tail : tail + kept] = taken[1 : 1 + kept]
        if kept > straight:
            slots[: kept - straight] = slots[thief.capacity :]
            del slots[thief.capacity :]
        thief._count += kept
    victim._size.get_and_add(-1 - kept)
    thief._size.get_and_add(kept)
    return taken[0]


@twin_class("GlobalRing")
class GlobalRing:
    """The ring that all share. It doubles when it is full, and never refuses."""

    __slots__ = ("_count", "_head", "_lock", "_size", "_slots", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity  # slots at present
        self._slots: list[Schedulable | None] = [None] * capacity
        self._head = 0
        self._count = 0
        self._lock = SpinLock()
        self._size = AtomicInt()

    def __len__(self) -> int:
        """How many there are, about now."""
        return max(0, self._size.load())

    def push(self, item: Schedulable) -> None:
        """To the tail. Any thread."""
        with self._lock:
            slots, head, count, capacity = self._slots, self._head, self._count, self.capacity
            if count == capacity:
                # The oldest to the front again, then as much room once more.
                self._slots = slots = slots[head:] + slots[:head] + [None] * count
                self.capacity = capacity = 2 * count
                self._head = head = 0
            slots[(head + count) % capacity] = item
            self._count = count + 1
        self._size.get_and_add(1)

    def pop(self) -> Schedulable | None:
        """From the head; None when empty. An empty ring costs a load and no lock."""
        if self._size.load() <= 0:
            return None
        with self._lock:
            count, head = self._count, self._head
            if count == 0:
                return None
            item = self._slots[head]
            self._slots[head] = None
            self._head = (head + 1) % self.capacity
            self._count = count - 1
        self._size.get_and_add(-1)
        return item


@twin_class("ReadyQueue")
class ReadyQueue:
    """All rings of a pool. `call` wakes one parked worker, if there is any (number 3 above)."""

    __slots__ = ("_call", "desks", "poll_interval", "rings", "shared")

    def __init__(
        self,
        workers: int,
        local_capacity: int,
        global_capacity: int,
        poll_interval: int,
        call: Callable[[], None],
    ) -> None:
        self.shared = GlobalRing(global_capacity)
        self.rings = tuple(LocalRing(index, local_capacity) for index in range(workers))
        self.poll_interval = poll_interval
        self._call = call
        self.desks = tuple(Desk(self, ring, call) for ring in self.rings)

    def furnish(self, asleep: AtomicInt, seats: tuple[Any, ...], house_type: type) -> None:
        """Nothing: `call` knows all that. The native lane does without it from then on."""

    def push(self, item: Schedulable) -> None:
        """Queue something that has just become ready. Any thread."""
        self.shared.push(item)
        self._call()

    @property
    def waiting(self) -> bool:
        """Whether anything is in any ring (a hint, unless asked by the rules at the top)."""
        return len(self.shared) > 0 or any(len(ring) for ring in self.rings)

    def pop_any(self) -> Schedulable | None:
        """Something from any ring, for the pool's end. Any thread."""
        item = self.shared.pop()
        for ring in self.rings:
            if item is not None:
                break
            item = ring.pop()
        return item


@twin_class("Desk")
class Desk:
    """One worker's place at the rings. Only that worker uses it.

    It holds all that a take touches, so that workers share the rings themselves and nothing else:
    a reference to a shared object costs every thread that counts it.
    """

    __slots__ = ("_call", "_interval", "_queue", "_shared", "_siblings", "_takes", "ring", "steals")

    def __init__(self, queue: ReadyQueue, ring: LocalRing, call: Callable[[], None]) -> None:
        self.ring = ring
        self.steals = 0
        self._queue = queue
        self._shared = queue.shared
        # In rotation, from the next one on: thieves spread over their victims.
        at = ring.index
        self._siblings = queue.rings[at + 1 :] + queue.rings[:at]
        self._interval = queue.poll_interval
        self._takes = 0
        self._call = call

    def push(self, item: Schedulable) -> None:
        """Something that has yielded: to the tail of the own ring, or to the global one."""
        count = self.ring.push(item)
        if count == 0:
            self._queue.push(item)
        elif count > 1:
            self._call()

    def take(self) -> Schedulable | None:
        """The next item: own, global, stolen; every so often the global ring first."""
        self._takes += 1
        if self._takes >= self._interval:
            self._takes = 0
            item = self._shared.pop()
            if item is not None:
                if len(self.ring):
                    self._call()
                return item
        item = self.ring.pop()
        if item is None:
            item = self._shared.pop()
            if item is None:
                item = self._steal()
        return item

    def run_turns(
        self,
        context: Context,
        deadline: int | None,
        stopping: AtomicInt,
        stride: int,
        failed: Callable[[Schedulable, BaseException], None],
    ) -> int:
        """Take and run, until there is nothing or time is up. Returns how many ran.

        A look at the clock costs about as much as a short turn: one look for `stride` turns.
        """
        count = 0
        while not stopping.load() and (item := self.take()) is not None:
            try:
                item.run_turn(context)
            except BaseException as error:  # houses catch all; other items may not
                failed(item, error)
            count += 1
            if deadline is not None and count % stride == 0 and now_ns() >= deadline:
                break
        return count

    def _steal(self) -> Schedulable | None:
        for victim in self._siblings:
            item = steal_half(victim, self.ring)
            if item is not None:
                self.steals += 1
                if self._queue.waiting:
                    self._call()
                return item
        return None
