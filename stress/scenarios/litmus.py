"""Litmus tests: programs of a few loads and stores whose outcomes tell memory models apart.

A program is a list of operations for each thread; its outcome is what each thread has read, and
what is in memory at the end. `program` makes a scenario of one, which is also how the explorer's
own tests state their random programs.

    store buffering (sb)     each writes its own cell, then reads the other's: both may read 0 only
                             with store buffers. It is the skeleton of every wake-up handshake.
    message passing (mp)     data, then a flag: never the flag without the data on x86
    load buffering (lb)      both read the other's later store: never on x86
    iriw                     two readers disagree about the order of two writes: never on x86
    2+2w                     two writers, two cells, each first write wins in the end: never on x86
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stress.explorer.scenario import Scenario, scenario

__all__ = ["ALLOWED", "LITMUS", "observed", "program"]

Operation = tuple[Any, ...]


class Program(Scenario):
    """Runs lists of operations; everything shared lies in atomic cells, so states are values."""

    code: Sequence[Sequence[Operation]] = ()
    allowed: tuple[set[Any], set[Any]] | None = None  # under both models, under TSO only
    key = "values"

    def setup(self) -> None:
        doors = self.doors
        used = {op[1] for lines in self.code for op in lines if op[0] != "choose"}
        make = {"l": doors.SpinLock, "b": doors.Bell, "k": doors.Condition}
        self.cells = {name: make.get(name[0], doors.AtomicInt)() for name in sorted(used)}
        self.results: list[list[Any]] = [[] for _ in self.code]
        for number, lines in enumerate(self.code):
            self.thread(f"P{number}", self._run, lines, self.results[number])

    def _run(self, lines: Sequence[Operation], results: list[Any]) -> None:
        for what, *args in lines:
            if what == "choose":
                results.append(self.doors.choose(args[0]))
                continue
            cell = self.cells[args[0]]
            match what, args[1:]:
                case "load", _:
                    results.append(cell.load())
                case "store", [value]:
                    cell.lazy_set(value)
                case "set", [value]:
                    cell.set(value)
                case "cas", [old, new]:
                    results.append(cell.compare_and_set(old, new))
                case "swap", [value]:
                    results.append(cell.get_and_set(value))
                case "add", [value]:
                    results.append(cell.get_and_add(value))
                case "until", [value]:
                    while cell.load() != value:
                        self.doors.relax()
                case "try", _:
                    if cell.try_lock():
                        results.append(True)
                        cell.unlock()
                    else:
                        results.append(False)
                case "await", _:
                    with cell:
                        results.append(cell.wait())
                case "notify", _:
                    with cell:
                        cell.notify()
                case (("lock" | "unlock" | "ring"), _):
                    getattr(cell, what)()
                case "wait", _:
                    results.append(cell.wait())
                case _:
                    raise ValueError(f"no operation {what!r}")

    def finish(self) -> None:
        if self.allowed is not None:
            both, tso = self.allowed
            got = observed(self.outcome())
            assert got in both or (self.world.tso and got in tso), f"outcome {got} is forbidden"

    def outcome(self) -> Any:
        memory = tuple((name, cell._word.value) for name, cell in self.cells.items())
        return tuple(map(tuple, self.results)), memory


def observed(outcome: Any) -> tuple[int, ...]:
    """What the threads have read, or what memory holds if none of them reads."""
    results, memory = outcome
    reads = tuple(value for thread in results for value in thread)
    return reads or tuple(value for _, value in memory)


def program(*code: Sequence[Operation], name: str = "program") -> type[Scenario]:
    """A scenario class that runs these threads."""
    return type("Program", (Program,), {"code": code, "name": name})


LITMUS = {
    "sb": [[("store", "x", 1), ("load", "y")], [("store", "y", 1), ("load", "x")]],
    "sb-fenced": [[("set", "x", 1), ("load", "y")], [("set", "y", 1), ("load", "x")]],
    "sb-half-fenced": [[("set", "x", 1), ("load", "y")], [("store", "y", 1), ("load", "x")]],
    "mp": [[("store", "x", 1), ("store", "y", 1)], [("load", "y"), ("load", "x")]],
    "lb": [[("load", "x"), ("store", "y", 1)], [("load", "y"), ("store", "x", 1)]],
    "iriw": [
        [("store", "x", 1)],
        [("store", "y", 1)],
        [("load", "x"), ("load", "y")],
        [("load", "y"), ("load", "x")],
    ],
    "2+2w": [[("store", "x", 1), ("store", "y", 2)], [("store", "y", 1), ("store", "x", 2)]],
}

# What the threads may have read (for 2+2w: what memory may hold) in each model. The first entry is
# sequential consistency, the second what TSO adds.
ALLOWED: dict[str, tuple[set[Any], set[Any]]] = {
    "sb": ({(0, 1), (1, 0), (1, 1)}, {(0, 0)}),
    "sb-fenced": ({(0, 1), (1, 0), (1, 1)}, set()),
    "sb-half-fenced": ({(0, 1), (1, 0), (1, 1)}, {(0, 0)}),
    "mp": ({(0, 0), (0, 1), (1, 1)}, set()),
    "lb": ({(0, 0), (0, 1), (1, 0)}, set()),
    "iriw": (
        {(a, b, c, d) for a in (0, 1) for b in (0, 1) for c in (0, 1) for d in (0, 1)}
        - {(1, 0, 1, 0)},
        set(),
    ),
    "2+2w": ({(1, 2), (2, 1), (2, 2)}, set()),
}

for _name, _code in LITMUS.items():
    _class = program(*_code)
    _class.allowed = ALLOWED[_name]  # type: ignore[attr-defined]
    _class.__qualname__ = f"Litmus-{_name}"
    _class.__doc__ = f"Litmus test {_name}."
    scenario(f"litmus-{_name}")(_class)
