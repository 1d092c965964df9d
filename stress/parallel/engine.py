"""The parent: draws cases, runs each in a child process, collects what they report.

A child that crashes, or that has to be killed, is a finding like any other.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stress.parallel.draw import Case, draw

__all__ = ["NAMES", "Outcome", "Plan", "run", "run_case"]

ROOT = Path(__file__).resolve().parent.parent.parent
KILL_AFTER_S = 90.0  # the child's own watchdog comes long before this; more for a soak

# The parent does not import the runtime, so that a mutant or a crash concerns the children only.
# A test compares this with what there is.
NAMES = ["count", "tokens", "bounded", "asks", "barrier", "batch", "restart", "churn", "mount",
         "stop", "shutdown", "stealing", "priority", "timers", "parts", "stacks"]  # fmt: skip


@dataclass(slots=True)
class Plan:
    """What to run. A run ends after so many seconds or cases, or at the first finding."""

    seed: int
    seconds: float | None = None
    cases: int | None = None
    workload: str | None = None
    workers: int | None = None
    jobs: int = 1
    mutant: str | None = None
    scale: int = 1
    patience_s: float = 10.0
    keep_going: bool = False
    workloads: list[str] = field(default_factory=lambda: list(NAMES))

    def case(self, index: int) -> Case:
        return draw(
            self.seed + index,
            self.workloads,
            workload=self.workload,
            workers=self.workers,
            mutant=self.mutant,
            scale=self.scale,
            patience_s=self.patience_s,
        )


@dataclass(slots=True)
class Outcome:
    """What has come of a run so far."""

    seed: int
    cases: int = 0
    rounds: int = 0
    messages: int = 0
    turns: int = 0
    steals: int = 0
    seconds: float = 0.0
    by_workload: dict[str, int] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)

    def add(self, case: Case, report: dict[str, Any]) -> None:
        self.cases += 1
        self.by_workload[case.workload] = self.by_workload.get(case.workload, 0) + 1
        for name in ("rounds", "messages", "turns", "steals"):
            setattr(self, name, getattr(self, name) + report.get(name, 0))
        for finding in report["findings"]:
            self.findings.append(
                {
                    "seed": case.seed,
                    "workload": case.workload,
                    "command": case.command(),
                    "settings": case.settings,
                    **finding,
                }
            )


def run(plan: Plan, on_update: Callable[[Outcome], Any] = lambda outcome: None) -> Outcome:
    """Run cases on `jobs` children at a time until the plan's limit or a finding."""
    outcome = Outcome(plan.seed)
    started = time.monotonic()
    lock = threading.Lock()
    begun = 0

    def next_case() -> Case | None:
        nonlocal begun
        with lock:
            late = plan.seconds is not None and time.monotonic() - started >= plan.seconds
            enough = plan.cases is not None and begun >= plan.cases
            if enough or (late and begun > 0) or (outcome.findings and not plan.keep_going):
                return None
            begun += 1
            return plan.case(begun - 1)

    def work() -> None:
        while (case := next_case()) is not None:
            report = run_case(case)
            with lock:
                outcome.add(case, report)
                outcome.seconds = time.monotonic() - started
                on_update(outcome)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(plan.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcome.seconds = time.monotonic() - started
    return outcome


def run_case(case: Case) -> dict[str, Any]:
    """One child, to its end."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "OTAVIA_FT", "PYTEST", "COV_"))
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "stress.parallel.child", json.dumps(case.as_dict())],
        cwd=ROOT,  # `stress` is found here; it is not installed
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    limit = KILL_AFTER_S + 2 * case.scale
    try:
        out, err = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = child.communicate()
        return _failed("no-lost-wake-up", f"the child was killed after {limit} s", out, err)
    return _read(child.returncode, out, err)


def _read(status: int, out: str, err: str) -> dict[str, Any]:
    lines = out.strip().splitlines()
    try:
        report: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        name = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        return _failed("no-crash", f"the child ended with {name} and without a report", out, err)
    return report


def _failed(invariant: str, text: str, out: str, err: str) -> dict[str, Any]:
    tail = (err + out).strip().splitlines()[-40:]
    return {"findings": [{"invariant": invariant, "text": text, "stacks": tail}]}
