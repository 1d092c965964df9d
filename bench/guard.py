"""Has the message path become slower? Compares this tree with another revision, in one run.

The other revision is unpacked into a temporary folder and its compiled module is built there; then
both run the same workloads (those of this tree) in turns. A workload fails if the ratio of the
medians is above the limit and even the best run here is slower than the median there, which is
what a real slowdown looks like and a busy machine hardly ever.

    ./ft bench guard                      against HEAD
    ./ft bench guard --base v0.1 --rounds 15
    ./ft bench guard --base v0.1 --docs   with a release: its figures go to docs/performance.md
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import facts, median, table
from savina import report
from savina.catalogue import WORKLOADS
from savina.host import Child, FailedError

ROOT = Path(__file__).resolve().parent.parent
GUARDED = (
    "counting", "fan-in", "ping-pong", "ring", "ask-reply", "ask-reply-await", "fork-join", "big",
)  # fmt: skip


def unpack(revision: str, folder: Path) -> None:
    """Another revision with its compiled module, without touching this checkout."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", revision], cwd=ROOT, capture_output=True
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
        sys.exit(f"guard: {revision} does not build:\n{built.stderr[-2000:]}")


def start(folder: Path, dispatcher: str) -> Child:
    child = Child(dispatcher, sys.executable, {"PYTHONPATH": str(folder)})
    package = child.hello.get("package")
    if package is None or not Path(package).is_relative_to(folder):
        child.close()
        raise FailedError(f"it runs {package or child.absent}, not the package in {folder}")
    return child


def compare(workload: str, base: Path, options: argparse.Namespace) -> dict[str, list[float]]:
    """Microseconds an operation of both, in turns; who goes first changes with every round."""
    n = WORKLOADS[workload].small if options.smoke else WORKLOADS[workload].n // 2
    figures: dict[str, list[float]] = {"base": [], "here": []}
    children: dict[str, Child] = {}
    try:
        children["base"] = start(base, options.dispatcher)
        children["here"] = start(ROOT, options.dispatcher)
        for turn in range(options.rounds + 1):
            for name in sorted(children, reverse=bool(turn % 2)):
                run = children[name].run(workload, n)
                if turn:  # the first one warms up
                    figures[name].append(run["seconds"] / run["operations"] * 1e6)
    finally:
        for child in children.values():
            child.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="HEAD", help="the revision to compare with")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--limit", type=float, default=1.25, help="the ratio that fails")
    parser.add_argument("--dispatcher", choices=("pinned", "pool"), default="pinned")
    parser.add_argument("--only", nargs="+", choices=GUARDED, default=GUARDED)
    parser.add_argument("--smoke", action="store_true", help="tiny, and no verdict")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--docs", action="store_true", help="write the table to the docs")
    options = parser.parse_args()
    if options.smoke:
        options.rounds = 1

    rows, figures, slower = [], {}, []
    with tempfile.TemporaryDirectory(prefix="otavia-ft-guard-") as folder:
        base = Path(folder).resolve()
        unpack(options.base, base)
        for workload in options.only:
            try:
                runs = figures[workload] = compare(workload, base, options)
            except FailedError as error:
                sys.exit(f"guard: {workload}: {error}")
            ratio = median(runs["here"]) / median(runs["base"])
            failed = ratio > options.limit and min(runs["here"]) > median(runs["base"])
            if failed:
                slower.append(workload)
            rows.append(
                [workload, f"{median(runs['base']):.2f}", f"{median(runs['here']):.2f}",
                 f"{ratio:.2f}", "-" if options.smoke else "FAIL" if failed else "PASS"]
            )  # fmt: skip
    columns = ["workload", options.base, "here", "ratio", "verdict"]
    table(f"Microseconds an operation: {options.base} and this tree", columns, rows)
    if options.docs:
        report.replace_block(
            "guard",
            f"{report.machine_line(facts())}Dispatcher {options.dispatcher}, {options.rounds} "
            f"rounds; microseconds an operation.\n\n{report.markdown(('', columns, rows))}",
        )
    if options.json:
        content = {"facts": facts(), "base": options.base, "runs": figures, "slower": slower}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    sys.exit(1 if slower and not options.smoke else 0)


if __name__ == "__main__":
    main()
