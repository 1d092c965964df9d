"""Mutants of what sleeps and wakes: the parker, the thread's last look, the crew, timers, pools."""

from __future__ import annotations

from stress.mutants import Mutant, by

__all__ = ["MUTANTS"]

PARKING = "otavia_ft.parking"
THREAD = "otavia_ft.schedule.thread"
CREW = "otavia_ft.schedule.crew"
TIMER = "otavia_ft.timer"
POOL = "otavia_ft.pool"


MUTANTS = (
    Mutant(
        "sleep-without-flag",
        breaks="a thread that was called in the meantime falls asleep all the same",
        patches=by(
            PARKING,
            "        return self.flag.compare_and_set(AWAKE, ASLEEP)\n",
            "        self.flag.set(ASLEEP)\n        return True\n",
        ),
        workload="count",
        scenario="park-wake",
    ),
    Mutant(
        "wake-only-sleepers",
        breaks="a waker leaves no mark on a thread that is not asleep yet",
        patches=by(
            PARKING,
            "        if self.flag.get_and_set(NOTIFIED) == ASLEEP:\n",
            "        if self.flag.compare_and_set(ASLEEP, NOTIFIED):\n",
        ),
        workload="count",
        scenario="park-wake",
    ),
    Mutant(
        "cancel-says-true",
        breaks="cancel returns True although the timer has fired or is about to",
        patches=by(
            TIMER,
            "            if bucket is None:\n                return False\n",
            "            if bucket is None:\n                return True\n",
        ),
        workload="timers",
        scenario="timer-cancel",
    ),
    Mutant(
        "flag-cleared-last",
        breaks="a thread looks at its queues first and clears its flag second",
        patches=by(
            THREAD,
            """\
        if self._has_work() or self.stopping.load() or not self.parker.fall_asleep():
            self.get_up()
            return False
""",
            """\
        if self._has_work() or self.stopping.load():
            self.get_up()
            return False
        self.parker.start_looking()
        if not self.parker.fall_asleep():
            self.get_up()
            return False
""",
        ),
        workload="count",
        scenario="two-senders",
    ),
    Mutant(
        "lazy-awake",
        breaks="a thread clears its flag by a lazy set, which its looks may overtake",
        patches=by(
            PARKING, "        self.flag.set(AWAKE)\n", "        self.flag.lazy_set(AWAKE)\n"
        ),
        scenario="park-wake",
        model="tso",
    ),
    Mutant(
        "sleepers-read-plainly",
        breaks="a push sets the ring's size lazily and reads plainly whether anybody sleeps",
        patches={
            CREW: [
                (
                    "        if self.asleep.get_and_add(0) == 0:\n",
                    "        if self.asleep.load() == 0:\n",
                )
            ],
            "otavia_ft.schedule.rings": [
                (
                    """\
            self._count = count + 1
        self._size.get_and_add(1)
""",
                    """\
            self._count = count + 1
        self._size.lazy_set(count + 1)
""",
                )
            ],
        },
        scenario="pool-park",
        model="tso",
    ),
    Mutant(
        "thief-not-called",
        breaks="a backlog above the floor wakes no thief",
        patches=by(
            CREW,
            "            if thread is not victim and thread.parker.asleep and thread.wake():\n",
            "            if thread is victim and thread.parker.asleep and thread.wake():\n",
        ),
        scenario="sleeping-thief",
    ),
    Mutant(
        "thief-sleeps-unlooked",
        breaks="a thread does not look at the others' backlogs before it sleeps",
        patches=by(
            THREAD,
            """\
        if self.crew.worth_staying_awake(self):
            self.get_up()
            return False
""",
            "",
        ),
        scenario="sleeping-thief",
    ),
    Mutant(
        "stop-without-wake",
        breaks="a thread that sleeps is told to end, and not woken",
        patches=by(
            THREAD,
            """\
        self.stopping.set(1)
        self.wake()
""",
            """\
        self.stopping.set(1)
""",
        ),
        scenario="signal-stop",
    ),
    Mutant(
        "timer-looks-first",
        breaks="the timer's thread looks when the next one is due, and clears its flag after that",
        patches={
            TIMER: [
                (
                    """\
            self._parker.start_looking()
            self._timer.fire_due()
            wait = self._timer.next_due()
""",
                    """\
            self._timer.fire_due()
            wait = self._timer.next_due()
            self._parker.start_looking()
""",
                )
            ]
        },
        scenario="timer-sleep",
    ),
    Mutant(
        "periodic-put-back-late",
        breaks="a periodic timer that fires is put back after the lock was given up",
        patches=by(
            TIMER,
            """\
        if period is not None:
            return self._claim_once_more(task, bucket, period)
""",
            """\
        if period is not None:
            task.period = None
            if not self._claim(task, bucket):
                return False
            task.period = period
            self._add(task, task.due + period)
            return True
""",
        ),
        scenario="timer-cancel-periodic",
    ),
    Mutant(
        "closed-wheel-turns-on",
        breaks="a periodic timer that fires while the wheel closes is put back all the same",
        patches=by(
            TIMER,
            "            if self._closed or task.bucket is not bucket:\n",
            "            if task.bucket is not bucket:\n",
        ),
        scenario="timer-close",
    ),
    Mutant(
        "pool-without-affinity",
        breaks="a pool keeps what another thread's pool has made",
        patches=by(POOL, "        if used.pool is self and len(", "        if len("),
        workload="parts",
    ),
    Mutant(
        "pool-keeps-what-is-used",
        breaks="a stack goes back to its pool when its handler suspends, not when it ends",
        patches={
            "otavia_ft.house.engine": [
                (
                    "            switch_state(house, stack, result)\n",
                    """\
            switch_state(house, stack, result)
            if stack.pool is not None:
                stack.pool._idle.append(stack)
""",
                )
            ]
        },
        workload="stacks",
    ),
)
