"""Results as tables, as the generated part of docs/performance.md, and as a plot."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from savina.catalogue import CONTENDERS, FLOOR, WORKLOADS

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "_static" / "bench.svg"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

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


def tables(results: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    names = names_in(results)
    free = [name for name in names if not name.endswith("(GIL)")]
    made = [_figures("Microseconds an operation: median (best)", results, free)]
    if len(free) < len(names):
        gil = [name for name in names if name.endswith("(GIL)")]
        made.append(_figures("The peers on a Python with a GIL", results, gil))
    made.append(_floors(results, free))
    made += [_many(results, names), _latency(results, names), _growth(results)]
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
    figures = results.get("many", {})
    rows = [
        [name, f"{f['n']:,}", number(f["median"]), f"{f['bytes']:,.0f}"]
        for name, f in ((name, figures.get(name, {})) for name in names)
        if "bytes" in f
    ]
    return "Many actors", ["contender", "actors", "µs an actor", "bytes an actor"], rows


def _latency(results: Mapping[str, Mapping[str, Any]], names: list[str]) -> Table:
    figures = results.get("latency", {})
    rows = [
        [name, f"{f['rate']:,.0f}", number(f["median"]), number(f["p99"] * 1e6),
         number(f["p999"] * 1e6)]
        for name, f in ((name, figures.get(name, {})) for name in names)
        if "p99" in f
    ]  # fmt: skip
    return "Latency of an ask, µs", ["contender", "asks a second", "p50", "p99", "p99.9"], rows


def _growth(results: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = []
    for workload in ("growth-actors", "growth-queue"):
        for name, figure in results.get(workload, {}).items():
            for size, value in figure.get("curve", {}).items():
                rows.append([WORKLOADS[workload].title, name, f"{int(size):,}", number(value)])
    return "Growth, µs a message", ["workload", "contender", "size", "µs"], rows


# ---- docs and plot


def markdown(tabled: Table) -> str:
    title, columns, rows = tabled
    head = "| " + " | ".join(columns) + " |\n|---" + "|---:" * (len(columns) - 1) + "|\n"
    return f"### {title}\n\n{head}" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write_docs(content: Mapping[str, Any]) -> None:
    """Replace what stands between the markers; draw the picture again if that is possible."""
    machine = content["facts"]
    pieces = [
        "Made by `./ft bench messages --docs`; edits here are lost.\n",
        f"Python {machine['python']}, GIL {'on' if machine['gil'] else 'off'}, "
        f"{machine['cores']} cores of {machine['cpu']}, {machine['rounds']} rounds"
        + (" (a quick run: too short to measure)" if machine["quick"] else "")
        + f". Load average {machine['load'][0]} before and {machine['load_after'][0]} after.\n",
    ]
    if plot(content, PICTURE) or PICTURE.exists():
        pieces.append(
            "![Microseconds an operation, for each workload and contender](_static/bench.svg)\n"
        )
    pieces += [markdown(each) for each in tables(content["results"])]
    bars = [[b["name"], b["wanted"], b["measured"], b["verdict"]] for b in content["bars"]]
    pieces.append(markdown(("Bars", ["bar", "wanted", "measured", "verdict"], bars)))
    if content["remarks"]:
        pieces.append("".join(f"- {remark}\n" for remark in content["remarks"]))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n".join(pieces) + f"\n{END}{after}")
    print(f"wrote {PAGE}")


def plot(content: Mapping[str, Any], path: Path) -> bool:
    """Draw in another process: matplotlib's parts may turn the GIL on."""
    script = ROOT / "bench" / "plot.py"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(content, file)
        file.flush()
        done = subprocess.run([sys.executable, str(script), file.name, str(path)])
    return done.returncode == 0
