"""The last events of every thread, for the report of a finding.

Each thread writes to a small ring of its own and stamps its events with the clock. One shared
counter would order them better, but it would also put a fence between any two steps of the runtime
and so hide the very bugs that are looked for.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable

__all__ = ["Events"]

Event = tuple[int, str, int, str]  # when, thread, house (0: none), what


class Events:
    """All rings of one case."""

    def __init__(self, length: int = 48) -> None:
        self._length = length
        self._rings: list[tuple[str, deque[tuple[int, int, str]]]] = []
        self._mine = threading.local()
        self._start = time.monotonic_ns()

    def note(self, house: int, what: str) -> None:
        try:
            ring = self._mine.ring
        except AttributeError:
            ring = self._mine.ring = deque(maxlen=self._length)
            self._rings.append((threading.current_thread().name, ring))
        ring.append((time.monotonic_ns() - self._start, house, what))

    def forget(self) -> None:
        """A new round: threads that have ended are of no interest any more."""
        for _, ring in list(self._rings):
            ring.clear()

    def last(self, houses: Iterable[int] = (), most: int = 30) -> list[Event]:
        """The latest events, of these houses (or of all if none is named), oldest first."""
        wanted = set(houses)
        found = [
            (when, name, house, what)
            for name, ring in list(self._rings)
            for when, house, what in list(ring)
            if not wanted or house in wanted
        ]
        return sorted(found)[-most:]

    def lines(self, houses: Iterable[int] = ()) -> list[str]:
        return [
            f"{when / 1e6:11.4f} ms  {name:<22} {f'#{house}' if house else '':<6} {what}"
            for when, name, house, what in self.last(houses)
        ]
