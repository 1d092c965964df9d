"""Small programs with planted bugs, and one without. Imported by the children of these tests."""

from typing import ClassVar

from stress.explorer import Scenario, scenario
from stress.explorer.cells import HouseCell, the_world
from stress.explorer.loading import load_runtime
from stress.explorer.scenario import scenarios


@scenario("planted-lost-update")
class LostUpdate(Scenario):
    """Threads that add one each by a load and a store."""

    sizes: ClassVar = {"threads": 3}
    least: ClassVar = {"threads": 2}

    def setup(self):
        self.number = self.doors.AtomicInt()
        for i in range(self.threads):
            self.thread(f"P{i}", self.add)

    def add(self):
        self.number.set(self.number.load() + 1)

    def finish(self):
        assert self.number.load() == self.threads, f"counted {self.number.load()}"


@scenario("planted-atomic-update")
class AtomicUpdate(LostUpdate):
    """The same, done right."""

    def add(self):
        self.number.get_and_add(1)


@scenario("planted-deadlock")
class Deadlock(Scenario):
    """Two locks, taken in both orders."""

    def setup(self):
        self.left, self.right = self.doors.SpinLock(), self.doors.SpinLock()
        self.thread("P0", self.both, self.left, self.right)
        self.thread("P1", self.both, self.right, self.left)

    def both(self, first, second):
        with first, second:
            pass


@scenario("planted-stubborn")
class Stubborn(Scenario):
    """Waits for a bell that nobody rings, and catches whatever ends the wait, as a worker does."""

    def setup(self):
        self.bell, self.last = self.doors.Bell(), self.doors.AtomicInt()
        self.thread("P0", self.wait)

    def wait(self):
        try:
            self.bell.wait()
        except BaseException:
            pass
        finally:
            self.last.get_and_add(1)


@scenario("planted-livelock")
class Livelock(Scenario):
    """Two threads spin until the other one moves."""

    def setup(self):
        self.flags = [self.doors.AtomicInt(), self.doors.AtomicInt()]
        self.thread("P0", self.spin, 0)
        self.thread("P1", self.spin, 1)

    def spin(self, me):
        while not self.flags[1 - me].load():
            self.doors.relax()
        self.flags[me].set(1)


@scenario("planted-endless")
class Endless(Scenario):
    """A loop that changes something in every round, and so never spins in place."""

    steps = 50

    def setup(self):
        self.number = self.doors.AtomicInt()
        self.thread("P0", self.loop)
        self.thread("P1", self.loop)

    def loop(self):
        while self.number.get_and_add(1) >= 0:
            pass


@scenario("planted-lost-wake-up")
class LostWakeUp(Scenario):
    """A sleeper that looks, announces itself and sleeps, without looking again."""

    def setup(self):
        self.work, self.asleep = self.doors.AtomicInt(), self.doors.AtomicInt()
        self.bell = self.doors.Bell()
        self.thread("sleeper", self.sleep, daemon=True)
        self.thread("waker", self.wake)

    def sleep(self):
        while self.work.load() == 0:
            self.asleep.set(1)
            self.bell.wait()
        self.work.set(0)

    def wake(self):
        self.work.set(1)
        if self.asleep.load():
            self.bell.ring()

    def work_left(self):
        return "the sleeper sleeps, and work waits" if self.work.load() else None


@scenario("planted-coin")
class Coin(Scenario):
    """Not deterministic: what the explorer cannot work with."""

    tosses = 0

    def setup(self):
        self.cell = self.doors.AtomicInt()
        Coin.tosses += 1
        self.thread("P0", self.add, Coin.tosses % 2)
        self.thread("P1", self.add, 1)

    def add(self, times):
        for _ in range(times):
            self.cell.get_and_add(1)


class LazyWaiting(HouseCell):
    """A house that stores WAITING lazily: its look at the mailboxes may overtake the store."""

    __slots__ = ()

    def run_to_waiting(self):
        self._leave()
        the_world().lazy_store(self._state, 2)
        return True


def lazy_runtime(name):
    """The runtime of a scenario, with that house."""
    return load_runtime(*scenarios()[name].runtime, changes={"HouseCell": LazyWaiting})
