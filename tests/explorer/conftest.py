"""The explorer runs in child processes: greenlet turns the GIL on, and must never do so in here."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
LIMIT_S = 110  # a little less than a test may take, so that the child's own output is shown

# At the end of the path: the installed package comes first, and only `stress` from the checkout.
PRELUDE = f"""
import json, sys
sys.path += [{str(ROOT)!r}, {str(HERE)!r}]
import greenlet  # without it the explorer falls back to OS threads, and would take for ever
from stress.explorer import Scenario, explore, scenario, scenarios
from stress.explorer.engine import Runner
from stress.scenarios.litmus import program

def answer(value):
    print("answer:" + json.dumps(value))
"""

Child = subprocess.CompletedProcess[str]


@pytest.fixture
def run_child(tmp_path: Path) -> Callable[..., Child]:
    """Run a script that starts with the prelude above."""

    def run(code: str, *arguments: str, limit: float = LIMIT_S) -> Child:
        script = tmp_path / "child.py"
        script.write_text(PRELUDE + code, encoding="utf-8")
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "OTAVIA_FT", "PYTEST"))
        }
        return subprocess.run(
            [sys.executable, "-X", "faulthandler", "-W", "error", str(script), *arguments],
            env=environment | {"PYTHONHASHSEED": "0", "COLUMNS": "120"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )

    return run


@pytest.fixture
def ask(run_child: Callable[..., Child]) -> Callable[..., Any]:
    """Run a script that ends well, and return what it passes to `answer()`."""

    def run(code: str, *arguments: str, limit: float = LIMIT_S) -> Any:
        child = run_child(code, *arguments, limit=limit)
        assert child.returncode == 0, child.stdout + child.stderr
        *_, last = child.stdout.strip().splitlines()
        assert last.startswith("answer:"), child.stdout
        return json.loads(last.removeprefix("answer:"))

    return run


@pytest.fixture
def root() -> Path:
    """The top of the checkout."""
    return ROOT
