"""Every example of the documentation runs, and prints what the page says it prints."""

import subprocess
import sys
from pathlib import Path

import pytest

from otavia_ft import ActorSystem

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "examples"
EXPECTED = {
    "counter": "Total(value=45)\n",
    "barrier": "[True, True, True, False, False] 190\n",
    "relay_by_hand": "40\n",
    "relay_with_await": "40\n",
    "timers": "tick 1\ntick 2\ntick 3\n",
}


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_an_example_runs_without_a_word_of_complaint(name, complaints):
    result = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert complaints(result.stderr) == ""
    assert result.stdout, "an example shows something"
    if name in EXPECTED:
        assert result.stdout == EXPECTED[name]


def test_the_readme_shows_the_counter_example_as_it_is():
    readme = (EXAMPLES.parent.parent / "README.md").read_text()
    source = (EXAMPLES / "counter.py").read_text()
    assert source.split("\n\n", 1)[1].strip() in readme


def test_every_example_is_shown_in_the_documentation():
    pages = "".join(page.read_text() for page in EXAMPLES.parent.glob("*.md"))
    for path in EXAMPLES.glob("*.py"):
        assert f"examples/{path.name}" in pages, f"no page shows {path.name}"


def test_an_ask_may_overtake_notices_that_wait_as_the_guide_says():
    """The order of dispatch is fixed: asks before notices. The guide warns of it."""
    assert "overtake" in (EXAMPLES.parent / "guide.md").read_text()
    assert ActorSystem.ask.__doc__
