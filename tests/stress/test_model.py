"""The Promela models: SPIN proves them, finds their deliberate bugs, and they are the code's table.

SPIN runs only where it is installed; what compares the models with the code runs everywhere.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from otavia_ft.atomic import TRANSITIONS, HouseState
from otavia_ft.parking import ASLEEP, AWAKE, NOTIFIED

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "stress" / "model"
ARROW = r"^#define (\w+)\(won\) +move\((\w+), (\w+), won\)$"

needs_spin = pytest.mark.skipif(
    shutil.which("spin") is None or shutil.which("gcc") is None,
    reason="spin and gcc check the models; Debian has both as packages",
)


def text_of(name):
    return (MODEL / name).read_text(encoding="utf-8")


# The lists of the package, read as text: `stress` is not on the path of the test's own process.
PACKAGE = text_of("__init__.py")
SIZES = re.findall(r'\("(parking|house)", (\{.*?\})\)', PACKAGE.partition("LARGE: ")[0])
BUGS = re.findall(r'Bug\(\s*"(\w+)",\s*"(BUG_\w+)"', PACKAGE)

CHECK = """
import json
from stress.model.check import check
verdict = check({model!r}, {what!r}, {defines})
print(json.dumps([verdict.errors, verdict.states, verdict.complaint, verdict.trail]))
"""

BUG = """
import json
from stress.model import BUGS
from stress.model.check import PROPERTIES, check
bug = next(bug for bug in BUGS if (bug.model, bug.name) == ({model!r}, {name!r}))
verdict = check(bug.model, bug.by[-1], {{bug.name: 1, **bug.sizes}})
print(json.dumps([verdict.errors, verdict.trail]))
"""


@needs_spin
@pytest.mark.parametrize("what", ["safety", "liveness"])
@pytest.mark.parametrize(("model", "defines"), SIZES)
def test_spin_proves_the_model(evaluate, model, defines, what):
    errors, states, complaint, _ = evaluate(CHECK.format(model=model, what=what, defines=defines))
    assert errors == 0, complaint
    assert states > 40  # it has gone somewhere


@needs_spin
@pytest.mark.parametrize(("model", "name"), BUGS)
def test_spin_finds_the_deliberate_bug(evaluate, model, name):
    errors, trail = evaluate(BUG.format(model=model, name=name))
    assert errors == 1
    assert trail


@needs_spin
def test_a_lost_message_shows_as_a_broken_rule_and_as_a_message_that_is_never_handled(evaluate):
    defines = {"BUG_NO_RECHECK": 1, "WORKERS": 1}
    for what, said in ("safety", "assertion violated"), ("liveness", "acceptance cycle"):
        errors, _, complaint, trail = evaluate(
            CHECK.format(model="house", what=what, defines=defines)
        )
        assert errors == 1
        assert said in complaint
        assert any("state = WAITING" in line for line in trail)


def test_there_are_sizes_and_bugs_of_both_models():
    assert {model for model, _ in SIZES} == {model for model, _ in BUGS} == {"house", "parking"}
    assert len(SIZES) >= 8
    assert len(BUGS) >= 18


def test_every_bug_of_the_models_is_in_the_list():
    used = set(re.findall(r"#ifn?def (BUG_\w+)", text_of("house.pml") + text_of("parking.pml")))
    used |= set(re.findall(r"#ifn?def (BUG_\w+)", text_of("parker.pml")))
    assert used == {name for _, name in BUGS}


# ---- the models are models of this code


def test_the_models_table_is_the_one_in_c():
    arrows = re.findall(ARROW, text_of("table.pml"), re.MULTILINE)
    assert arrows == [(t.name, t.source.name, t.target.name) for t in TRANSITIONS]


def test_the_models_states_are_the_codes_in_order():
    (names,) = re.findall(r"mtype = \{(.*?)\}", text_of("table.pml"))
    assert names.replace(" ", "").split(",") == [state.name for state in HouseState]


def test_the_models_flag_has_the_values_of_the_parker():
    (names,) = re.findall(r"mtype = \{(.*?)\}", text_of("parker.pml"))
    order = {AWAKE: "AWAKE", ASLEEP: "ASLEEP", NOTIFIED: "NOTIFIED"}
    assert names.replace(" ", "").split(",") == [order[value] for value in sorted(order)]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc reads the model's conditions")
def test_without_a_bug_nothing_but_the_tables_arrows_changes_the_state():
    plain = subprocess.run(
        ["gcc", "-E", "-P", "-x", "c", "house.pml"],
        cwd=MODEL, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert re.findall(r"\bstate = (\w+)", plain) == ["CREATED", "target"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc reads the model's conditions")
def test_the_model_uses_every_arrow_of_the_table():
    plain = text_of("house.pml")
    unused = {t.name for t in TRANSITIONS if f"{t.name}(won)" not in plain}
    assert unused == set()


def test_the_documentation_shows_the_same_table():
    page = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([A-Z]+) \| ([A-Z]+) \|", page, re.MULTILINE)
    assert rows == [(t.name, t.source.name, t.target.name) for t in TRANSITIONS]


def test_the_documentation_names_every_bug():
    page = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    assert [name for _, name in BUGS if f"`{name}`" not in page] == []
