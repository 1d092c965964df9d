"""Both lanes keep the same promises: the tests of the runtime once more, in the Python lane."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from otavia_ft.lane import NATIVE_LANE

HERE = Path(__file__).resolve().parent


def in_lane(lane: str, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "OTAVIA_FT_LANE": lane},
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not NATIVE_LANE, reason="this is the Python lane")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("folder", ["core", "pool", "schedule", "supervision"])
def test_the_python_lane_passes_the_tests_of(folder: str) -> None:
    result = in_lane("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
                     str(HERE / folder))  # fmt: skip
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]


def test_an_unknown_lane_is_refused_by_name() -> None:
    result = in_lane("fast", "-c", "import otavia_ft")
    assert result.returncode != 0
    assert "OTAVIA_FT_LANE='fast' must be 'native' (the default) or 'python'" in result.stderr
