"""The pool's rings against a sequential queue: linearizable, also when stolen from or growing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from stress.explorer.linear import PENDING, History
from stress.explorer.scenario import Scenario, scenario

State = tuple[tuple[str, ...], ...]  # what each ring holds, oldest first

CAPACITY = 2


def rings(state: State, name: str, args: tuple[Any, ...], result: Any) -> Iterator[State]:
    """Two bounded queues and a move of half of the first to the second, in one step each."""
    own, other = state
    if name == "push":
        if len(own) < CAPACITY:
            if result in (PENDING, len(own) + 1):
                yield ((*own, args[0]), other)
        elif result in (PENDING, 0):
            yield state
    elif name == "pop":
        if not own:
            if result in (PENDING, None):
                yield state
        elif result in (PENDING, own[0]):
            yield (own[1:], other)
    elif not own:
        if result in (PENDING, None):
            yield state
    elif result in (PENDING, own[0]):
        moved = min((len(own) + 1) // 2 - 1, CAPACITY - len(other))
        yield (own[1 + moved :], other + own[1 : 1 + moved])


def fifo(state: tuple[str, ...], name: str, args: tuple[Any, ...], result: Any) -> Iterator[Any]:
    """The global ring: a queue without an end."""
    if name == "push":
        yield (*state, args[0])
    elif not state:
        if result in (PENDING, None):
            yield state
    elif result in (PENDING, state[0]):
        yield state[1:]


@scenario("ring-linear")
class RingLinear(Scenario):
    """An owner pushes and pops at a full ring, a sibling steals half: it is linearizable."""

    runtime = ("otavia_ft.schedule.rings",)
    watch = ("rings.LocalRing._count", "rings.LocalRing._head")
    sizes: ClassVar = {"pushes": 1, "pops": 1}

    def setup(self) -> None:
        self.own, self.other = (self.rt.rings.LocalRing(i, CAPACITY) for i in range(2))
        self.history = History(self.world, 2)
        self.first = tuple(f"old{n}" for n in range(CAPACITY))
        for item in self.first:
            self.own.push(item)
        self.thread("owner", self.work)
        self.thread("thief", self.steal)

    def work(self) -> None:
        for n in range(self.pushes):
            self.history.do("push", self.own.push, f"new{n}")
        for _ in range(self.pops):
            self.history.do("pop", self.own.pop)

    def steal(self) -> None:
        self.history.do("steal", self.rt.rings.steal_half, self.own, self.other)

    def finish(self) -> None:
        self.history.check((self.first, ()), rings)


@scenario("global-ring-linear")
class GlobalRingLinear(Scenario):
    """Two threads push and pop at a ring that has to grow meanwhile: first in, first out."""

    runtime = ("otavia_ft.schedule.rings",)
    watch = ("rings.GlobalRing._count", "rings.GlobalRing._head", "rings.GlobalRing._slots")
    sizes: ClassVar = {"pushers": 2}

    def setup(self) -> None:
        self.ring = self.rt.rings.GlobalRing(2)
        self.history = History(self.world, self.pushers + 1)
        # Full, and its oldest in the second slot: to grow is also to turn.
        for item in ("gone", "old0"):
            self.ring.push(item)
        self.ring.pop()
        self.ring.push("old1")
        for i in range(self.pushers):
            self.thread(f"pusher{i}", self.push, i)
        self.thread("popper", self.pop)

    def push(self, i: int) -> None:
        self.history.do("push", self.ring.push, f"new{i}")

    def pop(self) -> None:
        for _ in range(2):
            self.history.do("pop", self.ring.pop)

    def finish(self) -> None:
        self.history.check(("old0", "old1"), fifo)
        left = []
        while (item := self.ring.pop()) is not None:
            left.append(item)
        assert len(left) == self.pushers, f"{left} are left"


@scenario("desk-full")
class DeskFull(Scenario):
    """A worker yields more than its ring has room for, a sibling takes: nothing is lost."""

    runtime = ("otavia_ft.schedule.rings",)

    def setup(self) -> None:
        self.queue = self.rt.rings.ReadyQueue(2, 1, 1, 2, lambda: None)
        self.taken: list[list[Any]] = [[], []]
        self.thread("worker0", self.work, 0, ("a", "b"), 2)
        self.thread("worker1", self.work, 1, (), 1)

    def work(self, i: int, items: tuple[str, ...], takes: int) -> None:
        desk = self.queue.desks[i]
        for item in items:
            desk.push(item)
        for _ in range(takes):
            self.taken[i].append(desk.take())

    def finish(self) -> None:
        got = [item for taken in self.taken for item in taken if item is not None]
        while (item := self.queue.pop_any()) is not None:
            got.append(item)
        assert sorted(got) == ["a", "b"], f"a and b were put in, {got} came out"
