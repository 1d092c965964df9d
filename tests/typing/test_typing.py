"""The promises made to type checkers: `await address.ask(Ping(1))` is known to give a `Pong`."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import otavia_ft

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
EXAMPLE = HERE / "checked_by_the_checker.py"


def command_of(checker: str) -> list[str]:
    """How to start a checker: this interpreter's own, or that of the lint environment."""
    if importlib.util.find_spec(checker) is not None:
        return [sys.executable, "-m", checker]
    in_lint_environment = ROOT / ".venv-lint" / "bin" / checker
    if in_lint_environment.exists():
        return [str(in_lint_environment)]
    pytest.skip(f"{checker} is neither installed here nor in .venv-lint")


@pytest.fixture(params=["mypy", "pyright"])
def check(request, tmp_path):
    """Run a checker in its strict mode on one file."""
    command = command_of(request.param)
    if request.param == "mypy":
        command += ["--strict", f"--cache-dir={tmp_path / 'cache'}"]

    def run(file: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, str(file)], cwd=ROOT, capture_output=True, text=True, check=False
        )

    return run


def test_the_public_face_has_the_types_that_it_promises(check):
    result = check(EXAMPLE)
    of_the_example = [line for line in result.stdout.splitlines() if EXAMPLE.name in line]
    assert of_the_example == [], result.stdout + result.stderr
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("assert_type(await self.target.ask(Ping(1)), Pong)", "assert_type(1, str)"),
        ("self.target.ask(Ping(1)), Pong)", "self.target.ask(Ping(1)), int)"),
        ("num=4), Address)", "num=4), ActorAddress)"),
        ("return Pong(message.n)", "return message.n"),
    ],
    ids=["plain", "reply", "address", "handler"],
)
def test_a_broken_promise_would_be_noticed(check, tmp_path, right, wrong):
    text = EXAMPLE.read_text()
    assert text.count(right) == 1
    broken = tmp_path / "broken.py"
    broken.write_text(text.replace(right, wrong))
    result = check(broken)
    assert result.returncode != 0
    assert "broken.py" in result.stdout


def test_the_package_says_that_it_is_typed():
    assert (Path(otavia_ft.__file__).parent / "py.typed").exists()


def test_every_public_name_is_there_and_listed_once():
    assert all(hasattr(otavia_ft, name) for name in otavia_ft.__all__)
    assert sorted(set(otavia_ft.__all__)) == sorted(otavia_ft.__all__)
