"""Timers: a hashed wheel over monotonic time.

Time is cut into ticks. A timer goes into the bucket of the tick at which it is due, and buckets are
found by hashing the tick. The hash is Python's own dict, so the wheel has as many slots as it
needs: a timer waits in exactly one bucket whatever its delay, no bucket is looked at before it is
due, and there are no rounds to count. A heap of the ticks in use (ticks, not timers) tells how long
to sleep.

Guarantees: a timer never fires early, and at most one tick late plus the time to get hold of a
core; it fires or it is cancelled, never both (`cancel` tells which, for a periodic one: whether
there would have been another firing); a periodic one is due at
start + n * period, whatever the delays in between, and firings that were missed altogether are
skipped, not made up for.

Costs: adding, cancelling and firing are O(1) dict operations under a spin lock (O(log n) in the
number of distinct ticks for the first timer of a tick). The wheel itself has no thread: see
`TimerThread` for the one that drives it, and the testkit for the one with a virtual clock.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
from collections.abc import Callable
from typing import Any

from otavia_ft.doors import AtomicInt, Bell, SpinLock, now
from otavia_ft.parking import Parker

__all__ = ["Timer", "TimerTask", "TimerThread", "check_timeout"]

_log = logging.getLogger("otavia_ft.timer")


def check_timeout(seconds: Any) -> None:
    """Refuse what is no time to wait, before anything else has happened."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"timeout={seconds!r}: give a number of seconds above 0, or None")
    if not 0 < seconds < math.inf:
        raise ValueError(f"timeout={seconds!r}: give a number of seconds above 0, or None")


class TimerTask:
    """One registered timer; the handle to cancel or move it."""

    __slots__ = ("_wheel", "action", "argument", "due", "id", "period", "tick")

    def __init__(
        self, wheel: Timer, number: int, action: Callable[[Any], Any], argument: Any
    ) -> None:
        self._wheel = wheel
        self.id = number
        self.action = action
        self.argument = argument
        self.due = 0.0
        self.period: float | None = None
        self.tick = -1  # the bucket it waits in; -1: it fired or was cancelled

    @property
    def pending(self) -> bool:
        """Whether it may still fire."""
        return self.tick >= 0

    def cancel(self) -> bool:
        """Take it out. False: it has fired already (or was cancelled before)."""
        return self._wheel.cancel(self)

    def update(self, seconds: float) -> None:
        """Let it fire that many seconds from now instead; also after it has fired."""
        self._wheel.update(self, seconds)

    def __repr__(self) -> str:
        return f"<TimerTask {self.id} {'pending' if self.pending else 'over'}>"


