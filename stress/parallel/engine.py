"""The parent: draws cases, runs each in a child process, collects what they report.

A child that crashes, or that has to be killed, is a finding like any other. How long a case may
take is for the child to judge, which sees whether anything happens. Here is the last resort: a
child that has given no sign of life for a long time cannot judge any more.

A run's time is up for its children too: each ends with the round under way, and one whose round
takes longer than that is ended here. But only just after a sign of life: one that stands still is
left to its own watchdog, or the end of a run would hide what hangs.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stress.parallel.draw import Case, draw

__all__ = ["NAMES", "Outcome", "Plan", "run", "run_case"]

ROOT = Path(__file__).resolve().parent.parent.parent
FIGURES = ("rounds", "messages", "turns", "steals")
SILENCE_S = 60.0  # beyond the child's own patience, and only if it has said nothing for so long
GRACE_S = 5.0  # for the round that is under way when the time is up

# The parent does not import the runtime, so that a mutant or a crash concerns the children only.
# A test compares this with what there is.
NAMES = ["count", "tokens", "bounded", "asks", "barrier", "batch", "restart", "churn", "mount",
         "stop", "shutdown", "stealing", "priority", "timers", "parts", "stacks",
         "pressure", "channels", "signals", "placement", "flood"]  # fmt: skip


@dataclass(slots=True)
class Plan:
    """What to run. A run ends after so many seconds or cases, or at the first finding."""

    seed: int
    seconds: float | None = None
    cases: int | None = None
    workload: str | None = None
    workers: int | None = None
    scheduler: str | None = None
    jobs: int = 1
    mutant: str | None = None
    scale: int = 1
    patience_s: float = 10.0
    keep_going: bool = False
    workloads: list[str] = field(default_factory=lambda: list(NAMES))

    def case(self, index: int) -> Case:
        case = draw(
            self.seed + index,
            self.workloads,
            workload=self.workload,
            workers=self.workers,
            mutant=self.mutant,
            scale=self.scale,
            patience_s=self.patience_s,
        )
        if self.scheduler is None:
            return case
        return replace(
            case,
            settings={**case.settings, "dispatcher": self.scheduler},
            forced={**case.forced, "scheduler": self.scheduler},
        )


@dataclass(slots=True)
class Outcome:
    """What has come of a run so far."""

    seed: int
    cases: int = 0
    unfinished: int = 0
    """Cases that were ended by the clock, the user or another's finding. Their messages count."""
    interrupted: bool = False
    rounds: int = 0
    messages: int = 0
    turns: int = 0
    steals: int = 0
    seconds: float = 0.0
    shares: list[dict[str, Any]] = field(default_factory=list)
    """How much of it each workload had, by scheduler and lane."""
    findings: list[dict[str, Any]] = field(default_factory=list)

    def add(self, case: Case, report: dict[str, Any]) -> None:
        settings = report.get("settings", case.settings)
        share = self._share(case.workload, settings["dispatcher"], case.lane)
        if report.get("unfinished"):
            self.unfinished += 1
        else:
            self.cases += 1
            share["cases"] += 1
        for name in FIGURES:
            setattr(self, name, getattr(self, name) + report.get(name, 0))
            share[name] += report.get(name, 0)
        for finding in report["findings"]:
            self.findings.append(
                {
                    "seed": case.seed,
                    "workload": case.workload,
                    "command": case.command(),
                    "settings": settings,
                    "lane": case.lane,
                    **finding,
                }
            )

    def _share(self, workload: str, scheduler: str, lane: str) -> dict[str, Any]:
        key = {"workload": workload, "scheduler": scheduler, "lane": lane}
        for share in self.shares:
            if key.items() <= share.items():
                return share
        self.shares.append({**key, "cases": 0, **dict.fromkeys(FIGURES, 0)})
        return self.shares[-1]


def run(plan: Plan, on_update: Callable[[Outcome], Any] = lambda outcome: None) -> Outcome:
    """Run cases on `jobs` children at a time until the plan's limit, a finding or Ctrl-C."""
    return _Run(plan, on_update).to_the_end()


