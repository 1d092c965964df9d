"""What a message costs, beside what a user would pick instead (Savina-style workloads).

Every contender runs in a child process of its own, on the same interpreter, and they take turns. A
slow contender gets shorter runs, so that all last about equally long; figures are microseconds an
operation. Beside them stands the floor: append, popleft and a method call in one thread.

    ./ft bench messages                                  all of it, under ten minutes
    ./ft bench messages --quick                          to see it run
    ./ft bench messages --only ping-pong ring --rounds 9
    ./ft bench messages --docs                           and write the tables of docs/performance.md
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import Strangers, alternate, facts, median, ratio, table
from savina import bars, report
from savina.catalogue import CONTENDERS, FLOOR, MANY_LIMIT, PEERS, WORKLOADS
from savina.host import Child, Erlang, FailedError, start

Results = dict[str, dict[str, Any]]  # workload: contender: what was measured


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", nargs="+", metavar="WORKLOAD", choices=list(WORKLOADS), help=", ".join(WORKLOADS))
    add("--contenders", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))
    add("--rounds", type=int, help="turns of each contender (default 5; 3 with --quick)")
    add("--quick", action="store_true", help="short runs: to see it work, not to measure")
    add("--smoke", action="store_true", help="the least that runs at all, for a test")
    add("--json", type=Path, metavar="FILE", help="write everything measured to FILE")
    add("--plot", type=Path, metavar="FILE.svg", help="draw the figures (needs matplotlib)")
    add("--docs", action="store_true", help="write tables and plot into docs/")
    add("--gil-python", metavar="PATH", help="also run the peers on this ordinary Python")
    add("--actors", type=int, help="how many the workload `many` keeps (default 100,000)")
    add("--growth-actors", type=int, help="up to how many actors (default 100,000)")
    add("--growth-queue", type=int, help="up to how many queued messages (default 100,000)")
    options = parser.parse_args()
    if options.rounds is None:
        options.rounds = 1 if options.smoke else 3 if options.quick else 5
    if options.rounds < 1:
        parser.error("--rounds wants 1 or more")
    return options


class Turn:
    """One contender at one workload: its child, its size, its figures."""

    def __init__(self, contender: str, python: str, workload: str, options: Any) -> None:
        self.contender, self._python, self._workload = contender, python, workload
        self._work, self._options = WORKLOADS[workload], options
        self.target = 0.005 if options.smoke else 0.05 if options.quick else 0.25  # seconds a run
        self.runs: list[dict[str, Any]] = []
        self.why: str | None = None
        self.n = 0
        self._child: Child | Erlang | None = None
        self._try(self._begin)

    def _try(self, step: Any) -> None:
        try:
            step()
        except FailedError as error:
            self.why = str(error)
            self.close()

    def _begin(self) -> None:
        child = self._child = start(self.contender, self._python)
        self.hello = child.hello
        if child.absent:
            self.why = child.absent
        elif not child.can(self._workload):
            self.why = "-"
        else:
            self.n = self._size(child)

    def _size(self, child: Child | Erlang) -> int:
        """How many operations make a run; finding out warms the child up."""
        work, options = self._work, self._options
        if self.contender == FLOOR:
            child.run("floor", 2000)
            return 2000 if options.smoke else 50_000
        if work.fixed:
            own = {
                "many": options.actors,
                "growth-actors": options.growth_actors,
                "growth-queue": options.growth_queue,
            }.get(self._workload)
            n = own or (work.small if options.smoke else work.n // 10 if options.quick else work.n)
            return min(n, MANY_LIMIT.get(self.contender, n)) if self._workload == "many" else n
        n = work.small
        if options.smoke:
            return n
        for _ in range(2):  # a first guess from a few, a better one from more
            run = child.run(self._workload, n)
            wall = run.get("wall", run["seconds"])
            n = int(max(work.small, min(work.n, n * self.target / max(wall, 1e-6))))
        return n

    def take(self) -> None:
        if self.why is None:
            self._try(self._take)

    def _take(self) -> None:
        if self._work.fresh and self.runs and self.contender != FLOOR:
            self.close()
            self._child = start(self.contender, self._python)
        assert self._child is not None
        workload = "floor" if self.contender == FLOOR else self._workload
        self.runs.append(self._child.run(workload, self.n))

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def summary(self) -> dict[str, Any]:
        if self.why is not None or not self.runs:
            return {"why": self.why or "no figure"}
        figures = [run["seconds"] / run["operations"] * 1e6 for run in self.runs]
        extras = {
            name: median([run[name] for run in self.runs])
            for name, value in self.runs[0].items()
            if isinstance(value, (int, float)) and name not in ("seconds", "operations")
        }
        if "curve" in self.runs[0]:
            sizes = self.runs[0]["curve"]
            extras["curve"] = {
                size: median([run["curve"][size] for run in self.runs]) * 1e6 for size in sizes
            }
        return {
            "median": median(figures), "min": min(figures), "max": max(figures), "runs": figures,
            "n": self.n, "gil": self.hello["gil"], "python": self.hello["python"], **extras,
        }  # fmt: skip


def contenders_for(workload: str, options: Any) -> list[tuple[str, str, str]]:
    """(the name in the results, the contender, its interpreter)"""
    chosen = [
        (name, name, sys.executable)
        for name in options.contenders
        if not WORKLOADS[workload].ours_only or name in ("pinned", "pool")
    ]
    if options.gil_python and not WORKLOADS[workload].ours_only:
        chosen += [
            (f"{name} (GIL)", name, options.gil_python)
            for name in options.contenders
            if name in PEERS
        ]
    return [(FLOOR, FLOOR, sys.executable), *chosen]


def measure(workload: str, options: Any) -> dict[str, Any]:
    turns: dict[str, Turn] = {}
    try:
        for name, contender, python in contenders_for(workload, options):
            turns[name] = Turn(contender, python, workload, options)
        rounds = options.rounds
        if workload.startswith("growth"):  # one run of it measures every size twice
            rounds = max(1, rounds // 2)
        for number in range(rounds):
            for turn in turns.values():
                turn.take()
            if sys.stderr.isatty():
                print(f"\r{workload}: round {number + 1} of {rounds}   ", end="", file=sys.stderr)
        return {name: turn.summary() for name, turn in turns.items()}
    finally:
        for turn in turns.values():
            turn.close()
        if sys.stderr.isatty():
            print("\r" + " " * 50 + "\r", end="", file=sys.stderr, flush=True)


def control(options: Any) -> float:
    """How much more two processes that share nothing do than one: what this machine has to give."""
    with Strangers() as strangers:
        turns = {"one": strangers.one, "two": strangers.two}
        figures = alternate(turns, options.rounds)
    return 2 * ratio(figures["one"], figures["two"])


def remarks(results: Mapping[str, Any]) -> list[str]:
    """What a reader should know of the contenders: who is absent, who turned the GIL on."""
    said: dict[str, None] = {}
    for figures in results.values():
        for name, figure in figures.items():
            if figure.get("gil") and not name.endswith("(GIL)"):
                said[f"{name}: its import turned the GIL on"] = None
            why = figure.get("why")
            if why and why != "-":
                said[f"{name}: {why.splitlines()[-1]}"] = None
    return list(said)


def main() -> None:
    options = arguments()
    if not sys.stdout.isatty():
        os.environ.setdefault("COLUMNS", "200")  # rich would cut the tables at 80
    machine = {**facts(), "rounds": options.rounds, "quick": options.quick or options.smoke}
    results: Results = {}
    for workload in options.only or WORKLOADS:
        if workload == "cpu-map":  # beside what it is held against: the load changes all the time
            machine["two unrelated processes"] = round(control(options), 2)
        results[workload] = measure(workload, options)
        print(report.line(workload, results[workload]), flush=True)
    machine["load_after"] = [round(load, 2) for load in os.getloadavg()]
    for title, columns, rows in report.tables(results):
        table(title, columns, rows)
    judged = bars.judge(results, machine.get("two unrelated processes"))
    table("Bars", ["bar", "wanted", "measured", ""], [bar.row() for bar in judged])
    notes = remarks(results)
    print(*notes, sep="\n")
    print("  ".join(f"{name}: {value}" for name, value in machine.items()))
    content = {
        "facts": machine,
        "results": results,
        "bars": [bar.as_dict() for bar in judged],
        "remarks": notes,
    }
    if options.json:
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    if options.plot:
        report.plot(content, options.plot)
    if options.docs:
        report.write_docs(content)
    broken = [n for f in results.values() for n in f if "Error" in str(f[n].get("why"))]
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
