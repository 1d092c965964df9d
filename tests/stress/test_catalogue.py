"""What the harness says about itself is true: mutants fit the source, lists and docs agree."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_every_patch_of_every_mutant_fits_the_source_exactly_once(evaluate):
    wrong = evaluate("""
import json
from stress.mutants import PatchError, mutants, patched, source_of
from stress.parallel import stalled
wrong = []
for mutant in mutants().values():
    if not mutant.patches and not mutant.native and mutant.doors is None:
        wrong.append(f"{mutant.name} plants nothing")
    try:
        stalled.sources(mutant.native)
    except PatchError as error:
        wrong.append(f"{mutant.name}: {error}")
    for module, patches in mutant.patches.items():
        try:
            text = patched(module, source_of(module).read_text(encoding="utf-8"), patches)
            compile(text, module, "exec")
        except (PatchError, SyntaxError) as error:
            wrong.append(f"{mutant.name}: {error}")
print(json.dumps(wrong))
""")
    assert wrong == []


def test_a_patch_that_does_not_fit_is_refused(evaluate):
    text = evaluate("""
import json
from stress.mutants import PatchError, patched
try:
    patched("m", "a b a", [("a", "c")])
    print(json.dumps("accepted"))
except PatchError as error:
    print(json.dumps(str(error)))
""")
    assert "occurs 2 times instead of once" in text


def test_every_mutant_names_a_workload_and_a_scenario_that_exist(evaluate):
    wrong = evaluate("""
import json, pathlib, re
from stress.mutants import mutants
from stress.parallel.engine import NAMES
found = set()
for file in pathlib.Path("stress/scenarios").glob("*.py"):
    found.update(re.findall(r'@scenario\\("([^"]+)"\\)', file.read_text(encoding="utf-8")))
print(json.dumps([
    m.name for m in mutants().values()
    if (m.workload or m.scenario) is None
    or m.workload not in (None, *NAMES)
    or m.scenario not in (None, *found)
]))
""")
    assert wrong == []


def test_the_parent_knows_exactly_the_workloads_that_the_child_has(evaluate):
    parent, child = evaluate("""
import json
from stress.parallel.engine import NAMES
from stress.parallel.workloads import WORKLOADS
print(json.dumps([sorted(NAMES), sorted(WORKLOADS)]))
""")
    assert parent == child


def test_the_slice_for_pytest_has_every_workload(evaluate):
    sliced, child = evaluate("""
import ast, json, pathlib
from stress.parallel.engine import NAMES
tree = ast.parse(pathlib.Path("stress/test_stress.py").read_text(encoding="utf-8"))
found = next(ast.literal_eval(node.value) for node in tree.body
             if isinstance(node, ast.Assign) and node.targets[0].id == "WORKLOADS")
print(json.dumps([sorted(found), sorted(NAMES)]))
""")
    assert sliced == child


def test_the_table_in_the_documentation_is_the_one_in_the_code(evaluate):
    table = evaluate(
        "import json; from stress.parallel.invariants import markdown as m; print(json.dumps(m()))"
    )
    assert table in (ROOT / "docs/stress.md").read_text(encoding="utf-8")


def test_a_seed_draws_the_same_case_every_time_and_a_given_workload_changes_nothing_else(evaluate):
    first, second, forced = evaluate("""
import json
from stress.parallel.draw import draw
from stress.parallel.engine import NAMES
print(json.dumps([draw(5, NAMES).as_dict(), draw(5, NAMES).as_dict(),
                  draw(5, NAMES, workload="tokens").as_dict()]))
""")
    assert first == second
    different = {name for name in first if first[name] != forced[name]}
    assert different <= {"workload", "forced"}
    assert json.dumps(forced["forced"]) == '{"workload": "tokens"}'
