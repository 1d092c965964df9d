"""The parent's side: a child process for each contender, asked for one run at a time."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PATIENCE = 900.0  # seconds; ten million actors take minutes
ESCRIPT = HERE / "erlang" / "workloads.escript"
ERLANG = {  # ours that have the same program there
    "counting", "fan-in", "ping-pong", "ask-reply", "ring", "fork-join", "fork-join-create", "big",
    "chameneos", "cpu-map-one", "cpu-map", "many", "timers", "bank", "sieve", "latency",
}  # fmt: skip
ERLANG_TWICE = {  # one program there, two here
    "ping-pong-across": "ping-pong",
    "ring-across": "ring",
    "ask-reply-await": "ask-reply",
}


class FailedError(Exception):
    """A run that gave no figure; the text says why."""


class Child:
    """A contender's process. `environment` is added to ours: guard.py runs another tree with it."""

    def __init__(
        self, contender: str, python: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            [python, str(HERE / "__main__.py"), contender],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
        self._log = b""
        self.hello = self._answer()

    @property
    def absent(self) -> str | None:
        reason: str | None = self.hello.get("absent")
        return reason

    def can(self, workload: str) -> bool:
        runs = self.hello.get("runs", ())
        return workload in runs or "*" in runs

    def run(self, workload: str, n: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"workload": workload, "n": n}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise FailedError("its process has ended") from None
        answer = self._answer()
        if "error" in answer:
            raise FailedError(answer["error"])
        return answer

    def _answer(self) -> dict[str, Any]:
        """The next line, while its stderr is kept from filling up."""
        out, err = self._process.stdout, self._process.stderr
        assert out is not None
        assert err is not None
        while True:
            ready, _, _ = select.select([out, err], [], [], PATIENCE)
            if not ready:
                raise FailedError(f"no figure within {PATIENCE:.0f} s")
            if err in ready:
                self._log = (self._log + os.read(err.fileno(), 65536))[-4000:]
            if out in ready:
                line = out.readline()
                if not line:
                    raise FailedError(f"its process has ended: {self._log.decode()[-600:]}")
                answer: dict[str, Any] = json.loads(line)
                return answer
            if self._process.poll() is not None and out not in ready:
                raise FailedError(f"its process has ended: {self._log.decode()[-600:]}")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Erlang:
    """An escript for each run; its own clock excludes the start of the machine."""

    def __init__(self) -> None:
        self.absent = None if shutil.which("escript") else "no escript on PATH: not compared"
        self.hello: dict[str, Any] = {"gil": None, "python": "Erlang"}

    def can(self, workload: str) -> bool:
        return workload in ERLANG or workload in ERLANG_TWICE

    def run(self, workload: str, n: int) -> dict[str, Any]:
        program = ERLANG_TWICE.get(workload, workload)
        try:
            done = subprocess.run(
                ["escript", str(ESCRIPT), program, str(n)],
                capture_output=True, text=True, timeout=PATIENCE,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise FailedError(f"no figure within {PATIENCE:.0f} s") from None
        if done.returncode:
            raise FailedError(f"escript: Error: {(done.stderr or done.stdout).strip()[-300:]}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def close(self) -> None:
        """Nothing stays."""


def start(
    contender: str, python: str = sys.executable, environment: Mapping[str, str] | None = None
) -> Child | Erlang:
    return Erlang() if contender == "erlang" else Child(contender, python, environment)
