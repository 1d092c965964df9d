"""The promises made to type checkers: `await address.ask(Ping(1))` is known to give a `Pong`."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import otavia_ft

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
EXAMPLE = HERE / "checked_by_the_checker.py"

BROKEN = {  # a line of the example, and what must not be accepted in its place
    "plain": ("assert_type(await self.target.ask(Ping(1)), Pong)", "assert_type(1, str)"),
    "reply": ("self.target.ask(Ping(1)), Pong)", "self.target.ask(Ping(1)), int)"),
    "timeout": ("Count(), timeout=5), int)", "Count(), timeout=5), str)"),
    "by_hand": ("get_now(), Pong)", "get_now(), int)"),
    "outside": ("Count(), timeout=1).result(), int)", "Count(), timeout=1).result(), str)"),
    "address": ("num=4), Address)", "num=4), ActorAddress)"),
    "handler": ("return Pong(message.n)", "return message.n"),
}

PYRIGHT = {"include": ["."], "extraPaths": [str(ROOT)], "typeCheckingMode": "strict"}


def command_of(checker: str) -> list[str]:
    """How to start a checker: this interpreter's own, the lint environment's, or one on PATH.

    mypy comes with the test extra. pyright comes with the lint extra, as basedpyright, whose wheels
    bring the Node that it needs: a quarter of a gigabyte, too much to ask of every test run.
    """
    for name in (checker, "basedpyright") if checker == "pyright" else (checker,):
        if importlib.util.find_spec(name) is not None:
            return [sys.executable, "-m", name]
        in_lint_environment = ROOT / ".venv-lint" / "bin" / name
        found = str(in_lint_environment) if in_lint_environment.exists() else shutil.which(name)
        if found is not None:
            return [found]
    assert checker != "mypy", "mypy is part of the test extra"
    pytest.skip(f"{checker} is not here: ./ft lint gets it")


@pytest.mark.timeout(600)  # half a minute of a checker, on a machine that may be busy
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_the_public_face_has_the_types_that_it_promises(checker, tmp_path):
    """One run over the example and over copies with a broken promise each: a checker that accepted
    one of those would have proved nothing by accepting the example."""
    text = EXAMPLE.read_text()
    (tmp_path / "as_it_is.py").write_text(text)
    for name, (right, wrong) in BROKEN.items():
        assert text.count(right) == 1, name
        (tmp_path / f"broken_{name}.py").write_text(text.replace(right, wrong))
    command = command_of(checker)
    if checker == "mypy":
        files = sorted(map(str, tmp_path.glob("*.py")))
        command += ["--strict", f"--cache-dir={tmp_path / 'cache'}", *files]
    else:  # strict is a setting and no option, and with settings it looks for the files itself
        (tmp_path / "pyrightconfig.json").write_text(json.dumps(PYRIGHT))
        command += ["--pythonpath", sys.executable, "--project", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line for line in result.stdout.splitlines() if "error:" in line or "- error" in line]
    assert [line for line in errors if "as_it_is.py" in line] == [], result.stdout
    accepted = [name for name in BROKEN if not any(f"broken_{name}.py" in e for e in errors)]
    assert accepted == [], result.stdout + result.stderr
    assert result.stderr == ""


def test_the_package_says_that_it_is_typed():
    assert (Path(otavia_ft.__file__).parent / "py.typed").exists()


def test_every_public_name_is_there_and_listed_once():
    assert all(hasattr(otavia_ft, name) for name in otavia_ft.__all__)
    assert sorted(set(otavia_ft.__all__)) == sorted(otavia_ft.__all__)
