"""What a message costs, beside what a user would pick instead (Savina-style workloads).

Every contender runs in a child process of its own, and they take turns. A slow contender gets
shorter runs, so that all last about equally long; figures are microseconds an operation. Beside
them stands the floor: append, popleft and a method call in one thread. The same peers also run on
an ordinary CPython 3.13 and, where there is one, Erlang shows what is possible outside Python.

    ./ft bench messages                                  all but the largest sizes: minutes
    ./ft bench messages --quick                          to see it run
    ./ft bench messages --only ping-pong ring --rounds 9
    ./ft bench messages --full                           ten million actors and messages too
    ./ft bench messages --docs                           the same, and writes docs/performance.md
    ./ft bench messages --from figures.json --docs       writes it from figures of before
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

import steps
from _measure import Strangers, facts, ratio, table
from savina import bars, report
from savina.catalogue import CONTENDERS, FLOOR, INSTALLED, OURS, PEERS, WORKLOADS
from savina.turn import Turn

STRANGER = Path(__file__).resolve().parent / "savina" / "stranger.py"

COMPARED = {"ask-reply-await": "ask-reply", "cpu-map": "cpu-map-one"}

Results = dict[str, dict[str, Any]]  # workload: contender: what was measured


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", nargs="+", metavar="WORKLOAD", choices=list(WORKLOADS), help=", ".join(WORKLOADS))
    add("--contenders", nargs="+", metavar="NAME", choices=list(CONTENDERS),
        default=list(CONTENDERS), help=", ".join(CONTENDERS))  # fmt: skip
    add("--rounds", type=int, help="turns of each contender (default 5; 3 with --quick)")
    add("--quick", action="store_true", help="short runs: to see it work, not to measure")
    add("--smoke", action="store_true", help="the least that runs at all, for a test")
    add("--full", action="store_true", help="the largest sizes that a bar speaks of")
    add("--json", type=Path, metavar="FILE", help="write everything measured to FILE")
    add("--from", dest="source", type=Path, metavar="FILE",
        help="begin with the figures in FILE, and measure only what --only names")  # fmt: skip
    add("--plot", type=Path, metavar="FILE.svg", help="draw the figures (needs matplotlib)")
    add("--docs", action="store_true", help="--full, and write tables and plot into docs/")
    add("--peers-python", metavar="PATH", default=os.environ.get("OTAVIA_FT_BENCH_PEERS"),
        help="the Python that has Pykka, Thespian and matplotlib (./ft gives one)")  # fmt: skip
    add("--gil-python", metavar="PATH", default=os.environ.get("OTAVIA_FT_BENCH_GIL"),
        help="an ordinary Python, to run the peers on that too (./ft gives one)")  # fmt: skip
    for workload, what in (("many", "actors"), ("growth-actors", "actors"),
                           ("growth-in-order", "actors"), ("growth-worst", "actors"),
                           ("growth-queue", "queued messages")):  # fmt: skip
        usual = f"{WORKLOADS[workload].n:,}; {WORKLOADS[workload].full:,} with --full"
        add(f"--{workload}", type=int, metavar="N", help=f"{what} of this workload ({usual})")
    options = parser.parse_args()
    if options.rounds is None:
        options.rounds = 1 if options.smoke else 3 if options.quick else 5
    if options.rounds < 1:
        parser.error("--rounds wants 1 or more")
    if options.docs and not options.quick and not options.smoke:
        options.full = True
    return options


def chosen(options: argparse.Namespace) -> list[str]:
    """The workloads to measure now, in the catalogue's order."""
    if options.only:
        return [name for name in WORKLOADS if name in options.only]
    if options.source:
        return []
    return [name for name, work in WORKLOADS.items() if options.full or not work.only_full]


def grouped(workloads: list[str]) -> list[list[str]]:
    """Those that a bar compares with each other together, the others alone."""
    groups: dict[str, list[str]] = {}
    for workload in workloads:
        groups.setdefault(COMPARED.get(workload, workload), []).append(workload)
    return list(groups.values())


