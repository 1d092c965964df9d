"""Two workers: one has too much, the other steals."""

from __future__ import annotations

from typing import Any, ClassVar

from stress.explorer.scenario import scenario
from stress.scenarios._stage import HouseScenario


@scenario("steal-complete")
class StealComplete(HouseScenario):
    """A thief runs a stolen house, its owner another, and a sender sends to the stolen one."""

    sizes: ClassVar = {"houses_": 2, "messages": 1}
    least: ClassVar = {"houses_": 2}

    def setup(self) -> None:
        self.stage(workers=2)
        for _ in range(self.houses_):
            self.new_house()
        for house in self.houses:
            house.notice("first")  # queued before the threads begin: a backlog
        self.late = [f"late{m}" for m in range(self.messages)]
        owner, thief = self.workers
        self.thread("owner", self.own, owner, daemon=True)
        self.thread("thief", self.steal, thief)
        self.thread("sender", self.send)

    def own(self, worker: Any) -> None:
        """Phase 3 of the owner's loop, without the sleep."""
        self.doors.set_me(worker.context)
        while True:
            if not worker.manager.run_state_actors(worker.context, None):
                self.doors.relax()

    def steal(self, worker: Any) -> None:
        self.doors.set_me(worker.context)
        worker._try_steal(worker.context)

    def send(self) -> None:
        for message in self.late:
            self.houses[0].notice(message)  # the head of the queue, which is what a thief takes

    def finish(self) -> None:
        self.expect_once([["first"], self.late], self.handled[0])
        owner = self.workers[0].manager
        kept = [house.id for house in self.houses if house.scheduler is not owner]
        assert not kept, f"houses {kept} have not gone back to their owner"
        for handled in self.handled[1:]:
            self.expect_once([["first"]], handled)


@scenario("sleeping-thief")
class SleepingThief(HouseScenario):
    """The owner is busy for ever; a sleeping worker must learn of the backlog and steal."""

    # The floor is one house, and a thief leaves the last one. So the owner takes one house and
    # never comes back; two more arrive; the thief has to run one of them.

    def setup(self) -> None:
        self.stage(workers=2, steal_floor=1)
        for _ in range(2):
            self.new_house()
        self.thread("sender", self.send)
        self.run_worker(self.workers[1])

    def send(self) -> None:
        for house in self.houses:
            house.notice("m")

    def work_left(self) -> str | None:
        left = [h.id for h in self.houses if h.mail()]
        return f"the thief sleeps, and houses {left} wait" if len(left) > 1 else None


@scenario("two-workers")
class TwoWorkers(HouseScenario):
    """Two whole workers with stealing, and a sender to two houses of the first."""

    sizes: ClassVar = {"houses_": 2}
    bound = 1  # with two there are too many states for every day

    def setup(self) -> None:
        self.stage(workers=2)
        for _ in range(self.houses_):
            self.new_house()
        self.thread("sender", self.send)
        self.run_workers()

    def send(self) -> None:
        for house in self.houses:
            house.notice("m")

    def finish(self) -> None:
        for handled in self.handled:
            self.expect_once([["m"]], handled)
