"""The native lane with stalls: what is built, what it sees, and that the product has none of it."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("free_threaded")

# A case of the native lane with stalls, after a patch of the harness, in a child of its own.
RUN = """
import json, subprocess, sys
from dataclasses import replace
from stress.parallel.draw import draw
case = replace(draw(1, ["count"]), lane="native+stalls", bare=False, rounds=1, stall_permille=20)
code = '''
import sys
from stress.parallel import child
{plant}
child.main(sys.argv[1])
'''
text = json.dumps(case.as_dict())
done = subprocess.run([sys.executable, "-c", code, text], capture_output=True, text=True)
assert done.stdout, done.stderr
print(done.stdout.splitlines()[-1])
"""


def test_a_stalled_case_runs_the_native_lane_of_the_build_and_not_of_the_product(evaluate):
    place, native, steps = evaluate("""
import json, os
os.environ["OTAVIA_FT_LANE"] = "native"
from stress.parallel import stalled
stalled.enter(None)
from otavia_ft.lane import NATIVE_LANE
from _atomics import _native
stalled.stalls(1000, 7)
print(json.dumps([_native.__file__, NATIVE_LANE, stalled.seen()]))
""")
    assert "/build/stalled/" in place
    assert native
    assert steps is None


def test_the_product_has_neither_stalls_nor_checks_nor_the_header_that_makes_them(evaluate):
    found = evaluate("""
import json, pathlib
from _atomics import _native
print(json.dumps([b"otv_stalls" in pathlib.Path(_native.__file__).read_bytes(),
                  [str(path) for path in pathlib.Path("_atomics").glob("steps*")]]))
""")
    assert found == [False, []]


def test_a_build_is_made_once_and_another_patch_is_another_build(evaluate):
    same, other, made = evaluate("""
import json, tempfile, pathlib
from stress.parallel import stalled
stalled.BUILDS = pathlib.Path(tempfile.mkdtemp())
made = []
stalled._make = lambda folder, texts: (made.append(folder.name), folder.mkdir())
first, second = stalled.built({}), stalled.built({})
other = stalled.built({"house_list.h": [("<= 1 ||", "<= 0 ||")]})
print(json.dumps([first == second, other != first, len(made)]))
""")
    assert (same, other, made) == (True, True, 2)


def test_a_patch_that_does_not_compile_is_told_as_that(evaluate):
    text = evaluate("""
import json, tempfile, pathlib
from stress.parallel import stalled
stalled.BUILDS = pathlib.Path(tempfile.mkdtemp())
try:
    stalled.built({"house_list.h": [("<= 1 ||", "<= ||")]})
except stalled.BuildError as error:
    print(json.dumps(str(error)))
""")
    assert "error: expected expression" in text


def test_a_round_of_a_stalled_case_ends_without_a_finding(evaluate):
    report = evaluate(RUN.format(plant=""))
    assert report["findings"] == []
    assert report["messages"] > 0


def test_a_rule_that_only_c_can_watch_is_reported_by_its_name(evaluate):
    name, text = evaluate("""
import json
from stress.parallel import stalled
stalled.enter(None)
from _atomics import face
ring = face["LocalRing"](0, 4)
ring.push(stalled)
assert ring.pop() is stalled and stalled.seen() is None
ring.push(stalled)
ring.push(stalled)
print(json.dumps(stalled.seen()))
""")
    assert name == "one-queue"
    assert "queued while a queue holds it" in text


def test_what_c_has_seen_becomes_a_finding_of_the_case(evaluate):
    report = evaluate(RUN.format(plant="""
from stress.parallel import stalled
stalled.seen = lambda: ("one-queue", "something is queued twice")
"""))  # fmt: skip
    assert [finding["invariant"] for finding in report["findings"]] == ["one-queue"]


def test_a_finding_of_a_c_mutant_says_its_lane_and_how_to_see_it_again(run_module, tmp_path):
    path = tmp_path / "report.json"
    result = run_module("stress", "--mutant", "c-put-without-cas", "--workload", "count", "--seed",
                        "1", "--seconds", "60", "--json", str(path))  # fmt: skip
    assert result.returncode == 1, result.stdout + result.stderr
    finding = json.loads(path.read_text(encoding="utf-8"))["findings"][0]
    assert finding["lane"] == "native+stalls"
    assert finding["command"].endswith("--mutant c-put-without-cas")
    assert "native+stalls lane" in result.stdout
