"""Pinned against pool on the standard workloads, and what the throughput budget costs and buys.

The workloads are those of `messages`; each scheduler runs them in a process of its own, and they
take turns. Then, in this process, both schedulers with short work beside long, blocking and bulk
work, and under full load with one budget after another.

    ./ft bench dispatchers                          all of it, about four minutes
    ./ft bench dispatchers --quick                  to see it run
    ./ft bench dispatchers --only ring bank         some workloads, and no budgets
    ./ft bench dispatchers --docs                   and write the tables of docs/choosing.md
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _beside import BESIDE
from _measure import facts, finish, median, table
from savina.catalogue import WORKLOADS
from savina.common import PATIENCE, cores, expect, quantile
from savina.host import Child, FailedError

from otavia_ft import ActorSystem, StateActor, on

PAGE = Path(__file__).resolve().parent.parent / "docs" / "choosing.md"
BEGIN, END = "<!-- dispatchers: begin -->", "<!-- dispatchers: end -->"
DISPATCHERS = ("pinned", "pool")
BUDGETS = (8, 16, 32, 64, 128, 256)
INTERVALS = (7, 15, 31, 61)  # takes of a pool's worker between two looks at the global ring
USUAL_BUDGET, USUAL_INTERVAL = 32, 61
SHOWN = (8, 64, 256)  # budgets that get a sentence of their own
EVEN = 1.1  # what differs by less than this factor is called even
# Those left out ask other questions: how much memory many actors need, what grows with what.
STANDARD = [n for n, w in WORKLOADS.items() if not w.fresh and not n.startswith("growth")]
SMOKED = ["counting", "ring-across", "latency"]
HOT_A_WORKER, PAIRS = 8, 4
SHARES = (50, 99)  # percentiles of the waits
LEAST_WAITS = 20  # a percentile of fewer says nothing

Figures = dict[str, list[float]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", nargs="+", metavar="WORKLOAD", choices=STANDARD, help=", ".join(STANDARD))
    add("--rounds", type=int, help="turns of each scheduler (default 7; 3 with --quick)")
    add("--quick", action="store_true", help="short runs: to see it work, not to measure")
    add("--smoke", action="store_true", help="the least that runs at all, for a test")
    add("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    add("--docs", type=Path, nargs="?", const=PAGE, metavar="PAGE",
        help="write the tables between the markers of docs/choosing.md")  # fmt: skip
    options = parser.parse_args()
    if options.rounds is None:
        options.rounds = 1 if options.smoke else 3 if options.quick else 7
    if options.rounds < 1:
        parser.error("--rounds wants 1 or more")
    if options.docs and options.only:
        parser.error("--docs writes all tables, so it does not go with --only")
    if options.docs and split(options.docs) is None:
        parser.error(f"{options.docs} has no markers, {BEGIN} and {END}")
    options.seconds = 0.005 if options.smoke else 0.05 if options.quick else 0.25  # of one run
    return options


# ---- the standard workloads


def size(child: Child, workload: str, seconds: float, smoke: bool) -> int:
    """How many operations make a run of about so many seconds; finding out warms the child up."""
    work = WORKLOADS[workload]
    n = work.small
    if smoke:
        return n
    if work.fixed:
        return work.n
    for _ in range(2):  # a first guess from a few, a better one from more
        run = child.run(workload, n)
        wall = run.get("wall", run["seconds"])
        n = int(max(work.small, min(work.n, n * seconds / max(wall, 1e-6))))
    return n


def compare(workload: str, options: Any) -> Figures:
    """Microseconds an operation of both, in turns; who goes first changes with every round."""
    figures: Figures = {}
    children: dict[str, Child] = {}
    try:
        for name in DISPATCHERS:
            children[name] = Child(name, sys.executable)
        n = size(children["pinned"], workload, options.seconds, options.smoke)
        for turn in range(options.smoke, options.rounds + 1):
            for name in sorted(children, reverse=bool(turn % 2)):
                run = children[name].run(workload, n)
                if not turn:
                    continue  # the first one warms up
                microseconds = run["seconds"] / run["operations"] * 1e6
                figures.setdefault(f"{workload}, {name}", []).append(microseconds)
                if "p99" in run:
                    figures.setdefault(f"{workload} p99, {name}", []).append(run["p99"] * 1e6)
    finally:
        for child in children.values():
            child.close()
    return figures


def ratios(figures: Figures) -> dict[str, float]:
    """Of each workload: the pool's median time in units of pinned's."""
    names = [key.removesuffix(", pinned") for key in figures if key.endswith(", pinned")]
    return {
        name: median(figures[f"{name}, pool"]) / median(figures[f"{name}, pinned"])
        for name in names
    }


# ---- short work beside other work


def short_work(options: Any) -> Figures:
    """Waits of both schedulers beside each kind of other work, in turns."""
    figures: Figures = {}
    for turn in range(options.rounds):
        for what, (_, run) in BESIDE.items():
            for name in sorted(DISPATCHERS, reverse=bool(turn % 2)):
                waits = run(2 * options.seconds, dispatcher=name)
                for share in SHARES:
                    wait = quantile(waits, share / 100) * 1e6
                    figures.setdefault(f"beside {what}, {name}, p{share} µs", []).append(wait)
    return figures


def beside_rows(figures: Figures) -> list[list[str]]:
    return [
        [title, *(short(median(figures[f"beside {what}, {name}, p{share} µs"]))
                  for name in DISPATCHERS for share in SHARES)]
        for what, (title, _) in BESIDE.items()
    ]  # fmt: skip


# ---- the budget


class Hot(StateActor):
    """Has twice as many messages as the largest budget, and sends itself each of them again."""

    def __init__(self) -> None:
        self.more: bool = True
        self.me: Any = None

    @on(int)
    def again(self, number: int) -> None:
        if self.more:
            self.me.notice(number)


class Cold(StateActor):
    """One of two that throw a ball. It is idle when the ball comes, and has to wait for its turn
    among those that are not; it writes down for how long."""

    def __init__(self) -> None:
        self.more: bool = True
        self.peer: Any = None
        self.waits: list[float] = []

    @on(float)
    def catch(self, thrown: float) -> None:
        self.waits.append(perf_counter() - thrown)
        if self.more:
            self.peer.notice(perf_counter())


def loaded(seconds: float, **settings: Any) -> tuple[float, float]:
    """Messages a second of a system whose workers are never idle, and the 99th percentile of the
    time (in microseconds) that an actor waits for its turn there."""
    hot = [Hot() for _ in range(HOT_A_WORKER * cores())]
    cold = [Cold() for _ in range(2 * PAIRS)]

    def sleep_until(enough: Callable[[], bool]) -> None:
        end = perf_counter() + PATIENCE
        while not enough():
            expect(perf_counter() < end, True)
            time.sleep(seconds / 8)

    with ActorSystem(workers=cores(), memory_monitor=False, **settings) as system:
        for busy in hot:
            busy.me = system.build_actor(lambda busy=busy: busy)
        addresses = [system.build_actor(lambda idle=idle: idle) for idle in cold]
        for number, idle in enumerate(cold):
            idle.peer = addresses[number ^ 1]
        for busy in hot:
            for number in range(2 * BUDGETS[-1]):
                busy.me.notice(number)
        for address in addresses[::2]:
            address.notice(perf_counter())
        # Under pinned a new actor is of low priority until it has had a turn: another question.
        sleep_until(lambda: all(idle.waits for idle in cold))
        began, before = perf_counter(), system.statistics().messages
        seen = [len(idle.waits) for idle in cold]
        sleep_until(
            lambda: (
                perf_counter() - began >= seconds
                and sum(len(idle.waits) for idle in cold) >= sum(seen) + LEAST_WAITS
            )
        )
        rate = (system.statistics().messages - before) / (perf_counter() - began)
        waits = sorted(w for idle, n in zip(cold, seen, strict=True) for w in idle.waits[n:])
        for busy in hot:
            busy.more = False
        for idle in cold:
            idle.more = False
    for busy in hot:
        busy.me = None  # an actor that holds its own address is never collected
    for idle in cold:
        idle.peer = None
    return rate, quantile(waits, 0.99) * 1e6


def full_load(options: Any) -> Figures:
    """Both schedulers with every budget, and the pool with every interval, in turns."""
    contenders: dict[str, dict[str, Any]] = {
        f"budget {budget}, {name}": {"dispatcher": name, "throughput_budget": budget}
        for budget in BUDGETS
        for name in DISPATCHERS
    }
    for interval in INTERVALS:
        settings = {"dispatcher": "pool", "global_poll_interval": interval}
        contenders[f"interval {interval}, pool"] = settings
    # The two names of the usual pool: measured once.
    usual = f"interval {USUAL_INTERVAL}, pool", f"budget {USUAL_BUDGET}, pool"
    del contenders[usual[0]]
    figures: Figures = {}
    for turn in range(options.rounds):
        for name in sorted(contenders, reverse=bool(turn % 2)):
            rate, wait = loaded(1.4 * options.seconds, **contenders[name])
            figures.setdefault(f"{name}, messages/s", []).append(rate)
            figures.setdefault(f"{name}, p99 µs", []).append(wait)
    for what in ("messages/s", "p99 µs"):
        figures[f"{usual[0]}, {what}"] = figures[f"{usual[1]}, {what}"]
    return figures


# ---- what is shown


def short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def title_of(name: str) -> str:
    workload = name.removesuffix(" p99")
    return WORKLOADS[workload].title + (" (p99)" if workload != name else "")


def workload_rows(figures: Figures) -> list[list[str]]:
    rows = []
    for name, pool_to_pinned in ratios(figures).items():
        times = [figures[f"{name}, {dispatcher}"] for dispatcher in DISPATCHERS]
        cells = [f"{short(median(runs))} ({short(min(runs))})" for runs in times]
        operation = "" if name.endswith(" p99") else f" ({WORKLOADS[name].operation})"
        rows.append([title_of(name) + operation, *cells, f"{pool_to_pinned:.2f}"])
    return rows


def load_cells(figures: Figures, name: str, usual: str) -> list[str]:
    rate, at_usual = (median(figures[f"{each}, messages/s"]) for each in (name, usual))
    return [
        f"{rate:,.0f}", f"{rate / at_usual - 1:+.0%}", f"{median(figures[f'{name}, p99 µs']):,.0f}"
    ]  # fmt: skip


def budget_rows(figures: Figures) -> list[list[str]]:
    rows = []
    for budget in BUDGETS:
        row = [str(budget)]
        for name in DISPATCHERS:
            row += load_cells(figures, f"budget {budget}, {name}", f"budget {USUAL_BUDGET}, {name}")
        rows.append(row)
    return rows


def interval_rows(figures: Figures) -> list[list[str]]:
    usual = f"interval {USUAL_INTERVAL}, pool"
    return [[str(n), *load_cells(figures, f"interval {n}, pool", usual)] for n in INTERVALS]


def load_summary(figures: Figures) -> list[str]:
    """What other budgets than the usual one change, in one line for each scheduler."""

    def change(name: str, budget: int) -> str:
        rate, wait = (
            median(figures[f"budget {budget}, {name}, {what}"])
            / median(figures[f"budget {USUAL_BUDGET}, {name}, {what}"])
            for what in ("messages/s", "p99 µs")
        )
        return f"{budget} has {rate:.2f} times the throughput and {wait:.2f} times the wait"

    return [
        f"Against a budget of {USUAL_BUDGET}, {name}: {'; '.join(change(name, b) for b in SHOWN)}."
        for name in DISPATCHERS
    ]


WORKLOAD_COLUMNS = ["workload", "pinned, µs", "pool, µs", "pool / pinned"]
LOAD_COLUMNS = ("messages/s", "to the usual", "p99 wait, µs")
BUDGET_COLUMNS = ["budget", *(f"{name}: {what}" for name in DISPATCHERS for what in LOAD_COLUMNS)]
INTERVAL_COLUMNS = ["interval", *LOAD_COLUMNS]
BESIDE_TITLE = "The wait of a short message, µs"
BESIDE_COLUMNS = ["beside", *(f"{name}: p{share}" for name in DISPATCHERS for share in SHARES)]
BUDGET_TITLE, INTERVAL_TITLE = "The throughput budget", "The pool's poll interval, budget 32"


def faster(figures: Figures, name: str) -> str | None:
    """Who is faster at this workload; None if the runs do not tell.

    The medians must differ, and even the best run of the slower one must be slower than the median
    of the other: on a busy machine the medians alone differ by chance.
    """
    pinned, pool = (figures[f"{name}, {dispatcher}"] for dispatcher in DISPATCHERS)
    if median(pool) >= EVEN * median(pinned) and min(pool) > median(pinned):
        return "pinned"
    if median(pinned) >= EVEN * median(pool) and min(pinned) > median(pool):
        return "pool"
    return None


def summary(figures: Figures) -> list[str]:
    """Who is faster at what, in one line each."""
    winners = {name: faster(figures, name) for name in ratios(figures)}

    def those(winner: str | None) -> str:
        names = [name for name, who in winners.items() if who == winner]
        return "; ".join(map(title_of, names)) or "nothing"

    return [
        f"Pinned is faster at: {those('pinned')}.",
        f"The pool is faster at: {those('pool')}.",
        f"Not to be told apart: {those(None)}.",
    ]


def markdown(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = f"| {' | '.join(columns)} |\n|---{'|---:' * (len(columns) - 1)}|\n"
    return f"### {title}\n\n{head}" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def split(page: Path) -> tuple[str, str] | None:
    """What stands before and behind the generated part; None if that is not marked."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    return (before, after) if begin and end else None


