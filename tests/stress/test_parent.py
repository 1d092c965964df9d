"""The parent: a child that goes on may take its time, a silent one is killed, an idle one ended."""

import textwrap

import pytest

# A child that says what it is told to, in place of the real one.
RUN = """
import json, pathlib, sys, tempfile, time
from stress.parallel import engine
from stress.parallel.draw import draw

folder = pathlib.Path(tempfile.mkdtemp())
(folder / "stress" / "parallel").mkdir(parents=True)
(folder / "stress" / "parallel" / "child.py").write_text({child!r})
engine.ROOT, engine.SILENCE_S = folder, {silence}
began = time.monotonic()
report = engine.run_case(draw(1, ["count"], patience_s=0.0), lambda said: {goes_on})
print(json.dumps([report, time.monotonic() - began]))
"""


@pytest.fixture
def run_fake(evaluate):
    def run(child, *, silence, goes_on="True"):
        text = "import json, os, signal, time\n" + textwrap.dedent(child)
        return evaluate(RUN.format(child=text, silence=silence, goes_on=goes_on))

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
    assert report is None
    assert seconds < 60


def test_the_first_finding_ends_the_other_cases(evaluate):
    outcome, ended = evaluate("""
import json, threading
from dataclasses import asdict
from stress.parallel import engine
from stress.parallel.engine import Plan, run
both, ended = threading.Barrier(2), []

def run_case(case, goes_on):
    both.wait(10)
    if case.seed == 1:
        return {"findings": [{"invariant": "fifo", "text": "2 after 3"}]}
    while goes_on({"messages": 5}):
        pass
    ended.append(case.seed)
    return None

engine.run_case = run_case
seen = []
outcome = run(Plan(1, cases=4, jobs=2), lambda outcome: seen.append(outcome.messages))
assert 5 in seen, "the figures of a case under way are shown"
print(json.dumps([asdict(outcome), ended]))
""")
    assert ended == [2]
    assert outcome["cases"] == 1
    assert [finding["seed"] for finding in outcome["findings"]] == [1]
