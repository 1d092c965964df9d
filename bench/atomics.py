"""What an atomic operation costs, alone and with a second thread beside it.

Each operation stands twenty times in the body of a generated loop, so that the loop itself costs
next to nothing; the row "an empty loop" says how much. In the two-thread runs every thread has a
cell of its own, made by itself: what then slows them down is something that they share without
being asked, such as the reference count of a method.

Two bars are checked:
  1. two threads together do at least 1.8 times the work of one, for every hot operation;
  2. a transition of a house costs at most 1.3 times the cheapest method that C can offer, one that
     takes nothing, does nothing and returns None.

Beside the two threads stand two processes that run the same loop and share nothing at all. They
are the control: what they do not reach either, the machine does not give (it is busy, or its two
cores are halves of one). The last column compares the threads with them.

The "get_and_add" rows below have no bar. Cells that one thread makes one after another may lie in
one cache line, and then two threads fight for it although neither touches the other's cell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import (
    Strangers,
    alternate,
    arguments,
    finish,
    median,
    ratio,
    serve,
    table,
    two_threads,
    verdict,
)

import _atomics
from otavia_ft.atomic import AtomicInt, HouseCell, SpinLock

TWICE, TRANSITION = 1.8, 1.3  # the two bars
UNROLLED, CELLS = 20, 40

Run = Callable[[int, Callable[[], object]], float]

SCOPE = {
    "AtomicInt": AtomicInt,
    "HouseCell": HouseCell,
    "SpinLock": SpinLock,
    "Yardstick": _atomics.face["Yardstick"],
    "clock": perf_counter,
    "lib": _atomics.lib,
    "new": _atomics.ffi.new,
}

# name: how to make `c`, the statement, and how many operations it is
WAITING_HOUSE = "c = HouseCell(); c.begin_mount(); c.end_mount()"
PLAIN_CELL = "c = new('otv_cell *'); f = lib."
OPERATIONS = {
    "nothing (yardstick)": ("c = Yardstick()", "c.nothing()", 1),
    "AtomicInt.load": ("c = AtomicInt()", "c.load()", 1),
    "AtomicInt.set": ("c = AtomicInt()", "c.set(1)", 1),
    "AtomicInt.lazy_set": ("c = AtomicInt()", "c.lazy_set(1)", 1),
    "AtomicInt.compare_and_set": ("c = AtomicInt()", "c.compare_and_set(0, 0)", 1),
    "AtomicInt.get_and_set": ("c = AtomicInt()", "c.get_and_set(1)", 1),
    "AtomicInt.get_and_add": ("c = AtomicInt()", "c.get_and_add(1)", 1),
    "SpinLock lock + unlock": ("c = SpinLock()", "c.lock(); c.unlock()", 1),
    "SpinLock try_lock + unlock": ("c = SpinLock()", "c.try_lock(); c.unlock()", 1),
    "HouseCell, one transition": (
        WAITING_HOUSE, "c.try_ready(); c.try_schedule(); c.try_run(); c.run_to_waiting()", 4,
    ),
    "HouseCell post + take": (WAITING_HOUSE, "c.post_notice(None); c.take(4, 0)", 1),
    "cffi cell_load": (PLAIN_CELL + "cell_load", "f(c)", 1),
    "cffi cell_set": (PLAIN_CELL + "cell_set", "f(c, 1)", 1),
    "cffi cell_lazy_set": (PLAIN_CELL + "cell_lazy_set", "f(c, 1)", 1),
    "cffi cell_compare_and_set": (PLAIN_CELL + "cell_compare_and_set", "f(c, 0, 0)", 1),
    "cffi cell_get_and_set": (PLAIN_CELL + "cell_get_and_set", "f(c, 1)", 1),
    "cffi cell_get_and_add": (PLAIN_CELL + "cell_get_and_add", "f(c, 1)", 1),
}  # fmt: skip
TURN = (
    "try_ready", "try_schedule", "try_run", "run_to_ready",
    "try_schedule", "try_run", "run_to_waiting",
)  # fmt: skip


def compiled(source: str) -> Run:
    """A new function, so that the threads of a run share not even that."""
    scope = dict(SCOPE)
    exec(source, scope)
    run: Run = scope["run"]  # type: ignore[assignment]
    return run


def loop(setup: str, statement: str) -> Run:
    """run(n, start): n x UNROLLED times the statement; returns the seconds that took."""
    body = "\n".join(f"        {statement}" for _ in range(UNROLLED))
    return compiled(
        f"def run(n, start):\n    {setup}\n    start()\n    began = clock()\n"
        f"    for _ in range(n):\n{body}\n    return clock() - began\n"
    )


def one(setup: str, statement: str, operations: int, n: int) -> Callable[[], float]:
    """A contender: nanoseconds an operation in one thread."""
    run = loop(setup, statement)
    return lambda: run(n, lambda: None) * 1e9 / (n * UNROLLED * operations)


def two(setup: str, statement: str, operations: int, n: int) -> Callable[[], float]:
    """A contender: nanoseconds an operation in each of two threads, by the slower one's clock."""
    runs = [loop(setup, statement) for _ in range(2)]
    return lambda: (
        two_threads(lambda number, start: runs[number](n, start))
        * 1e9 / (n * UNROLLED * operations)
    )  # fmt: skip


def apart(strangers: Strangers, name: str, n: int) -> Callable[[], float]:
    """A contender: as `two`, but in two processes."""
    _, _, operations = OPERATIONS[name]
    return lambda: strangers.both(f"{n} {name}") * 1e9 / (n * UNROLLED * operations)


