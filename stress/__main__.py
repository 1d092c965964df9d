"""The parallel stress engine's command line: `./ft stress`, or `python -m stress`.

Real threads run closed workloads against the runtime, each case in a child process. The exit status
is 0 if nothing was found, 1 for a finding, 2 for a wrong argument or a report that could not be
written, 130 if it was interrupted; the figures so far are told then, too.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Sequence
from typing import Any

from stress.arguments import file_to_write, positive, positive_float
from stress.display import display
from stress.parallel.engine import NAMES, Outcome, Plan, run
from stress.parallel.invariants import INVARIANTS
from stress.parallel.report import finding_text, share_lines, summary, write_json, write_junit

__all__ = ["main"]

LONG_S = 3600.0


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./ft stress",
        description="Run real threads against the runtime, in child processes, and check that "
        "nothing is lost, doubled, out of order or run twice at once.",
    )
    add = parser.add_argument
    add("--seconds", type=positive_float, metavar="S", help="end after that long (30)")
    add("--long", action="store_true", help=f"as --seconds {LONG_S:.0f} --keep-going")
    add("--cases", type=positive, metavar="N", help="end after that many cases")
    add("--seed", type=int, help="of the first case, the next one has the next number (random)")
    add("--workload", choices=NAMES, help="only this one (by default the seed draws it)")
    add("--workers", type=positive, metavar="N", help="threads of each system (drawn)")
    add("--scheduler", choices=("pinned", "pool"), help="only this one, but for the workloads that "
        "are made for the pinned one (drawn)")  # fmt: skip
    add("--jobs", type=positive, metavar="N", help="children at a time (as many as cores)")
    add("--scale", type=positive, default=1, metavar="N",
        help="bursts N times as long, without stalls and instruments: a soak (1)")  # fmt: skip
    add("--keep-going", action="store_true", help="do not end at the first finding")
    add("--patience", type=positive_float, default=10.0, metavar="S",
        help="a case in which nothing happens for that long hangs (10)")  # fmt: skip
    add("--mutant", metavar="NAME", help="plant this bug in the children: see ./ft mutants")
    add("--json", type=file_to_write, metavar="FILE", help="write a report; - is standard output")
    add("--junit", type=file_to_write, metavar="FILE", help="write a report for CI")
    add("--list", action="store_true", help="say which workloads and invariants there are")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments()
    options = parser.parse_args(argv)
    if options.list:
        _list()
        return 0
    if options.mutant is not None:
        from stress.mutants import mutants

        if options.mutant not in mutants():
            parser.error(f"no mutant {options.mutant}; ./ft mutants --list says which there are")
    seconds = options.seconds
    if seconds is None and options.cases is None:
        seconds = LONG_S if options.long else 30.0
    plan = Plan(
        seed=random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed,
        seconds=seconds,
        cases=options.cases,
        workload=options.workload,
        workers=options.workers,
        scheduler=options.scheduler,
        jobs=options.jobs or os.process_cpu_count() or 1,
        mutant=options.mutant,
        scale=options.scale,
        patience_s=options.patience,
        keep_going=options.keep_going or options.long,
    )
    # Standard output may be the JSON report; people read the other one then.
    say: Any = sys.stderr if options.json == "-" else sys.stdout
    print(f"seed {plan.seed}", file=say, flush=True)
    with display("stressing") as show:
        outcome = run(plan, lambda so_far: show(_told(so_far)))
    for finding in outcome.findings:
        print(finding_text(finding), end="\n\n", file=say)
    print(*share_lines(outcome), summary(outcome), sep="\n", file=say)
    written = True
    for write, path in (write_json, options.json), (write_junit, options.junit):
        try:
            if path:
                write(outcome, path)
        except OSError as error:
            written = False
            print(f"stress: {path} is not written: {error}", file=sys.stderr)
    if outcome.interrupted:
        return 130
    return 1 if outcome.findings else 0 if written else 2


def _list() -> None:
    from stress.parallel.workloads import WORKLOADS

    print("workloads:")
    for name, kind in WORKLOADS.items():
        print(f"  {name:12}{(kind.__doc__ or '').strip().splitlines()[0]}")
    print("invariants:")
    for invariant in INVARIANTS.values():
        print(f"  {invariant.name:18}{invariant.statement}")


def _told(outcome: Outcome) -> str:
    """How far the run is, for a terminal."""
    colour = "red" if outcome.findings else "green"
    return (
        f"{outcome.cases} cases, {outcome.messages} messages, {outcome.turns} turns, "
        f"{outcome.steals} steals, [{colour}]{len(outcome.findings)} findings[/], "
        f"{outcome.seconds:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
