"""The pool: rings with their locks in order, and a turn that ends while senders send."""

from __future__ import annotations

from typing import Any, ClassVar

from stress.explorer.scenario import Scenario, scenario
from stress.scenarios._stage import HouseScenario


@scenario("ring-steal-crossed")
class RingStealCrossed(Scenario):
    """Two workers steal half of each other's rings while both push: no deadlock, nothing lost."""

    runtime = ("otavia_ft.schedule.rings",)
    watch = ("rings.LocalRing._count", "rings.LocalRing._head")
    sizes: ClassVar = {"items": 2}

    def setup(self) -> None:
        self.rings = [self.rt.rings.LocalRing(i, 4) for i in range(2)]
        self.taken: list[list[Any]] = [[], []]
        for i, ring in enumerate(self.rings):
            for n in range(self.items):
                ring.push((i, n))
            self.thread(f"worker{i}", self.work, i)

    def work(self, i: int) -> None:
        own, other = self.rings[i], self.rings[1 - i]
        item = self.rt.rings.steal_half(other, own)
        if item is not None:
            self.taken[i].append(item)
        own.push((i, "new"))
        if (item := own.pop()) is not None:
            self.taken[i].append(item)

    def finish(self) -> None:
        left = []
        for ring in self.rings:
            while (item := ring.pop()) is not None:
                left.append(item)
            assert len(ring) == 0, f"an empty ring says that it holds {len(ring)}"
        put = [(i, n) for i in range(2) for n in [*range(self.items), "new"]]
        got = [*self.taken[0], *self.taken[1], *left]
        assert sorted(map(str, got)) == sorted(map(str, put)), f"put {put}, got {got}"


@scenario("pool-reclaim")
class PoolReclaim(HouseScenario):
    """finish_or_reclaim against two producers: each message is handled, by one at a time."""

    runtime = (*HouseScenario.runtime, "otavia_ft.schedule.pool")
    sizes: ClassVar = {"producers": 2}

    def setup(self) -> None:
        self.stage()
        self.queue: Any = self.rt.rings.GlobalRing(2)
        self.house = self.new_house(kind=self.rt.pool.PoolHouse)
        self.house.scheduler = self  # just enough of a pool: a ring
        self.sent = [[f"m{p}"] for p in range(self.producers)]
        for p in range(self.producers):
            self.thread(f"producer{p}", self.house.notice, f"m{p}")
        self.thread("worker0", self.run, self.workers[0], daemon=True)

    def ready(self, house: Any) -> None:
        self.queue.push(house)

    def reschedule(self, house: Any) -> None:
        self.queue.push(house)

    def run(self, worker: Any) -> None:
        context = worker.context
        context.owner = self
        self.doors.set_me(context)
        while True:
            house = self.queue.pop()
            if house is None:
                self.doors.relax()
            else:
                house.run_turn(context)

    def finish(self) -> None:
        assert len(self.queue) == 0, "the house waits in the ring, and nobody comes"
        self.expect_once(self.sent, self.handled[0])
