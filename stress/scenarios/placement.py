"""Placement: the seats that are dealt to those who build at the same time."""

from __future__ import annotations

from typing import ClassVar

from stress.explorer.scenario import Scenario, scenario


@scenario("seats-dealt")
class SeatsDealt(Scenario):
    """One takes seats singly, one several at once: whoever is first, each seat gets its share."""

    runtime = ("otavia_ft.schedule.placement",)
    sizes: ClassVar = {"seats": 3, "singly": 2, "builders": 2}
    watch = ()

    def setup(self) -> None:
        self.selector = self.rt.placement.TilingThreadSelector(range(self.seats))
        self.got: list[int] = []
        for builder in range(self.builders):
            self.thread(f"B{builder}", self.one_by_one)
        self.thread("B", self.several)

    def one_by_one(self) -> None:
        for _ in range(self.singly):
            self.got.append(self.selector.next())

    def several(self) -> None:
        self.got += self.selector.select(self.seats)  # one on each, and nobody's turn
        self.got += self.selector.select(self.seats + 1)

    def finish(self) -> None:
        in_turn = self.builders * self.singly + self.seats + 1
        got = [self.got.count(seat) for seat in range(self.seats)]
        right = [1 + (in_turn + self.seats - 1 - seat) // self.seats for seat in range(self.seats)]
        assert got == right, f"the seats were dealt {got} times instead of {right}"
