"""The searches themselves: they visit what they should, and nothing twice without need."""

import pytest

LITMUS = ["2+2w", "iriw", "lb", "mp", "sb", "sb-fenced", "sb-half-fenced"]


@pytest.mark.parametrize(
    ("code", "every", "reduced"),
    [
        pytest.param([[("add", "x", 1)] * 2] * 3, 90, 90, id="all-dependent"),
        pytest.param([[("add", "xyz"[t], 1)] * 2 for t in range(3)], 90, 1, id="all-independent"),
        pytest.param([[("load", "x")] * 3] * 2, 20, 1, id="only-reads"),
        pytest.param([[("set", "x", 1)], [("load", "x")], [("load", "x")]], 6, 4, id="two-readers"),
        pytest.param(
            [[("set", "x", 1), ("set", "y", 1)], [("load", "y"), ("load", "x")]], 6, 3, id="mp"
        ),
        pytest.param([[("lock", "l"), ("unlock", "l")]] * 3, 6, 6, id="three-lockers"),
        pytest.param([[("wait", "b")], [("ring", "b")], [("wait", "b")]], 2, 2, id="two-waiters"),
    ],
)
def test_the_number_of_schedules_is_the_known_one(ask, code, every, reduced):
    counts = ask(
        f"""
P = program(*{code!r})
answer([explore(P, mode, quiet=False, keep_going=True).schedules for mode in ("every", "dpor")])
"""
    )
    assert counts == [every, reduced]


def test_the_reduced_search_visits_every_trace_of_random_programs(ask):
    counts = ask(
        """
from randoms import programs
from stress.explorer.dpor import Dpor
from stress.explorer.search import Every
from stress.explorer.traces import traces

compared = largest = 0
for code, model in programs(seed=1, count=250, longest=7):
    runner = Runner(program(*code), model=model)
    all_ = traces(runner, Every, 800)
    if all_ is None:
        continue
    reduced = traces(runner, Dpor, 800)
    assert set(reduced) == set(all_), (model, code, len(reduced), len(all_))
    compared += 1
    largest = max(largest, len(all_))
answer([compared, largest])
"""
    )
    compared, largest = counts
    assert compared > 150
    assert largest > 20


def test_without_failing_compare_and_sets_no_trace_is_visited_twice(ask):
    answer = ask(
        """
from randoms import programs
from stress.explorer.dpor import Dpor
from stress.explorer.traces import traces

compared = 0
for code, model in programs(seed=2, count=200, longest=7, kinds="load store set add ring wait"):
    reduced = traces(Runner(program(*code), model=model), Dpor, 5000)
    if reduced is not None:
        compared += 1
        assert set(reduced.values()) == {1}, (model, code)
answer(compared)
"""
    )
    assert answer > 120


@pytest.mark.parametrize("quiet", [True, False], ids=["quiet", "every-step"])
def test_the_reduced_search_reaches_the_final_states_of_the_state_search(ask, quiet):
    compared = ask(
        f"""
from randoms import programs

compared = 0
for code, model in programs(seed=3, count=200, longest=11):
    P = program(*code)
    how = dict(model=model, keep_going=True, quiet={quiet}, schedules=2000)
    states, reduced = explore(P, "states", **how), explore(P, "dpor", **how)
    if states.complete and reduced.complete:
        compared += 1
        assert set(states.outcomes) == set(reduced.outcomes), (model, code)
answer(compared)
"""
    )
    assert compared > 120


@pytest.mark.parametrize("name", LITMUS)
def test_a_litmus_test_has_just_the_outcomes_that_its_memory_model_allows(ask, name):
    wrong = ask(
        f"""
from stress.scenarios.litmus import ALLOWED, observed

both, tso = ALLOWED[{name!r}]
P = scenarios()["litmus-{name}"]
wrong = []
for model, allowed in ("sc", both), ("tso", both | tso):
    for mode in "dpor", "states", "every":
        result = explore(P, mode, model=model, keep_going=True)
        seen = {{observed(outcome) for _, outcome in result.outcomes}}
        if seen != allowed or not result.complete:
            wrong.append([model, mode, sorted(seen)])
answer(wrong)
"""
    )
    assert wrong == []


def test_a_larger_bound_reaches_more_and_a_large_one_everything(ask):
    counts = ask(
        """
P = program(*[[("load", "x"), ("set", "x", t + 1), ("load", "x")] for t in range(2)])
def outcomes(mode, **how):
    return set(explore(P, mode, keep_going=True, quiet=False, **how).outcomes)
all_ = outcomes("every")
bounded = [outcomes("bound", bound=b) for b in range(5)]
assert all(a <= b for a, b in zip(bounded, bounded[1:]))
answer([*map(len, bounded), len(all_)])
"""
    )
    assert counts[0] == 2
    assert counts[0] < counts[1] < counts[2] <= counts[4] == counts[5]


def test_os_threads_carry_a_scenario_to_the_same_result_as_greenlets(ask):
    same = ask(
        """
from stress.explorer.carriers import GreenletCarriers, OsThreadCarriers

P = program(*[[("lock", "l"), ("load", "x"), ("set", "x", t), ("unlock", "l")] for t in (1, 2)])
results = [
    explore(P, "dpor", keep_going=True, carriers=carriers())
    for carriers in (GreenletCarriers, OsThreadCarriers)
]
answer([[r.schedules, sorted(map(repr, r.outcomes))] for r in results])
"""
    )
    assert same[0] == same[1]
    assert same[0][0] == 2


def test_a_scenario_that_is_not_deterministic_is_refused(ask):
    text = ask(
        """
import planted
from stress.explorer.world import DivergedError
try:
    explore(scenarios()["planted-coin"], "dpor", quiet=False)
except DivergedError as error:
    answer(str(error))
else:
    answer("")
"""
    )
    assert "not deterministic" in text
