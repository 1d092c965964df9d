"""What all benchmarks here share: fair turns, medians, a table, a JSON file, the machine's facts.

A benchmark is a set of *contenders*, functions that each make one run and return its figure. They
take turns (a b c, a b c, ...), so that a machine that slows down for a while slows all of them;
and two contenders are compared round by round (`ratio`), which cancels most of what is left.

    options = arguments("What this benchmark shows.")
    figures = alternate({"a": run_a, "b": run_b}, options.rounds)
    table("nanoseconds an operation", ["contender", "ns"],
          [[name, f"{median(runs):.1f}"] for name, runs in figures.items()])
    verdict("b costs at most twice a", ratio(figures["b"], figures["a"]) <= 2)
    finish(options, figures)
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

__all__ = [
    "ROOT", "Strangers", "alternate", "arguments", "facts", "finish", "median", "parser_for",
    "ratio", "revision", "serve", "table", "two_threads", "verdict",
]  # fmt: skip

ROOT = Path(__file__).resolve().parent.parent
HEAD_START = 0.0005  # seconds: what it takes two sleepers to wake up, and some more

_verdicts: dict[str, bool] = {}


def parser_for(description: str, *, rounds: int = 7) -> argparse.ArgumentParser:
    """The options that every benchmark has: `rounds`, `json`, `quick` and `smoke`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--rounds", type=int, default=rounds, help="turns of each contender (default %(default)s)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the work: to see it run, not to measure"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="one quick round and no verdict: does it still run?"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    return parser


def arguments(description: str, *, rounds: int = 7) -> argparse.Namespace:
    """The command line of a benchmark that has no other options."""
    parser = parser_for(description, rounds=rounds)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds wants 1 or more")
    if options.smoke:
        options.quick, options.rounds = True, 1
    return options


def alternate(contenders: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """The figures of `rounds` turns of every contender; one turn more before them warms up."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        if sys.stderr.isatty():
            print(f"\rround {turn} of {rounds} ", end="", file=sys.stderr, flush=True)
        for name, run in contenders.items():
            figure = run()
            if turn:
                figures[name].append(figure)
    if sys.stderr.isatty():
        print("\r" + " " * 30 + "\r", end="", file=sys.stderr, flush=True)
    return figures


def ratio(figures: Sequence[float], to: Sequence[float]) -> float:
    """How many times as large: the median over the rounds of figure / to's figure."""
    return median(one / other for one, other in zip(figures, to, strict=True))


def two_threads(function: Callable[[int, Callable[[], object]], object]) -> float:
    """Run `function(number, start)` on two threads at once; seconds until the slower one is done.

    Each thread first prepares what it needs (its own objects, from its own allocator) and then
    calls `start()`, which returns in both at the same moment: they meet at a barrier and then spin
    until the hour, so that neither pays for waking up. The clock runs from there. An exception in
    either thread is raised here.
    """
    hour: list[float] = []
    ended: list[float] = []
    failed: list[BaseException] = []
    barrier = threading.Barrier(2, action=lambda: hour.append(time.perf_counter() + HEAD_START))

    def start() -> None:
        barrier.wait()
        spin_until(hour[0])

    def run(number: int) -> None:
        try:
            function(number, start)
            ended.append(time.perf_counter())
        except BaseException as error:
            failed.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise next(
            (e for e in failed if not isinstance(e, threading.BrokenBarrierError)), failed[0]
        )
    return max(ended) - hour[0]


class Strangers:
    """Two child processes that run the same work as two threads would, but share nothing.

    The control of a two-thread figure. Virtual cores may be halves of one real core, or be lent to
    somebody else; then two of anything cannot do twice the work of one. What two strangers reach
    is what the machine gives; what two threads reach less than that is ours.

    `program` is a Python file that calls `serve(work)` when its argument is "serve". Use as a
    context manager; `both(order)` gives the seconds until the slower child has done work(order),
    `one(order)` those of a child on its own.
    """

    def __init__(self, program: str | Path) -> None:
        self._program = str(program)

    def __enter__(self) -> Strangers:
        command = [sys.executable, self._program, "serve"]
        pipe = subprocess.PIPE
        self._children = [
            subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(2)
        ]
        return self

    def __exit__(self, *exc_info: object) -> None:
        for child in self._children:
            child.communicate()  # closes its stdin, which ends it

    def one(self, order: str) -> float:
        return self._work(self._children[:1], order)

    def both(self, order: str) -> float:
        return self._work(self._children, order)

    def _work(self, children: Sequence[subprocess.Popen[str]], order: str) -> float:
        for child in children:
            self._tell(child, order)
        for child in children:
            self._hear(child)  # it has prepared its work and waits for the hour
        hour = time.perf_counter() + 4 * HEAD_START
        for child in children:
            self._tell(child, repr(hour))
        return max(float(self._hear(child)) for child in children)

    def _tell(self, child: subprocess.Popen[str], line: str) -> None:
        assert child.stdin is not None
        print(line, file=child.stdin, flush=True)

    def _hear(self, child: subprocess.Popen[str]) -> str:
        assert child.stdout is not None
        line = child.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._program} serve: ended with {child.wait()} and no answer")
        return line


def serve(work: Callable[[str, Callable[[], object]], object]) -> None:
    """The life of a stranger: for each order work(order, start), which calls start() once."""

    def start() -> None:
        nonlocal hour
        print("ready", flush=True)
        hour = float(sys.stdin.readline())
        spin_until(hour)

    hour = 0.0
    while order := sys.stdin.readline().strip():
        work(order, start)
        print(time.perf_counter() - hour, flush=True)


def spin_until(hour: float) -> None:
    while time.perf_counter() < hour:
        pass


def revision(name: str | None = None) -> str:
    """A name that still says which revision it was when HEAD is another; None: this tree."""
    what = ["--dirty"] if name is None else [f"{name}^{{commit}}"]
    done = subprocess.run(
        ["git", "describe", "--tags", "--always", *what], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        raise LookupError(done.stderr.strip())
    return done.stdout.strip()


def facts() -> dict[str, Any]:
    """What a figure means nothing without."""
    try:
        tree = revision()
    except (LookupError, OSError):
        tree = "unknown"  # no checkout, or no git
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass  # not a Linux machine: the short name has to do
    return {
        "python": platform.python_version() + ("t" if "free-threading" in sys.version else ""),
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "cpu": model,
        "memory GB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": f"{platform.system()} {platform.release()}",
        "revision": tree,
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: the first column to the left, the others, being figures, to the right."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
        print(f"\n{title}")
        for row in [columns, *rows]:
            first, *rest = zip(row, widths, strict=True)
            print(first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest), sep="  ")
        return
    grid = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        grid.add_column(column, justify="right" if i else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*row)
    Console().print(grid)


def verdict(bar: str, met: bool) -> None:
    """Print PASS or FAIL for one bar; `finish` turns a FAIL into the exit status."""
    _verdicts[bar] = met
    print(f"{'PASS' if met else 'FAIL'}  {bar}")


def finish(options: argparse.Namespace, figures: Mapping[str, Sequence[float]]) -> None:
    """Print the machine's facts, write the JSON file if wanted, and exit: 1 if a bar failed.

    A smoke run is too short to measure anything, so it fails only by an exception.
    """
    machine = facts()
    print("  ".join(f"{name}: {value}" for name, value in machine.items()))
    if options.json:
        medians = {name: median(runs) for name, runs in figures.items()}
        content = {"facts": machine, "verdicts": _verdicts, "medians": medians, "runs": figures}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    sys.exit(0 if options.smoke or all(_verdicts.values()) else 1)
