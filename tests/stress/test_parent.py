"""The parent: a child that goes on may take its time, a silent one is killed, an idle one ended."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

# A child that says what it is told to, in place of the real one.
RUN = """
import json, pathlib, sys, tempfile, time
from stress.parallel import engine
from stress.parallel.draw import draw

folder = pathlib.Path(tempfile.mkdtemp())
(folder / "stress" / "parallel").mkdir(parents=True)
(folder / "stress" / "parallel" / "child.py").write_text({child!r})
engine.ROOT, engine.SILENCE_S, engine.GRACE_S = folder, {silence}, 0.5
began = time.monotonic()
report = engine.run_case(draw(1, ["count"], patience_s=0.0), lambda said: {goes_on}, {seconds})
print(json.dumps([report, time.monotonic() - began]))
"""


@pytest.fixture
def run_fake(evaluate):
    def run(child, *, silence, goes_on="True", seconds=None):
        text = "import json, os, signal, time\n" + textwrap.dedent(child)
        how = {"silence": silence, "goes_on": goes_on, "seconds": seconds}
        return evaluate(RUN.format(child=text, **how))

    return run


def test_a_child_that_makes_progress_may_take_longer_than_the_limit(run_fake):
    report, seconds = run_fake(
        """
        for n in range(16):
            print(json.dumps({"so_far": {"messages": n}}), flush=True)
            time.sleep(0.25)
        print(json.dumps({"messages": 99, "findings": []}), flush=True)
        """,
        silence=3.0,
    )
    assert seconds > 3.0
    assert report == {"messages": 99, "findings": []}


def test_a_child_without_a_sign_of_life_is_killed_and_what_it_said_is_kept(run_fake):
    report, _ = run_fake(
        """
        print(json.dumps({"settings": {"workers": 3}}), flush=True)
        print(json.dumps({"so_far": {"messages": 7}}), flush=True)
        time.sleep(1000)
        """,
        silence=0.5,
    )
    (finding,) = report["findings"]
    assert finding["invariant"] == "no-lost-wake-up"
    assert "no sign of life" in finding["text"]
    assert (report["settings"], report["messages"]) == ({"workers": 3}, 7)


def test_a_child_that_crashes_is_a_finding_with_the_signal_and_its_last_words(run_fake):
    report, _ = run_fake(
        """
        os.write(2, b"Fatal Python error: Segmentation fault")
        os.write(1, b'{"messages": 1, "findi')
        os.kill(os.getpid(), signal.SIGSEGV)
        """,
        silence=30.0,
    )
    (finding,) = report["findings"]
    assert finding["invariant"] == "no-crash"
    assert "SIGSEGV" in finding["text"]
    assert finding["stacks"] == ["Fatal Python error: Segmentation fault"]


def test_a_child_in_which_nobody_is_interested_any_more_is_ended(run_fake):
    report, seconds = run_fake("time.sleep(1000)", silence=900.0, goes_on="False")
    assert report == {"findings": [], "unfinished": True}
    assert seconds < 60


def test_a_child_that_goes_on_long_after_its_time_is_ended_and_is_no_finding(run_fake):
    report, _ = run_fake(
        """
        print(json.dumps({"settings": {"workers": 3}}), flush=True)
        for n in range(1000):
            print(json.dumps({"so_far": {"messages": n + 1}}), flush=True)
            time.sleep(0.1)
        """,
        silence=900.0,
        seconds=0.5,
    )
    assert report.pop("messages") > 0
    assert report == {"settings": {"workers": 3}, "findings": [], "unfinished": True}


def test_a_child_that_stands_still_at_the_end_of_its_time_is_left_to_its_watchdog(run_fake):
    report, _ = run_fake(
        """
        print(json.dumps({"so_far": {"messages": 7}}), flush=True)
        time.sleep(3)
        print(json.dumps({"findings": [{"invariant": "no-lost-wake-up"}]}), flush=True)
        """,
        silence=900.0,
        seconds=0.1,
    )
    assert report == {"messages": 7, "findings": [{"invariant": "no-lost-wake-up"}]}


def test_a_child_whose_time_is_up_ends_with_the_round_under_way(evaluate):
    rounds, report = evaluate("""
