"""Every benchmark still runs. Nothing is measured here: a smoke run is far too short for that."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"
NAMES = sorted(file.stem for file in BENCH.glob("[!_]*.py"))
APART = {"messages", "guard"}  # tested below, in smaller pieces

sys.path.insert(0, str(BENCH))
try:
    from savina.catalogue import WORKLOADS
finally:
    sys.path.remove(str(BENCH))

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the benchmarks read /proc"
)


def smoke(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(BENCH / f"{name}.py"), "--smoke", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},  # or the tables are cut to a terminal's width
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", [name for name in NAMES if name not in APART])
def test_a_benchmark_runs(name):
    assert "python: " in smoke(name)  # the machine's facts come last


@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_a_workload_runs_for_us_and_gives_a_figure(workload):
    output = smoke("messages", "--only", workload)
    first = output.splitlines()[0]
    assert first.startswith(f"{workload}: ")
    assert " pinned " in first
    assert " pool " in first
    assert WORKLOADS[workload].ours_only or " threads " in first


def test_figures_of_before_can_be_shown_and_judged_again(tmp_path):
    figures = tmp_path / "figures.json"
    first = smoke("messages", "--only", "counting", "--contenders", "pinned", "threads",
                  "--json", str(figures))  # fmt: skip
    again = smoke("messages", "--from", str(figures))
    assert "counting: " in first
    assert "counting, times the floor" in again
    assert again.splitlines()[1:] == first.splitlines()[2:]  # all but the line of the measuring


@pytest.mark.skipif(
    not (ROOT / ".git").exists() or shutil.which("git") is None, reason="not a git checkout"
)
def test_the_guard_compares_this_tree_with_a_revision(tmp_path):
    figures = tmp_path / "guard.json"
    output = smoke("guard", "--only", "counting", "--json", str(figures))
    written = json.loads(figures.read_text())
    known = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert known in written["revisions"]["base"]
    assert known in written["revisions"]["here"]  # and "-dirty", if it is
    assert f"base: {written['revisions']['base']}" in output
    for dispatcher in ("pinned", "pool"):
        assert set(written["runs"][dispatcher]) == {"counting"}
        assert f"Dispatcher {dispatcher}" in output


@pytest.mark.parametrize("arguments", [["--smoke"], ["--only", "counting"]])
def test_the_guard_writes_no_figures_of_less_than_a_whole_run_to_the_page(arguments):
    done = subprocess.run(
        [sys.executable, str(BENCH / "guard.py"), "--docs", *arguments],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--docs wants a whole run" in done.stderr


@pytest.mark.parametrize("name", ["asyncio", "executor", "threads"])
@pytest.mark.parametrize("workload", ["bank", "many", "sieve", "timers", "fork-join-create"])
def test_a_workload_runs_for_the_peers_of_the_standard_library(workload, name):
    output = smoke("messages", "--only", workload, "--contenders", name)
    assert f" {name} " in output.splitlines()[0]
