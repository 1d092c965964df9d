"""Mutants of a house: the wake-up handshake, turns, barriers, life."""

from __future__ import annotations

from stress.mutants import Mutant

__all__ = ["MUTANTS"]

HOUSE = "otavia_ft.house.house"
LIFECYCLE = "otavia_ft.house.lifecycle"
GATHERING = "otavia_ft.house.gathering"

_RECHECK = """\
            self.run_to_waiting()
            if self.has_mail(mask) and self.try_ready():
                self.scheduler.ready(self)
"""

_END_MOUNT = """\
        self.end_mount()
        if self.has_mail(EVERYTHING) and self.try_ready():
            self.scheduler.ready(self)
"""

_NOTICE = """\
        if self.post_notice(message):
            self.scheduler.ready(self)
"""


def _by(old: str, new: str, module: str = HOUSE) -> dict[str, list[tuple[str, str]]]:
    return {module: [(old, new)]}


MUTANTS = (
    Mutant(
        "no-recheck",
        breaks="complete_running does not look again after it has stored WAITING",
        patches=_by(_RECHECK, "            self.run_to_waiting()\n"),
        workload="count",
        scenario="complete-running",
    ),
    Mutant(
        "recheck-before-waiting",
        breaks="complete_running looks first and stores WAITING second",
        patches=_by(
            _RECHECK,
            """\
            again = self.has_mail(mask)
            self.run_to_waiting()
            if again and self.try_ready():
                self.scheduler.ready(self)
""",
        ),
        workload="count",
        scenario="complete-running",
    ),
    Mutant(
        "always-enqueue",
        breaks="the runner's second look enqueues although the compare-and-set was lost",
        patches=_by(
            _RECHECK,
            """\
            self.run_to_waiting()
            if self.has_mail(mask):
                self.try_ready()
                self.scheduler.ready(self)
""",
        ),
        workload="count",
        scenario="complete-running",
    ),
    Mutant(
        "double-enqueue",
        breaks="a sender enqueues a house whose transition to READY it did not win",
        patches=_by(
            _NOTICE,
            """\
        self.post_notice(message)
        if self.state == HouseState.READY:
            self.scheduler.ready(self)
""",
        ),
        workload="count",
        scenario="two-senders",
    ),
    Mutant(
        "no-ready",
        breaks="a sender that makes a house READY does not queue it if a runner seems to be there",
        patches=_by(
            _NOTICE,
            """\
        running = self.state == HouseState.RUNNING
        if self.post_notice(message) and not running:
            self.scheduler.ready(self)
""",
        ),
        workload="count",
        scenario="two-senders",
    ),
    Mutant(
        "early-waiting",
        breaks="the house leaves MOUNTING before its start hooks have run",
        patches={
            HOUSE: [
                (_END_MOUNT, ""),
                (
                    """\
        try:
            lifecycle.start(self)
""",
                    f"""\
{_END_MOUNT}        try:
            lifecycle.start(self)
""",
                ),
            ]
        },
        workload="mount",
        scenario="mount-send",
    ),
    Mutant(
        "mount-without-look",
        breaks="the mount does not look for mail that came while the hooks ran",
        patches=_by(_END_MOUNT, "        self.end_mount()\n"),
        workload="mount",
        scenario="mount-send",
    ),
    Mutant(
        "lost-barrier",
        breaks="the barrier is lowered when its handler suspends, not when it ends",
        patches=_by(
            """\
        engine.run_stack(context, house, stack)
        if house.barrier is not None:
            break
""",
            """\
        engine.run_stack(context, house, stack)
        house.barrier = None
""",
            GATHERING,
        ),
        workload="barrier",
    ),
    Mutant(
        "batch-overtaken",
        breaks="a message that comes alone is handled before the batch in front of it",
        patches=_by(
            """\
            continue
        _flush(context, house, asks, batch)
        if house.barrier""",
            """\
            continue
        if house.barrier""",
            GATHERING,
        ),
        workload="batch",
    ),
    Mutant(
        "restart-drops-mail",
        breaks="a restart empties the notice mailbox",
        patches=_by(
            """\
        actor.before_restart()
""",
            """\
        for _ in house.drain(Mailbox.NOTICE, 1):
            pass
        actor.before_restart()
""",
            LIFECYCLE,
        ),
        workload="restart",
        scenario="restart-send",
    ),
    Mutant(
        "stop-forgets-asks",
        breaks="an ask that is buried is not answered",
        patches=_by(
            "                item.asker.answer_error(item.message_id, reason)\n", "", LIFECYCLE
        ),
        workload="stop",
    ),
    Mutant(
        "events-before-asks",
        breaks="the mailboxes are gone through in another order: events come before asks",
        patches=_by(
            "        if mail & ASK_BIT and self.barrier is None:\n",
            """\
        if mail & EVENT_BIT:
            box = self.drain(EVENT, left)
            for event in box:
                self._receive_event(context, event)
            left = box.left
        if mail & ASK_BIT and self.barrier is None:
""",
        ),
        workload="asks",
    ),
)
