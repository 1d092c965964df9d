"""The pool scheduler: actors are work on a shared ready queue, whoever is free runs the next.

The number of workers is fixed and has nothing to do with the number of actors. A house is in one of
three states here, a view over its six:

    Idle         WAITING      no mail, in no ring
    Scheduled    READY        in exactly one ring
    Processing   RUNNING      one worker has it (SCHEDULED for the instant between ring and turn)

    try_schedule          Idle → Scheduled         `post_*` and `try_ready`: the winner must push
    take_for_processing   Scheduled → Processing   the loser drops a stale entry
    yield_turn            Processing → Scheduled   to the tail of the worker's own ring
    finish_or_reclaim     Processing → Idle, and back if mail has come in between

All of them read before they compare and set: many senders to one busy actor share its cache line.

Every wake-up goes to the global ring, even one from inside a turn: there every worker looks.
High priority is a matter of the pinned scheduler's queues; rings are first in, first out. IO actors
belong to one worker's reactor, so they are pinned under this scheduler too, and run in Phase 2.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otavia_ft.context import Context
from otavia_ft.doors import AtomicInt
from otavia_ft.errors import OtaviaError
from otavia_ft.house import lifecycle
from otavia_ft.house.house import EVERYTHING, IN_BARRIER, House, Scheduler
from otavia_ft.lane import HouseBase, SeatBase, twin
from otavia_ft.schedule.burial import Burial
from otavia_ft.schedule.pinned import PinnedScheduler
from otavia_ft.schedule.rings import ReadyQueue, Schedulable
from otavia_ft.schedule.worker import PoolCrew, PoolWorker

if TYPE_CHECKING:
    from otavia_ft.system import ActorSystem

__all__ = ["FunctionTask", "PoolHouse", "PoolScheduler"]

_log = logging.getLogger("otavia_ft.thread")


class PoolHouse(House):
    """A house whose turns are the pool's: same mail, same dispatch, another beginning and end."""

    __slots__ = ()

    @twin(HouseBase, "run_pool_turn")
    def run_turn(self, context: Context) -> None:
        """Handle messages up to the budget, which a reclaim does not renew."""
        if not self.take_for_processing():
            return
        context.turns += 1
        left = context.budget
        while True:
            left = self.work(context, left)
            # Read while the house is ours: after the release it may have a new owner.
            mask = EVERYTHING if self.barrier is None else IN_BARRIER
            if left <= 0 and (self.channel_futures or self.has_mail(mask)):
                self.yield_turn(context)
                break
            if not self.finish_or_reclaim(mask):
                break
        context.messages += context.budget - left

    def take_for_processing(self) -> bool:
        """Scheduled → Processing. False: a stale entry, somebody else has run it."""
        return self.try_schedule() and self.try_run()

    def yield_turn(self, context: Context) -> None:
        """Processing → Scheduled, behind everybody else who waits for this worker."""
        self.run_to_ready()
        context.owner.reschedule(self)

    def finish_or_reclaim(self, mask: int) -> bool:
        """Processing → Idle. True: mail came at the last moment, and the house is ours again.

        The order is the runner's half of the wake-up handshake: first Idle, then the look. A
        sender puts first and looks at the state second, so one of the two sees the other. If both
        do, the compare-and-set decides, and a sender that wins it has pushed the house.
        """
        self.run_to_waiting()
        return self.has_mail(mask) and self.try_ready() and self.take_for_processing()

    def bury(self, reason: OtaviaError) -> None:
        lifecycle.bury_for_good(self, reason)


class _Mount:
    """The turn in which a new house's start hooks run."""

    __slots__ = ("_house",)

    def __init__(self, house: House) -> None:
        self._house = house

    def run_turn(self, context: Context) -> None:
        self._house.mount(context)

    def bury(self, reason: OtaviaError) -> None:
        lifecycle.bury_for_good(self._house, reason)


class FunctionTask:
    """A function that some worker calls once: a cleaner, for example."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def run_turn(self, context: Context | None) -> None:
        try:
            self._function()
        except BaseException:  # cleaners are user code
            _log.exception("a cleaner or other function failed")

    def bury(self, reason: OtaviaError) -> None:
        self.run_turn(None)  # what somebody wanted cleaned up is cleaned up


class PoolScheduler(PinnedScheduler, SeatBase):
    """Workers over shared rings. For IO actors it is the pinned scheduler that it derives from."""

    house_type: type[House] = PoolHouse

    def __init__(self, system: ActorSystem) -> None:
        self.system = system
        self._closed = AtomicInt()
        self.bury = Burial(self._bury_all)
        super().__init__(system)
        config = system.config
        self.queue.furnish(
            self.crew.asleep, tuple(thread.manager for thread in self.threads), PoolHouse
        )
        self.give_rings(
            self.queue,
            self._closed,
            config.high_priority_replies,
            config.high_priority_events,
            self.workers,
        )

    def _hire(self, system: ActorSystem) -> tuple[PoolCrew, tuple[PoolWorker, ...]]:
        config = system.config
        crew = PoolCrew(config)
        self.queue = crew.queue = ReadyQueue(
            config.worker_count(),
            config.local_ring_capacity,
            config.global_ring_capacity,
            config.global_poll_interval,
            crew.call_thief,
        )
        desks = self.queue.desks
        return crew, tuple(PoolWorker(i, system, crew, self, desk) for i, desk in enumerate(desks))

    def seat(self, io: bool) -> Scheduler:
        return super().seat(io) if io else self

    def likely_seat(self, num: int = 1) -> Scheduler:
        return self

    def place(self, num: int, io: bool) -> list[Scheduler]:
        """IO actors get a worker each, all others the pool."""
        return super().place(num, io) if io else [self] * num

    # ---- the seat of every pooled house: any thread

    @twin(SeatBase)
    def ready(self, house: House) -> None:
        """Queue a house that has just become READY; wake a worker if one is parked."""
        assert isinstance(house, PoolHouse)
        self.submit(house)

    def mount(self, house: House) -> None:
        """Have a new house's start hooks run, as a turn on whatever worker."""
        if house.begin_mount():
            self.submit(_Mount(house))

    def call(self, thunk: Callable[[], Any]) -> None:
        """Run a function on some worker."""
        self.submit(FunctionTask(thunk))

    @twin(SeatBase)
    def submit(self, item: Schedulable) -> None:
        """Queue anything that has turns."""
        self.queue.push(item)
        # Pairs with close(): either that sees the item, or we see that it is closed. The fence
        # between the two is in the push, where it looks for a sleeper.
        if self._closed.load():
            self.bury()

    @property
    def shared_backlog(self) -> int:
        return len(self.queue.shared)

    # ---- the end

    def close(self) -> None:
        """See PinnedScheduler. The rings are everybody's, so it does not matter who is stuck."""
        self.close_rings()
        super().close()

    def close_rings(self) -> None:
        self._closed.set(1)
        self.bury()

    def worker_ended(self) -> None:
        """A worker's last act. One that was stuck and left behind may have yielded since."""
        if self._closed.get_and_add(0):  # a fence behind its pushes, which need none otherwise
            self.bury()

    def _bury_all(self) -> None:
        """End everything in the rings."""
        while (item := self.queue.pop_any()) is not None:
            bury = getattr(item, "bury", None)
            if bury is None:
                _log.warning("%r was left in a closed pool and has no bury()", item)
                continue
            try:
                bury(self.system.stopped_error)
            except BaseException:  # the others want to be buried, and the system to end
                _log.exception("the burial of %r failed", item)
