"""How many schedules a second the explorer runs, in each of its ways to search.

Seconds are the process's own CPU time: the explorer has one thread, so on an idle machine that is
the time on the wall, and on a busy one it still says what a schedule costs. What a search learns
first (which words are shared) is part of it, the import of the runtime is not.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from _measure import alternate, arguments, finish, median, table, verdict

sys.path.append(str(Path(__file__).resolve().parent.parent))

from stress.explorer import explore, scenarios
from stress.explorer.loading import load_runtime

SMALL = ("park-wake", "two-thieves", "spin-lock")
LARGER = ("complete-running",)  # a whole house and a worker's loop: more steps, no bar
BARS = {"pct": 1000, "dpor": 400}  # schedules a second, in each of the small ones


def searching(name: str, mode: str, model: str, schedules: int):
    """A search of so many schedules, or of all there are; returns how many it made a second."""
    cls = scenarios()[name]
    runtime = load_runtime(*cls.runtime)

    def run() -> float:
        began, done = time.process_time(), 0
        while done < schedules:
            result = explore(cls, mode, model=model, schedules=schedules - done, runtime=runtime)
            assert result.violation is None, result.violation
            done += result.schedules
        return done / (time.process_time() - began)

    return run


def main() -> None:
    options = arguments("Schedules a second of the explorer.", rounds=5)
    schedules = 20 if options.quick else 500
    ways = [(mode, model) for mode in ("pct", "random", "dpor") for model in ("sc", "tso")]
    contenders = {
        f"{name} {mode}/{model}": searching(name, mode, model, schedules)
        for name in (*SMALL, *LARGER)
        for mode, model in ways
    }
    figures = alternate(contenders, options.rounds)
    rates = {name: median(runs) for name, runs in figures.items()}
    table(
        "schedules a CPU second",
        ["scenario", *(mode if model == "sc" else f"+{model}" for mode, model in ways)],
        [
            [name, *(f"{rates[f'{name} {mode}/{model}']:,.0f}" for mode, model in ways)]
            for name in (*SMALL, *LARGER)
        ],
    )
    for mode, bar in BARS.items():
        rate, slowest = min((rates[f"{name} {mode}/sc"], name) for name in SMALL)
        verdict(f"{mode}: {rate:,.0f} schedules a second in {slowest} (bar {bar:,})", rate >= bar)
    finish(options, figures)


if __name__ == "__main__":
    main()
