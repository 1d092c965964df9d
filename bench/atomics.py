"""What an atomic operation costs, alone and with a second thread beside it.

Each operation stands twenty times in the body of a generated loop, so that the loop itself costs
next to nothing; the row "an empty loop" says how much. In the two-thread runs every thread has a
cell of its own, made by itself: what then slows them down is something that they share without
being asked, such as the reference count of a method.

Each thread keeps its own time, and the two rates are added: n/t1 + n/t2. With one clock for both, a
thread that another program held up for a while would count twice. The threads stay on one core
each where the system lets them. The columns "cpu" count only the time on a core: where they are
far below those beside them, the machine was busy with something else.

Two bars are checked:
  1. two threads together do at least 1.8 times the work of one, for every hot operation;
  2. a transition of a house costs at most 1.3 times the cheapest method that C can offer, one that
     takes nothing, does nothing and returns None.
A row that misses its bar is measured a second time. Both are shown, and the better one counts:
there are so many rows that noise alone lets one of them miss.

Beside the two threads stand two processes that run the same loop and share nothing at all. They
are the control: what they do not reach either, the machine does not give (it is busy, or its two
cores are halves of one). The column "thr/proc" compares the threads with them.

The rows "get_and_add, one line" and "far apart" have no bar. Cells that one thread makes may lie in
one cache line, and then two threads fight for it although neither touches the other's cell. The
pairs are made by another thread than those that use them, and chosen by their addresses; one thread
on such a cell is what they are compared with.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, thread_time

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
LONG, SHORT = 0.045, 0.004  # seconds of one run; the short ones are to see it run
LINE = 64  # bytes of a cache line

# run(n, start): the seconds that passed, and those that the thread was on a core
Run = Callable[[int, Callable[[], object]], tuple[float, float]]

SCOPE = {
    "AtomicInt": AtomicInt,
    "HouseCell": HouseCell,
    "SpinLock": SpinLock,
    "Yardstick": _atomics.face["Yardstick"],
    "clock": perf_counter,
    "busy": thread_time,
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
    """run(n, start): n x UNROLLED times the statement."""
    body = "\n".join(f"        {statement}" for _ in range(UNROLLED))
    return compiled(
        f"def run(n, start):\n    {setup}\n    start()\n    began, worked = clock(), busy()\n"
        f"    for _ in range(n):\n{body}\n    return clock() - began, busy() - worked\n"
    )


def two_cores() -> list[int]:
    """Two that are not halves of one, as far as the system says; none where there is no pinning."""
    if not hasattr(os, "sched_setaffinity"):
        return []
    first, *others = sorted(os.sched_getaffinity(0))
    try:
        place = Path(f"/sys/devices/system/cpu/cpu{first}/topology/core_cpus_list")
        halves = {int(core) for core in place.read_text().replace("-", ",").split(",")}
    except (OSError, ValueError):
        halves = set()
    others.sort(key=lambda core: core in halves)
    return [first, others[0]] if others else []


ALL_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
CORES = two_cores()


def pin(number: int, process: int = 0) -> None:
    """Keep this thread, or another process, on a core of its own."""
    if CORES:
        os.sched_setaffinity(process, {CORES[number]})


def let_go() -> None:
    if CORES:
        os.sched_setaffinity(0, ALL_CORES)


cpu: defaultdict[str, list[float]] = defaultdict(list)  # nanoseconds on a core, by contender


def each(times: list[float]) -> float:
    """What each of them takes if they do together what these do: half of n/t1 + n/t2, inverted."""
    return len(times) / sum(1 / time for time in times)


def one(name: str, setup: str, statement: str, count: int, n: int, given: object = None) -> float:
    """Nanoseconds an operation in one thread."""
    run = loop(setup, statement)
    start = Start(given, lambda: None)
    times: list[tuple[float, float]] = []

    def alone() -> None:
        pin(0)
        times.append(run(n, start))

    thread = threading.Thread(target=alone)
    thread.start()
    thread.join()
    [(wall, busy)] = times
    cpu[name].append(busy * 1e9 / (n * UNROLLED * count))
    return wall * 1e9 / (n * UNROLLED * count)


def two(
    name: str, setup: str, statement: str, count: int, n: int, given: tuple[object, ...] = (0, 0)
) -> float:
    """Nanoseconds an operation in each of two threads."""
    runs = [loop(setup, statement) for _ in range(2)]
    times: list[tuple[float, float]] = []

    def work(number: int, start: Callable[[], object]) -> None:
        pin(number)
        times.append(runs[number](n, Start(given[number], start)))

    two_threads(work)
    walls, busy = zip(*times, strict=True)
    cpu[name].append(each(list(busy)) * 1e9 / (n * UNROLLED * count))
    return each(list(walls)) * 1e9 / (n * UNROLLED * count)


class Start:
    """What a run calls to start, with what it was given on the way: its cell, or nothing."""

    def __init__(self, cell: object, start: Callable[[], object]) -> None:
        self.cell, self.start = cell, start

    def __call__(self) -> None:
        self.start()


class Apart(Strangers):
    """Two processes, measured as two threads are: each on a core of its own, and rates added."""

    def __enter__(self) -> Apart:
        super().__enter__()
        for number, child in enumerate(self._children):
            pin(number, child.pid)
        return self

    def both(self, order: str) -> float:
        for child in self._children:
            self._tell(child, order)
        for child in self._children:
            self._hear(child)  # it has prepared its work and waits for the hour
        hour = perf_counter() + 0.002
        for child in self._children:
            self._tell(child, repr(hour))
        return each([float(self._hear(child)) for child in self._children])


def apart(strangers: Strangers, name: str, n: int) -> float:
    """Nanoseconds an operation in each of two processes."""
    return strangers.both(f"{n} {name}") * 1e9 / (n * UNROLLED * OPERATIONS[name][2])


def stranger() -> None:
    """What a child process does for `apart`."""
    runs = {name: loop(setup, statement) for name, (setup, statement, _) in OPERATIONS.items()}

    def work(order: str, start: Callable[[], object]) -> None:
        n, _, name = order.partition(" ")
        runs[name](int(n), start)

    serve(work)


def pairs() -> dict[str, tuple[AtomicInt, AtomicInt]]:
    """Two cells of this thread that share a cache line, and two that are far from each other."""
    cells = sorted((AtomicInt() for _ in range(200)), key=id)
    lines = [(id(cell) + object.__basicsize__) // LINE for cell in cells]
    found = {"get_and_add, far apart": (cells[0], cells[-1])} if lines[-1] - lines[0] >= 4 else {}
    for place in range(1, len(cells)):
        if lines[place] == lines[place - 1]:
            return {"get_and_add, one line": (cells[place - 1], cells[place]), **found}
    return found


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


Contenders = dict[str, Callable[[], float]]
YARDSTICK = "call: nothing"


def in_turns(contenders: Contenders, rounds: int) -> dict[str, list[float]]:
    cpu.clear()
    return alternate(contenders, rounds)


class Rows:
    """The first two tables, and how many times one thread's work two threads do."""

    def __init__(self) -> None:
        self.costs: list[list[str]] = []
        self.rates: list[list[str]] = []
        self.scaling: dict[str, float] = {}

    def add(self, name: str, figures: dict[str, list[float]], shown: str = "") -> None:
        """A missed row comes twice, `shown` by another name; its better figure counts."""
        alone, beside = figures[f"{name}, 1"], figures[f"{name}, 2"]
        busy, both_busy = cpu[f"{name}, 1"][1:], cpu[f"{name}, 2"][1:]  # the first warmed up
        strange = figures.get(f"{name}, processes", [])
        costs = [alone, busy, beside, both_busy, strange]
        self.costs.append([shown or name, *(f"{median(c):.0f}" if c else "" for c in costs)])
        times = 2 * ratio(alone, beside)
        rates = [times, 2 * ratio(busy, both_busy)]
        if strange:
            rates += [2 * ratio(alone, strange), ratio(strange, beside)]
        self.rates.append([shown or name, *(f"{rate:.2f}" for rate in rates), "", ""][:5])
        if name in OPERATIONS:
            self.scaling[name] = max(times, self.scaling.get(name, 0.0))


