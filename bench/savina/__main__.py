"""One contender in a process of its own: reads `{"workload": ..., "n": ...}` lines, writes results.

The first line it writes says what it is: whether its import turned the GIL on, and what it can run.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

if TYPE_CHECKING:
    from savina.kits import Kit

Runs = dict[str, Callable[[int], dict[str, Any]]]


def runs_of(contender: str) -> Runs:
    if contender == "floor":
        from savina import floor

        floor.with_second_thread()
        return {"*": floor.floor}
    if contender in ("pinned", "pool"):
        from savina import growth, otavia, otavia_jobs, otavia_load

        otavia.dispatcher = contender
        modules = (otavia, otavia_jobs, otavia_load, growth)
        return {name: run for module in modules for name, run in module.WORKLOADS.items()}
    from savina.catalogue import WHY_NOT
    from savina.peers import PROGRAMS

    kit = kit_of(contender)
    kit()  # is it installed?
    runs: Runs = {
        name: lambda n, program=program: kit().measure(program, n)
        for name, program in PROGRAMS.items()
        if (contender, name) not in WHY_NOT
    }
    for name in extras_of(kit):
        runs[name] = lambda n, name=name: kit().extras()[name](n)
    return runs


def kit_of(contender: str) -> type[Kit]:
    from savina import kits, kits_executor, kits_others

    kinds: dict[str, type[Kit]] = {
        "threads": kits.Threads,
        "asyncio": kits.Asyncio,
        "executor": kits_executor.Executor,
        "pykka": kits_others.Pykka,
        "thespian": kits_others.Thespian,
    }
    return kinds[contender]


def extras_of(kit: type[Kit]) -> list[str]:
    """Of a kit that need not be installed."""
    return list(kit.extras(kit.__new__(kit)))


def main(contender: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a contender prints does not belong among the answers
    warnings.simplefilter("ignore", RuntimeWarning)  # the GIL is reported below
    try:
        runs = runs_of(contender)
    except ImportError as error:
        print(json.dumps({"absent": str(error)}), file=answers, flush=True)
        return
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    ours = sys.modules.get("otavia_ft")
    hello = {
        "gil": gil,
        "python": platform.python_version(),
        "runs": sorted(runs),
        "package": getattr(ours, "__file__", None),
    }
    print(json.dumps(hello), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        gc.collect()
        try:
            answer = runs.get(order["workload"], runs.get("*"))(order["n"])
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)  # threads that a contender left behind are not our business


if __name__ == "__main__":
    main(sys.argv[1])
