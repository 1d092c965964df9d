"""Mazurkiewicz traces: what is left of a schedule when the order of independent steps is forgotten.

The yardstick of partial-order reduction: the reduced search has to visit every trace that the
search of all schedules visits. This computes traces from what the threads did, and shares no code
with `dpor.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from stress.explorer.engine import Runner
from stress.explorer.world import World

__all__ = ["Trace", "traces"]

# For each step: its process, and how many steps of each process come before it or are it.
Trace = tuple[tuple[int, tuple[int, ...]], ...]


class _Recorder:
    """A picker around another one, which remembers the steps."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.events: list[Any] = []

    def __getattr__(self, name: str) -> Any:  # stand_still and time_passed, if there are any
        return getattr(self.inner, name)

    def begin(self) -> None:
        self.inner.begin()
        self.events = []

    def pick(self, world: World, able: list[int]) -> int:
        self._note(world)
        return int(self.inner.pick(world, able))

    def end(self, world: World) -> bool:
        self._note(world)
        return bool(self.inner.end(world))

    def _note(self, world: World) -> None:
        if len(world.schedule) > len(self.events):
            self.events.append(world.event)


def traces(runner: Runner, make: Callable[[], Any], limit: int) -> Counter[Trace] | None:
    """How often a search visits each trace; None if it makes more than `limit` runs."""
    picker = _Recorder(make())
    found: Counter[Trace] = Counter()
    for _ in range(limit):
        picker.begin()
        world = runner.run(picker)
        more = picker.end(world)
        if not world.cut:
            found[_trace(picker.events, world)] += 1
        if not more:
            return found
    return None


def _trace(events: list[Any], world: World) -> Trace:
    n = len(world.threads)
    clocks = [[0] * world.processes for _ in range(world.processes)]
    stored: list[list[list[int]]] = [[] for _ in range(n)]
    written: dict[Any, list[int]] = {}
    read: dict[Any, list[list[int]]] = {}
    steps = []
    for process, _, word, writes, order in events:
        before = [clocks[process]]
        if process >= n:
            before.append(stored[process - n].pop(0))
        elif order == "drains":
            before.append(clocks[n + process])
        words = word if isinstance(word, tuple) else () if word is None else (word,)
        for each in words:
            if each.name in written:
                before.append(written[each.name])
            if writes:
                before += read.get(each.name, [])
        clock = [max(column) for column in zip(*before, strict=True)]
        clock[process] += 1
        clocks[process] = clock
        for each in words:
            if writes:
                written[each.name], read[each.name] = clock, []
            else:
                read.setdefault(each.name, []).append(clock)
        if order == "buffers":
            stored[process].append(clock)
        steps.append((process, tuple(clock)))
    return tuple(sorted(steps))