def stranger() -> None:
    """What a child process does for `apart`."""
    runs = {name: loop(setup, statement) for name, (setup, statement, _) in OPERATIONS.items()}

    def work(order: str, start: Callable[[], object]) -> None:
        n, _, name = order.partition(" ")
        runs[name](int(n), start)

    serve(work)


def neighbours(gap: int, n: int) -> Callable[[], float]:
    """A contender: as `two` for get_and_add, on cells made by one thread `gap` cells apart."""
    cells = [AtomicInt() for _ in range(gap + 1)]
    runs = [loop("c = start.cell", "c.get_and_add(1)") for _ in range(2)]

    class Start:
        def __init__(self, number: int, start: Callable[[], object]) -> None:
            self.cell, self.start = cells[number * gap], start

        def __call__(self) -> None:
            self.start()

    return lambda: (
        two_threads(lambda number, start: runs[number](n, Start(number, start)))
        * 1e9 / (n * UNROLLED)
    )  # fmt: skip


def single_call(steps: tuple[str, ...], timed: int, make: str, n: int) -> Callable[[], float]:
    """A contender: nanoseconds of step number `timed` alone.

    A transition cannot be repeated on one house, so every step is done on CELLS of them before the
    next step is, and the clock is read around one of the steps only.
    """
    names = [f"c{i}" for i in range(CELLS)]
    lines = ["def run(n, start):", f"    {', '.join(names)} = [{make} for _ in range({CELLS})]"]
    if "HouseCell" in make:
        lines += [f"    {name}.begin_mount(); {name}.end_mount()" for name in names]
    lines += ["    spent = 0.0", "    for _ in range(n):"]
    for number, step in enumerate(steps):
        calls = [f"        {name}.{step}()" for name in names]
        if number == timed:
            calls = ["        began = clock()", *calls, "        spent += clock() - began"]
        lines += calls
    run = compiled("\n".join([*lines, "    return spent"]))
    return lambda: run(n, lambda: None) * 1e9 / (n * CELLS)


def main() -> None:
    options = arguments("What an atomic operation costs, in one thread and in two.", rounds=15)
    n = 1000 if options.quick else 8000
    near = {"get_and_add, next cell": 1, "get_and_add, 16 cells on": 16}
    with Strangers(__file__) as strangers:
        contenders = {"an empty loop, 1": one("pass", "pass", 1, n)}
        for name, (setup, statement, operations) in OPERATIONS.items():
            work = max(1, n // operations)
            contenders[f"{name}, 1"] = one(setup, statement, operations, work)
            contenders[f"{name}, 2"] = two(setup, statement, operations, work)
            contenders[f"{name}, processes"] = apart(strangers, name, work)
        for name, gap in near.items():
            contenders[f"{name}, 2"] = neighbours(gap, n)
        calls = n // 4
        contenders["call: nothing"] = single_call(("nothing",), 0, "Yardstick()", calls)
        for step in dict.fromkeys(TURN):
            timed = TURN.index(step)
            contenders[f"call: {step}"] = single_call(TURN, timed, "HouseCell()", calls // 4)
        figures = alternate(contenders, options.rounds)

    rows, scaling, control, against = [], {}, {}, {}
    for name in OPERATIONS:
        alone, beside = figures[f"{name}, 1"], figures[f"{name}, 2"]
        strange = figures[f"{name}, processes"]
        scaling[name], control[name] = 2 * ratio(alone, beside), 2 * ratio(alone, strange)
        against[name] = ratio(strange, beside)
        rows.append(
            [name, f"{median(alone):.0f}", f"{median(beside):.0f}", f"{median(strange):.0f}",
             f"{scaling[name]:.2f}", f"{control[name]:.2f}", f"{against[name]:.2f}"]
        )  # fmt: skip
    for name in near:
        alone, beside = figures["AtomicInt.get_and_add, 1"], figures[f"{name}, 2"]
        together = f"{2 * ratio(alone, beside):.2f}"
        rows.append([name, "", f"{median(beside):.0f}", "", together, "", ""])
    rows.append(["an empty loop", f"{median(figures['an empty loop, 1']):.0f}", *[""] * 5])
    table(
        "Nanoseconds an operation; then, how many times one thread's work",
        ["operation", "1", "2 thr", "2 proc", "thr", "proc", "thr/proc"],
        rows,
    )

    cost = {
        step: ratio(figures[f"call: {step}"], figures["call: nothing"])
        for step in dict.fromkeys(("nothing", *TURN))
    }
    table(
        "One call, and how many times the cheapest one",
        ["method", "ns", "times"],
        [[s, f"{median(figures[f'call: {s}']):.1f}", f"{times:.2f}"] for s, times in cost.items()],
    )
    worst = min(scaling, key=scaling.__getitem__)
    verdict(
        f"two threads do at least {TWICE} times the work of one "
        f"(worst: {scaling[worst]:.2f}, {worst}; there two processes do {control[worst]:.2f})",
        scaling[worst] >= TWICE,
    )
    dearest = max(cost, key=cost.__getitem__)
    verdict(
        f"a transition costs at most {TRANSITION} times the cheapest call "
        f"(worst: {cost[dearest]:.2f}, {dearest})",
        cost[dearest] <= TRANSITION,
    )
    finish(options, figures)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        stranger()
    else:
        main()
