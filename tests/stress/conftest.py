"""The harness runs as its users run it: `python -m stress ...` in the checkout."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def run_module():
    """Run a module of the checkout with arguments; returns the finished process."""

    def run(*arguments):
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "OTAVIA_FT", "PYTEST"))
        }
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )

    return run


@pytest.fixture
def evaluate():
    """Run a script in the checkout; returns what it prints, read as JSON."""

    def run(code):
        result = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run
