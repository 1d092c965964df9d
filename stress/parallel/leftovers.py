"""What a round has left behind: threads, descriptors, and objects of the runtime.

Objects are counted by type, with the collector's list of all it knows: every type of the runtime,
of the workloads, and what stands for work that is under way (coroutines, futures). That finds a
stack, a promise, an envelope, a timer or an address that somebody still holds, without a word in
the product's code. Not on the collector's list are atomic cells, which hold no references, and
messages without a field.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections import Counter
from concurrent.futures import Future
from types import AsyncGeneratorType, CoroutineType

from stress.parallel.lab import Lab

__all__ = ["Leftovers"]

OURS = ("otavia_ft", "_otavia_ft", "stress.parallel.workloads")
UNDER_WAY = (CoroutineType, AsyncGeneratorType, Future)
# Made once for a class of actors, a process or a case, and kept on purpose.
KEPT = frozenset({"Plan", "Handlers"})


class Leftovers:
    """What is there before the first round; `look` finds what has come since, and stays."""

    def __init__(self, lab: Lab, patience_s: float = 5.0) -> None:
        self._lab = lab
        self._patience_s = patience_s
        self._threads = set(threading.enumerate())
        self._files = _open_files()
        gc.collect()
        self._objects = _count()

    def look(self) -> None:
        """After the stop, with the last reference of the harness dropped."""
        lab, deadline, pause = self._lab, time.monotonic() + self._patience_s, 0.001
        while True:
            gc.collect()
            threads = [t.name for t in threading.enumerate() if t not in self._threads]
            files = _open_files() - self._files
            objects = _count() - self._objects
            if not (threads or files or objects) or time.monotonic() > deadline:
                break
            time.sleep(pause)  # a thread that has said it is done still has to unwind
            pause = min(2 * pause, 0.1)
        lab.check(not threads, "nothing-left", f"threads after the stop: {threads}")
        lab.check(not files, "nothing-left", f"open files after the stop: {files}")
        text = ", ".join(f"{many} {kind}" for kind, many in objects.most_common())
        names = [house.name for house in lab.living_houses()[:10]]
        lab.check(not objects, "nothing-left", f"after the stop there still are: {text} {names}")


def _count() -> Counter[str]:
    """How many objects of each type of interest there are."""
    found: Counter[str] = Counter()
    for kind, many in Counter(map(type, gc.get_objects())).items():
        if kind.__module__.startswith(OURS) or kind in UNDER_WAY:
            found[kind.__name__] += many
    for name in KEPT:
        found.pop(name, None)
    return found


def _open_files() -> set[str]:
    """Descriptors and what they stand for; the one that reads the folder is gone by then."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except OSError:
            pass
    return found
