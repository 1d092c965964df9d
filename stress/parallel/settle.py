"""When is a round over? Either all has happened that must happen, or nothing can happen any more.

Nothing can happen when all workers and the timer's thread sleep, the senders are gone, and no timer
is pending that fires once. A periodic timer does not count: it comes for ever (the workers' pools
have one each), so a round that waited for it would never end, and what it does at its next firing
it has done at the last.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from stress.parallel.houses import describe, waits
from stress.parallel.lab import Lab

__all__ = ["one_shots", "settle"]

LOOKS = 40  # a look is no snapshot: one thread may call another while a third is looked at


def settle(lab: Lab, finished: Callable[[], bool]) -> None:
    """Wait until `finished`, or until nothing can happen any more, and judge which mail is left.

    A house for which something waits while everybody sleeps has lost its wake-up. It is enough that
    one house looks the same at many such looks, whatever timers keep the others busy.
    """
    system, pause, resting, last = lab.system, 0.0002, 0, None
    done_since = None
    stuck: dict[Any, int] = {}  # a house as it looks, and at how many looks it did
    while not lab.findings:
        done, asleep, now = finished(), _asleep(system), lab.progress()
        left = [house for house in lab.living_houses() if waits(house)] if asleep else []
        if asleep:
            stuck = {line: stuck.get(line, 0) + 1 for line in map(describe, left)}
        resting = resting + 1 if asleep and not one_shots(system.timer) else 0
        if left and max(resting, *stuck.values()) >= LOOKS:
            _report(lab, left)
        if resting >= LOOKS or (done and resting >= 2 and now == last and not left):
            break
        done_since = None if not done else done_since or time.monotonic()
        if done_since is not None and time.monotonic() - done_since > lab.case.patience_s:
            text = "all has happened that must happen, but the system does not come to rest"
            lab.report("no-lost-wake-up", text)
        last = now
        time.sleep(pause)
        pause = min(pause * 1.5, 0.01)


def one_shots(timer: Any) -> int:
    """How many pending timers fire once. One that is firing right now may be among them."""
    waiting = [task for bucket in list(timer._buckets.values()) for task in list(bucket)]
    return len(timer) - sum(task.period is not None for task in waiting)


def _asleep(system: Any) -> bool:
    """Each has set its flag, and nobody has called it since."""
    parkers = [thread.parker for thread in system.scheduler.threads]
    return all(parker.asleep for parker in [*parkers, system._timer_thread._parker])


def _report(lab: Lab, left: list[Any]) -> None:
    lab.report(
        "no-lost-wake-up",
        f"all threads sleep, but {len(left)} houses have mail or wait in a queue: "
        + ", ".join(describe(house) for house in left[:5]),
        [house.id for house in left],
    )