def write_docs(page: Path, figures: Figures, machine: Mapping[str, Any]) -> None:
    """Replace what stands between the page's markers."""
    outside = split(page)
    assert outside is not None
    pieces = [
        "Made by `./ft bench dispatchers --docs`; edits here are lost.\n",
        f"Python {machine['python']}, GIL {'on' if machine['gil'] else 'off'}, "
        f"{machine['cores']} cores of {machine['cpu']}, {machine['rounds']} rounds"
        + (" (a quick run: too short to measure)" if machine["quick"] else "")
        + f". Load average {machine['load'][0]} before and {machine['load_after'][0]} after.\n",
        markdown("Pinned and pool: median (best)", WORKLOAD_COLUMNS, workload_rows(figures)),
        "".join(f"- {line}\n" for line in summary(figures)),
        markdown(BESIDE_TITLE, BESIDE_COLUMNS, beside_rows(figures)),
        markdown(BUDGET_TITLE, BUDGET_COLUMNS, budget_rows(figures)),
        "".join(f"- {line}\n" for line in load_summary(figures)),
        markdown(INTERVAL_TITLE, INTERVAL_COLUMNS, interval_rows(figures)),
        "### What the workloads do\n",
        "".join(f"- *{WORKLOADS[name].title}*: {WORKLOADS[name].about}\n" for name in STANDARD),
    ]
    page.write_text(f"{outside[0]}{BEGIN}\n\n" + "\n".join(pieces) + f"\n{END}{outside[1]}")
    print(f"wrote {page}")


