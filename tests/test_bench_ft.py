"""`./ft bench messages` sets up what it compares with, apart from `.venv`, and can do without."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(os.name != "posix", reason="shell scripts")

# Plays an interpreter, its venv module and its pip; a benchmark prints what it was given.
FAKE_PYTHON = r"""#!/bin/sh
case "$1 $2" in
    "-c import sys; print(sys.executable)") echo "$0" ;;
    "-c "*) : ;;
    "-m venv") mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
    "-m pip")
        echo "$0 $*" >>"$JOURNAL"
        case "$0" in */.venv-bench*) [ ! -e "$NO_NETWORK" ] ;; esac ;;
    "- "*) echo a-requirement ;;
    *) echo "peers=${OTAVIA_FT_BENCH_PEERS:-} gil=${OTAVIA_FT_BENCH_GIL:-}" ;;
esac
"""


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self.fakes = folder / "fakes"
        self.journal = folder / "journal"
        self.no_network = folder / "no-network"
        for place in (self.root / "_atomics", self.root / "bench", self.fakes):
            place.mkdir(parents=True)
        shutil.copy2(ROOT / "ft", self.root / "ft")
        for name in ("pyproject.toml", "setup.py", "_atomics/a.c", "_atomics/a.h",
                     "_atomics/build.py", "bench/messages.py", "bench/idle.py"):  # fmt: skip
            (self.root / name).write_text("")
        self.add_python("python3.13t")

    def add_python(self, name: str) -> None:
        (self.fakes / name).write_text(FAKE_PYTHON)
        (self.fakes / name).chmod(0o755)

    def bench(self, name: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "HOME": str(self.root.parent),
            "PATH": f"{self.fakes}:/usr/bin:/bin",
            "JOURNAL": str(self.journal),
            "NO_NETWORK": str(self.no_network),
            "OTAVIA_FT_PYTHON": str(self.fakes / "python3.13t"),
        }
        return subprocess.run(
            [self.root / "ft", "bench", name],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def installs(self) -> int:
        """How often pip was called in an environment for peers since the last look."""
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        self.journal.write_text("")
        return sum("/.venv-bench" in line for line in lines)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_peers_have_environments_of_their_own_for_both_kinds_of_python(checkout):
    checkout.add_python("python3.13")
    result = checkout.bench("messages")
    folder = checkout.root
    wanted = f"peers={folder}/.venv-bench/bin/python gil={folder}/.venv-bench-gil/bin/python\n"
    assert (result.returncode, result.stdout) == (0, wanted)
    assert checkout.installs() == 4  # peers and matplotlib, twice


def test_they_are_set_up_once(checkout):
    checkout.add_python("python3.13")
    checkout.bench("messages")
    checkout.installs()
    again = checkout.bench("messages")
    assert (checkout.installs(), again.stderr) == (0, "")


def test_other_benchmarks_need_no_peers(checkout):
    result = checkout.bench("idle")
    assert (result.stdout, checkout.installs()) == ("peers= gil=\n", 0)


def test_without_an_ordinary_python_its_column_is_left_out(checkout):
    (checkout.fakes / "python3.13").write_text("#!/bin/sh\nexit 1\n")  # hides the machine's own
    (checkout.fakes / "python3.13").chmod(0o755)
    result = checkout.bench("messages")
    assert result.stdout == f"peers={checkout.root}/.venv-bench/bin/python gil=\n"
    assert "no ordinary Python 3.13" in result.stderr


def test_without_the_network_it_runs_with_what_there_is(checkout):
    checkout.add_python("python3.13")
    checkout.no_network.touch()
    result = checkout.bench("messages")
    assert (result.returncode, result.stdout) == (0, "peers= gil=\n")
    assert "they are left out" in result.stderr
