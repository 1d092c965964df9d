"""A slice of every workload, a minute in all, with a fresh seed. The long form is `./ft stress`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SECONDS = float(os.environ.get("OTAVIA_FT_STRESS_SECONDS", "60"))
WORKLOADS = ["asks", "barrier", "batch", "bounded", "channels", "churn", "count", "flood",
             "mount", "parts", "placement", "pressure", "priority", "restart", "shutdown",
             "signals", "stacks", "stealing", "stop", "timers", "tokens"]  # fmt: skip


@pytest.mark.stress
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_workload_breaks_no_invariant(workload, record_property):
    seed = os.environ["OTAVIA_FT_STRESS_SEED"]  # conftest.py draws it, and says so at the end
    share = max(0.1, SECONDS / len(WORKLOADS))
    result = subprocess.run(
        [sys.executable, "-m", "stress", "--workload", workload, "--seed", seed, "--jobs", "1",
         "--seconds", str(share)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    record_property("stress", f"{workload}: {result.stdout.splitlines()[-1]}")
