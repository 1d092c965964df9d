"""The spin lock. Elsewhere taking one is a single step; here its instructions are steps."""

from __future__ import annotations

from typing import ClassVar

from stress.explorer.scenario import Scenario, scenario


class _Counting(Scenario):
    """Base: threads that add one to a plain number, each under the lock."""

    sizes: ClassVar = {"threads": 3}
    watch = ()

    def setup(self) -> None:
        self.inside = self.doors.AtomicInt()  # tells overlap even if a number survives it
        self.number = self.doors.AtomicInt()
        self.make()
        for i in range(self.threads):
            self.thread(f"P{i}", self.add, i)

    def make(self) -> None:
        """Make the lock."""

    def lock(self, i: int) -> None:
        """Take it."""

    def unlock(self) -> None:
        """Give it up."""

    def add(self, i: int) -> None:
        self.lock(i)
        before = self.number.load()
        self.number.lazy_set(before + 1)
        self.unlock()

    def finish(self) -> None:
        number = self.number.load()
        assert number == self.threads, f"{self.threads} threads added one each, and got {number}"


@scenario("spin-lock")
class SpinLock(_Counting):
    """The spin lock's own instructions: look, compare-and-set, pause, lazy unlock."""

    # What `otv_try_lock`, `otv_spin_lock` and `otv_unlock` do, word by word. The C code itself is
    # checked by the sanitizers; this checks that the algorithm is right under TSO as well.

    def make(self) -> None:
        self.holder = self.doors.AtomicInt()

    def lock(self, i: int) -> None:
        while not (self.holder.load() == 0 and self.holder.compare_and_set(0, i + 1)):
            self.doors.relax()

    def unlock(self) -> None:
        self.holder.lazy_set(0)


@scenario("spin-lock-door")
class SpinLockDoor(_Counting):
    """The same three threads with the door's SpinLock: one takes it without waiting, if it can."""

    def make(self) -> None:
        self.door = self.doors.SpinLock()

    def lock(self, i: int) -> None:
        if i == 0 and self.door.try_lock():
            return
        self.door.lock()

    def unlock(self) -> None:
        self.door.unlock()
