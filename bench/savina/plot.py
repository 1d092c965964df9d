"""Draw the figures of `./ft bench messages --json FILE`: plot.py FILE.json FILE.svg

A row for each workload, a mark for each contender, on one logarithmic axis: a look along a row
tells who is how far from whom, which nine bars beside each other do not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from savina.catalogue import CONTENDERS, FLOOR, PEERS, WORKLOADS

# Shapes differ as well as colours (Okabe and Ito's, which nearly everybody can tell apart).
LOOKS = {
    "pinned": ("#D55E00", "o", 90), "pool": ("#E69F00", "D", 60),
    "threads": ("#0072B2", "s", 42), "asyncio": ("#56B4E9", "^", 50),
    "executor": ("#009E73", "v", 50), "pykka": ("#CC79A7", "P", 50),
    "thespian": ("#8C6BB1", "X", 50), "erlang": ("#222222", "*", 90),
}  # fmt: skip
GREY = "#888888"
UNITS = ((1e-3, "1 ns"), (1e-2, "10 ns"), (1e-1, "100 ns"), (1.0, "1 µs"), (10.0, "10 µs"),
         (100.0, "100 µs"), (1e3, "1 ms"), (1e4, "10 ms"), (1e5, "100 ms"))  # fmt: skip


def draw(content: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {
        "svg.hashsalt": "otavia-ft",  # the same figures, the same file
        "svg.fonttype": "none",  # text stays text: small, sharp, and to be found by a search
        "font.family": "sans-serif",
        "font.size": 10,
    }
    from matplotlib import pyplot
    from matplotlib.ticker import NullFormatter

    results = content["results"]
    shown = [w for w in WORKLOADS if w in results and not WORKLOADS[w].ours_only]
    names = [n for n in CONTENDERS if any("median" in results[w].get(n, {}) for w in shown)]
    figure, axes = pyplot.subplots(figsize=(9.5, 0.42 * len(shown) + 1.9))
    for row, workload in enumerate(shown):
        figures = results[workload]
        values = {n: figures[n]["median"] for n in names if "median" in figures.get(n, {})}
        with_gil = [
            v["median"] for n, v in figures.items() if n.endswith("(GIL)") and "median" in v
        ]
        if not values:
            continue
        axes.plot([min(values.values()), max(values.values())], [row, row], color="#DDDDDD",
                  linewidth=1.2, zorder=1)  # fmt: skip
        if with_gil:
            axes.plot(min(with_gil), row, marker="|", color=GREY, markersize=13,
                      markeredgewidth=1.6, zorder=2)  # fmt: skip
        for name, value in values.items():
            colour, mark, size = LOOKS[name]
            axes.scatter(value, row, s=size, color=colour, marker=mark, linewidth=0.6,
                         edgecolor="white", zorder=4 if name not in PEERS else 3)  # fmt: skip
    floors = [results[w][FLOOR]["median"] for w in shown if "median" in results[w].get(FLOOR, {})]
    if floors:
        floor = sorted(floors)[len(floors) // 2]
        axes.axvline(floor, color=GREY, linewidth=1, linestyle=(0, (2, 2)), zorder=0)
        axes.annotate("the floor", (floor, -0.75), color=GREY, ha="center", va="bottom",
                      fontsize=9, annotation_clip=False)  # fmt: skip

    labels = [f"{WORKLOADS[w].title}, a {WORKLOADS[w].operation.split(' (')[0]}" for w in shown]
    labels = [
        label.replace(" a actor", " an actor")
        .replace(" a ask", " an ask")
        .removesuffix(", a median")
        for label in labels
    ]
    axes.set_yticks(range(len(shown)), labels)
    axes.set_ylim(len(shown) - 0.4, -0.7)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    inside = [(at, text) for at, text in UNITS if low <= at <= high]
    axes.set_xticks([at for at, _ in inside], [text for _, text in inside])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", color="#EEEEEE", zorder=0)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel("time of one operation; further left is faster", color="#444444")

    handles = [
        axes.scatter([], [], s=LOOKS[n][2], color=LOOKS[n][0], marker=LOOKS[n][1],
                     edgecolor="white", linewidth=0.6, label=SHORT[n])
        for n in names
    ]  # fmt: skip
    if any(n.endswith("(GIL)") for w in shown for n in results[w]):
        handles += axes.plot([], [], color=GREY, marker="|", linestyle="", markersize=11,
                             markeredgewidth=1.6, label="best peer on 3.13 with a GIL")  # fmt: skip
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.5 / figure.get_figheight()))
    figure.legend(handles=handles, ncols=5, loc="upper center", frameon=False, fontsize=9,
                  handletextpad=0.3, columnspacing=1.4)  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, metadata=metadata, facecolor="white", dpi=110)


SHORT = {
    "pinned": "otavia-ft, pinned", "pool": "otavia-ft, pool", "threads": "thread + SimpleQueue",
    "asyncio": "asyncio.Queue", "executor": "ThreadPoolExecutor", "pykka": "Pykka",
    "thespian": "Thespian", "erlang": "Erlang",
}  # fmt: skip


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(f"usage: {Path(__file__).name} FILE.json FILE.svg")
    content, path = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    try:
        draw(content, path)
    except ImportError as error:
        sys.exit(f"plot: this Python cannot draw: {error}")


if __name__ == "__main__":
    main()