def calls(n: int) -> Contenders:
    """The second bar's contenders: the yardstick, and each transition."""
    found = {YARDSTICK: single_call(("nothing",), 0, "Yardstick()", n)}
    for step in dict.fromkeys(TURN):
        found[f"call: {step}"] = single_call(TURN, TURN.index(step), "HouseCell()", n // 4)
    return found


def main() -> None:
    options = arguments("What an atomic operation costs, in one thread and in two.", rounds=15)
    pin(0)
    contenders: Contenders = {}
    with Apart(__file__) as strangers:

        def triple(name: str) -> Contenders:
            """One thread, two threads, two processes; each for as long as a run should take."""
            setup, statement, count = OPERATIONS[name]
            once = one(name, setup, statement, count, 100) * 1e-9 * UNROLLED * count
            n = max(1, int((SHORT if options.quick else LONG) / once))
            return {
                f"{name}, 1": lambda: one(f"{name}, 1", setup, statement, count, n),
                f"{name}, 2": lambda: two(f"{name}, 2", setup, statement, count, n),
                f"{name}, processes": lambda: apart(strangers, name, n),
            }

        triples = {name: triple(name) for name in OPERATIONS}
        for found in triples.values():
            contenders |= found
        n = 2000 if options.quick else 20_000
        near = pairs()
        contenders["an empty loop"] = lambda: one("", "pass", "pass", 1, n)
        for name, cells in near.items():
            contenders[f"{name}, 1"] = lambda name=name, cells=cells: one(
                f"{name}, 1", "c = start.cell", "c.get_and_add(1)", 1, n, cells[0]
            )
            contenders[f"{name}, 2"] = lambda name=name, cells=cells: two(
                f"{name}, 2", "c = start.cell", "c.get_and_add(1)", 1, n, cells
            )
        steps = calls(n // 10)
        figures = in_turns(contenders | steps, options.rounds)

        rows = Rows()
        for name in [*OPERATIONS, *near]:
            rows.add(name, figures)
        rows.costs.append(["an empty loop", f"{median(figures['an empty loop']):.0f}", *[""] * 4])
        cost = {step: ratio(figures[step], figures[YARDSTICK]) for step in steps}
        prices = [[step, median(figures[step]), times] for step, times in cost.items()]

        # Once more what missed, and nothing else.
        for name in [name for name, times in rows.scaling.items() if times < TWICE]:
            again = in_turns(triples[name], options.rounds)
            rows.add(name, again, f"{name}, again")
            figures |= {f"{key}, again": runs for key, runs in again.items()}
        missed = [step for step, times in cost.items() if times > TRANSITION]
        if missed:
            again = in_turns({step: steps[step] for step in [YARDSTICK, *missed]}, options.rounds)
            for step in missed:
                times = ratio(again[step], again[YARDSTICK])
                prices.append([f"{step}, again", median(again[step]), times])
                cost[step] = min(cost[step], times)
            figures |= {f"{key}, again": runs for key, runs in again.items()}

    let_go()

    table(
        "Nanoseconds an operation, by the clock and on a core",
        ["operation", "1", "cpu", "2 thr", "cpu", "2 proc"],
        rows.costs,
    )
    table(
        "How many times one thread's work",
        ["operation", "2 thr", "by cpu", "2 proc", "thr/proc"],
        rows.rates,
    )
    table(
        "One call, and how many times the cheapest one",
        ["method", "ns", "times"],
        [[step, f"{ns:.1f}", f"{times:.2f}"] for step, ns, times in prices],
    )
    scaling = rows.scaling
    worst = min(scaling, key=scaling.__getitem__)
    verdict(
        f"two threads do at least {TWICE} times the work of one "
        f"(worst: {scaling[worst]:.2f}, {worst})",
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