class Timer:
    """The wheel. Any thread may add and cancel; one at a time calls `fire_due`."""

    def __init__(self, tick: float, clock: Callable[[], float] = now) -> None:
        self._tick = tick
        self._clock = clock
        self._start = clock()
        self._lock = SpinLock()
        self._buckets: dict[int, dict[TimerTask, None]] = {}
        self._ticks: list[int] = []  # heap of the keys of _buckets
        self._ids = AtomicInt()
        self._count = 0
        self.wake: Callable[[], Any] = lambda: None  # called when a new timer is the next to fire

    def time(self) -> float:
        """What its clock shows now."""
        return self._clock()

    def new_id(self) -> int:
        return self._ids.get_and_add(1) + 1

    def after(
        self,
        seconds: float,
        action: Callable[[Any], Any],
        argument: Any = None,
        period: float | None = None,
        number: int | None = None,
    ) -> TimerTask:
        """Call `action(argument)` in `seconds`, then every `period` seconds if one is given.

        The action runs on the timer's thread, so it has to be short: deliver something.
        """
        task = TimerTask(self, number or self.new_id(), action, argument)
        if not 0 <= seconds < math.inf:
            raise ValueError(f"a delay of {seconds!r} seconds: give a finite number from 0 up")
        if period is not None and not 0 < period < math.inf:
            raise ValueError(f"a period of {period!r} seconds: give a finite number above 0")
        task.period = period
        self._add(task, self._clock() + seconds)
        return task

    def at(self, when: float, action: Callable[[Any], Any], argument: Any = None) -> TimerTask:
        """Call `action(argument)` at a time of this timer's clock (monotonic seconds)."""
        return self.after(max(0.0, when - self._clock()), action, argument)

    def cancel(self, task: TimerTask) -> bool:
        """See `TimerTask.cancel`."""
        with self._lock:
            task.period = None  # also ends a periodic one that is firing right now
            return self._take_out(task)

    def update(self, task: TimerTask, seconds: float) -> None:
        """See `TimerTask.update`."""
        if not 0 <= seconds < math.inf:
            raise ValueError(f"a delay of {seconds!r} seconds: give a finite number from 0 up")
        self._add(task, self._clock() + seconds)

    def fire_due(self) -> int:
        """Fire everything that is due by now; returns how many."""
        fired = 0
        limit = self._tick_of_now()
        while (tasks := self._take_due(limit)) is not None:
            for task in tasks:
                fired += 1
                try:
                    task.action(task.argument)
                except BaseException:  # somebody else's action; ours go on
                    _log.exception("the action of %r failed", task)
        return fired

    def next_due(self) -> float | None:
        """Seconds until there may be something to fire; None if nothing waits."""
        with self._lock:
            while self._ticks and not self._buckets[self._ticks[0]]:
                del self._buckets[heapq.heappop(self._ticks)]
            if not self._ticks:
                return None
            tick = self._ticks[0]
        return max(0.0, self._start + tick * self._tick - self._clock())

    def __len__(self) -> int:
        return self._count

    # ---- inside

    def _tick_of_now(self) -> int:
        passed = self._clock() - self._start
        tick = math.floor(passed / self._tick)
        # The quotient may fall just short of a whole tick that has passed (0.29 / 0.01 < 29), and
        # then whoever sleeps until that tick would find nothing due, for ever.
        return tick + 1 if (tick + 1) * self._tick <= passed else tick

    def _tick_for(self, due: float) -> int:
        # Rounded up: at the start of that tick the time has really passed, by the same arithmetic.
        tick = max(0, math.ceil((due - self._start) / self._tick))
        return tick if tick * self._tick >= due - self._start else tick + 1

    def _add(self, task: TimerTask, due: float) -> None:
        with self._lock:
            self._take_out(task)
            first = self._put_in(task, due)
        if first:
            self.wake()

    def _put_in(self, task: TimerTask, due: float) -> bool:
        """Under the lock. Whether it is the next to fire, so that the driver has to know."""
        task.due = due
        task.tick = tick = self._tick_for(due)
        self._count += 1
        bucket = self._buckets.get(tick)
        if bucket is not None:
            bucket[task] = None
            return False
        self._buckets[tick] = {task: None}
        heapq.heappush(self._ticks, tick)
        return self._ticks[0] == tick

    def _take_out(self, task: TimerTask) -> bool:
        """Under the lock. An emptied bucket stays until its tick is next: an ask's timeout is
        added and cancelled all the time, and must not leave one entry each in the heap."""
        if task.tick < 0:
            return False
        del self._buckets[task.tick][task]
        task.tick = -1
        self._count -= 1
        return True

    def _take_due(self, limit: int) -> list[TimerTask] | None:
        """The tasks of the earliest bucket up to `limit`, taken out for good; None: no more.

        Taking them out under the lock is what decides between firing and cancelling; periodic ones
        go back in under the same lock, so that a cancel finds them either before or after.
        """
        with self._lock:
            if not self._ticks or self._ticks[0] > limit:
                return None
            tasks = list(self._buckets.pop(heapq.heappop(self._ticks)))
            self._count -= len(tasks)
            for task in tasks:
                task.tick = -1
                period = task.period
                if period is not None:
                    missed = max(0, math.floor((self._clock() - task.due) / period))
                    self._put_in(task, task.due + (missed + 1) * period)
            return tasks


class TimerThread:
    """The thread that drives a wheel. It starts with the first timer, sleeps till one is due."""

    def __init__(self, timer: Timer, name: str) -> None:
        self._timer = timer
        self._name = name
        self._bell = Bell()
        self._parker = Parker(self._bell)
        self._stopping = AtomicInt()
        self._birth = SpinLock()  # one birth at most, and none after stop
        self._thread: threading.Thread | None = None
        timer.wake = self._wake

    def _wake(self) -> None:
        if self._thread is None:
            with self._birth:
                if self._thread is None and not self._stopping.load():
                    thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                    thread.start()
                    self._thread = thread
        self._parker.wake()

    def _run(self) -> None:
        while not self._stopping.load():
            self._parker.start_looking()
            self._timer.fire_due()
            wait = self._timer.next_due()
            if self._stopping.load() or not self._parker.fall_asleep():
                continue
            self._bell.wait(wait)

    def stop(self) -> None:
        """End the thread and wait for it; timers that were not due never fire. Once."""
        self._stopping.set(1)
        with self._birth:
            thread = self._thread
        if thread is not None:
            self._parker.wake()
            if thread is not threading.current_thread():  # an action may be what stops us
                thread.join()
        self._bell.close()