def contenders_for(workload: str, options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """(the name in the results, the contender, its interpreter)"""
    names = [
        name for name in options.contenders if name in OURS or not WORKLOADS[workload].ours_only
    ]
    here = [
        (
            name,
            name,
            options.peers_python or sys.executable if name in INSTALLED else sys.executable,
        )
        for name in names
    ]
    with_gil = [
        (f"{name} (GIL)", name, options.gil_python)
        for name in names
        if name in PEERS and options.gil_python
    ]
    return [(FLOOR, FLOOR, sys.executable), *here, *with_gil]


class Control:
    """How much more two processes that share nothing do than one: what this machine has to give.

    It takes its turn in the same rounds as the CPU map, since the load changes all the time.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._chunks = "4" if options.smoke else "40" if options.quick else "200"
        self._figures: dict[str, list[float]] = {"one": [], "both": []}

    def take(self) -> None:
        with Strangers(STRANGER) as strangers:
            self._figures["one"].append(strangers.one(self._chunks))
            self._figures["both"].append(strangers.both(self._chunks))

    def figure(self) -> float:
        return round(2 * ratio(self._figures["one"], self._figures["both"]), 2)


def measure(workloads: list[str], options: argparse.Namespace, machine: dict[str, Any]) -> Results:
    """Workloads that a bar compares with each other take turns in the same rounds."""
    turns: dict[tuple[str, str], Turn] = {}
    control = Control(options) if "cpu-map" in workloads else None
    try:
        for workload in workloads:
            for name, contender, python in contenders_for(workload, options):
                turns[workload, name] = Turn(contender, python, workload, options)
        rounds = min(options.rounds, WORKLOADS[workloads[0]].rounds or options.rounds)
        names = list(dict.fromkeys(name for _, name in turns))
        for number in range(rounds):
            for name in reversed(names) if number % 2 else names:
                for workload in workloads:
                    if (workload, name) in turns:
                        turns[workload, name].take()
            if control is not None:
                control.take()
            if sys.stderr.isatty():
                text = f"\r{', '.join(workloads)}: round {number + 1} of {rounds}   "
                print(text, end="", file=sys.stderr)
        if control is not None:
            machine["two unrelated processes"] = control.figure()
        return {
            workload: {name: turn.summary() for (w, name), turn in turns.items() if w == workload}
            for workload in workloads
        }
    finally:
        for turn in turns.values():
            turn.close()
        if sys.stderr.isatty():
            print("\r" + " " * 70 + "\r", end="", file=sys.stderr, flush=True)


def remarks(results: Mapping[str, Any]) -> list[str]:
    """What a reader should know of the contenders: who turned the GIL on, why
    there is no figure where there is none, and what is not the median of all rounds."""
    gil: dict[str, None] = {}
    gaps: dict[tuple[str, str], list[str]] = {}
    rounds: dict[str, list[str]] = {}
    for workload, figures in results.items():
        work = WORKLOADS[workload]
        for name, figure in figures.items():
            if figure.get("gil") and not name.endswith("(GIL)"):
                gil[f"{name}: its import turned the GIL on"] = None
            why = figure.get("why")
            if why and not name.endswith("(GIL)"):
                gaps.setdefault((name, why.splitlines()[-1]), []).append(work.title)
        if work.why_rounds:
            rounds.setdefault(work.why_rounds, []).append(work.title)
        if work.ours_only:
            gaps.setdefault(("all peers", work.ours_only), []).append(work.title)
    return [
        *gil,
        *(f"{name}: no figure for {'; '.join(titles)}: {why}"
          for (name, why), titles in gaps.items()),
        *(f"{'; '.join(titles)}: {why}" for why, titles in rounds.items()),
    ]  # fmt: skip


def main() -> None:
    options = arguments()
    if not sys.stdout.isatty():
        os.environ.setdefault("COLUMNS", "200")  # rich would cut the tables at 80
    content: dict[str, Any] = json.loads(options.source.read_text()) if options.source else {}
    results: Results = content.get("results", {})
    measured = chosen(options)
    if measured:
        machine = {**facts(), "rounds": options.rounds, "quick": options.quick or options.smoke}
        content["facts"] = {**content.get("facts", {}), **machine}
    for group in grouped(measured):
        for workload, figures in measure(group, options, content["facts"]).items():
            results[workload] = figures
            print(report.line(workload, figures), flush=True)
    if measured:
        content["facts"]["load_after"] = [round(load, 2) for load in os.getloadavg()]
    content["results"] = results = {name: results[name] for name in WORKLOADS if name in results}
    if measured and not options.only:
        content["steps"] = steps.measured(1 if options.smoke else options.rounds, options.quick)

    for title, columns, rows in report.tables(content):
        table(title, columns, rows)
    judged = bars.judge(results, content["facts"].get("two unrelated processes"))
    content["bars"] = [bar.as_dict() for bar in judged]
    content["remarks"] = remarks(results)
    table("Bars", ["bar", "wanted", "measured", ""], [bar.row() for bar in judged])
    print(*content["remarks"], sep="\n")
    print("  ".join(f"{name}: {value}" for name, value in content["facts"].items()))

    if options.json:
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    python = options.peers_python or sys.executable
    if options.plot:
        report.plot(content, options.plot, python)
    if options.docs:
        report.write_docs(content, python)
    broken = [n for f in results.values() for n in f if "Error" in str(f[n].get("why"))]
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
