"""ActorThread: one a core, each running the same loop of three phases.

    Phase 1  IO           serve ready channels; block only if there is nothing else to do at all
    Phase 2  IO pipeline  IO actors and mounts, whatever the time; thread events: time-outs of the
                          thread's own resources, functions to run here, cleaners
    Phase 3  business     state actors, until the deadline
    then, if all of that was nothing: try to steal one house

No handler, hook or channel can end the thread: houses and the reactor catch everything.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from otavia_ft.context import Context
from otavia_ft.doors import AtomicInt, HouseCell, Mailbox, now_ns, set_me
from otavia_ft.message import ResourceTimeoutEvent
from otavia_ft.parking import Parker
from otavia_ft.schedule.burial import Burial
from otavia_ft.schedule.manager import HouseManager
from otavia_ft.schedule.reactor import Reactor
from otavia_ft.schedule.statistics import ThreadQueues, ThreadStatistics, look_at

if TYPE_CHECKING:
    from otavia_ft.schedule.crew import Crew
    from otavia_ft.system import ActorSystem
    from otavia_ft.timer import TimerTask

__all__ = ["ActorThread", "Resource"]

_log = logging.getLogger("otavia_ft.thread")

LAST_ROUNDS = 100  # of functions, at the close: one that posts itself again would never end


class Resource(Protocol):
    """Something that belongs to a thread, and wants to hear from the timer: see
    `ActorThread.resource_timeout`."""

    def handle_timeout(self, event: ResourceTimeoutEvent) -> None:
        """On the thread it belongs to, between two turns."""


class _IdlePools:
    """A thread's object pools: at every time-out, those that were idle give memory back."""

    def __init__(self, context: Context, idle_s: float, keep: int) -> None:
        self._context = context
        self._idle_s = idle_s
        self._keep = keep

    def handle_timeout(self, event: ResourceTimeoutEvent) -> None:
        for pool in self._context.pools:
            pool.trim(self._idle_s, self._keep)


