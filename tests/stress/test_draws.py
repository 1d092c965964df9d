"""What a seed draws, and that the object pools it draws are put to the test."""

from collections import Counter

import pytest

POOLS = {"pooling", "pool_max_size", "pool_check_s", "pool_idle_s", "pool_keep", "debug"}


def test_pools_and_debug_are_drawn_and_the_other_draws_of_a_seed_stay_what_they_were(evaluate):
    cases = evaluate("""
import json
from stress.parallel.draw import draw
from stress.parallel.engine import NAMES
print(json.dumps([draw(seed, NAMES).as_dict() for seed in range(300)]))
""")
    drawn = [{name: case["settings"][name] for name in POOLS} for case in cases]
    for name in ("pooling", "debug"):
        assert {each[name] for each in drawn} == {True, False}
    assert {each["pool_max_size"] for each in drawn if each["pooling"]} == {0, 1, 2, 256}
    assert any(each["pooling"] and each["pool_check_s"] < 1 for each in drawn)
    first = cases[5]
    others = {name: value for name, value in first["settings"].items() if name not in POOLS}
    assert (first["workload"], first["rounds"], first["bare"], others) == BEFORE


def test_seeds_draw_every_lane_and_most_of_all_the_one_that_users_run(evaluate):
    cases = evaluate("""
import json
from stress.parallel.draw import draw
from stress.parallel.engine import NAMES
print(json.dumps([draw(seed, NAMES).as_dict() for seed in range(2000)]))
""")
    drawn = Counter((case["lane"], case["bare"]) for case in cases)
    assert set(drawn) == {("native", True), ("native+stalls", False), ("python", True),
                          ("python", False)}  # fmt: skip
    assert 0.35 < drawn["native+stalls", False] / len(cases) < 0.45
    assert drawn["native", True] / len(cases) > 0.15
    assert 0.3 < drawn["python", False] / len(cases) < 0.38
    assert 0.35 < sum(case["reads"] for case in cases) / len(cases) < 0.45


# What seed 5 has drawn since before there were pools to draw.
BEFORE = (
    "batch",
    6,
    False,
    {
        "workers": 3,
        "dispatcher": "pinned",
        "throughput_budget": 8,
        "deadline_stride": 2,
        "min_budget_us": 1,
        "io_ratio": 50,
        "ageing_limit": 5,
        "high_priority_replies": 2,
        "high_priority_events": 4,
        "batch_limit": 1024,
        "stealing": True,
        "steal_floor": 2,
        "steal_aggression": 4,
        "local_ring_capacity": 256,
        "global_ring_capacity": 64,
        "global_poll_interval": 2,
        "timer_tick_ms": 0.5,
        "memory_monitor": False,
    },
)

# A planted bug of the pool, the workload and the settings with which it shows.
BACK_TWICE = """
from otavia_ft.pool import ThreadPool
recycle = ThreadPool.recycle
def twice(self, used):
    recycle(self, used)
    if len(self._idle) < self.max_size:
        self._idle.append(used)
ThreadPool.recycle = twice
"""
OUT_AND_KEPT = """
from otavia_ft.pool import ThreadPool
get = ThreadPool.get
def kept(self):
    used = get(self)
    self._idle.append(used)
    return used
ThreadPool.get = kept
"""
NO_REFUSAL = """
from otavia_ft import pool
pool._stale = lambda kind: kind
"""
LARGE = {"pooling": True, "pool_max_size": 256, "debug": False}
PLANTED = {
    "a stack goes back twice": (BACK_TWICE, "asks", LARGE),
    "a pool gives out what is in use": (OUT_AND_KEPT, "barrier", LARGE),
    "a recycled stack can be used": (NO_REFUSAL, "stacks", {"pool_max_size": 0, "debug": True}),
}


@pytest.mark.usefixtures("free_threaded")
@pytest.mark.parametrize("bug", PLANTED)
def test_a_bug_of_the_pools_is_found_also_in_workloads_that_know_nothing_of_them(evaluate, bug):
    plant, workload, settings = PLANTED[bug]
    report = evaluate(f"""
import json, subprocess, sys
from dataclasses import replace
from stress.parallel.draw import draw
case = draw(1, [{workload!r}])
case = replace(case, bare=False, lane="python", rounds=24,
               settings=case.settings | {settings!r})
code = '''
import os, sys
os.environ["OTAVIA_FT_LANE"] = "python"
{plant}
from stress.parallel import child
child.main(sys.argv[1])
'''
text = json.dumps(case.as_dict())
done = subprocess.run([sys.executable, "-c", code, text], capture_output=True, text=True)
assert done.stdout, done.stderr
print(done.stdout.splitlines()[-1])
""")
    assert report["findings"], report
    assert report["findings"][0]["invariant"] == "pool-private"
