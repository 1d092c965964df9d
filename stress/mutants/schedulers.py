"""Mutants of queues, threads, stealing, parking, timers and answers."""

from __future__ import annotations

from stress.mutants import Mutant

__all__ = ["MUTANTS"]

QUEUES = "otavia_ft.schedule.queues"
MANAGER = "otavia_ft.schedule.manager"
THREAD = "otavia_ft.schedule.thread"
POOL = "otavia_ft.schedule.pool"
RINGS = "otavia_ft.schedule.rings"
PARKING = "otavia_ft.parking"
TIMER = "otavia_ft.timer"
OUTSIDE = "otavia_ft.outside"
BOUNDED = "otavia_ft.house.bounded"


def _by(module: str, old: str, new: str) -> dict[str, list[tuple[str, str]]]:
    return {module: [(old, new)]}


_STEAL = """\
        if house.try_schedule():
            house.run_turn(context)
        return True
"""

MUTANTS = (
    Mutant(
        "wake-before-enqueue",
        breaks="the owner is woken first, and the house queued second",
        patches=_by(
            MANAGER,
            """\
        if house.plan.channels:
            self.channels.enqueue(house)
""",
            """\
        self._thread.wake()
        if house.plan.channels:
            self.channels.enqueue(house)
            return
        self.business.enqueue(house)
        return
        if house.plan.channels:
            self.channels.enqueue(house)
""",
        ),
        workload="count",
        scenario="two-senders",
    ),
    Mutant(
        "steal-without-run",
        breaks="a thief takes a house and forgets to run it",
        patches=_by(THREAD, _STEAL, "        return True\n"),
        workload="stealing",
        scenario="two-workers",
    ),
    Mutant(
        "steal-the-last",
        breaks="a thief takes the last house of a list",
        patches={
            QUEUES: [
                ("if self.size.load() <= 1 or not", "if self.size.load() <= 0 or not"),
                (
                    """\
        if head is not None and self._count > 1:
            self._head = head.next_house
""",
                    """\
        if head is not None:
            self._head = head.next_house
            if self._head is None:
                self._tail = None
""",
                ),
            ]
        },
        workload="parts",
        scenario="two-thieves",
    ),
    Mutant(
        "io-in-business",
        breaks="IO actors are queued where thieves look",
        patches=_by(
            MANAGER,
            """\
        if house.plan.channels:
            self.channels.enqueue(house)
        elif self""",
            """\
        if self""",
        ),
        workload="stealing",
    ),
    Mutant(
        "dequeue-without-lock",
        breaks="the owner takes from its list without the lock",
        patches=_by(
            QUEUES,
            """\
            return None
        with self._lock:
            head = self._head
            if head is None:
                return None
""",
            """\
            return None
        if True:
            head = self._head
            if head is None:
                return None
""",
        ),
        workload="parts",
        scenario="queue-linear",
    ),
    Mutant(
        "thief-ignores-lock",
        breaks="a thief goes on although it did not get the lock",
        patches={
            QUEUES: [
                (
                    "        if self.size.load() <= 1 or not self._lock.try_lock():\n",
                    "        if self.size.load() <= 1:\n",
                ),
                (
                    """\
        self._lock.unlock()
        if head is not None:
""",
                    """\
        if head is not None:
""",
                ),
            ]
        },
        workload="parts",
        scenario="two-thieves",
    ),
    Mutant(
        "normal-first",
        breaks="normal houses are taken before high ones",
        patches=_by(
            QUEUES,
            """\
        house = self._high.pop()
        if house is not None:
            self._high_in_a_row += 1
""",
            """\
        house = self._normal.pop() or self._high.pop()
        if house is not None:
            self._high_in_a_row += 1
""",
        ),
        workload="priority",
    ),
    Mutant(
        "sleep-without-flag",
        breaks="a thread that was called in the meantime falls asleep all the same",
        patches=_by(
            PARKING,
            "        return self._flag.compare_and_set(AWAKE, ASLEEP)\n",
            "        self._flag.set(ASLEEP)\n        return True\n",
        ),
        workload="count",
        scenario="park-wake",
    ),
    Mutant(
        "wake-only-sleepers",
        breaks="a waker leaves no mark on a thread that is not asleep yet",
        patches=_by(
            PARKING,
            "        if self._flag.get_and_set(NOTIFIED) == ASLEEP:\n",
            "        if self._flag.compare_and_set(ASLEEP, NOTIFIED):\n",
        ),
        workload="count",
        scenario="park-wake",
    ),
    Mutant(
        "pool-no-reclaim",
        breaks="a pooled house goes Idle and does not look again",
        patches=_by(
            POOL,
            "return self.has_mail(mask) and self.try_ready() and self.take_for_processing()\n",
            "return False\n",
        ),
        workload="count",
    ),
    Mutant(
        "full-ring-drops",
        breaks="an actor that yields to a full local ring is forgotten",
        patches=_by(
            RINGS,
            """\
        if count == 0:
            self._queue.push(item)
        elif count > 1:
""",
            """\
        if count > 1:
""",
        ),
        workload="count",
    ),
    Mutant(
        "cancel-says-true",
        breaks="cancel returns True although the timer has fired or is about to",
        patches=_by(
            TIMER,
            "            if bucket is None:\n                return False\n",
            "            if bucket is None:\n                return True\n",
        ),
        workload="timers",
        scenario="timer-cancel",
    ),
    Mutant(
        "ask-stays-open",
        breaks="an ask from outside that times out stays in the book",
        patches=_by(
            OUTSIDE,
            "        return self._open.pop(number, None)\n",
            "        return self._open.get(number)\n",
        ),
        workload="asks",
    ),
    Mutant(
        "shelf-without-limit",
        breaks="a bounded mailbox takes one message more than it may",
        patches=_by(
            BOUNDED,
            "            if self._count >= self._capacity and not anyway:\n",
            "            if self._count > self._capacity and not anyway:\n",
        ),
        workload="bounded",
    ),
)