class ActorThread:
    """One worker: its queues, its reactor, its loop."""

    def __init__(self, index: int, system: ActorSystem, crew: Crew) -> None:
        config = system.config
        self.index = index
        self.system = system
        self.crew = crew
        self.stopping = AtomicInt()
        self.wakeups = AtomicInt()
        self.reactor = Reactor(config.selector_rebuild_threshold)
        self.parker = Parker(self.reactor.bell)
        self.events = HouseCell()  # only its event mailbox: see `call` and `put_event`
        self._serve_events = Burial(self._drain_events)
        # The thread that is at it. A plain field: each compares it with itself only, and only it
        # writes that.
        self._server = 0
        self.manager = HouseManager(self, system)
        self.context = Context(self, config.throughput_budget, self.manager)
        self.thread: threading.Thread | None = None
        self._ends = AtomicInt()
        self._idle_count = 0
        self._io_ratio = config.io_ratio
        # What Phase 3 gets at least; None: there is no limit.
        self._business_ns = None if config.io_ratio == 100 else config.min_budget_us * 1000
        # Counters: written by the one thread that does the thing, read by anybody.
        self.steals_taken = 0
        self.steals_given = AtomicInt()
        self.parks = 0

    # ---- from other threads

    def wake(self) -> bool:
        """Work was put where this thread looks. A system call only if it sleeps (True: it did)."""
        if self.parker.wake():
            self.wakeups.get_and_add(1)
            return True
        return False

    def call(self, thunk: Callable[[], Any]) -> None:
        """Run a function on this thread, in Phase 2; after the system's end, on the caller's."""
        self.events.put(Mailbox.EVENT, thunk)
        self.wake()
        # Pairs with close(): either it sees the function, or we see that it is closed.
        # (If one that runs posts another, that is for whoever runs it: in the next round.)
        if self.manager.closed and self._server != threading.get_ident():
            self._run_last_events()

    def put_event(self, event: ResourceTimeoutEvent) -> None:
        """Have the event handled on this thread, in Phase 2."""
        self.events.put(Mailbox.EVENT, event)
        self.wake()

    def resource_timeout(
        self, resource: Resource, seconds: float, period: float | None = None
    ) -> TimerTask:
        """Have `resource.handle_timeout(event)` called on this thread in `seconds`, then every
        `period` seconds if one is given.

        For what belongs to the thread and to no actor: a pool, a channel's buffers. The resource
        keeps the handle, to cancel or move the timer; the timer keeps the resource until then.
        """
        timer = self.system.timer
        number = timer.new_id()
        event = ResourceTimeoutEvent(number, resource)
        return timer.after(seconds, self.put_event, event, period, number)

    def start(self) -> None:
        name = f"{self.system.name}-worker-{self.index}"
        self.thread = threading.Thread(target=self.run, name=name, daemon=True)
        self.thread.start()

    def signal_stop(self) -> None:
        """End after the turn in hand."""
        self.stopping.set(1)
        self.wake()

    # ---- the loop

    def run(self) -> None:
        # Made again on the thread itself: an object's references are cheap on the thread that
        # made it, and this one is touched for every message.
        config = self.system.config
        self.context = context = Context(self, config.throughput_budget, self.manager)
        set_me(context)
        trimming = None
        if config.pooling:
            context.use_pools(config.pool_max_size, config.debug)
            trim = _IdlePools(context, config.pool_idle_s, config.pool_keep)
            trimming = self.resource_timeout(trim, config.pool_check_s, config.pool_check_s)
        try:
            while not self.stopping.load():
                self.run_once(context, may_block=True)
        except BaseException:  # our own bug; say so rather than vanish
            _log.critical("%s died: please report this", self.system.name, exc_info=True)
        finally:
            set_me(None)
            if trimming is not None:
                trimming.end()
            self.leave()

    def run_once(self, context: Context, may_block: bool = False) -> bool:
        """One iteration. Returns whether anything ran."""
        ran = 0
        if may_block and not self._has_work() and self._lie_down():
            self.parks += 1
            if self.reactor.channels:
                ready = self.reactor.wait()
                self.get_up()
                served = self.reactor.serve(ready)
            else:
                served, ran = 0, self.manager.sleep(context, self._business_ns)
        else:
            served = self.reactor.poll()
        ran += self.manager.run_channels_actors(context)
        ran += self._run_events()
        ran += self.run_business(context, self._deadline(served))
        if ran or served:
            self._idle_count = 0
            return True
        return not self.stopping.load() and self._try_steal(context)

    def run_business(self, context: Context, deadline: int | None) -> int:
        """Phase 3."""
        return self.manager.run_state_actors(context, deadline)

    def _has_work(self) -> bool:
        return self.manager.runnable or self.events.has_mail(1 << Mailbox.EVENT)

    def _lie_down(self) -> bool:
        """Whether to block now: parking.py's protocol, with the thief's promise (crew.py)."""
        self.parker.start_looking()
        self.crew.asleep.get_and_add(1)
        if self._has_work() or self.stopping.load() or not self.parker.fall_asleep():
            self.get_up()
            return False
        if self.crew.worth_staying_awake(self):
            self.get_up()
            return False
        return True

    def get_up(self) -> None:
        """The end of a sleep: awake, and no thief any more."""
        self.crew.asleep.get_and_add(-1)
        self.parker.start_looking()

    def _deadline(self, served: int) -> int | None:
        """Until when Phase 3 may run: in proportion to the time that IO took, waiting excluded."""
        budget = self._business_ns
        if budget is None:
            return None
        if served:
            share = self.reactor.io_ns * (100 - self._io_ratio) // self._io_ratio
            budget = max(budget, share)
        return now_ns() + budget

    def _run_events(self) -> int:
        """As many as wait at the start: a function that posts itself again has its next turn in the
        next loop. One thread at a time: at the end others come here, too."""
        if not self.events.has_mail(1 << Mailbox.EVENT):
            return 0
        self._serve_events()
        return 1

    def _drain_events(self) -> None:
        self._server = threading.get_ident()
        for event in self.events.drain(Mailbox.EVENT, self.events.size(Mailbox.EVENT)):
            try:
                if type(event) is not ResourceTimeoutEvent:
                    event()
                elif not self.stopping.load():  # or it may be another thread that is here
                    event.resource.handle_timeout(event)
            except BaseException:  # cleaners are user code
                _log.exception("a cleaner or thread event failed")
        self._server = 0

    def _try_steal(self, context: Context) -> bool:
        self._idle_count += 1
        stolen = self.crew.steal(self, self._idle_count)
        if stolen is None:
            return False
        victim, house = stolen
        self.steals_taken += 1
        victim.steals_given.get_and_add(1)
        if house.try_schedule():
            house.run_turn(context)
        return True

    # ---- looking at it

    @property
    def idle(self) -> bool:
        """Asleep with nothing queued (a hint, see the system's shutdown)."""
        return self.parker.asleep and not self._has_work()

    def statistics(self) -> ThreadStatistics:
        manager = self.manager
        return ThreadStatistics(
            index=self.index,
            turns=self.context.turns,
            messages=self.context.messages,
            steals_taken=self.steals_taken,
            steals_given=self.steals_given.load(),
            parks=self.parks,
            wakeups=self.wakeups.load(),
            selector_rebuilds=self.reactor.rebuilds,
            asleep=self.parker.asleep,
            queues=ThreadQueues(
                look_at(manager.mounting), look_at(manager.channels), look_at(manager.business)
            ),
        )

    # ---- the end

    @property
    def left_over(self) -> bool:
        """Whether anything still waits here."""
        return self._has_work()

    def close(self) -> None:
        """The shutdown: what was left for this thread to run is run here, and its houses are
        buried, though it may be stuck in a handler yet."""
        self.manager.close()
        self._run_last_events()

    def _run_last_events(self) -> None:
        """After the close: no loop comes any more, for those that functions post in their turn."""
        for _ in range(LAST_ROUNDS):
            if not self._run_events():
                break

    def leave(self) -> None:
        """Called twice: by the thread at its end, and by the shutdown after `close`. The second one
        gives back what the thread itself, or a last hook of its IO actors, may have needed."""
        if self.manager.closed:
            self._run_last_events()
        if self._ends.get_and_add(1) == 1:
            self.reactor.close()
