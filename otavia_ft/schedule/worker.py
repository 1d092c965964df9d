"""PoolWorker: an ActorThread whose business comes from the pool's rings.

The loop, its phases, its sleep and its IO actors are those of every ActorThread. Only Phase 3
differs: instead of its own queue of houses it takes from the rings, whatever is next, and calls
`run_turn`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from otavia_ft.context import Context
from otavia_ft.schedule.crew import Crew
from otavia_ft.schedule.rings import Desk, ReadyQueue, Schedulable
from otavia_ft.schedule.statistics import QueueStatistics, ThreadStatistics
from otavia_ft.schedule.thread import ActorThread

if TYPE_CHECKING:
    from otavia_ft.house.house import House
    from otavia_ft.schedule.pool import PoolScheduler
    from otavia_ft.system import ActorSystem

__all__ = ["PoolCrew", "PoolWorker"]

_log = logging.getLogger("otavia_ft.thread")


def _turn_failed(item: Schedulable, error: BaseException) -> None:
    _log.error("a turn of %r failed", item, exc_info=error)


class PoolCrew(Crew):
    """The workers of a pool. They steal through the rings, and sleep only when all are empty."""

    queue: ReadyQueue

    def worth_staying_awake(self, thief: ActorThread) -> bool:
        """The look after the flag is set: number 3 in rings.py."""
        return self.queue.waiting

    def steal(self, thief: ActorThread, idle_count: int) -> tuple[ActorThread, House] | None:
        """Nothing: a worker that has come this far found every ring empty."""
        return None


class PoolWorker(ActorThread):
    """One worker: takes from the rings, runs a turn, and so on."""

    def __init__(
        self, index: int, system: ActorSystem, crew: PoolCrew, pool: PoolScheduler, desk: Desk
    ) -> None:
        super().__init__(index, system, crew)
        self._pool = pool
        self._queue = crew.queue
        self._stride = system.config.deadline_stride
        self.desk = desk
        self.manager.give_desk(desk, _turn_failed)

    def reschedule(self, item: Schedulable) -> None:
        """An item yields, as the last act of its turn: to the tail of this worker's own ring.

        The last, because a single item in the ring is this worker's to take, and nobody is called.
        """
        self.desk.push(item)

    def run(self) -> None:
        super().run()
        self._pool.worker_ended()

    def _has_work(self) -> bool:
        return super()._has_work() or self._queue.waiting

    def run_business(self, context: Context, deadline: int | None) -> int:
        return self.desk.run_turns(context, deadline, self.stopping, self._stride, _turn_failed)

    def statistics(self) -> ThreadStatistics:
        common = super().statistics()
        return replace(
            common,
            steals_taken=self.desk.steals,
            steals_given=self.desk.ring.given,
            queues=replace(common.queues, business=QueueStatistics(len(self.desk.ring), 0)),
        )
