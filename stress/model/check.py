"""Run SPIN on one of the models: `check("house", "safety", {"SENDERS": 2})`.

SPIN translates a model into a C program, a compiler makes the checker of it, the checker visits the
states. All of that happens in a folder of its own, which is gone afterwards.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["PROPERTIES", "Verdict", "check", "missing"]

HERE = Path(__file__).parent
PROPERTIES = ("safety", "liveness")
DEPTH = 2_000_000  # steps of the longest run; a search that hits it is no proof, see `_read`

# Breadth first, so that the counterexample of a broken rule is a shortest one.
_COMPILE = {
    "safety": ["-DSAFETY", "-DNOCLAIM", "-DBFS"],
    # NFAIR: the room that weak fairness needs, for up to 14 processes.
    "liveness": ["-DNFAIR=3"],
}
# -A: assertions are safety's business, so that what liveness finds is about liveness.
_RUN = {"safety": [], "liveness": ["-a", "-f", "-A", f"-m{DEPTH}"]}

# What another process could notice, in the words of the models.
_SHARED = re.compile(
    r"(state|flag|bell|queue|mounting|mounted|runner|handled|work|done|late_\w+) = |mailbox[!?]"
    r"|won = \(state==|seen = flag|slept = |\(empty\(mailbox\)\)$|found = "
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What SPIN has said."""

    errors: int
    states: int
    depth: int
    seconds: float
    complaint: str = ""  # what is broken, if anything
    trail: list[str] = field(default_factory=list)  # the steps that lead there

    @property
    def proved(self) -> bool:
        return self.errors == 0


def missing() -> str | None:
    """Why the models cannot be checked here; None if they can."""
    for program, package in (("spin", "spin"), ("gcc", "gcc")):
        if shutil.which(program) is None:
            return f"there is no {program}; Debian has it in the package {package}"
    return None


def check(model: str, what: str, defines: Mapping[str, int]) -> Verdict:
    """Visit every state of a model. `what` is "safety" or "liveness"."""
    if what not in PROPERTIES:
        raise ValueError(f"no property {what!r}: there are {', '.join(PROPERTIES)}")
    given = [f"-D{name}={value}" for name, value in defines.items()]
    source = f"{model}.pml"
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="model-") as name:
        folder = Path(name)
        for file in HERE.glob("*.pml"):
            shutil.copy(file, folder)
        _run(folder, "spin", *given, "-a", source)
        _run(folder, "gcc", "-O1", "-DVECTORSZ=2048", "-DCOLLAPSE", *_COMPILE[what], "-o", "pan",
             "pan.c")  # fmt: skip
        report = _run(folder, "./pan", *_RUN[what])
        trail: list[str] = []
        if (folder / f"{source}.trail").exists():
            trail = _steps(_run(folder, "spin", *given, "-t", "-p", source), _states(folder))
    return _read(report, trail, time.monotonic() - started)


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{text}")
    return text


def _read(report: str, trail: list[str], seconds: float) -> Verdict:
    if "max search depth too small" in report or "error: search depth" in report:
        raise RuntimeError(f"the search was cut short, so it proves nothing:\n{report}")
    errors = re.search(r"errors: (\d+)", report)
    states = re.search(r"(\d[\d.e+]*) states, stored", report)
    depth = re.search(r"depth reached (\d+)", report)
    if not (errors and states and depth):
        raise RuntimeError(f"SPIN said something unexpected:\n{report}")
    complaint = re.search(r"^pan:1: (.*?) \(at depth", report, re.MULTILINE)
    return Verdict(
        errors=int(errors[1]),
        states=int(float(states[1])),
        depth=int(depth[1]),
        seconds=seconds,
        complaint=complaint[1] if complaint else "",
        trail=trail,
    )


def _steps(text: str, states: Sequence[str]) -> list[str]:
    """What the trail does to shared memory, one line each: `worker 0      state = WAITING`."""
    lines = []
    for process, name, statement in re.findall(
        r"^\s*\d+:\s+proc\s+(\d+) \((\w+):\d+\).*?\[(.*)\]$", text, re.MULTILINE
    ):
        if _SHARED.match(statement):
            # SPIN numbers the names of an mtype from its end, and prints some as numbers.
            told = re.sub(r"(state ?==? ?)(\d+)", lambda m: m[1] + states[-int(m[2])], statement)
            lines.append(f"{name} {process}".ljust(14) + told)
    return lines


def _states(folder: Path) -> list[str]:
    names = re.search(r"mtype = \{(.*?)\}", (folder / "table.pml").read_text(encoding="utf-8"))
    assert names is not None
    return [name.strip() for name in names[1].split(",")]
