"""Which thread a new actor lives on: atomic round robin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from otavia_ft.doors import AtomicInt

if TYPE_CHECKING:
    from otavia_ft.schedule.thread import ActorThread

__all__ = ["TilingThreadSelector"]


class TilingThreadSelector:
    """Lays actors over the threads like tiles, one after the other."""

    def __init__(self, threads: Sequence[ActorThread]) -> None:
        self._threads = tuple(threads)
        self._cursor = AtomicInt()

    def next(self) -> ActorThread:
        """The thread for one actor."""
        return self._threads[self._cursor.get_and_add(1) % len(self._threads)]

    def select(self, num: int = 1) -> list[ActorThread]:
        """The threads for `num` actors; one on each when `num` is their number."""
        n = len(self._threads)
        if num % n == 0:
            return list(self._threads) * (num // n)
        first = self._cursor.get_and_add(num)
        return [self._threads[(first + i) % n] for i in range(num)]