def main() -> None:
    options = arguments()
    if not sys.stdout.isatty():
        os.environ.setdefault("COLUMNS", "160")  # rich would cut the tables at 80
    machine = {**facts(), "rounds": options.rounds, "quick": options.quick or options.smoke}
    figures: Figures = {}
    for workload in options.only or (SMOKED if options.smoke else STANDARD):
        try:
            of_this = compare(workload, options)
        except FailedError as error:
            sys.exit(f"dispatchers: {workload}: {error}")
        figures |= of_this
        print(*(f"{n}: {short(median(runs))} µs" for n, runs in of_this.items()), sep="   ",
              flush=True)  # fmt: skip
    table("Microseconds an operation: median (best)", WORKLOAD_COLUMNS, workload_rows(figures))
    print(*summary(figures), sep="\n")
    if not options.only:
        figures |= short_work(options)
        table(BESIDE_TITLE, BESIDE_COLUMNS, beside_rows(figures))
        figures |= full_load(options)
        table(BUDGET_TITLE, BUDGET_COLUMNS, budget_rows(figures))
        print(*load_summary(figures), sep="\n")
        table(INTERVAL_TITLE, INTERVAL_COLUMNS, interval_rows(figures))
    machine["load_after"] = [round(load, 2) for load in os.getloadavg()]
    if options.docs:
        write_docs(options.docs, figures, machine)
    finish(options, figures)


if __name__ == "__main__":
    main()
