"""House queues: the list under its spin lock, an owner, producers, and thieves that never wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from stress.explorer.linear import PENDING, History
from stress.explorer.scenario import Scenario, scenario


class Item:
    """What a queue needs of a house."""

    __slots__ = ("high_priority", "name", "next_house")

    def __init__(self, name: str) -> None:
        self.name = name
        self.high_priority = False
        self.next_house: Any = None

    def __repr__(self) -> str:
        return self.name


def fifo(state: tuple[Any, ...], name: str, args: tuple[Any, ...], result: Any) -> Iterator[Any]:
    """The sequential queue: a thief may always come back with nothing, but not with the last."""
    if name == "append":
        yield (*state, args[0])
    elif result is None:
        if name == "steal" or not state:
            yield state
    elif state and (result is PENDING or state[0] is result) and (name == "pop" or len(state) > 1):
        yield state[1:]


class QueueScenario(Scenario):
    """Base: a list of houses, a history, and the rule that nothing is lost or doubled."""

    runtime = ("otavia_ft.schedule.queues",)
    watch = ("queues.HouseList",)

    def begin(self, threads: int, items: int) -> None:
        self.queue = self.rt.queues.HouseList()
        self.history = History(self.world, threads)
        self.items = [Item(f"h{i}") for i in range(items)]

    def append(self, item: Item) -> None:
        self.history.do("append", self.queue.append, item)

    def pop(self, times: int) -> None:
        for _ in range(times):
            self.history.do("pop", self.queue.pop)

    def steal(self) -> None:
        self.history.do("steal", self.queue.try_steal)

    def finish(self) -> None:
        out = [op.result for op in self.history.operations if op.name != "append" and op.result]
        left = []
        while (item := self.queue.pop()) is not None:
            left.append(item)
            assert len(left) <= len(self.items), "the list has become a ring"
        got = sorted(map(repr, out + left))
        assert got == sorted(map(repr, self.items)), f"put {self.items}, taken {out}, left {left}"
        assert len(self.queue) == 0, f"an empty list says that it holds {len(self.queue)}"


@scenario("two-thieves")
class TwoThieves(QueueScenario):
    """Two thieves and the owner on a queue of two: nothing lost or doubled, no last one stolen."""

    sizes: ClassVar = {"thieves": 2, "items": 2}
    least: ClassVar = {"items": 2}

    def setup(self) -> None:
        count = self.items
        self.begin(self.thieves + 1, count)
        for item in self.items:
            self.queue.append(item)
        self.thread("owner", self.pop, count)
        for i in range(self.thieves):
            self.thread(f"thief{i}", self.steal)

    def finish(self) -> None:
        self.history.check(tuple(self.items), fifo)
        super().finish()


@scenario("queue-linear")
class QueueLinear(QueueScenario):
    """A producer, the owner and a thief: the queue is linearizable as a first-in-first-out list."""

    sizes: ClassVar = {"puts": 2, "takes": 1}

    def setup(self) -> None:
        self.begin(3, 1 + self.puts)
        self.queue.append(self.items[0])
        self.thread("producer", self.produce)
        self.thread("owner", self.pop, self.takes)
        self.thread("thief", self.steal)

    def produce(self) -> None:
        for item in self.items[1:]:
            self.append(item)

    def finish(self) -> None:
        self.history.check((self.items[0],), fifo)
        super().finish()
