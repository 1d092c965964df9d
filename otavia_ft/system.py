"""ActorSystem: builds, owns and stops everything.

with ActorSystem(workers=4) as system:
    counter = system.build_actor(Counter)
    counter.notice(Add(1))
    print(system.ask(counter, Get(), timeout=5).result())
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401  # see the end of this module
import logging
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, overload

import otavia_ft.wiring  # noqa: F401  # for its effect
from otavia_ft.actor.base import AbstractActor
from otavia_ft.address import ActorAddress, Address, RobinAddress
from otavia_ft.config import Config
from otavia_ft.deadletters import DeadLetters
from otavia_ft.doors import AtomicInt, me, now
from otavia_ft.errors import OutsideActor, SystemStopped
from otavia_ft.house.bounded import house_for
from otavia_ft.house.house import House
from otavia_ft.house.register import Register
from otavia_ft.message import Ask
from otavia_ft.outside import OutsideAsks
from otavia_ft.pressure import Pressure
from otavia_ft.schedule import memory
from otavia_ft.schedule.pinned import PinnedScheduler
from otavia_ft.schedule.pool import PoolScheduler
from otavia_ft.schedule.statistics import ThreadStatistics
from otavia_ft.shutdown import Shutdown
from otavia_ft.timer import Timer, TimerThread, check_timeout

__all__ = ["ActorSystem", "SystemStatistics"]

_log = logging.getLogger("otavia_ft.system")
_gil_told = AtomicInt()


@dataclass(frozen=True, slots=True)
class SystemStatistics:
    """A look at a system: sums over its threads, and the threads.

    `ready` is what waits in any queue, `high` those of it that are of high priority, and
    `shared_backlog` what waits for no thread in particular (the pool's global ring). `steals` are
    as many taken as given.
    """

    name: str
    running: bool
    busy: bool
    actors_built: int
    turns: int
    messages: int
    steals: int
    parks: int
    wakeups: int
    selector_rebuilds: int
    ready: int
    high: int
    shared_backlog: int
    timers: int
    open_asks: int
    dead_letters: int
    threads: tuple[ThreadStatistics, ...]


class ActorSystem:
    """A set of threads and the actors that live on them. Several may exist side by side."""

    def __init__(
        self,
        name: str = "otavia",
        *,
        config: Config | None = None,
        memory_probe: memory.Probe = memory.probe,
        clock: Callable[[], float] = now,
        **settings: Any,
    ) -> None:
        """Settings are those of `Config`: `ActorSystem(workers=4, steal_floor=8)`."""
        if config is not None and settings:
            raise TypeError(f"give a config or single settings ({', '.join(settings)}), not both")
        self.name = name
        self.config = config if config is not None else Config.load(**settings)
        self.stopped_error = SystemStopped(f"{name} has stopped")
        self.dead_letters = DeadLetters()
        self.register = Register()
        self.timer = Timer(self.config.timer_tick_ms / 1000, clock)
        self.outside = OutsideAsks(self.timer, self.dead_letters)
        self._timer_thread: TimerThread | None = None
        self._ids = AtomicInt()
        self._shutdown = Shutdown(self)
        self.scheduler = self._make_scheduler()
        self._pressure = Pressure(self.config, memory_probe)
        self._start()

    def _make_scheduler(self) -> PinnedScheduler:
        return PoolScheduler(self) if self.config.dispatcher == "pool" else PinnedScheduler(self)

    def _start(self) -> None:
        _tell_about_the_gil()
        self._timer_thread = TimerThread(self.timer, f"{self.name}-timer")
        self._timer_thread.start()
        self.scheduler.start()
        self._pressure.watch(self.timer)
        _running[id(self)] = weakref.ref(self)

    def forget(self) -> None:
        """Step 8 of the shutdown: nothing is left to stop at the interpreter's end."""
        _running.pop(id(self), None)

    def stop_timer(self, patience_s: float) -> bool:
        """Step 5 of the shutdown. False: the timer's thread is still in an action."""
        self.timer.close()
        self._pressure.end()
        return self._timer_thread is None or self._timer_thread.stop(patience_s)

    # ---- actors

    @overload
    def build_actor(
        self,
        factory: Callable[..., AbstractActor],
        *args: Any,
        num: Literal[1] = 1,
        **kwargs: Any,
    ) -> ActorAddress: ...

    @overload
    def build_actor(
        self, factory: Callable[..., AbstractActor], *args: Any, num: int, **kwargs: Any
    ) -> Address: ...

    def build_actor(
        self, factory: Callable[..., AbstractActor], *args: Any, num: int = 1, **kwargs: Any
    ) -> Address:
        """Make `num` actors by `factory(*args, **kwargs)` and mount them.

        One gives an ActorAddress. As many as there are workers puts one on each thread
        (load-balanced), any other number spreads them; both give a RobinAddress.
        """
        if type(num) is int and num == 1:
            house = self.make_house(factory, args, kwargs)
            house.scheduler.mount(house)
            return house.scheduler.make(ActorAddress, house)
        if isinstance(num, bool) or not isinstance(num, int) or num < 1:
            raise ValueError(f"num={num!r}: build at least one actor")
        self._check_running()
        actors = [self.scheduler.likely_seat(num).make(_made, factory, args, kwargs)]
        seats = self.scheduler.place(num, actors[0].has_channels)
        actors += [seat.make(_made, factory, args, kwargs) for seat in seats[1:]]
        self._check_running()  # again: a factory may take its time
        if len({id(actor) for actor in actors}) < num:
            raise TypeError(f"{factory!r} made the same actor twice: each needs one of its own")
        # Under the pool scheduler all seats are one, and no actor is nearer than another.
        balanced = num == self.scheduler.workers and seats[0] is not seats[1]
        houses = []
        for actor, seat in zip(actors, seats, strict=True):
            house = seat.make(house_for, actor, seat, self._ids.get_and_add(1) + 1)
            house.load_balanced = balanced
            houses.append(house)
        for house in houses:
            house.scheduler.mount(house)
        return RobinAddress(houses, balanced)

    def make_house(
        self, factory: Callable[..., AbstractActor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> House:
        """A house for one actor, not mounted yet: a parent has to enter it first."""
        self._check_running()
        actor = self.scheduler.likely_seat().make(_made, factory, args, kwargs)
        self._check_running()  # again: a factory may take its time
        seat = self.scheduler.seat(actor.has_channels)
        return seat.make(house_for, actor, seat, self._ids.get_and_add(1) + 1)

    def _check_running(self) -> None:
        if not self._shutdown.running:
            raise SystemStopped(f"{self.name} is stopping and builds no more actors")

    @overload
    def ask[R](
        self, address: Address, message: Ask[R], *, timeout: float | None = None
    ) -> Future[R]: ...

    @overload
    def ask(
        self, address: Address, message: object, *, timeout: float | None = None
    ) -> Future[Any]: ...

    def ask(self, address: Address, message: Any, *, timeout: float | None = None) -> Future[Any]:
        """Ask from outside an actor. The future always ends: see `otavia_ft.outside`."""
        if not isinstance(address, Address):
            raise TypeError(f"system.ask wants an address, not {address!r}")
        if timeout is not None:
            check_timeout(timeout)
        if me() is not None:
            raise OutsideActor(
                "system.ask(...) is for threads outside: waiting for its future would block the "
                "ActorThread. Inside an actor: await address.ask(message)"
            )
        return self.outside.ask(address._for_ask(), message, timeout)

    # ---- the end

    def stop(self, timeout: float | None = None) -> None:
        """Finish what is queued (at most `timeout` seconds), say goodbye, end every thread.

        Returns when it is done, whoever began it. Not inside a handler: see `signal_stop`. In a
        callback that the stop itself has called it returns at once: see `otavia_ft.shutdown`.
        """
        if self._in_handler() and not self._shutdown.needs_this_thread:
            raise OutsideActor(
                "system.stop() waits for all handlers, so a handler cannot call it: "
                "use system.signal_stop()"
            )
        try:
            self._shutdown.stop_and_wait(timeout)
        except KeyboardInterrupt:
            # The second Ctrl-C. (The first one ended the `with` block that called us.) It may have
            # come before anybody had begun to stop.
            self._shutdown.force()
            self._shutdown.stop_and_wait(0)
            raise

    def signal_stop(self) -> None:
        """Begin to stop and return at once. Safe everywhere, inside a handler too."""
        self._shutdown.signal()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the system has stopped. False: not within `timeout` seconds.

        In a callback that the stop itself has called it returns False at once.
        """
        if timeout is None and self._in_handler() and not self._shutdown.needs_this_thread:
            raise OutsideActor(
                "system.wait() waits for the end of all handlers, so a handler cannot wait there"
            )
        return self._shutdown.wait(timeout)

    def _in_handler(self) -> bool:
        """Whether the caller runs on one of this system's own ActorThreads."""
        context = me()
        return context is not None and context.owner.system is self

    @property
    def on_timer_thread(self) -> bool:
        """Whether the caller is an action of the timer's."""
        return self._timer_thread is not None and self._timer_thread.is_current

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # ---- looking at it

    @property
    def running(self) -> bool:
        return self._shutdown.running

    @property
    def busy(self) -> bool:
        """Whether memory is short, so that notices from outside are slowed down."""
        return self._pressure.busy

    def statistics(self) -> SystemStatistics:
        """Counters as of about now; cheap enough to ask for often."""
        threads = self.scheduler.statistics()
        shared = self.scheduler.shared_backlog
        return SystemStatistics(
            name=self.name,
            running=self.running,
            busy=self.busy,
            actors_built=self._ids.load(),
            turns=sum(t.turns for t in threads),
            messages=sum(t.messages for t in threads),
            steals=sum(t.steals_taken for t in threads),
            parks=sum(t.parks for t in threads),
            wakeups=sum(t.wakeups for t in threads),
            selector_rebuilds=sum(t.selector_rebuilds for t in threads),
            ready=shared + sum(t.queues.ready for t in threads),
            high=sum(t.queues.high for t in threads),
            shared_backlog=shared,
            timers=len(self.timer),
            open_asks=len(self.outside),
            dead_letters=self.dead_letters.total,
            threads=threads,
        )

    def __repr__(self) -> str:
        state = "running" if self.running else "stopped"
        return f"<ActorSystem {self.name} {state}, {self.scheduler.workers} workers>"


def _made(factory: Callable[..., Any], args: Any, kwargs: Any) -> AbstractActor:
    if not callable(factory):
        raise TypeError(f"build_actor wants an actor class or a function, not {factory!r}")
    actor = factory(*args, **kwargs)
    if not isinstance(actor, AbstractActor):
        raise TypeError(
            f"build_actor wants an actor class or a function that makes an actor; {factory!r} made "
            f"{actor!r}"
        )
    return actor


def _tell_about_the_gil() -> None:
    """Once a process: with the GIL everything is correct, but nothing runs in parallel."""
    if sys._is_gil_enabled() and _gil_told.get_and_set(1) == 0:
        _log.warning(
            "the GIL is on: actors will work, but only one at a time. For parallelism run "
            "python3.13t (see `otavia-ft doctor`)"
        )


# At the end of the main thread, which is the end of the program, a system that is still running is
# stopped in order. One registration for all: Python would keep an entry for every system there ever
# was.
EXIT_GRACE_S = 1.0
_running: dict[int, weakref.ref[ActorSystem]] = {}


def _stop_at_exit() -> None:
    """Stop all systems, one after the other. Nothing that one of them does spares the others."""
    systems = [system for reference in list(_running.values()) if (system := reference())]

    def hurry(*_: Any) -> None:
        for system in systems:
            system._shutdown.force()

    # The protocol runs on this thread, since no other can be started now. So Ctrl-C must not raise
    # in the middle of it; that it means "forced" stays as it is.
    ours = bool(systems) and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, hurry)
    for system in systems:
        try:
            system.stop(timeout=EXIT_GRACE_S)
        except BaseException:  # a signal's handler of the user's, perhaps
            hurry()
            _log.exception("%s could not be stopped in order", system.name)
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# Before Python joins the threads that are not daemons, because one that waits for an answer would
# keep the program from ending; and before executors, which register themselves there when they are
# imported, wait for tasks that do (the last registered is called first). The place has no public
# name. `atexit` comes after the threads, for whoever has come too late for the first call.
_before_threads_are_joined: Callable[[Callable[[], Any]], Any] = getattr(
    threading, "_register_atexit", atexit.register
)
_before_threads_are_joined(_stop_at_exit)
atexit.register(_stop_at_exit)

# A forked child has its parent's systems without their threads: there is nothing to stop.
os.register_at_fork(after_in_child=_running.clear)
