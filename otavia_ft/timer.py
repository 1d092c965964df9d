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

Costs: adding, cancelling and firing are O(1) dict operations under a spin lock; the heap is the
driver's own, and costs it O(log n) in the number of distinct ticks for the first timer of a tick.
The wheel itself has no thread: see `TimerThread` for the one that drives it, and the testkit for
the one with a virtual clock.

No call is made and no loop turned under the lock, for the reason given in schedule/queues.py: after
a call CPython may run a signal's handler, or the collector and with it somebody's `__del__`, and
both may come back here on the same thread. An ask from a signal's handler adds a timer, a stash
that is collected cancels some. Hence the shape of what follows: ticks and buckets are made ready
before, and what is more than links and numbers (the heap, the clock) belongs to the driver alone.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from otavia_ft.doors import AtomicInt, Bell, SpinLock, now
from otavia_ft.parking import Parker

__all__ = ["Timer", "TimerTask", "TimerThread", "check_timeout"]

_log = logging.getLogger("otavia_ft.timer")

# A time further away than this is meant for another clock: seconds of time.time() lie half a
# century ahead of a clock that begins when the machine does.
_FAR_YEARS = 20
_FAR = _FAR_YEARS * 365.25 * 86_400


def check_timeout(seconds: Any) -> None:
    """Refuse what is no time to wait, before anything else has happened."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"timeout={seconds!r}: give a number of seconds above 0, or None")
    if not 0 < seconds < math.inf:
        raise ValueError(f"timeout={seconds!r}: give a number of seconds above 0, or None")


def _check_period(seconds: float) -> None:
    # A nanosecond, because the number of periods in the time since has to be finite.
    if not 1e-9 <= seconds < math.inf:
        raise ValueError(f"a period of {seconds!r} seconds: give a finite number, 1e-9 or more")


def _nothing(_: Any) -> None:
    """The action of a task that has ended."""


class TimerTask:
    """One registered timer; the handle to cancel or move it."""

    __slots__ = ("__weakref__", "_wheel", "action", "argument", "bucket", "due", "id", "period")

    def __init__(
        self, wheel: Timer, number: int, action: Callable[[Any], Any], argument: Any
    ) -> None:
        self._wheel = wheel
        self.id = number
        self.action = action
        self.argument = argument
        self.due = 0.0
        self.period: float | None = None
        self.bucket: Bucket | None = None  # where it waits; None: it fired or was cancelled

    @property
    def pending(self) -> bool:
        """Whether it may still fire."""
        return self.bucket is not None

    def cancel(self) -> bool:
        """Take it out. False: it has fired already (or was cancelled before)."""
        return self._wheel.cancel(self)

    def update(self, seconds: float) -> None:
        """Let it fire that many seconds from now instead; also after it has fired."""
        self._wheel.update(self, seconds)

    def end(self) -> None:
        """Cancel it for good: an update does nothing any more. For those whose owner is gone."""
        self._wheel.end(self)

    def __repr__(self) -> str:
        return f"<TimerTask {self.id} {'pending' if self.pending else 'over'}>"


type Bucket = dict[TimerTask, None]  # a set that keeps the order of registration
type Fresh = tuple[int, Fresh | None]  # a tick, and the fresh ones before it


class Timer:
    """The wheel. Any thread may add and cancel; one at a time, the driver, calls `fire_due` and
    `next_due`."""

    def __init__(
        self,
        tick: float,
        clock: Callable[[], float] = now,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._tick = tick
        self._clock = clock
        self._wall = wall  # what a datetime is compared with, once
        self._start = clock()
        self._lock = SpinLock()
        self._ids = AtomicInt()
        self.wake: Callable[[], Any] = lambda: None  # called when a new timer is the next to fire

        # Under the lock:
        self._buckets: dict[int, Bucket] = {}
        self._fresh: Fresh | None = None  # ticks that got a bucket and are not in the heap yet
        self._next: float = math.inf  # the driver will look no later than at this tick
        self._count = 0
        self._closed = False
        self._firing: Bucket = {}  # what the driver has taken out last

        self._ticks: list[int] = []  # the driver's: with the fresh ones, a heap of _buckets' keys

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
        if period is not None:
            _check_period(period)
        task.period = period
        self._add(task, self._clock() + seconds)
        return task

    def at(
        self,
        when: float | datetime,
        action: Callable[[Any], Any],
        argument: Any = None,
        period: float | None = None,
        number: int | None = None,
    ) -> TimerTask:
        """Call `action(argument)` at a time, and then every `period` seconds if one is given.

        `when` is a time of this timer's clock, which is `time.monotonic()`, or a datetime with a
        time zone. The latter is converted here and now: who sets the machine's clock later does
        not move the timer. A time that has passed means at once; a periodic one is due at
        when + n * period all the same.
        """
        task = TimerTask(self, number or self.new_id(), action, argument)
        if period is not None:
            _check_period(period)
        task.period = period
        self._add(task, self._time_of(when))
        return task

    def cancel(self, task: TimerTask) -> bool:
        """See `TimerTask.cancel`.

        An emptied bucket stays until its tick is next: an ask's timeout is added and cancelled all
        the time, and must not leave one entry each in the heap.
        """
        with self._lock:
            task.period = None  # also ends a periodic one that is firing right now
            bucket = task.bucket
            if bucket is None:
                return False
            del bucket[task]
            task.bucket = None
            self._count -= 1
        return True

    def end(self, task: TimerTask) -> None:
        """See `TimerTask.end`. The action goes too, and with it what it belongs to."""
        with self._lock:
            task.action = _nothing
        self.cancel(task)

    def close(self) -> None:
        """End all timers; none fires any more. Nor does one that is added later: it is over from
        the beginning, without a word, because whoever comes so late (an actor in its `post_stop`, a
        thread that was stuck) could do nothing about it."""
        with self._lock:
            self._closed = True
        # No bucket gets another task now. The one that the driver has in hand is seen here or
        # there: it was in the wheel at the first look, or is what the second one finds. A look is
        # one step: CPython holds a dict's lock while a list is filled from its values or keys.
        for bucket in [*self._buckets.values(), self._firing]:
            for task in list(bucket):
                self.end(task)

    def update(self, task: TimerTask, seconds: float) -> None:
        """See `TimerTask.update`."""
        if not 0 <= seconds < math.inf:
            raise ValueError(f"a delay of {seconds!r} seconds: give a finite number from 0 up")
        self._add(task, self._clock() + seconds)

    def fire_due(self) -> int:
        """Fire everything that is due by now; returns how many."""
        fired = 0
        limit = self._tick_of_now()
        while (bucket := self._take_due(limit)) is not None:
            # The bucket still loses those that are cancelled or moved; hence a list of its own.
            for task in list(bucket):
                if not self._claim(task, bucket):
                    continue
                fired += 1
                try:
                    task.action(task.argument)
                except BaseException:  # somebody else's action; ours go on
                    _log.exception("the action of %r failed", task)
        return fired

    def next_due(self) -> float | None:
        """Seconds until there may be something to fire; None if nothing waits."""
        while True:
            self._sort_in()
            tick = self._ticks[0] if self._ticks else None
            with self._lock:
                if self._fresh is not None:
                    continue  # a new one, perhaps earlier
                if tick is None:
                    self._next = math.inf
                    return None
                if self._buckets[tick]:
                    self._next = tick
                    break
                del self._buckets[tick]  # all of its timers were cancelled
            heapq.heappop(self._ticks)
        return max(0.0, self._start + tick * self._tick - self._clock())

    def __len__(self) -> int:
        return self._count

    # ---- inside

    def _time_of(self, when: Any) -> float:
        """What `at` was given, on this timer's clock."""
        due, now = when, self._clock()
        if isinstance(when, datetime):
            if when.utcoffset() is None:
                raise ValueError(
                    f"when={when!r} has no time zone: when.astimezone() takes it for local time"
                )
            due = now + (when.timestamp() - self._wall())
        elif isinstance(when, bool) or not isinstance(when, (int, float)):
            raise TypeError(
                f"when={when!r}: give seconds of time.monotonic(), or a datetime with a time zone"
            )
        if not now - _FAR <= due <= now + _FAR:
            raise ValueError(
                f"when={when!r} is not within {_FAR_YEARS} years of now, {now!r}: give seconds of "
                "time.monotonic(), not of time.time(), or a datetime with a time zone"
            )
        return float(due)

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
        """Put it in, or move it if it is in already."""
        tick = self._tick_for(due)
        bucket: Bucket = {}
        with self._lock:
            if self._closed or task.action is _nothing:
                return
            old = task.bucket
            if old is None:
                self._count += 1
            else:
                del old[task]
            if tick in self._buckets:
                bucket = self._buckets[tick]
            else:
                self._buckets[tick] = bucket
                self._fresh = (tick, self._fresh)
            bucket[task] = None
            task.bucket = bucket
            task.due = due
            first = tick < self._next
            if first:
                self._next = tick
        if first:
            self.wake()

    def _sort_in(self) -> None:
        """The driver: bring the heap up to date. A look without the lock will do: whoever adds
        the next timer to fire wakes the driver, and `next_due` looks again under the lock."""
        if self._fresh is None:
            return
        with self._lock:
            fresh: Fresh | None = self._fresh
            self._fresh = None
        while fresh is not None:
            tick, fresh = fresh
            heapq.heappush(self._ticks, tick)

    def _take_due(self, limit: int) -> Bucket | None:
        """The driver: the earliest bucket up to `limit`, out of the wheel; None: no more.

        Its tasks still wait in it. Whoever comes later for the same tick begins a new one.
        """
        self._sort_in()
        if not self._ticks or self._ticks[0] > limit:
            return None
        tick = heapq.heappop(self._ticks)
        with self._lock:
            bucket = self._firing = self._buckets[tick]
            del self._buckets[tick]
        return bucket

    def _claim(self, task: TimerTask, bucket: Bucket) -> bool:
        """The driver: whether this task, found in `bucket`, is to fire.

        To take it out of its bucket under the lock is what decides between firing, cancelling and
        moving. What is read of it before the lock is right if it is still in the bucket then:
        whoever changes it takes it out.
        """
        period = task.period
        if period is not None:
            return self._claim_once_more(task, bucket, period)
        with self._lock:
            if task.bucket is not bucket:
                return False
            del bucket[task]
            task.bucket = None
            self._count -= 1
        return True

    def _claim_once_more(self, task: TimerTask, bucket: Bucket, period: float) -> bool:
        """A periodic one goes into its next bucket under the same lock, so that a cancel finds it
        either before or after."""
        missed = max(0, math.floor((self._clock() - task.due) / period))
        due = task.due + (missed + 1) * period
        tick = self._tick_for(due)
        following: Bucket = {}
        with self._lock:
            if self._closed or task.bucket is not bucket:
                return False
            del bucket[task]
            if tick in self._buckets:
                following = self._buckets[tick]
            else:
                self._buckets[tick] = following
                self._fresh = (tick, self._fresh)
            following[task] = None
            task.bucket = following
            task.due = due
        return True


class TimerThread:
    """The thread that drives a wheel. It sleeps till a timer is due."""

    def __init__(self, timer: Timer, name: str) -> None:
        self._timer = timer
        self._bell = Bell()
        self._parker = Parker(self._bell)
        self._stopping = AtomicInt()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        timer.wake = self._parker.wake

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on it."""
        return self._thread is threading.current_thread()

    def start(self) -> None:
        """Begin to fire. Not with the first timer: that may come from a signal's handler."""
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.load():
            self._parker.start_looking()
            self._timer.fire_due()
            wait = self._timer.next_due()
            if self._stopping.load() or not self._parker.fall_asleep():
                continue
            self._bell.wait(wait)
        self._bell.close()

    def stop(self, patience_s: float | None = None) -> bool:
        """End the thread and wait for it; timers that were not due never fire. False: it is still
        in an action, and ends after that one."""
        self._stopping.set(1)
        self._parker.wake()
        if self.is_current:  # an action may be what stops us
            return True
        self._thread.join(patience_s)
        return not self._thread.is_alive()
