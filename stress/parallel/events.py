"""The last events of every thread, for the report of a finding.

Each thread writes to a small ring of its own and stamps its events with the clock. One shared
counter would order them better, but it would also put a fence between any two steps of the runtime
and so hide the very bugs that are looked for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

__all__ = ["Events"]

Event = tuple[int, str, int, str]  # when, thread, house (0: none), what


class _Ring:
    """The last events of one thread, which alone writes; anybody may copy the slots meanwhile.

    (To walk along a deque that is written to raises, and so does its `copy`.)
    """

    __slots__ = ("name", "next", "slots")

    def __init__(self, name: str, length: int) -> None:
        self.name = name
        self.next = 0
        self.slots: list[tuple[int, int, str] | None] = [None] * length


class Events:
    """All rings of one case."""

    def __init__(self, length: int = 48) -> None:
        self._length = length
        self._rings: list[_Ring] = []
        self._mine = threading.local()
        self._start = time.monotonic_ns()

    def note(self, house: int, what: str) -> None:
        try:
            ring = self._mine.ring
        except AttributeError:
            ring = self._mine.ring = _Ring(threading.current_thread().name, self._length)
            self._rings.append(ring)
        ring.slots[ring.next] = (time.monotonic_ns() - self._start, house, what)
        ring.next = (ring.next + 1) % self._length

    def forget(self) -> None:
        """A new round: what was before it is of no interest any more, nor who has ended."""
        self._rings.clear()
        self._mine = threading.local()

    def last(self, houses: Iterable[int] = (), most: int = 30) -> list[Event]:
        """The latest events, of these houses (or of all if none is named), oldest first."""
        wanted = set(houses)
        found = [
            (event[0], ring.name, event[1], event[2])
            for ring in list(self._rings)
            for event in list(ring.slots)
            if event is not None and (not wanted or event[1] in wanted)
        ]
        return sorted(found)[-most:]

    def lines(self, houses: Iterable[int] = ()) -> list[str]:
        return [
            f"{when / 1e6:11.4f} ms  {name:<22} {f'#{house}' if house else '':<6} {what}"
            for when, name, house, what in self.last(houses)
        ]
