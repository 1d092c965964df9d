"""Every planted bug is caught. One that survives is a failing test.

Each mutant meets one engine, the faster one: the explorer if the mutant names a scenario, which is
a matter of a second, else real threads with the workload that it names. `./ft mutants` runs both.
"""

import re
from pathlib import Path

import pytest

MUTANTS = Path(__file__).resolve().parent.parent.parent / "stress" / "mutants"
NAMES = sorted(
    name
    for path in MUTANTS.glob("[a-z]*.py")
    for name in re.findall(r'^    Mutant\(\n        "([\w-]+)"', path.read_text(), re.MULTILINE)
)
# Only a survivor uses all of it, and a machine that has much else to do.
SECONDS = "90"


def test_the_mutants_tested_here_are_those_that_the_command_knows(evaluate):
    known = evaluate("import json; from stress.mutants import mutants; "
                     "print(json.dumps(list(mutants())))")  # fmt: skip
    assert sorted(known) == NAMES
    assert len(NAMES) >= 25


@pytest.mark.usefixtures("free_threaded")
@pytest.mark.parametrize("name", NAMES)
def test_the_mutant_is_caught(run_module, name):
    result = run_module("stress.mutants", name, "--engine", "faster", "--seconds", SECONDS)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "caught by" in result.stdout
    assert "BROKEN" not in result.stdout


def test_a_mutant_that_survives_makes_the_command_fail(evaluate):
    status, text, shown = evaluate("""
import contextlib, io, json
from stress import mutants
from stress.mutants import Mutant, __main__

# A change that breaks nothing.
patch = ("AWAKE, ASLEEP, NOTIFIED = 0, 1, 2", "AWAKE, ASLEEP, NOTIFIED = 4, 5, 6")
harmless = Mutant("harmless", breaks="nothing", scenario="park-wake",
                  patches={"otavia_ft.parking": [patch]})
__main__.mutants = lambda: {"harmless": harmless}
__main__._EXPLORE = __main__._EXPLORE.replace(
    "mutant, seconds = mutants()[sys.argv[1]]",
    "from stress.mutants import Mutant\\n"
    f"mutant, seconds = {harmless!r}")
shown, said = [], io.StringIO()
__main__.display = lambda doing: contextlib.nullcontext(shown.append)
with contextlib.redirect_stdout(said):
    status = __main__.main(["harmless", "--engine", "explorer", "--seconds", "2"])
print(json.dumps([status, said.getvalue(), shown]))
""")
    assert status == 1, text
    assert "missed" in text
    assert re.fullmatch(r"harmless: [1-9]\d* schedules", shown[-1])  # on a terminal, meanwhile
    assert "0 of 1 mutants caught; not caught: harmless" in text
