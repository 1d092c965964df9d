"""Falling asleep against being woken: the parker's flag, the bell, and one thing to look at."""

from __future__ import annotations

from typing import ClassVar

from stress.explorer.scenario import Scenario, scenario


@scenario("park-wake")
class ParkWake(Scenario):
    """Wakers put work and wake; the sleeper looks, sleeps, and must not sleep with work there."""

    runtime = ("otavia_ft.parking",)
    sizes: ClassVar = {"wakers": 2}
    watch = ("parking.Parker",)

    def setup(self) -> None:
        self.bell = self.doors.Bell()
        self.parker = self.rt.parking.Parker(self.bell)
        self.work = [self.doors.AtomicInt() for _ in range(self.wakers)]
        self.done = 0
        self.rung = [0] * self.wakers
        self.thread("sleeper", self.sleep, daemon=True)
        for i in range(self.wakers):
            self.thread(f"waker{i}", self.wake, i)

    def sleep(self) -> None:
        while True:
            self.parker.start_looking()
            found = [work for work in self.work if work.load()]
            for work in found:
                work.set(0)
                self.done += 1
            if not found and self.parker.fall_asleep():
                self.bell.wait()

    def wake(self, i: int) -> None:
        # As a queue does it: its size is a lazy set, and the parker's exchange makes it visible.
        self.work[i].lazy_set(1)
        self.rung[i] = self.parker.wake()

    def work_left(self) -> str | None:
        left = [f"work{i}" for i, work in enumerate(self.work) if work.load()]
        return f"the sleeper sleeps, and {', '.join(left)} waits" if left else None

    def finish(self) -> None:
        assert self.done == self.wakers, f"{self.wakers} things to do, {self.done} done"
