"""Draw the figures of `./ft bench messages --json FILE`: plot.py FILE.json FILE.svg

Needs matplotlib, on any Python: `python3 bench/plot.py figures.json docs/_static/bench.svg`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from savina.catalogue import WORKLOADS
from savina.report import names_in


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the figures of a JSON file.")
    parser.add_argument("json", type=Path, nargs="?")
    parser.add_argument("picture", type=Path, nargs="?")
    parser.add_argument("--smoke", action="store_true", help="only see whether it could draw")
    options = parser.parse_args()
    try:
        import matplotlib
    except ImportError:
        sys.exit(0 if options.smoke else "plot: this Python has no matplotlib")
    if options.smoke:
        return
    if not (options.json and options.picture):
        parser.error("give a JSON file and a picture's name")
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "otavia-ft"  # the same figures, the same file
    from matplotlib import pyplot

    results = json.loads(options.json.read_text())["results"]
    names = [name for name in names_in(results) if not name.endswith("(GIL)")]
    shown = [w for w in results if not WORKLOADS[w].ours_only]
    figure, axes = pyplot.subplots(figsize=(9, 0.55 * len(shown) + 1.5))
    height = 0.8 / max(1, len(names))
    for i, name in enumerate(names):
        places, values = [], []
        for row, workload in enumerate(shown):
            value = results[workload].get(name, {}).get("median")
            if value:
                places.append(row - 0.4 + (i + 0.5) * height)
                values.append(value)
        axes.barh(places, values, height, label=name)
    axes.set_yticks(range(len(shown)), [WORKLOADS[w].title for w in shown])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("microseconds an operation (log scale; shorter is better)")
    axes.legend(fontsize=8)
    axes.grid(axis="x", alpha=0.3)
    figure.tight_layout()
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
