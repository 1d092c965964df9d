"""Linearizability: can the operations be put into one order that a sequential model explains?

`History.do(name, function, *args)` performs an operation and remembers it, with its result and with
the operations that had returned before it was called. That order matters, so it has to be explored,
and it has to survive partial-order reduction. Each thread therefore publishes how many operations
it has finished, in a word of its own, and a call is one step that reads the words of all others.
Calls commute with calls and returns with returns, which is just the freedom that the definition
leaves.

The published number is a lazy store. Under TSO it leaves the store buffer after the operation's own
stores, so "A returned before B was called" means that what A wrote had reached the memory.

The check is that of Wing and Gong with Lowe's memory of (operations placed, state) pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stress.explorer.world import Violation, Word, World

__all__ = ["PENDING", "History", "Operation", "linearizable"]

PENDING = object()  # the result of an operation that has not returned

# From a state, by an operation's name, arguments and result, to the states it may lead to.
Model = Callable[[Any, str, tuple[Any, ...], Any], Iterable[Hashable]]


@dataclass(slots=True)
class Operation:
    thread: int
    number: int  # among those of its thread
    name: str
    args: tuple[Any, ...]
    after: tuple[int, ...]  # how many operations of each thread had returned before
    result: Any = PENDING

    def __str__(self) -> str:
        result = "has not returned" if self.result is PENDING else f"= {self.result!r}"
        return f"{self.name}({', '.join(map(repr, self.args))}) {result}"


@dataclass
class History:
    """The operations of one run. `threads` is how many threads the scenario has."""

    world: World
    threads: int
    operations: list[Operation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._returned = [Word(0, f"returned{t}", self.world) for t in range(self.threads)]
        for word in self._returned:
            word.quiet = False  # read several at a time, which quiet words cannot be
        self._called = [0] * self.threads

    def do(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Perform `function(*args)` as an operation of the running thread."""
        world = self.world
        t = world.running
        assert t is not None, "operations belong to threads"
        own = self._returned[t.tid]
        world.look(tuple(w for w in self._returned if w is not own), f"call {name}")
        after = [word.value for word in self._returned]
        after[t.tid] = number = self._called[t.tid]
        self._called[t.tid] = number + 1
        operation = Operation(t.tid, number, name, args, tuple(after))
        self.operations.append(operation)
        operation.result = function(*args)
        world.lazy_store(own, number + 1, "return: finished")
        return operation.result

    def check(self, initial: Hashable, model: Model) -> None:
        """Raise a Violation if no order of the operations explains their results."""
        if linearizable(self.operations, initial, model):
            return
        names = [t.name for t in self.world.threads]
        told = "; ".join(f"{names[op.thread]}: {op}" for op in self.operations)
        raise Violation("not linearizable", f"no order of these explains the results: {told}")


def linearizable(operations: Sequence[Operation], initial: Hashable, model: Model) -> bool:
    """Whether some order, which keeps what returned before what was called later, fits the model.

    An operation that has not returned may have taken effect or not.
    """
    before = [
        sum(
            1 << i
            for i, other in enumerate(operations)
            if other is not op and op.after[other.thread] > other.number
        )
        for op in operations
    ]
    must = sum(1 << i for i, op in enumerate(operations) if op.result is not PENDING)
    seen: set[tuple[int, Hashable]] = set()
    open_ = [(0, initial)]
    while open_:
        placed, state = entry = open_.pop()
        if placed & must == must:
            return True
        if entry in seen:
            continue
        seen.add(entry)
        for i, op in enumerate(operations):
            if not placed >> i & 1 and before[i] & placed == before[i]:
                for following in model(state, op.name, op.args, op.result):
                    open_.append((placed | 1 << i, following))
    return False
