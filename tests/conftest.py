"""Shared by all tests: how to run a child interpreter that knows nothing of this one's flags."""

import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from otavia_ft.lane import NATIVE_LANE

ROOT = Path(__file__).resolve().parent.parent
FREE_THREADED = sysconfig.get_config_var("Py_GIL_DISABLED") == 1

GIL_NOTICE = "the GIL is on: actors will work, but only one at a time"


def pytest_configure() -> None:
    """Ctrl-C reaches the children of the tests, however the tests were started. A shell without job
    control starts what runs in the background with SIGINT ignored, and every child inherits that;
    what is handled, as here, a child gets as if nobody had touched it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of what only the Python lane can be watched at run there: see test_lanes.py."""
    if NATIVE_LANE:
        apart = [item for item in items if item.get_closest_marker("python_lane")]
        items[:] = [item for item in items if item not in apart]
        config.hook.pytest_deselected(items=apart)


RunPython = Callable[..., subprocess.CompletedProcess[str]]


def clean_environment() -> dict[str, str]:
    """The environment without anything that steers Python or this project."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "OTAVIA_FT", "PYTEST", "COV_"))
    }


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the explorer's tests have searched: numbers that a pass alone does not tell."""
    told: dict[str, list[Any]] = {"explored": [], "explorer's runs": [], "explorer's seconds": []}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in getattr(report, "user_properties", ()):
                if name in told:
                    told[name].append(value)
    lines, runs, seconds = told.values()
    if lines:
        terminalreporter.section("explored")
        for line in sorted(lines):
            terminalreporter.write_line(line)
        terminalreporter.write_line(
            f"the explorer's searches: {sum(runs)} runs, {sum(seconds):.0f} s of a core"
        )


@pytest.fixture
def complaints() -> Callable[[str], str]:
    """What a child wrote to stderr, but for the one line that a system says on a build with the
    GIL. That it says it only once is what `test_gil_stays_off.py` checks."""

    def without_notice(stderr: str) -> str:
        if FREE_THREADED:
            return stderr
        return "".join(
            line for line in stderr.splitlines(keepends=True) if not line.startswith(GIL_NOTICE)
        )

    return without_notice


@pytest.fixture
def root() -> Path:
    """The top of the checkout."""
    return ROOT


@pytest.fixture
def free_threaded() -> None:
    """Skip a test that has a meaning only where the GIL can be off."""
    if not FREE_THREADED:
        pytest.skip("this build of CPython always has a GIL")


@pytest.fixture
def with_gil() -> None:
    """Skip a test that has a meaning only where there always is a GIL."""
    if FREE_THREADED:
        pytest.skip("this build of CPython can do without a GIL")


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """Run ``python -W error ... -c code`` in a child with a clean environment.

    It starts in an empty folder, so that it imports what is installed and not what lies around.
    """

    def run(
        code: str, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-X", "faulthandler", "-W", "error", *arguments, "-c", code],
            env=clean_environment() | dict(environment or {}),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run
