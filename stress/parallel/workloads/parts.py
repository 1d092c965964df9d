"""The parts below the actors: timers, the spin lock, house queues with thieves, rings, pools."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from otavia_ft import SpinLock, StateActor, TimeoutEvent
from otavia_ft.doors import AtomicInt
from otavia_ft.house.house import House
from otavia_ft.lane import HouseQueue
from otavia_ft.pool import ThreadPool
from otavia_ft.schedule import rings
from otavia_ft.schedule.queues import PriorityHouseQueue
from stress.parallel.settle import one_shots
from stress.parallel.workloads.base import Watched, Workload, account

__all__ = ["Parts", "Timers"]


class Alarm:
    """One timer, how often it fired, and what its cancellation said (None: not cancelled)."""

    def __init__(self, due: float, period: float | None) -> None:
        self.due = due
        self.period = period
        self.fired = AtomicInt()
        self.early = False
        self.cancelled: bool | None = None
        self.fired_at_cancel = 0
        self.task: Any = None

    def fire(self, _: Any) -> None:
        if time.monotonic() < self.due:
            self.early = True
        self.fired.get_and_add(1)


class Waking(Watched):
    """Has timers of its own; it notes which of them have come."""

    def __init__(self, timers: Timers, number: int) -> None:
        super().__init__(timers.lab)
        self.number = number
        self.came: list[Any] = []

    def after_mount(self) -> None:
        super().after_mount()
        for index in range(self.number):
            self.after(self.lab.coin().choice((0, 0.0005, 0.002)), index)

    def handle_actor_timeout(self, event: TimeoutEvent) -> None:
        self.enter()
        self.came.append(event.attach)
        self.leave()


class Timers(Workload):
    """Timers fire while others cancel them: each does the one or the other."""

    name = "timers"

    def build(self, system: Any) -> None:
        rng = self.rng
        self.system = system
        self.alarms: list[list[Alarm]] = []
        self.threads = rng.choice((1, 2, 3))
        self.each = rng.choice((1, 3)) if self.tiny else rng.randrange(10, 60)
        self.actors: list[Waking] = []

        def made(number: int) -> Waking:
            self.actors.append(Waking(self, number))
            return self.actors[-1]

        self.own = [
            system.build_actor(made, rng.randrange(1, 6) * self.lab.case.scale)
            for _ in range(rng.choice((1, 3)))
        ]
        self.sent = self.threads * self.each

    def bodies(self) -> list[Callable[[], Any]]:
        timer = self.system.timer

        def use() -> None:
            coin, mine = self.lab.coin(), []
            self.alarms.append(mine)
            for _ in range(self.each):
                seconds = coin.choice((0, 0.0004, 0.001, 0.003))
                period = coin.choice((None, None, None, 0.0005, 0.002))
                alarm = Alarm(time.monotonic() + seconds, period)
                mine.append(alarm)
                alarm.task = timer.after(seconds, alarm.fire, None, period)
                if coin.random() < 0.3 and mine:
                    self.cancel(coin.choice(mine))
            for alarm in mine:
                if alarm.period is not None or coin.random() < 0.3:
                    time.sleep(coin.choice((0, 0.0003)))
                    self.cancel(alarm)

        return [use] * self.threads

    def cancel(self, alarm: Alarm) -> None:
        if alarm.cancelled is None:
            alarm.cancelled = alarm.task.cancel()
            alarm.fired_at_cancel = alarm.fired.load()

    def finished(self) -> bool:
        return one_shots(self.system.timer) == 0 and all(
            len(a.came) >= a.number for a in self.actors
        )

    def judge(self) -> None:
        # The timer's thread may still be in an action that was taken out before its cancellation;
        # it sleeps when it is through.
        for alarm in (alarm for mine in self.alarms for alarm in mine):
            self.judge_alarm(alarm)
        for actor in self.actors:
            text = f"timers {actor.came} of {actor.number} have come"
            self.lab.check(sorted(actor.came) == list(range(actor.number)), "timer-once", text)

    def judge_alarm(self, alarm: Alarm) -> None:
        self.lab.check(not alarm.early, "timer-once", "a timer fired early")
        deadline = time.monotonic() + 2.0
        wanted = 0 if alarm.cancelled and alarm.period is None else 1
        while alarm.period is None and alarm.fired.load() < wanted and time.monotonic() < deadline:
            time.sleep(0.001)
        fired = alarm.fired.load()
        if alarm.period is None:
            text = f"a timer fired {fired} times; cancel returned {alarm.cancelled}"
            self.lab.check(fired == wanted, "timer-once", text)
        else:
            text = (
                f"a periodic timer fired {fired} times, {alarm.fired_at_cancel} before its cancel"
            )
            self.lab.check(fired <= alarm.fired_at_cancel + 1, "timer-once", text)


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
