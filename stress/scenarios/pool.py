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


class _Pooled(HouseScenario):
    """Base: houses of the pool, and just enough of a pool for them: one ring, no sleep."""

    runtime = (*HouseScenario.runtime, "otavia_ft.schedule.pool")

    def begin(self, workers: int, mounted: bool = True) -> None:
        self.stage(workers)
        self.queue: Any = self.rt.rings.GlobalRing(2)
        self.house = self.new_house(kind=self.rt.pool.PoolHouse, mounted=mounted)
        self.house.scheduler = self
        for worker in self.workers:
            self.thread(f"worker{worker.index}", self.run, worker, daemon=True)

    def ready(self, house: Any) -> None:
        self.enters(house)
        self.queue.push(house)

    reschedule = ready

    def run(self, worker: Any) -> None:
        context = worker.context
        context.owner = self
        self.doors.set_me(context)
        while True:
            item = self.queue.pop()
            if item is None:
                self.doors.relax()
            else:
                self.leaves(item)
                item.run_turn(context)

    def finish(self) -> None:
        assert len(self.queue) == 0, "the house waits in the ring, and nobody comes"


@scenario("pool-reclaim")
class PoolReclaim(_Pooled):
    """finish_or_reclaim against two producers: each message is handled, by one at a time."""

    sizes: ClassVar = {"producers": 2}

    def setup(self) -> None:
        self.begin(workers=1)
        self.sent = [[f"m{p}"] for p in range(self.producers)]
        for p in range(self.producers):
            self.thread(f"producer{p}", self.house.notice, f"m{p}")

    def finish(self) -> None:
        super().finish()
        self.expect_once(self.sent, self.handled[0])


@scenario("pool-mount")
class PoolMount(_Pooled):
    """One of two workers runs the start hooks, and a message comes: it waits for their end."""

    def setup(self) -> None:
        self.begin(workers=2, mounted=False)
        self.pause = self.doors.AtomicInt()
        self.house.actor.after_mount = self.hook
        self.house.begin_mount()
        self.queue.push(self.rt.pool._Mount(self.house))
        self.thread("sender", self.house.notice, "m")

    def hook(self) -> None:
        self.pause.set(1)  # a step, so that others may come in the middle of the hook
        self.handled[0].append("mount")

    def finish(self) -> None:
        super().finish()
        assert self.handled[0] == ["mount", "m"], f"handled {self.handled[0]}"


@scenario("pool-park")
class PoolPark(HouseScenario):
    """A worker of the pool falls asleep while a sender makes a house ready."""

    runtime = (*HouseScenario.runtime, "otavia_ft.schedule.pool")
    sizes: ClassVar = {"messages": 1}

    def setup(self) -> None:
        self.stage()
        rt, config = self.rt, self.system.config
        self.crew = rt.worker.PoolCrew(config)
        self.queue = self.crew.queue = rt.rings.ReadyQueue(1, 2, 2, 1, self.crew.call_thief)
        worker = rt.worker.PoolWorker(0, self.system, self.crew, self, self.queue.desks[0])
        self.workers = [worker]
        self.crew.threads = (worker,)
        self.house = self.new_house(kind=rt.pool.PoolHouse)
        self.house.scheduler = self
        self.sent = [f"m{m}" for m in range(self.messages)]
        self.thread("sender", self.send)
        self.run_workers()

    def ready(self, house: Any) -> None:
        self.queue.push(house)

    def send(self) -> None:
        for message in self.sent:
            self.house.notice(message)

    def work_left(self) -> str | None:
        return super().work_left() or (
            "the worker sleeps although a ring is not empty" if self.queue.waiting else None
        )

    def finish(self) -> None:
        self.expect_once([self.sent], self.handled[0])
