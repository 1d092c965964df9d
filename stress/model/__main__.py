"""Check the models: `./ft shell -m stress.model`. The exit status is 1 if SPIN objects.

Every size must be proved, every deliberate bug must be found.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from stress.model import BUGS, LARGE, SIZES
from stress.model.check import PROPERTIES, check, missing

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="stress.model", description=__doc__)
    add = parser.add_argument
    add("--large", action="store_true", help="larger sizes too: some minutes, some gigabytes")
    add("--bug", choices=[bug.name for bug in BUGS], help="show what this bug leads to")
    options = parser.parse_args(argv)
    reason = missing()
    if reason is not None:
        parser.error(reason)
    if options.bug:
        bug = next(bug for bug in BUGS if bug.name == options.bug)
        verdict = check(bug.model, bug.by[0], {bug.name: 1, **bug.sizes})
        print(f"{bug.model}.pml with {bug.name}: {bug.breaks}", *verdict.trail, sep="\n")
        print(f"=> {verdict.complaint}")
        return 1 if verdict.proved else 0
    wrong = _prove(SIZES + LARGE if options.large else SIZES) + _find()
    print(f"{wrong} surprises" if wrong else "all as it should be")
    return 1 if wrong else 0


def _prove(sizes: list[tuple[str, dict[str, int]]]) -> int:
    wrong = 0
    print(f"{'model':10}{'sizes':48}{'property':10}{'states':>10}  verdict")
    for model, defines in sizes:
        for what in PROPERTIES:
            verdict = check(model, what, defines)
            text = "proved" if verdict.proved else f"BROKEN: {verdict.complaint}"
            told = " ".join(f"{name}={value}" for name, value in defines.items())
            print(f"{model:10}{told:48}{what:10}{verdict.states:>10}  {text}, "
                  f"{verdict.seconds:.1f} s", flush=True)  # fmt: skip
            wrong += not verdict.proved
    return wrong


def _find() -> int:
    wrong = 0
    for bug in BUGS:
        verdict = check(bug.model, bug.by[0], {bug.name: 1, **bug.sizes})
        text = "NOT FOUND" if verdict.proved else f"found after {verdict.states} states"
        print(f"{bug.model:10}{bug.name:26}{text}: {bug.breaks}", flush=True)
        wrong += verdict.proved
    return wrong


if __name__ == "__main__":
    sys.exit(main())
