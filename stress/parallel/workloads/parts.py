"""The parts below the actors: the spin lock, house queues with thieves, rings, pools."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from otavia_ft import SpinLock, StateActor
from otavia_ft.doors import AtomicInt
from otavia_ft.house.house import House
from otavia_ft.lane import HouseQueue
from otavia_ft.pool import ThreadPool
from otavia_ft.schedule import rings
from otavia_ft.schedule.queues import PriorityHouseQueue
from stress.parallel.workloads.base import Workload, account

__all__ = ["Parts"]


class _Resting(StateActor):
    pass


class _Reusable:
    """What a pool keeps; `users` is how many have it in their hands."""

    def __init__(self) -> None:
        self.pool: Any = None
        self.users = 0

    def clean(self) -> None:
        self.users -= 1


class _Item:
    """What waits in rings; whoever has taken it is the only one that counts its turns."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.turns = 0


class Parts(Workload):
    """The spin lock, a house queue with thieves, rings, pools that exchange objects."""

    name = "parts"

    def build(self, system: Any) -> None:
        self.sent = 0
        self.seat = system.scheduler.threads[0].manager
        self.lock = SpinLock()
        self.protected = 0
        self.locked = 300 if self.tiny else 1500
        self.houses = [House(_Resting(), self.seat, number) for number in range(1, 9)]
        self.over = threading.Event()
        self.limit = self.rng.choice((1, 2, 3))
        self.queue: Any = (HouseQueue or PriorityHouseQueue)(self.limit)  # the lane's own
        self.stolen: deque[Any] = deque()
        self.desk: deque[Any] = deque()
        capacity = self.rng.choice((2, 3, 8))
        self.items = [_Item(number) for number in range(12)]
        self.local = [rings.LocalRing(index, capacity) for index in range(2)]
        self.shared = rings.GlobalRing(2)
        for item in self.items:
            self.shared.push(item)
        self.turns = AtomicInt()

    def bodies(self) -> list[Callable[[], Any]]:
        passing = [lambda n=n: self.pass_on(n) for n in range(len(self.local))]
        return [self.count, self.count, self.own, self.steal, self.steal, self.lend, self.lend,
                *passing]  # fmt: skip

    def count(self) -> None:
        for number in range(self.locked):
            if number % 5 == 0:
                while not self.lock.try_lock():
                    time.sleep(0)
                self.protected = self.protected + 1
                self.lock.unlock()
            else:
                with self.lock:
                    self.protected = self.protected + 1

    def own(self) -> None:
        """The owner puts houses into the queue, takes what is left of them, and puts them again."""
        free, row = list(self.houses), 0
        try:
            for number in range(self.locked // 2):
                put = min(len(free), 1 + number % 5)
                for _ in range(put):
                    house = free.pop()
                    house.high_priority = (house.id + number) % 3 != 0
                    self.queue.enqueue(house)
                # Not all of them every time: the queue is empty often, and often it is not.
                for _ in range(1 + number % 4):
                    house, row = self.take(row)
                    if house is None:
                        break
                    free.append(house)
                while self.stolen:
                    free.append(self.stolen.popleft())
                while not free and not len(self.queue):  # all are in the hands of thieves
                    time.sleep(0)
                    free += [self.stolen.popleft() for _ in range(len(self.stolen))]
        finally:
            self.over.set()
        while (house := self.queue.dequeue()) is not None:
            free.append(house)
        self.free = free

    def take(self, row: int) -> tuple[Any, int]:
        """The owner takes one, and says how many high ones in a row that makes.

        Nobody else puts any in, and a thief leaves the last of each list: so if there is one before
        the look, there is one at the look.
        """
        high, normal = self.waiting()
        house = self.queue.dequeue()
        got = None if house is None else house.high_priority
        self.lab.check(got is not None or not (high or normal), "steal-rules",
                       "the owner knew of a house and found none")  # fmt: skip
        aged = row >= self.limit
        if high and not aged:
            self.lab.check(got is not False, "priority-order",
                           f"a normal house before a high one, after {row} high ones")  # fmt: skip
        elif aged and normal:
            self.lab.check(got is not True, "priority-order",
                           f"a normal house still waits after {row} high ones")  # fmt: skip
        return house, (1 if aged else row + 1) if got else 0

    def waiting(self) -> tuple[bool, bool]:
        """Whether a high house waits for certain, and a normal one; that stays so (see `take`)."""
        queue = self.queue
        if isinstance(queue, PriorityHouseQueue):  # whose size a thief may still have to correct
            return queue._high._count > 0, queue._normal._count > 0
        high = queue.high  # read first: a thief that comes between makes the difference smaller
        return high > 0, len(queue) > high

    def steal(self) -> None:
        while not self.over.is_set():
            house = self.queue.try_steal()
            if house is not None:
                self.stolen.append(house)
            else:
                time.sleep(0)

    def pass_on(self, index: int) -> None:
        """Take an item as a worker does, from the own ring, the global one or the neighbour's; let
        it have its turn; and push it."""
        own, other = self.local[index], self.local[1 - index]
        for number in range(self.locked // 2):
            item: Any = None
            if number % 3 == 0:
                item = rings.steal_half(other, own)
            elif number % 4:
                item = own.pop()
            if item is None and (item := self.shared.pop()) is None:
                continue
            seen = item.turns
            self.lab.stall()
            item.turns = seen + 1
            self.turns.get_and_add(1)
            if number % 5 == 0 or not own.push(item):
                self.shared.push(item)

    def lend(self) -> None:
        """Take from the own pool, pass on, recycle whatever comes from the other."""
        pool: Any = ThreadPool(_Reusable, 4)
        for _ in range(self.locked // 3):
            thing = pool.get()
            self.lab.check(thing.pool is pool, "pool-private", "an object of another's pool")
            self.lab.check(thing.users == 0, "pool-private", "an object that is in use")
            thing.users += 1
            self.desk.append(thing)
            try:
                pool.recycle(self.desk.popleft())
            except IndexError:
                pass  # the other one was faster

    def judge(self) -> None:
        self.lab.check(self.protected == 2 * self.locked, "lock-exclusion",
                       f"{self.protected} of {2 * self.locked} updates are left")  # fmt: skip
        found = [house.id for house in [*self.free, *self.stolen]]
        account(self.lab, "houses of the queue", [house.id for house in self.houses], found)
        left = []
        for ring in (*self.local, self.shared):
            while (item := ring.pop()) is not None:
                left.append(item.number)
        account(self.lab, "items of the rings", range(len(self.items)), left)
        turns = sum(item.turns for item in self.items)
        text = f"{self.turns.load()} turns, but the items have counted {turns}"
        self.lab.check(turns == self.turns.load(), "single-runner", text)
