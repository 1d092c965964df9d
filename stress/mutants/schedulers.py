"""Mutants of queues, threads, stealing and the pool's rings."""

from __future__ import annotations

from stress.mutants import Mutant, by

__all__ = ["MUTANTS"]

QUEUES = "otavia_ft.schedule.queues"
MANAGER = "otavia_ft.schedule.manager"
THREAD = "otavia_ft.schedule.thread"
POOL = "otavia_ft.schedule.pool"
LIFECYCLE = "otavia_ft.house.lifecycle"
RINGS = "otavia_ft.schedule.rings"


_STEAL = """\
        if house.try_schedule():
            house.run_turn(context)
        return True
"""

MUTANTS = (
    Mutant(
        "wake-before-enqueue",
        breaks="the owner is woken first, and the house queued second",
        patches=by(
            MANAGER,
            """\
        if self.business.enqueue(house) > self._steal_floor:
            self.call_thief()
        self.wake_owner()
""",
            """\
        self._thread.wake()
        self.business.enqueue(house)
""",
        ),
        workload="count",
        scenario="two-senders",
    ),
    Mutant(
        "steal-without-run",
        breaks="a thief takes a house and forgets to run it",
        patches=by(THREAD, _STEAL, "        return True\n"),
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
        patches=by(
            MANAGER,
            """\
        if house.plan.channels:
            self.queue_house(house)
            return
        if self.business""",
            """\
        if self.business""",
        ),
        workload="stealing",
    ),
    Mutant(
        "dequeue-without-lock",
        breaks="the owner takes from its list without the lock",
        patches=by(
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
        patches=by(
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
        "pool-no-reclaim",
        breaks="a pooled house goes Idle and does not look again",
        patches=by(
            POOL,
            "return self.has_mail(mask) and self.try_ready() and self.take_for_processing()\n",
            "return False\n",
        ),
        workload="count",
        scenario="pool-reclaim",
    ),
    Mutant(
        "full-ring-drops",
        breaks="an actor that yields to a full local ring is forgotten",
        patches=by(
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
        scenario="desk-full",
    ),
    Mutant(
        "unlock-before-unlink",
        breaks="the owner unlocks its list before it has taken the house out",
        patches=by(
            QUEUES,
            """\
            self._head = following = head.next_house
            head.next_house = None
            if following is None:
                self._tail = None
            self._count -= 1
        self.size""",
            """\
        self._head = following = head.next_house
        head.next_house = None
        if following is None:
            self._tail = None
        self._count -= 1
        self.size""",
        ),
        workload="parts",
        scenario="two-thieves",
    ),
    Mutant(
        "forget-the-owner",
        breaks="a thief keeps the house that it has stolen",
        patches=by(
            THREAD,
            _STEAL,
            """\
        house.scheduler = self.manager
        if house.try_schedule():
            house.run_turn(context)
        return True
""",
        ),
        workload="stealing",
        scenario="steal-complete",
    ),
    Mutant(
        "owner-not-woken",
        breaks="a sender outside the system queues a house and does not wake its owner",
        patches=by(
            MANAGER,
            """\
        if context is None or context.owner is not thread:
""",
            """\
        if context is not None and context.owner is not thread:
""",
        ),
        workload="count",
        scenario="two-senders",
    ),
    Mutant(
        "closed-not-seen",
        breaks="a sender does not look whether the scheduler has closed in the meantime",
        patches=by(
            MANAGER,
            """\
        if self._closed.load():
            self.bury()
""",
            "",
        ),
        scenario="close-send",
    ),
    Mutant(
        "last-hook-forgotten",
        breaks="an actor whose mail is buried has no post_stop, and its waiting handlers no end",
        patches=by(
            LIFECYCLE,
            """\
                _say_goodbye(house, reason)
""",
            """\
                house.stop_reason = house.stop_reason or reason
                list(house.drain(Mailbox.SYSTEM, UNLIMITED))
""",
        ),
        workload="shutdown",
        scenario="close-send",
    ),
    Mutant(
        "no-ageing",
        breaks="high houses go first for ever, however long a normal one waits",
        patches=by(
            QUEUES,
            "        if self._high_in_a_row >= self._ageing_limit:\n",
            "        if self._high_in_a_row >= 1 << 62:\n",
        ),
        workload="priority",
    ),
    Mutant(
        "rings-locked-crosswise",
        breaks="a thief takes its victim's lock first, whichever ring it is",
        patches=by(
            RINGS,
            "(victim, thief) if victim.index < thief.index else (thief, victim)\n",
            "victim, thief\n",
        ),
        scenario="ring-steal-crossed",
    ),
    Mutant(
        "thief-without-victims-lock",
        breaks="a thief takes from its victim's ring under its own lock only",
        patches=by(
            RINGS,
            "    with first._lock, second._lock:\n",
            "    with thief._lock:\n",
        ),
        scenario="ring-linear",
    ),
    Mutant(
        "ring-grows-unturned",
        breaks="the global ring grows without putting its oldest to the front",
        patches=by(
            RINGS,
            "self._slots = slots = slots[head:] + slots[:head] + [None] * count\n",
            "self._slots = slots = slots + [None] * count\n",
        ),
        scenario="global-ring-linear",
    ),
)
