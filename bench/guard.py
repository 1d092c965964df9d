"""Has the message path become slower? Compares this tree with another revision, in one run.

The other revision is unpacked into a temporary folder and its compiled module is built there; then
both run the same workloads (those of this tree) in turns, under both dispatchers. A workload fails
if this tree takes longer by more than three standard errors of what was measured, and by more than
a twentieth: `slowdown` in savina/bars.py.

    ./ft bench guard                      against HEAD
    ./ft bench guard --base v0.1 --rounds 15
    ./ft bench guard --base v0.1 --docs   before a release: to docs/performance.md
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import ROOT, facts, median, revision, table
from savina import report
from savina.bars import slowdown
from savina.catalogue import OURS, WORKLOADS
from savina.host import Child, FailedError

GUARDED = (
    "counting", "fan-in", "ping-pong", "ring", "ask-reply", "ask-reply-await", "fork-join", "big",
)  # fmt: skip


def unpack(name: str, folder: Path) -> None:
    """That revision with its compiled module, without touching this checkout."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", name], cwd=ROOT, capture_output=True
    )
    if archive.returncode:
        sys.exit(f"guard: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    built = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    if built.returncode:
        sys.exit(f"guard: {name} does not build:\n{built.stderr[-2000:]}")


def start(folder: Path, dispatcher: str) -> Child:
    child = Child(dispatcher, sys.executable, {"PYTHONPATH": str(folder)})
    package = child.hello.get("package")
    if package is None or not Path(package).is_relative_to(folder):
        child.close()
        raise FailedError(f"it runs {package or child.absent}, not the package in {folder}")
    return child


def compare(
    workload: str, dispatcher: str, base: Path, options: argparse.Namespace
) -> dict[str, list[float]]:
    """Microseconds an operation of both, in turns; who goes first changes with every round. Every
    round has new processes: where things lie in memory makes one faster for as long as it lives."""
    work = WORKLOADS[workload]
    n = work.small if options.smoke else work.n // 2
    figures: dict[str, list[float]] = {"base": [], "here": []}
    for turn in range(options.rounds):
        children: dict[str, Child] = {}
        try:
            children["base"] = start(base, dispatcher)
            children["here"] = start(ROOT, dispatcher)
            for name in sorted(children, reverse=bool(turn % 2)):
                children[name].run(workload, max(work.small, n // 10))  # warms up
                run = children[name].run(workload, n)
                figures[name].append(run["seconds"] / run["operations"] * 1e6)
        finally:
            for child in children.values():
                child.close()
    return figures


def rows(figures: Mapping[str, Mapping[str, list[float]]], smoke: bool) -> list[list[str]]:
    """(workload, microseconds of base, of here, their ratio, the limit, the verdict)"""
    made = []
    for workload, runs in figures.items():
        found = slowdown(runs["base"], runs["here"])
        verdict = (
            ["-", "-"] if smoke else [f"{found.limit:.2f}", "FAIL" if found.failed else "PASS"]
        )
        made.append(
            [workload, f"{median(runs['base']):.2f}", f"{median(runs['here']):.2f}",
             f"{found.ratio:.2f}", *verdict]
        )  # fmt: skip
    return made


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="HEAD", help="the revision to compare with")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--dispatcher", nargs="+", choices=OURS, default=list(OURS))
    parser.add_argument("--only", nargs="+", choices=GUARDED, default=GUARDED)
    parser.add_argument("--smoke", action="store_true", help="tiny, and no verdict")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--docs", action="store_true", help="write the tables to the docs")
    options = parser.parse_args()
    if options.docs and (options.smoke or len(set(options.only)) < len(GUARDED)):
        parser.error("--docs wants a whole run: without --smoke and without --only")
    if options.rounds < 5 and not options.smoke:
        parser.error("--rounds wants 5 or more: a verdict is held against the rounds' spread")
    if options.smoke:
        options.rounds = 1
    return options


def main() -> None:
    options = arguments()
    machine = facts()  # before the load is our own
    try:
        revisions = {"base": revision(options.base), "here": revision()}
    except LookupError as error:
        sys.exit(f"guard: {error}")
    columns = ["workload", *(f"{name}: {text}" for name, text in revisions.items()), "ratio",
               "limit", "verdict"]  # fmt: skip
    runs: dict[str, dict[str, dict[str, list[float]]]] = {}
    failed = []
    with tempfile.TemporaryDirectory(prefix="otavia-ft-guard-") as folder:
        base = Path(folder).resolve()
        unpack(options.base, base)
        for dispatcher in options.dispatcher:
            runs[dispatcher] = {}
            for workload in options.only:
                try:
                    runs[dispatcher][workload] = compare(workload, dispatcher, base, options)
                except FailedError as error:
                    sys.exit(f"guard: {workload}: {error}")
            made = rows(runs[dispatcher], options.smoke)
            failed += [f"{dispatcher}: {row[0]}" for row in made if row[-1] == "FAIL"]
            title = f"Dispatcher {dispatcher}, microseconds an operation"
            table(title, columns, made)
            if options.docs:
                machine_line = report.machine_line({**machine, "rounds": options.rounds})
                block = report.markdown((title, columns, made))
                report.replace_block(f"guard-{dispatcher}", f"{machine_line}\n{block}")
    if options.json:
        content = {"facts": machine, "revisions": revisions, "runs": runs, "slower": failed}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
