"""Results as tables, as the generated part of docs/performance.md, and as a plot."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from savina.catalogue import CONTENDERS, FLOOR, WORKLOADS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "_static" / "bench.svg"
STEPS_TITLE = "Where the time of one message goes"
STEPS = ["step", "ns", "times the floor"]

Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def line(workload: str, figures: Mapping[str, Any]) -> str:
    """One workload, as soon as it is done."""
    shown = "  ".join(
        f"{name} {number(f['median'])}" for name, f in figures.items() if "median" in f
    )
    return f"{workload}: {shown} µs"


def names_in(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The contenders that have any figure, in the catalogue's order."""
    present = {n for figures in results.values() for n, f in figures.items() if "median" in f}
    with_gil = [f"{name} (GIL)" for name in CONTENDERS]
    return [name for name in [*CONTENDERS, *with_gil] if name in present]


def tables(content: Mapping[str, Any]) -> list[Table]:
    """All tables but the bars, without the empty ones."""
    results = content["results"]
    names = names_in(results)
    free = [name for name in names if not name.endswith("(GIL)")]
    made = [_figures("Microseconds an operation: median (best)", results, free)]
    if len(free) < len(names):
        gil = [name for name in names if name.endswith("(GIL)")]
        made.append(_figures("The peers on an ordinary Python 3.13, with its GIL", results, gil))
    made.append(_floors(results, free))
    made += [_many(results, names), _latency(results, names), _growth(results)]
    made.append((STEPS_TITLE, STEPS, content.get("steps", [])))
    return [each for each in made if each[2]]


def _figures(title: str, results: Mapping[str, Mapping[str, Any]], names: list[str]) -> Table:
    rows = []
    for workload, figures in results.items():
        cells = [
            f"{number(f['median'])} ({number(f['min'])})" if "median" in f else "-"
            for f in (figures.get(name, {}) for name in names)
        ]
        if any(cell != "-" for cell in cells):
            work = WORKLOADS[workload]
            rows.append([f"{work.title} ({work.operation})", *cells])
    return title, ["workload", *names], rows


def _floors(results: Mapping[str, Mapping[str, Any]], names: list[str]) -> Table:
    rows = []
    for workload, figures in results.items():
        floor = figures.get(FLOOR, {}).get("median")
        if floor:
            medians = [figures.get(name, {}).get("median") for name in names]
            cells = [f"{median / floor:.1f}" if median else "-" for median in medians]
            rows.append([WORKLOADS[workload].title, f"{floor:.3f}", *cells])
    return "Times the floor", ["workload", "floor, µs", *names], rows


def _many(results: Mapping[str, Mapping[str, Any]], names: list[str]) -> Table:
    rows = []
    for workload in ("many", "crowd"):
        for name, f in ((name, results.get(workload, {}).get(name, {})) for name in names):
            if "bytes" in f:
                rate = f"{f['n'] / f['spawn']:,.0f}" if "spawn" in f else "-"
                rows.append([name, f"{f['n']:,}", number(f["median"]), rate, f"{f['bytes']:,.0f}"])
    columns = ["contender", "actors", "µs an actor and message", "built a second", "bytes an actor"]
    return "Many actors: build, send one message to each, keep", columns, rows


def _latency(results: Mapping[str, Mapping[str, Any]], names: list[str]) -> Table:
    figures = results.get("latency", {})
    rows = [
        [name, f"{f['rate']:,.0f}", number(f["median"]), number(f["p99"] * 1e6),
         number(f["p999"] * 1e6)]
        for name, f in ((name, figures.get(name, {})) for name in names)
        if "p99" in f
    ]  # fmt: skip
    return (
        "Latency of an ask from outside at half load, µs",
        ["contender", "asks a second", "p50", "p99", "p99.9"],
        rows,
    )


def _growth(results: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row for each size, a column for each curve."""
    curves = {
        f"{what}, {name}": figure["curve"]
        for workload, what in (
            ("growth-actors", "actors"),
            ("growth-queue", "queued"),
            ("growth-in-order", "actors in order"),
            ("growth-worst", "actors, one message a turn"),
        )
        for name, figure in results.get(workload, {}).items()
        if "curve" in figure
    }
    sizes = sorted({int(size) for curve in curves.values() for size in curve})
    rows = [[f"{n:,}", *(number(c.get(str(n))) for c in curves.values())] for n in sizes]
    return "Growth: µs of CPU time a message with so many", ["size", *curves], rows


# ---- docs and plot


def markdown(tabled: Table) -> str:
    title, columns, rows = tabled
    head = "| " + " | ".join(columns) + " |\n|---" + "|---:" * (len(columns) - 1) + "|\n"
    body = head + "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"### {title}\n\n{body}" if title else body


def replace_block(name: str, text: str) -> None:
    """Write the part of docs/performance.md that stands between the markers of this name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = PAGE.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{PAGE} has no markers for {name}")
    PAGE.write_text(f"{before}{begin}\n\n{text}\n{end}{after}")
    print(f"wrote {name} in {PAGE.relative_to(ROOT)}")


def machine_line(machine: Mapping[str, Any]) -> str:
    line = (
        f"Python {machine['python']}, GIL {'on' if machine['gil'] else 'off'}, "
        f"{machine['cores']} cores of {machine['cpu']}, revision {machine['revision']}"
    )
    if "rounds" in machine:
        line += f", {machine['rounds']} rounds"
    if machine.get("quick"):
        line += " (a quick run: too short to measure)"
    line += f". Load average before: {machine['load'][0]}"
    if "load_after" in machine:
        line += f", after: {machine['load_after'][0]}"
    return line + ".\n"


def write_docs(content: Mapping[str, Any], python: str) -> None:
    """The generated parts of the page; the picture too, if that Python can draw."""
    if not plot(content, PICTURE, python):
        print("the picture is as it was: drawing needs matplotlib")
    bars = [[b["name"], b["wanted"], b["measured"], b["verdict"]] for b in content["bars"]]
    replace_block("bars", markdown(("", ["bar", "wanted", "measured", "verdict"], bars)))
    pieces = [machine_line(content["facts"])]
    made = {title: (title, columns, rows) for title, columns, rows in tables(content)}
    steps = made.pop(STEPS_TITLE, None)
    pieces += [markdown(each) for each in made.values()]
    if content["remarks"]:
        pieces.append("".join(f"- {remark}\n" for remark in content["remarks"]))
    replace_block("figures", "\n".join(pieces))
    if steps is not None:
        replace_block("steps", markdown(("", *steps[1:])))


def plot(content: Mapping[str, Any], path: Path, python: str) -> bool:
    """Draw in another process: matplotlib may live elsewhere, and its parts may turn the GIL on."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(content, file)
        file.flush()
        done = subprocess.run([python, str(HERE / "plot.py"), file.name, str(path)])
    return done.returncode == 0
