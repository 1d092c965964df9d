"""What all workloads share: the protocol of a round, and an actor that watches itself."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from otavia_ft import StateActor
from otavia_ft.atomic import Mailbox
from stress.parallel.lab import Lab

__all__ = ["Answers", "Ledger", "Watched", "Workload", "account"]

BACKLOG = 500


class Workload:
    """One round: build, send, wait until quiet, judge, stop, judge again.

    In a soak (`scale` above 1) there is more of everything but of what waits for the clock, writes
    a log or makes a thread: so many of those as in a short round (`few`), among many messages.
    """

    name: ClassVar[str] = ""

    def __init__(self, lab: Lab, rng: random.Random) -> None:
        self.lab = lab
        self.rng = rng
        self.sent = 0  # messages of this round, for the statistics
        # An ask from outside makes a future with a lock of its own, ten times the cost of a notice.
        self.ask_every = 1 if lab.case.scale == 1 else 8
        # Fresh houses with a message or two, or long-lived ones with bursts: each finds bugs that
        # the other does not.
        # With stalls in C a message is dear, and it is the last one of a round that gets lost.
        self.stalled = lab.case.lane == "native+stalls"
        self.tiny = rng.random() < (0.75 if self.stalled else 0.5) and lab.case.scale == 1

    @classmethod
    def settings(cls, drawn: dict[str, Any]) -> dict[str, Any]:
        """Changes to the settings that were drawn."""
        return {}

    def arguments(self) -> dict[str, Any]:
        """What the system is given besides its settings, and no report could show."""
        return {}

    def build(self, system: Any) -> None:
        """Make the actors."""

    def bodies(self) -> Iterable[Callable[[], Any]]:
        """What the threads outside do, one function each."""
        return ()

    def on_main(self) -> None:
        """What the child's main thread does meanwhile: it alone hears of signals."""

    def finished(self) -> bool:
        """Whether all has happened that must happen. A cheap look, often taken."""
        return True

    def tally(self) -> int:
        """How many messages have been handled, as far as it is known here: no more than that."""
        return 0

    def judge(self) -> None:
        """All is quiet: is the outcome exactly the right one?"""

    def judge_stopped(self) -> None:
        """The system has stopped."""

    def burst(self, most: int = 200, up_to: int = 1 << 30, backlog: bool = False) -> int:
        """How many messages a sender sends; `up_to` limits how much longer a soak makes it, and
        `backlog` says that few would be no test, however dear."""
        if self.tiny:
            return self.rng.choice((1, 1, 2, 3))
        if self.stalled and not backlog:
            return self.rng.randrange(5, most // 3)
        return self.rng.randrange(20, most) * min(self.lab.case.scale, up_to)

    def pace(self, number: int, addresses: Sequence[Any]) -> None:
        """Called by senders for each message: in a soak they do not run far ahead.

        Long mailboxes test nothing that short ones do not, and the collector looks at all of it.
        """
        if self.lab.case.scale > 1 and number % 64 == 0:
            while any(address.house.size(Mailbox.NOTICE) > BACKLOG for address in addresses):
                time.sleep(0.0002)

    def until(self, condition: Callable[[], Any], invariant: str, text: str) -> bool:
        """Wait for what must come; if it does not come in time, that is a finding. After another
        one nothing must come any more."""
        deadline = time.monotonic() + self.lab.case.patience_s
        while not condition():
            if self.lab.findings:
                return False
            if time.monotonic() > deadline:
                self.lab.report(invariant, text)
                return False
            time.sleep(0.0002)
        return True

    def few(self, among: int, share: float, most: int) -> set[int]:
        """Which of so many messages are of a costly kind: a share of them, in a soak at most
        `most`."""
        chosen = [index for index in range(among) if self.rng.random() < share]
        if self.lab.case.scale > 1 and len(chosen) > most:
            chosen = self.rng.sample(chosen, most)
        return set(chosen)


class Watched(StateActor):
    """An actor that notices when it is run twice at once, before its mount or after its end.

    Its counter is read before and written after a stall, without any protection: two runners at
    once lose updates. `handled` counts with the same lack of care.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.count = 0
        self.inside = False
        self.starts = 0
        self.mounted = False
        self.stops = 0

    def pre_start(self) -> None:
        self.starts += 1
        self.lab.check(self.starts == 1, "hooks-once", f"{self!r} has started {self.starts} times")
        self.lab.check(not self.mounted, "hooks-once", "pre_start comes after after_mount")

    def after_mount(self) -> None:
        self.lab.check(self.starts == 1, "hooks-once", "after_mount comes without pre_start")
        self.lab.check(not self.mounted, "hooks-once", f"{self!r} was mounted twice")
        self.lab.check(self.count == 0, "mount-first", f"{self!r} handled mail before its mount")
        self.lab.stall()
        self.mounted = True

    def enter(self) -> None:
        """At the start of every handler."""
        if self.inside:
            self.lab.report("single-runner", f"two threads are inside {self!r}")
        if not self.mounted:
            self.lab.report("mount-first", f"{self!r} handles a message before it is mounted")
        if self.stops:
            self.lab.report("hooks-once", f"{self!r} handles a message after post_stop")
        self.inside = True
        seen = self.count
        self.lab.stall()
        self.count = seen + 1

    def leave(self) -> None:
        """At the end of every handler, and before it awaits anything."""
        if not self.inside:
            self.lab.report("single-runner", f"somebody else has left {self!r}")
        self.inside = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}@{id(self):x}"


class Ledger:
    """What came from whom: catches loss, doubles and disorder, each as soon as it shows."""

    def __init__(self, lab: Lab, whose: str) -> None:
        self._lab = lab
        self._whose = whose
        self.last: dict[Any, int] = {}
        self.total = 0

    def came(self, sender: Any, number: int, *, gaps: bool = False) -> None:
        """Message `number` (from 1 on) of a sender. With `gaps` some may be missing."""
        last = self.last.get(sender, 0)
        self.total += 1
        self.last[sender] = number
        if number == last + 1:
            return
        text = f"{self._whose}: message {number} of {sender} came after {last}"
        if number == last:
            self._lab.report("no-duplicate", text)
        elif number < last:
            self._lab.report("fifo", text)
        elif number > last + 1 and not gaps:
            self._lab.report("no-lost-message", text)


class Answers:
    """Futures of asks from outside, each with its number; any thread may add one.

    Whether all are done is asked often, so the ones that were done at the last look are skipped.
    """

    def __init__(self) -> None:
        self.items: list[tuple[int, Any]] = []
        self._done = 0

    def add(self, number: int, future: Any) -> None:
        self.items.append((number, future))

    def all_done(self) -> bool:
        while self._done < len(self.items) and self.items[self._done][1].done():
            self._done += 1
        return self._done == len(self.items)

    def __len__(self) -> int:
        return len(self.items)


def account(lab: Lab, what: str, sent: Iterable[Any], *places: Iterable[Any]) -> None:
    """Every message sent is in exactly one of the places, once."""
    expected = Counter(sent)
    found: Counter[Any] = Counter()
    for place in places:
        found.update(place)
    lost, more = expected - found, found - expected
    lab.check(not lost, "no-lost-message", f"{what}: nowhere: {sorted(lost)[:10]}")
    lab.check(not more, "no-duplicate", f"{what}: more than once: {sorted(more)[:10]}")
