"""The slice that `pytest stress` runs: its seed is told, however quietly the tests run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def run_slice(*arguments, seed=None):
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "OTAVIA_FT", "PYTEST"))
    }
    environment["OTAVIA_FT_STRESS_SECONDS"] = "0.1"
    if seed is not None:
        environment["OTAVIA_FT_STRESS_SEED"] = seed
    return subprocess.run(
        [sys.executable, "-m", "pytest", "stress", "-k", "tokens", "-p", "no:cacheprovider",
         *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.mark.usefixtures("free_threaded")
def test_the_seed_and_what_was_run_are_told_under_xdist_and_with_q():
    result = run_slice("-q", "-n", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    (told,) = re.findall(r"= stress seed (\d+) ", result.stdout)
    assert re.search(rf"^tokens: \d+ cases, .* no finding \(seed {told}\)$", result.stdout, re.M)


@pytest.mark.usefixtures("free_threaded")
def test_a_given_seed_is_used():
    result = run_slice(seed="77")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "stress seed: 77 " in result.stdout
    assert "(seed 77)" in result.stdout


def test_a_run_takes_a_minute_unless_told_otherwise():
    text = (ROOT / "stress" / "test_stress.py").read_text(encoding="utf-8")
    assert 'os.environ.get("OTAVIA_FT_STRESS_SECONDS", "60")' in text
