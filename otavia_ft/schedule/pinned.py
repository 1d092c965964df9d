"""The pinned scheduler: every actor belongs to one ActorThread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from otavia_ft.doors import AtomicInt
from otavia_ft.house.house import Scheduler
from otavia_ft.schedule.crew import Crew
from otavia_ft.schedule.placement import TilingThreadSelector
from otavia_ft.schedule.statistics import ThreadStatistics
from otavia_ft.schedule.thread import ActorThread

if TYPE_CHECKING:
    from otavia_ft.system import ActorSystem

__all__ = ["PinnedScheduler"]


class PinnedScheduler:
    """Builds, places on, stops and watches the threads of one system."""

    def __init__(self, system: ActorSystem) -> None:
        self._started = AtomicInt()
        self.crew, self.threads = self._hire(system)
        self.crew.threads = self.threads
        seats = [thread.manager for thread in self.threads]
        self._selector = TilingThreadSelector(seats)
        self._io_selector = TilingThreadSelector(seats)

    def _hire(self, system: ActorSystem) -> tuple[Crew, tuple[ActorThread, ...]]:
        crew = Crew(system.config)
        indexes = range(system.config.worker_count())
        return crew, tuple(ActorThread(index, system, crew) for index in indexes)

    @property
    def workers(self) -> int:
        return len(self.threads)

    @property
    def started(self) -> bool:
        """Whether there are threads that run the loops."""
        return self._started.load() == 1

    @property
    def shared_backlog(self) -> int:
        """Houses that wait for whatever thread comes first. Here each waits for its own."""
        return 0

    def start(self) -> None:
        """Start the threads; once, however often it is called."""
        if self._started.get_and_set(1):
            return
        for thread in self.threads:
            thread.start()

    def seat(self, io: bool) -> Scheduler:
        """The seat for one new actor."""
        return (self._io_selector if io else self._selector).next()

    def likely_seat(self, num: int = 1) -> Scheduler:
        """Where the first of `num` state actors will probably sit."""
        return self._selector.peek(num)

    def place(self, num: int, io: bool) -> list[Scheduler]:
        """Seats for `num` new actors. IO actors have a round of their own."""
        return (self._io_selector if io else self._selector).select(num)

    def quiet(self) -> bool:
        """Whether nothing is queued or running.

        One look would not do: a message may be on its way from a thread that is looked at later to
        one that was looked at before. If all are found asleep twice, and none has slept or run
        anew in between, then all slept at the same moment, with nothing queued.
        """
        first = self._naps()
        return first is not None and first == self._naps()

    def _naps(self) -> list[tuple[int, int]] | None:
        """Which sleep each thread sleeps; None if one does not."""
        naps = []
        for thread in self.threads:
            nap = (thread.parks, thread.context.turns)
            if not thread.idle:
                return None
            naps.append(nap)
        return naps

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

    @property
    def left_over(self) -> bool:
        """Whether anything waits for a thread, after all were told to end."""
        return any(thread.left_over for thread in self.threads)

    def close(self) -> None:
        """After the threads were told to end: whatever is queued, or comes later, is buried."""
        for thread in self.threads:
            thread.close()
        for thread in self.threads:
            if thread.thread is None:
                thread.leave()  # it has no end of its own
            thread.leave()

    def statistics(self) -> tuple[ThreadStatistics, ...]:
        return tuple(thread.statistics() for thread in self.threads)