import json
from stress.parallel.draw import draw
from stress.parallel.engine import run_case
case = draw(1, ["tokens"])
print(json.dumps([case.rounds, run_case(case, seconds=0.0)]))
""")
    assert rounds > 1
    assert report["rounds"] == 1
    assert report["messages"] > 0
    assert report["findings"] == []
    assert "unfinished" not in report


def test_the_first_finding_ends_the_other_cases(evaluate):
    outcome, ended = evaluate("""
import json, threading
from dataclasses import asdict
from stress.parallel import engine
from stress.parallel.engine import Plan, run
both, ended = threading.Barrier(2), []

def run_case(case, goes_on, seconds):
    both.wait(10)
    if case.seed == 1:
        return {"findings": [{"invariant": "fifo", "text": "2 after 3"}]}
    while goes_on({"messages": 5}):
        pass
    ended.append(case.seed)
    return {"messages": 5, "findings": [], "unfinished": True}

engine.run_case = run_case
seen = []
outcome = run(Plan(1, cases=4, jobs=2), lambda outcome: seen.append(outcome.messages))
assert 5 in seen, "the figures of a case under way are shown"
print(json.dumps([asdict(outcome), ended]))
""")
    assert ended == [2]
    assert (outcome["cases"], outcome["unfinished"], outcome["messages"]) == (1, 1, 5)
    assert [finding["seed"] for finding in outcome["findings"]] == [1]


@pytest.mark.parametrize("scheduler", ["pinned", "pool"])
def test_a_scheduler_that_is_asked_for_is_used_and_in_the_command_that_repeats_it(
    evaluate, scheduler
):
    drawn, forced, commands = evaluate(f"""
import json
from stress.parallel.engine import Plan
drawn = [Plan(1).case(n) for n in range(20)]
cases = [Plan(1, scheduler="{scheduler}").case(n) for n in range(20)]
for one, other in zip(drawn, cases):
    assert one.settings == {{**other.settings, "dispatcher": one.settings["dispatcher"]}}
print(json.dumps([
    *(sorted({{case.settings["dispatcher"] for case in some}}) for some in (drawn, cases)),
    [case.command() for case in cases],
]))
""")
    assert drawn == ["pinned", "pool"]
    assert forced == [scheduler]
    assert all(f" --scheduler {scheduler}" in command for command in commands)


def test_the_command_runs_the_scheduler_that_is_asked_for(run_module):
    result = run_module("stress", "--workload", "tokens", "--scheduler", "pool", "--seed", "1",
                        "--cases", "2", "--json", "-")  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert {share["scheduler"] for share in json.loads(result.stdout)["shares"]} == {"pool"}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for children in /proc")
def test_an_interrupt_ends_the_children_and_tells_what_was_done_so_far(root, tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-m", "stress", "--workload", "tokens", "--jobs", "2", "--seconds", "900",
         "--scale", "100", "--json", "report.json", "--junit", "report.xml"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until = time.monotonic() + 60
    while len(children := children_of(parent.pid)) < 2:
        assert time.monotonic() < until, "no children"
        time.sleep(0.01)
    parent.send_signal(signal.SIGINT)
    out, err = parent.communicate(timeout=60)
    assert parent.returncode == 130, out + err
    assert "no finding before it was interrupted" in out.splitlines()[-1]
    assert err == ""
    assert not any(Path("/proc", child).exists() for child in children)
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["interrupted"]
    assert report["unfinished"] == 2
    assert ElementTree.parse(tmp_path / "report.xml").getroot().tag == "testsuite"


def children_of(process):
    """Those that run a case; a compiler that the parent has started is none."""
    lists = Path("/proc", str(process), "task").glob("*/children")
    return [child for text in lists for child in text.read_text().split() if runs_a_case(child)]


def runs_a_case(process):
    try:
        return b"stress.parallel.child" in Path("/proc", process, "cmdline").read_bytes()
    except OSError:
        return False  # it has ended