class _Run:
    def __init__(self, plan: Plan, on_update: Callable[[Outcome], Any]) -> None:
        self.plan = plan
        self.outcome = Outcome(plan.seed)
        self.on_update = on_update
        self.started = time.monotonic()
        self.lock = threading.Lock()
        self.under_way: dict[int, dict[str, Any]] = {}
        self.begun = 0

    def to_the_end(self) -> Outcome:
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self.plan.jobs)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            self.outcome.interrupted = True  # so that nobody is interested in the children any more
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        self.outcome.seconds = time.monotonic() - self.started
        return self.outcome

    def _work(self) -> None:
        while (case := self._next_case()) is not None:
            report = run_case(case, self._goes_on, self._left())
            with self.lock:
                self.under_way.pop(threading.get_ident(), None)
                self.outcome.add(case, report)
                self._show()

    def _goes_on(self, said: dict[str, Any]) -> bool:
        """A child is under way, and this is what it has said so far."""
        with self.lock:
            self.under_way[threading.get_ident()] = said
            self._show()
        return not self._over()

    def _show(self) -> None:
        so_far = {
            name: getattr(self.outcome, name) + sum(s.get(name, 0) for s in self.under_way.values())
            for name in FIGURES
        }
        self.outcome.seconds = time.monotonic() - self.started
        self.on_update(replace(self.outcome, **so_far))

    def _next_case(self) -> Case | None:
        plan = self.plan
        with self.lock:
            left = self._left()
            late = left is not None and left <= 0
            enough = plan.cases is not None and self.begun >= plan.cases
            if enough or (late and self.begun > 0) or self._over():
                return None
            self.begun += 1
            return plan.case(self.begun - 1)

    def _left(self) -> float | None:
        """How many seconds the run has left, if they are limited."""
        if self.plan.seconds is None:
            return None
        return self.plan.seconds - (time.monotonic() - self.started)

    def _over(self) -> bool:
        """Whether the user, or a case that has found something, has ended the run."""
        found = bool(self.outcome.findings) and not self.plan.keep_going
        return found or self.outcome.interrupted


def run_case(
    case: Case,
    goes_on: Callable[[dict[str, Any]], bool] = lambda said: True,
    seconds: float | None = None,
) -> dict[str, Any]:
    """One child, to its end. `goes_on` is asked now and then; if it says no, the child is ended.

    After so many seconds the child begins no other round, and soon after that it is ended. What a
    child has said before it was ended is its report, which is then marked as `unfinished`.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "OTAVIA_FT", "PYTEST", "COV_"))
    }
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            [sys.executable, "-m", "stress.parallel.child", json.dumps(case.as_dict()),
             *([] if seconds is None else [str(seconds)])],
            cwd=ROOT,  # `stress` is found here; it is not installed
            process_group=0,  # Ctrl-C is for this process alone, which then ends its children
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
        )  # fmt: skip
        limit, silent, ended = case.patience_s + SILENCE_S, False, False
        said: dict[str, Any] = {}
        began = heard_at = time.monotonic()
        for line in _lines(child):
            if line:
                heard_at = time.monotonic()
                said |= _understood(line)
                late = seconds is not None and heard_at - began > max(0.0, seconds) + GRACE_S
                ended = late and "so_far" in line
            else:
                silent = time.monotonic() - heard_at > limit
                ended = not silent and not goes_on(said)
            if silent or ended:
                child.kill()
                break
        status = child.wait()
        errors.seek(0)
        err = errors.read().decode(errors="replace")
    if "findings" in said:
        return said
    if silent:
        text = f"the child was killed: it gave no sign of life for {limit:.0f} s"
        return said | _failed("no-lost-wake-up", text, err)
    if ended:
        return said | {"findings": [], "unfinished": True}
    return said | _crashed(status, err)


def _lines(child: subprocess.Popen[bytes]) -> Iterator[str]:
    """The child's lines as they come; an empty one now and then, while none comes."""
    assert child.stdout is not None
    rest = b""
    with child.stdout as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], 0.2)
            if not ready:
                yield ""
                continue
            more = os.read(pipe.fileno(), 1 << 16)
            if not more:
                return
            *lines, rest = (rest + more).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")


def _understood(line: str) -> dict[str, Any]:
    """A sign of life or the report, as one record; each replaces what was said before."""
    try:
        said: dict[str, Any] = json.loads(line)
    except ValueError:
        return {}  # cut off by a crash
    return said.pop("so_far", {}) | said


def _crashed(status: int, err: str) -> dict[str, Any]:
    name = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    return _failed("no-crash", f"the child ended with {name} and without a report", err)


def _failed(invariant: str, text: str, err: str) -> dict[str, Any]:
    tail = err.strip().splitlines()[-40:]
    return {"findings": [{"invariant": invariant, "text": text, "stacks": tail}]}
