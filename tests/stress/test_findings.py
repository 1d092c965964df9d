"""The engine catches planted bugs, says what it saw, and is silent about the runtime as it is."""

import json
from xml.etree import ElementTree

import pytest

# What each planted bug must be reported as; a hang counts as a lost wake-up.
PLANTED = {
    "no-recheck": {"no-lost-wake-up"},
    "wake-before-enqueue": {"no-lost-wake-up"},
    "double-enqueue": {"one-queue", "single-runner", "no-duplicate", "no-lost-wake-up"},
    "steal-without-run": {"no-lost-wake-up", "no-lost-message"},
    "lost-barrier": {"barrier-exclusive"},
    "early-waiting": {"mount-first", "single-runner", "no-error"},  # whatever a second runner broke
    "restart-drops-mail": {"no-lost-message"},
}
WORKLOAD = {
    "no-recheck": "count",
    "wake-before-enqueue": "count",
    "double-enqueue": "count",
    "steal-without-run": "stealing",
    "lost-barrier": "barrier",
    "early-waiting": "mount",
    "restart-drops-mail": "restart",
}


@pytest.mark.usefixtures("free_threaded")
@pytest.mark.parametrize("mutant", sorted(PLANTED))
def test_a_planted_bug_is_caught_and_reported_as_what_it_is(run_module, tmp_path, mutant):
    report = tmp_path / "report.json"
    result = run_module("stress", "--mutant", mutant, "--workload", WORKLOAD[mutant], "--seed",
                        "5000", "--seconds", "60", "--patience", "4", "--json",
                        str(report))  # fmt: skip
    assert result.returncode == 1, result.stdout
    finding = json.loads(report.read_text(encoding="utf-8"))["findings"][0]
    assert finding["invariant"] in PLANTED[mutant], result.stdout
    assert f"FINDING {finding['invariant']}" in result.stdout
    assert f"again: ./ft stress --seed {finding['seed']} --cases 1" in result.stdout
    assert f"--mutant {mutant}" in result.stdout


# What makes a case stand still, and what its stacks must show.
STILL = {
    "sender-0": "flow.Count.bodies = lambda self: [threading.Event().wait]",
    "settle": """
flow.Count.bodies = lambda self: [lambda: self.lab.system.timer.after(1000, print)]
flow.Count.finished = lambda self: False
""",
}


@pytest.mark.parametrize("where", STILL)
def test_a_case_that_stands_still_tells_stacks_and_houses(evaluate, where):
    report = evaluate(f"""
import json, subprocess, sys
from dataclasses import replace
from stress.parallel.draw import draw
case = json.dumps(replace(draw(3, ["count"], patience_s=0.5), lane="python").as_dict())
code = '''
import os, sys, threading
os.environ["OTAVIA_FT_LANE"] = "python"  # the instruments' own, before anything is imported
from stress.parallel import child
from stress.parallel.workloads import flow
{STILL[where]}
child.main(sys.argv[1])
'''
done = subprocess.run([sys.executable, "-c", code, case], capture_output=True, text=True)
print(done.stdout.splitlines()[-1])
""")
    (finding,) = report["findings"]
    assert finding["invariant"] == "no-lost-wake-up"
    assert "stands still" in finding["text"]
    assert any(where in line for line in finding["stacks"])
    assert any("Counting" in line for line in finding["houses"])


def test_a_run_without_a_finding_ends_with_status_0_and_writes_its_reports(run_module, tmp_path):
    junit = tmp_path / "report.xml"
    result = run_module("stress", "--seed", "11", "--cases", "2", "--workload", "tokens", "--junit",
                        str(junit), "--json", "-")  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(result.stdout)
    assert (report["cases"], report["findings"], report["seed"]) == (2, [], 11)
    assert report["messages"] > 0
    suite = ElementTree.parse(junit).getroot()
    assert [case.get("name") for case in suite] == ["tokens"]
    assert suite.get("failures") == "0"


def test_a_finding_is_a_failure_in_the_junit_report(evaluate, tmp_path):
    path = tmp_path / "report.xml"
    evaluate(f"""
from stress.parallel.draw import draw
from stress.parallel.engine import Outcome
from stress.parallel.report import write_junit
outcome = Outcome(1)
outcome.add(draw(1, ["count"]), {{"findings": [{{"invariant": "fifo", "text": "2 after 3"}}]}})
write_junit(outcome, {str(path)!r})
print("null")
""")
    failure = ElementTree.parse(path).getroot().find("testcase/failure")
    assert failure.get("message") == "fifo: 2 after 3"
    assert "--seed 1 --cases 1" in failure.text


@pytest.mark.parametrize(
    "arguments",
    [("--mutant", "none-such"), ("--workload", "none-such"), ("--seconds", "0"), ("--jobs", "0")],
    ids=lambda arguments: arguments[0].strip("-"),
)
def test_a_wrong_argument_ends_with_status_2(run_module, arguments):
    assert run_module("stress", *arguments).returncode == 2
