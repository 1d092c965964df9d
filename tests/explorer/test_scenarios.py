"""Every scenario over the runtime as it is: no finding.

To the end where that is near (3,000 schedules), else all schedules with few preemptions, and PCT.
Budgets are numbers of schedules, so that a slow machine searches as much as a fast one. All of it
together has to be far below five minutes on an idle machine; the time that the processors took is
told at the end of a test run, but what is tested is how much was searched.
"""

import re
from pathlib import Path

import pytest

SCENARIOS = Path(__file__).resolve().parent.parent.parent / "stress" / "scenarios"
NAMES = sorted(
    name
    for path in SCENARIOS.glob("*.py")
    for name in re.findall(r'^@scenario\("([^"]+)"\)', path.read_text(), re.MULTILINE)
)
# Their full search is larger than what is done here for every change; see `Scenario.bound`.
PARTLY = {
    "close-mount-send", "close-send", "close-stuck", "mount-send", "pool-mount", "restart-send",
    "steal-complete", "stop-send", "two-senders", "two-workers",
}  # fmt: skip

LIMIT_S = 600  # the largest takes a minute on a core of its own, and much more on a busy one

# Runs that a test may take, those that are left early included; a bounded search has no budget of
# its own. An idle core does about a thousand a second.
RUNS = 2_500
DEARER = {
    "close-send": 5_500, "mount-send": 4_500, "pool-mount": 10_000, "restart-send": 5_500,
    "steal-complete": 42_000, "stop-send": 5_800, "two-senders": 5_500, "two-workers": 5_500,
}  # fmt: skip

EXPLORE = """
import time
name, model, schedules = sys.argv[1:]
cls = scenarios()[name]
result = explore(cls, "dpor", model=model, schedules=int(schedules))
results = [result]
if not result.complete and result.violation is None:
    if model == "sc":
        results.append(explore(cls, "bound", bound=cls.bound))
    results.append(explore(cls, "pct", model=model, schedules=1000, seed=1))
print(*results, sep="\\n")
from stress.explore import explain
for result in results:
    if result.violation:
        print(explain(cls, result))
answer([
    [result.violation is None for result in results],
    [result.complete for result in results if result.mode != "pct"],
    [str(result) for result in results],
    sum(result.schedules + result.cut for result in results),
    time.process_time(),
])
"""


@pytest.fixture
def search(ask, record_property):
    """Search a scenario; what was searched is shown at the end of the test run."""

    def run(name, model, schedules):
        clean, complete, told, runs, seconds = ask(
            EXPLORE, name, model, schedules, limit=LIMIT_S - 10
        )
        most = DEARER.get(name, RUNS) if model == "sc" else RUNS
        assert runs <= most, f"{name} grew: {runs} runs, and {most} are allowed"
        for line in told:
            record_property("explored", line)
        record_property("explorer's runs", runs)
        record_property("explorer's seconds", seconds)
        return clean, complete

    return run


def test_the_scenarios_tested_here_are_those_that_the_command_knows(ask):
    known = ask("answer(list(scenarios()))")
    assert sorted(name for name in known if not name.startswith("litmus-")) == NAMES


def test_what_all_searches_together_may_take_is_less_than_five_minutes_of_an_idle_core():
    most = sum(DEARER.get(name, RUNS) + RUNS for name in NAMES)
    assert most <= 220_000, "shrink a scenario, or its bound"


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found_under_sequential_consistency(search, name):
    clean, complete = search(name, "sc", "300" if name in PARTLY else "3000")
    assert all(clean)
    assert complete[-1]  # to the end, or to the end of what the bound allows
    assert len(complete) == (2 if name in PARTLY else 1)


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found_with_store_buffers(search, name):
    clean, complete = search(name, "tso", "300" if name in PARTLY else "3000")
    assert all(clean)
    assert complete == [name not in PARTLY]
