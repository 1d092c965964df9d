"""What `system.statistics()` says, held against itself and against what the workload has counted.

Each counter is a plain integer of the thread that counts, so whoever reads from outside may be
late, but never sees one go down; and when all threads have ended nothing is left to be late.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

from stress.parallel.lab import Lab

__all__ = ["Reader", "judge"]

OF_A_THREAD = ("turns", "messages", "steals_taken", "steals_given", "parks", "wakeups")
OF_THE_SYSTEM = {"turns": "turns", "messages": "messages", "steals": "steals_taken"}


def figures(statistics: Any) -> Iterator[tuple[str, int]]:
    for name in OF_THE_SYSTEM:
        yield f"the system's {name}", getattr(statistics, name)
    for thread in statistics.threads:
        for name in OF_A_THREAD:
            yield f"{name} of thread {thread.index}", getattr(thread, name)


class Reader:
    """A thread that reads them again and again, also while the system stops."""

    def __init__(self, lab: Lab, system: Any) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=self._read, args=(lab, system), name="reader", daemon=True
        )
        self._thread.start()

    def _read(self, lab: Lab, system: Any) -> None:
        coin, last, over = random.Random(lab.case.seed), dict[str, int](), False
        while not over:
            over = self._over.wait(coin.choice((0.0001, 0.001, 0.003)))
            for name, now in figures(system.statistics()):
                before = last.get(name, 0)
                lab.check(now >= before, "statistics", f"{name} went down from {before} to {now}")
                last[name] = now

    def end(self) -> None:
        """After a last look."""
        self._over.set()
        self._thread.join()


def judge(lab: Lab, system: Any, handled: int) -> None:
    """After the stop. `handled`: how many messages have been, as far as the workload knows."""
    statistics = system.statistics()
    sums = {
        name: sum(getattr(thread, name) for thread in statistics.threads) for name in OF_A_THREAD
    }
    for name, part in OF_THE_SYSTEM.items():
        whole = getattr(statistics, name)
        text = f"{whole} {name} in all, but the threads have {sums[part]}"
        lab.check(whole == sums[part], "statistics", text)
    if any(thread.thread.is_alive() for thread in system.scheduler.threads):
        return  # left behind by a forced stop
    taken, given = sums["steals_taken"], sums["steals_given"]
    lab.check(taken == given, "statistics", f"{taken} steals were taken, {given} given")
    text = f"{handled} messages were handled, {statistics.messages} are counted"
    lab.check(statistics.messages >= handled, "statistics", text)
    if system.config.dispatcher == "pinned" and not system.config.stealing:
        # A thief that is woken between its flag and its last look has not slept, so without them.
        text = f"{sums['wakeups']} wake-ups, but {sums['parks']} sleeps"
        lab.check(sums["wakeups"] <= sums["parks"], "statistics", text)
