"""Plant each mutant and see who notices: `./ft mutants`, or `python -m stress.mutants`.

The parallel engine runs the mutant's workload; the explorer, if a scenario is named, searches that
scenario. A mutant that no engine notices makes the exit status 1; an interrupt makes it 130.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from stress.arguments import positive, positive_float
from stress.display import display
from stress.mutants import Mutant, mutants
from stress.parallel.engine import ROOT, Plan, run

__all__ = ["main"]

Show = Callable[[str], None]

# In a child: the explorer's carriers turn the GIL on, which the parallel engine cannot use.
_EXPLORE = """
import json, sys
from stress.explorer.engine import explore
from stress.explorer.loading import load_runtime
from stress.explorer.scenario import scenarios
from stress.mutants import mutants

mutant, seconds = mutants()[sys.argv[1]], float(sys.argv[2])
cls = scenarios()[mutant.scenario]
changes = mutant.doors() if mutant.doors is not None else None
runtime = load_runtime(*cls.runtime, patches=mutant.patches, changes=changes)
schedules = 0

def tell(result):
    print(json.dumps({"so_far": schedules + result.schedules}), flush=True)

for mode in ("bound", "pct"):
    result = explore(cls, mode, model=mutant.model, runtime=runtime, sizes=dict(mutant.sizes),
                     seconds=seconds / 2, schedules=None if mode == "bound" else 10**9,
                     progress=tell)
    schedules += result.schedules
    if result.violation is not None:
        break
found = result.violation
print(json.dumps({"schedules": schedules, "found": found and f"{found.kind}: {found}"}))
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="./ft mutants", description="Plant known bugs, one at a "
                                     "time, and check that each is found.")  # fmt: skip
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="mutants; all of them if none is given")
    add("--list", action="store_true", help="say which mutants there are")
    add("--seconds", type=positive_float, default=20.0, metavar="S",
        help="for each engine and mutant (20)")  # fmt: skip
    add("--seed", type=int, default=1, help="of the parallel engine's first case (1)")
    add("--engine", choices=("both", "parallel", "explorer", "faster"), default="both",
        help="faster: the explorer where a scenario is named, else threads (both)")  # fmt: skip
    add("--jobs", type=positive, default=os.process_cpu_count() or 1, metavar="N",
        help="children at a time (as many as cores)")  # fmt: skip
    options = parser.parse_args(argv)
    known = mutants()
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no mutant {', '.join(unknown)}; --list says which there are")
    chosen = [known[name] for name in options.names] or list(known.values())
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name:28}{mutant.breaks}")
        return 0
    survivors: list[str] = []
    done = 0
    print(f"{'mutant':28}{'parallel engine':52}explorer")
    try:
        with display("planting") as show:
            for mutant in chosen:
                by_threads = by_search = None
                engines = _engines(mutant, options.engine)
                if "parallel" in engines:
                    by_threads = _parallel(mutant, options, show)
                if "explorer" in engines:
                    by_search = _explorer(mutant, options.seconds, show)
                columns = [text if text is not None else "-" for text in (by_threads, by_search)]
                print(f"{mutant.name:28}{columns[0]:52}{columns[1]}", flush=True)
                if not any(text and text.startswith("caught") for text in (by_threads, by_search)):
                    survivors.append(mutant.name)
                done += 1
    except KeyboardInterrupt:
        status = 130
    else:
        status = 1 if survivors else 0
    print(f"{done - len(survivors)} of {done} mutants caught", end="")
    print(f"; not caught: {', '.join(survivors)}" if survivors else "")
    return status


def _engines(mutant: Mutant, wanted: str) -> set[str]:
    able = {"parallel"} if mutant.workload is not None else set()
    if mutant.scenario is not None:
        able.add("explorer")
    if wanted == "faster":
        return able & {"explorer"} or able
    return able if wanted == "both" else able & {wanted}


def _parallel(mutant: Mutant, options: argparse.Namespace, show: Show) -> str:
    plan = Plan(options.seed, seconds=options.seconds, workload=mutant.workload,
                jobs=options.jobs, mutant=mutant.name, patience_s=4.0)  # fmt: skip
    outcome = run(plan, lambda so_far: show(f"{mutant.name}: {so_far.messages} messages"))
    if outcome.interrupted:
        raise KeyboardInterrupt
    if not outcome.findings:
        return f"missed: {outcome.messages} messages, {outcome.seconds:.1f} s"
    first: dict[str, Any] = outcome.findings[0]
    said = " ".join(first.get("stacks", []))
    broken = "PatchError" in said or "BuildError" in said
    verdict = "BROKEN PATCH" if broken else f"caught by {first['invariant']}"
    return f"{verdict}: {outcome.messages} messages, {outcome.seconds:.1f} s"


def _explorer(mutant: Mutant, seconds: float, show: Show) -> str:
    started = time.monotonic()
    command = [sys.executable, "-c", _EXPLORE, mutant.name, str(seconds)]
    answer: dict[str, Any] = {}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as child,
    ):
        assert child.stdout is not None
        for line in child.stdout:
            answer = json.loads(line)
            if "so_far" in answer:
                show(f"{mutant.name}: {answer['so_far']} schedules")
        status = child.wait()
        errors.seek(0)
        last = (errors.read().strip().splitlines() or ["no output"])[-1]
    took = time.monotonic() - started
    if status != 0:
        return f"BROKEN: {last[:60]}"
    if answer["found"] is None:
        return f"missed: {answer['schedules']} schedules, {took:.1f} s"
    kind = answer["found"].split(":")[0]
    return f"caught by {kind}: {answer['schedules']} schedules, {took:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
