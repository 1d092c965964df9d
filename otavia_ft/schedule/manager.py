"""HouseManager: one thread's three queues, and the way into them.

mounting    houses whose start hooks have yet to run      no time budget
channels    houses of IO actors                           no time budget
business    houses of state actors                        until the deadline; may be stolen
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otavia_ft.context import Context
from otavia_ft.doors import AtomicInt, Mailbox, me, now_ns
from otavia_ft.house import lifecycle
from otavia_ft.house.house import House
from otavia_ft.lane import HouseQueue, SeatBase, twin
from otavia_ft.schedule.burial import Burial
from otavia_ft.schedule.queues import FIFOHouseQueue, PriorityHouseQueue

if TYPE_CHECKING:
    from otavia_ft.schedule.thread import ActorThread
    from otavia_ft.system import ActorSystem

__all__ = ["HouseManager"]


class HouseManager(SeatBase):
    """The scheduler that a pinned house knows: that of its owner."""

    house_type = House

    def __init__(self, thread: ActorThread, system: ActorSystem) -> None:
        self.system = system
        self._thread = thread
        config = system.config
        queue: type[PriorityHouseQueue] = HouseQueue or PriorityHouseQueue
        # The native queue serves for mounts too: a house is of normal priority until it is mounted.
        self.mounting: FIFOHouseQueue = HouseQueue(1) if HouseQueue else FIFOHouseQueue()
        self.channels = queue(config.ageing_limit)
        self.business = queue(config.ageing_limit)
        self._stride = config.deadline_stride
        self._steal_floor = config.steal_floor if config.stealing else 1 << 62
        self._closed = AtomicInt()
        self.bury = Burial(self._bury_all)
        self.furnish(
            self.business,
            self.mounting,
            self.channels,
            thread.events,
            thread.reactor.bell,
            thread.parker.flag,
            thread.crew.asleep,
            self._closed,
            thread.stopping,
            thread.wakeups,
            self._steal_floor,
            self._stride,
            config.high_priority_replies,
            config.high_priority_events,
        )
        if config.worker_count() > 1:  # nobody else's memory to keep apart from
            self.give_ground()

    # ---- the way in: any thread

    @twin(SeatBase)
    def ready(self, house: House) -> None:
        """Queue a house that has become READY; wake its owner, and a thief if there is much."""
        if house.plan.channels:
            self.queue_house(house)
            return
        if self.business.enqueue(house) > self._steal_floor:
            self.call_thief()
        self.wake_owner()

    def queue_house(self, house: House) -> None:
        """`ready` for a house of an IO actor."""
        self.channels.enqueue(house)
        self.wake_owner()

    def call_thief(self) -> None:
        """There is more than the owner can do soon."""
        self._thread.crew.call_thief(self._thread)

    def mount(self, house: House) -> None:
        """Queue a new house for its start hooks."""
        if house.begin_mount():
            self.mounting.enqueue(house)
            self.wake_owner()

    def call(self, thunk: Callable[[], Any]) -> None:
        """Run a function on the owner's thread."""
        self._thread.call(thunk)

    @twin(SeatBase)
    def wake_owner(self) -> None:
        """Something was queued: end the owner's sleep, unless this is the owner."""
        thread = self._thread
        context: Context | None = me()
        if context is None or context.owner is not thread:
            thread.wake()
        # Pairs with close(): either it sees what was just queued, or we see that it is closed.
        if self._closed.load():
            self.bury()

    # ---- the way out: the owner's thread

    @property
    def runnable(self) -> bool:
        """Whether anything waits in any of the queues."""
        return bool(len(self.business) or len(self.mounting) or len(self.channels))

    def run_channels_actors(self, context: Context) -> int:
        """Drain the IO actors, then the mounts. Returns how many houses ran.

        As many turns as houses waited at the start: one that keeps itself busy comes again after
        the next look at the channels, or nobody else would ever run.
        """
        count = 0
        waiting = len(self.channels)
        stopping = self._thread.stopping
        while (
            count < waiting
            and not stopping.load()
            and (house := self.channels.dequeue()) is not None
        ):
            count += 1
            if house.try_schedule():
                house.run_turn(context)
        while not stopping.load() and (house := self.mounting.dequeue()) is not None:
            count += 1
            house.mount(context)
        return count

    @twin(SeatBase)
    def sleep(self, context: Context, budget: int | None) -> int:
        """Block till the bell rings, then go to Phase 3 for `budget` nanoseconds (None: no end).

        Straight from the bell to the actors, unless something waits that comes before them: this is
        what the sender of a message to a sleeping thread waits for. Returns how many ran.
        """
        thread = self._thread
        thread.reactor.wait()
        thread.get_up()
        if len(self.mounting) or len(self.channels) or thread.events.has_mail(1 << Mailbox.EVENT):
            return 0
        return thread.run_business(context, None if budget is None else now_ns() + budget)

    @twin(SeatBase)
    def run_state_actors(self, context: Context, deadline: int | None) -> int:
        """Run state actors until there are none or time is up. Returns how many ran.

        A look at the clock costs about as much as a short turn: one look for `stride` turns. That
        the thread has to end is looked at before each: none comes after the turn in hand.
        """
        count = 0
        dequeue = self.business.dequeue
        stride = self._stride
        stopping = self._thread.stopping
        while not stopping.load() and (house := dequeue()) is not None:
            if house.try_schedule():
                house.run_turn(context)
            count += 1
            if deadline is not None and count % stride == 0 and now_ns() >= deadline:
                self.business.end_slice()
                break
        return count

    # ---- the end

    @property
    def closed(self) -> bool:
        return self._closed.load() == 1

    def close(self) -> None:
        """After the owner was told to end: whatever is queued, or comes later, is buried.

        If the owner is stuck in a turn, others bury meanwhile, on whatever thread. It may come back
        at any moment, and these are the orders to think of:
         1. Its turn ends after the close. It takes nothing more, because it looks at `stopping`
            first. If the house in its hands has mail left, its Stop among it, the owner queues it,
            and then sees in `wake_owner` that we are closed. If the turn ended before that, the
            house is in the queue that we look into.
         2. It had looked at `stopping` before it was told, and takes a house only now. The lists'
            locks give each house to one of us, and whoever has it runs it; its end is as in 1.
         3. It is stuck in a start hook. The house is in no queue, and in the register before its
            hooks: it was told, and its mail is found at the end of the mount, as in 1. One that
            was in the queue of mounts does not begin, whoever takes it: see `lifecycle`.
         4. It is a thief that is stuck, with a house of ours: the same as 1, here. Or a sender that
            has made a house ready and has yet to queue it: it sees that we are closed, and buries.
        """
        self._closed.set(1)
        self.bury()

    def _bury_all(self) -> None:
        """The end of all houses in all queues."""
        for queue in (self.mounting, self.channels, self.business):
            while (house := queue.take()) is not None:
                lifecycle.bury_for_good(house, self.system.stopped_error)
