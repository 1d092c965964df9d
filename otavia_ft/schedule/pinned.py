"""The pinned scheduler: every actor belongs to one ActorThread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from otavia_ft.house.house import Scheduler
from otavia_ft.schedule.crew import Crew
from otavia_ft.schedule.placement import TilingThreadSelector
from otavia_ft.schedule.thread import ActorThread, ThreadStatistics

if TYPE_CHECKING:
    from otavia_ft.system import ActorSystem

__all__ = ["PinnedScheduler"]


class PinnedScheduler:
    """Builds, places on, stops and watches the threads of one system."""

    def __init__(self, system: ActorSystem) -> None:
        self.crew = Crew(system.config)
        self.threads = tuple(
            ActorThread(index, system, self.crew) for index in range(system.config.worker_count())
        )
        self.crew.threads = self.threads
        self._selector = TilingThreadSelector(self.threads)
        self._io_selector = TilingThreadSelector(self.threads)

    @property
    def workers(self) -> int:
        return len(self.threads)

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def place(self, num: int, io: bool) -> list[Scheduler]:
        """Seats for `num` new actors. IO actors have a round of their own."""
        selector = self._io_selector if io else self._selector
        return [thread.manager for thread in selector.select(num)]

    def quiet(self) -> bool:
        """Whether nothing is queued or running. Two looks: a message may be on its way from a
        thread that was looked at before to one that comes after."""
        return self._all_idle() and self._all_idle()

    def _all_idle(self) -> bool:
        before = [thread.context.turns for thread in self.threads]
        idle = all(thread.idle for thread in self.threads)
        return idle and before == [thread.context.turns for thread in self.threads]

    def signal_stop(self) -> None:
        for thread in self.threads:
            thread.signal_stop()

    def join(self, deadline: float) -> list[str]:
        """Wait for the threads; returns the names of those that did not end in time."""
        stuck = []
        for actor_thread in self.threads:
            thread = actor_thread.thread
            if thread is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
                if thread.is_alive():
                    stuck.append(thread.name)
        return stuck

    def close(self) -> None:
        for thread in self.threads:
            if thread.thread is None or not thread.thread.is_alive():
                thread.close()

    def statistics(self) -> tuple[ThreadStatistics, ...]:
        return tuple(thread.statistics() for thread in self.threads)
