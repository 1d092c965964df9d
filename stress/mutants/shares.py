"""Mutants of what is shared out: seats, turns, room, time, and the figures about all that."""

from __future__ import annotations

from stress.mutants import Mutant, by

__all__ = ["MUTANTS"]

ADDRESS = "otavia_ft.address"
BOUNDED = "otavia_ft.house.bounded"
HOUSE = "otavia_ft.house.house"
LIFECYCLE = "otavia_ft.house.lifecycle"
MANAGER = "otavia_ft.schedule.manager"
PINNED = "otavia_ft.schedule.pinned"
PLACEMENT = "otavia_ft.schedule.placement"
RINGS = "otavia_ft.schedule.rings"
THREAD = "otavia_ft.schedule.thread"
TIMER = "otavia_ft.timer"


MUTANTS = (
    Mutant(
        "tile-laid-twice",
        breaks="the turn of the seats is read and written in two steps: two builders get one seat",
        patches=by(
            PLACEMENT,
            "        return self._seats[self._cursor.get_and_add(1) % self._n]\n",
            """\
        turn = self._cursor.load()
        self._cursor.set(turn + 1)
        return self._seats[turn % self._n]
""",
        ),
        workload="placement",
        scenario="seats-dealt",
    ),
    Mutant(
        "io-in-the-same-round",
        breaks="a single IO actor takes its seat from the turn of all others",
        patches=by(
            PINNED,
            "        return (self._io_selector if io else self._selector).next()\n",
            "        return self._selector.next()\n",
        ),
        workload="placement",
    ),
    Mutant(
        "neighbour-passed-over",
        breaks="an ask between load-balanced actors goes in turn, not to the neighbour",
        patches=by(ADDRESS, "        if self.load_balanced:\n", "        if False:\n"),
        workload="placement",
    ),
    Mutant(
        "robin-deals-twice",
        breaks="an address of several reads and writes whose turn it is in two steps",
        patches=by(
            ADDRESS,
            "return self._houses[self._notice_cursor.get_and_add(1) % len(self._houses)]\n",
            """\
turn = self._notice_cursor.load()
        self._notice_cursor.set(turn + 1)
        return self._houses[turn % len(self._houses)]
""",
        ),
        workload="placement",
    ),
    Mutant(
        "turn-without-end",
        breaks="a turn goes on for as long as there is mail, whatever the budget",
        patches=by(
            HOUSE,
            "        left = self.work(context, context.budget)\n",
            "        left = self.work(context, 1 << 40) - (1 << 40) + context.budget\n",
        ),
        workload="flood",
        scheduler="pinned",
    ),
    Mutant(
        "ageing-forgets-its-turn",
        breaks="after ageing_limit high houses the count begins anew, but no normal one is taken",
        patches=by(
            "otavia_ft.schedule.queues",
            """\
            self._high_in_a_row = 0
            house = self._normal.pop()
            if house is not None:
                return house
""",
            """\
            self._high_in_a_row = 0
""",
        ),
        workload="flood",
        scheduler="pinned",
    ),
    Mutant(
        "business-without-end",
        breaks="Phase 3 goes on for as long as there are state actors: no mount, no thread event",
        patches=by(
            MANAGER,
            "count % stride == 0 and now_ns() >= deadline:\n",
            "False:\n",
        ),
        workload="flood",
        scheduler="pinned",
    ),
    Mutant(
        "global-ring-last",
        breaks="a worker looks at the global ring only when its own is empty",
        patches=by(
            RINGS,
            "        if self._takes >= self._interval:\n",
            "        if self._takes >= 1 << 62:\n",
        ),
        workload="flood",
        scheduler="pool",
    ),
    Mutant(
        "steal-not-given",
        breaks="a steal is counted by the thief and not by its victim",
        patches=by(THREAD, "        victim.steals_given.get_and_add(1)\n", ""),
        workload="stealing",
        scheduler="pinned",
    ),
    Mutant(
        "messages-of-the-last-turn",
        breaks="a thread's count of messages begins anew with each turn",
        patches=by(
            HOUSE,
            "        context.messages += context.budget - left\n",
            "        context.messages = context.budget - left\n",
        ),
        workload="count",
        scheduler="pinned",
    ),
    Mutant(
        "sleeps-forgotten",
        breaks="a thread counts its sleeps up to two, and then from the beginning",
        patches=by(THREAD, "self.parks += 1\n", "self.parks = (self.parks + 1) % 3\n"),
        workload="count",
    ),
    Mutant(
        "update-moves-nothing",
        breaks="an update leaves a timer that is pending where it is",
        patches=by(
            TIMER,
            """\
            if old is None:
                self._count += 1
            else:
                del old[task]
""",
            """\
            if old is not None:
                return
            self._count += 1
""",
        ),
        workload="timers",
    ),
    Mutant(
        "ended-timer-moves",
        breaks="an update brings back a timer that was ended for good",
        patches=by(TIMER, "            task.action = _nothing\n", "            pass\n"),
        workload="timers",
    ),
    Mutant(
        "timers-outlive-actor",
        breaks="an actor that stops leaves its timers behind",
        patches=by(LIFECYCLE, "        task.end()\n", "        pass\n"),
        workload="timers",
    ),
    Mutant(
        "last-acts-timer-stays",
        breaks="a timer that post_stop sets stays",
        patches=by(LIFECYCLE, "    _end_timers(house)  # those of the hook\n", ""),
        workload="timers",
    ),
    Mutant(
        "resource-told-elsewhere",
        breaks="a thread's resource hears of its timer on the timer's thread",
        patches=by(
            THREAD,
            "timer.after(seconds, self.put_event, event,",
            "timer.after(seconds, resource.handle_timeout, event,",
        ),
        workload="timers",
    ),
    Mutant(
        "refused-ask-unanswered",
        breaks="an ask that a full mailbox refuses is not answered",
        patches=by(
            BOUNDED,
            "        item.asker.answer_error(item.message_id, error)\n",
            "        del item\n",
        ),
        workload="bounded",
    ),
    Mutant(
        "dropped-ask-unanswered",
        breaks="an ask that is dropped from a full mailbox is a dead letter and nothing else",
        patches=by(
            BOUNDED,
            """\
            item.asker.answer_error(item.message_id, MailboxFull(f"{self.name}: {why}"))
            item = item.message
""",
            """\
            item = item.message
""",
        ),
        workload="bounded",
    ),
    Mutant(
        "actor-waits-for-room",
        breaks="an actor that sends to a full mailbox blocks its thread until there is room",
        patches=by(BOUNDED, "        if me() is not None:\n", "        if False:\n"),
        workload="bounded",
    ),
)
