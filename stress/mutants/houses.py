"""Mutants of a house: the wake-up handshake, turns, barriers, life, bounded mailboxes, answers."""

from __future__ import annotations

from stress.mutants import Mutant, Patches, by

__all__ = ["MUTANTS"]

HOUSE = "otavia_ft.house.house"
LIFECYCLE = "otavia_ft.house.lifecycle"
GATHERING = "otavia_ft.house.gathering"
HANDLERS = "otavia_ft.house.handlers"
OUTSIDE = "otavia_ft.outside"
BOUNDED = "otavia_ft.house.bounded"

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


def _by(old: str, new: str, module: str = HOUSE) -> Patches:
    return by(module, old, new)


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
        scenario="pool-mount",
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
            "                item.asker.answer_error(item.message_id, fresh(reason))\n",
            "",
            LIFECYCLE,
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
    Mutant(
        "handled-twice",
        breaks="a notice that is handled by hand is handled twice",
        patches=_by(
            """\
        new = context.new_notice_stack
        for message in box:
""",
            """\
        new = context.new_notice_stack
        for message in (message for message in box for _ in range(2)):
""",
        ),
        workload="count",
        scenario="complete-running",
    ),
    Mutant(
        "barrier-drops-rest",
        breaks="what waits behind a barrier call is taken out and forgotten",
        patches=_by(
            """\
        engine.run_stack(context, house, stack)
        if house.barrier is not None:
            break
""",
            """\
        engine.run_stack(context, house, stack)
        if house.barrier is not None:
            for _ in box:
                pass
            break
""",
            GATHERING,
        ),
        workload="barrier",
    ),
    Mutant(
        "exception-stays-running",
        breaks="a handler's exception leaves the turn, and the house RUNNING",
        patches={
            HANDLERS: [
                (
                    """\
                end(context, house)
        except BaseException as error:  # a handler never kills its thread
""",
                    """\
                end(context, house)
        except ArithmeticError as error:  # a handler never kills its thread
""",
                )
            ],
            HOUSE: [
                (
                    "except BaseException as error:  # the engine catches all; this is the net\n",
                    "except ArithmeticError as error:\n",
                )
            ],
        },
        workload="restart",
    ),
    Mutant(
        "room-outside-the-lock",
        breaks="a sender that waits for room looks outside the lock and waits inside",
        patches=_by(
            """\
            with self._room:
                while not shelf.put(node):
                    left = deadline - now()
                    if left <= 0:
                        return f"its mailbox was full for {self._patience} s"
                    self._room.wait(left)
""",
            """\
            while not shelf.put(node):
                left = deadline - now()
                if left <= 0:
                    return f"its mailbox was full for {self._patience} s"
                with self._room:
                    self._room.wait(left)
""",
            BOUNDED,
        ),
        scenario="bounded-block",
    ),
    Mutant(
        "room-told-early",
        breaks="the senders that wait for room are told before there is any",
        patches=_by(
            """\
        item = self._shelf.take()
        self._house._made_room()
        return item
""",
            """\
        self._house._made_room()
        return self._shelf.take()
""",
            BOUNDED,
        ),
        scenario="bounded-block",
    ),
    Mutant(
        "ask-stays-open",
        breaks="an ask from outside that times out stays in the book",
        patches=_by(
            "        return self._open.pop(number, None)\n",
            "        return self._open.get(number)\n",
            OUTSIDE,
        ),
        workload="asks",
    ),
    Mutant(
        "shelf-without-limit",
        breaks="a bounded mailbox takes one message more than it may",
        patches=_by(
            "            if self._count >= self._capacity and not anyway:\n",
            "            if self._count > self._capacity and not anyway:\n",
            BOUNDED,
        ),
        workload="bounded",
    ),
)
