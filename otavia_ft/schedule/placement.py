"""Which thread a new actor lives on: atomic round robin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from otavia_ft.doors import AtomicInt

if TYPE_CHECKING:
    from otavia_ft.house.house import Scheduler

__all__ = ["TilingThreadSelector"]


class TilingThreadSelector:
    """Lays actors over the threads' seats like tiles, one after the other."""

    def __init__(self, seats: Sequence[Scheduler]) -> None:
        self._seats = tuple(seats)  # one a thread
        self._n = len(self._seats)
        self._cursor = AtomicInt()

    def next(self) -> Scheduler:
        """The seat for one actor."""
        return self._seats[self._cursor.get_and_add(1) % self._n]

    def peek(self, num: int = 1) -> Scheduler:
        """The first seat that `select` (or `next`) will probably give: another thread may come
        first."""
        return self._seats[0 if num % self._n == 0 else self._cursor.load() % self._n]

    def select(self, num: int = 1) -> list[Scheduler]:
        """The seats for `num` actors; one on each thread when `num` is their number."""
        n = self._n
        if num % n == 0:
            return list(self._seats) * (num // n)
        first = self._cursor.get_and_add(num)
        return [self._seats[(first + i) % n] for i in range(num)]
