"""``./ft`` and the interpreter build, with fakes for whatever would be slow or need the network.

The scripts find every helper on PATH, so a folder of small shell scripts in front of it is enough
to play the machine: an interpreter, apt, pyenv, uv. Where a moment matters ("while it compiles"),
a named pipe makes it last until the test lets go.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TextIO

import pytest

ROOT = Path(__file__).resolve().parent.parent
FREE_THREADED = sysconfig.get_config_var("Py_GIL_DISABLED") == 1

pytestmark = pytest.mark.skipif(os.name != "posix", reason="shell scripts")


def write_script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)
    return path


# ---------------------------------------------------------------------------------------------
# Help


def ft(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "ft", *arguments], capture_output=True, text=True, check=False)


COMMANDS = re.findall(r"^  ([a-z]+)  ", ft("--help").stdout, re.MULTILINE)


def test_help_names_the_commands_that_the_project_promises():
    promised = "demo test bench stress explore mutants shell python doctor docs lint"
    assert set(COMMANDS) == set(promised.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command):
    result = ft(command, "--help")
    assert result.returncode == 0
    assert result.stdout.startswith(f"Usage: ./ft {command}")
    assert "\nExample: " in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("script", ["ft", ".ci/build-python", ".ci/run"])
def test_shellcheck_finds_nothing(script):
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    result = subprocess.run(
        ["shellcheck", ROOT / script], capture_output=True, text=True, check=False
    )
    assert (result.stdout, result.returncode) == ("", 0)


@pytest.mark.parametrize("script", ["ft", ".ci/build-python", ".ci/run"])
def test_the_plain_shell_of_debian_can_read_it(script):
    """Not bash's extensions: /bin/sh is dash there."""
    shell = shutil.which("dash") or "sh"
    result = subprocess.run([shell, "-n", ROOT / script], capture_output=True, check=False)
    assert (result.stderr, result.returncode) == (b"", 0)


def test_an_unknown_command_is_refused_by_name():
    result = ft("tset")
    assert result.returncode == 2
    assert "unknown command 'tset'" in result.stderr
    assert "--help" in result.stderr


def test_without_a_command_it_shows_the_help_and_fails():
    result = ft()
    assert (result.returncode, result.stdout) == (2, ft("--help").stdout)


# ---------------------------------------------------------------------------------------------
# tox


@pytest.mark.parametrize("there", [False, True], ids=["without", "with"])
def test_plain_tox_fails_where_there_is_no_free_threaded_3_13(tmp_path, there):
    """It skips other interpreters that are missing, so this one has an environment that asks."""
    tox, path = shutil.which("tox"), "/usr/bin:/bin"
    if tox is None:
        pytest.skip("tox is not installed")
    if shutil.which("python3.13t", path=path):
        pytest.skip("this machine always has one")
    if there and (sys.version_info[:2] != (3, 13) or not FREE_THREADED):
        pytest.skip("this is another interpreter")
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("TOX", "PYTEST", "VIRTUAL"))}
    found = {"TOX_DISCOVER": sys._base_executable} if there else {}
    tox_command = [tox, "run", "--workdir", tmp_path, "--root", ROOT, "-c", ROOT / "tox.ini"]
    listed = subprocess.run(
        [tox, "list", "--no-desc", "-c", ROOT / "tox.ini"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "required" in listed.stdout.split()
    result = subprocess.run(
        [*tox_command, "-e", "required"],
        env=kept | {"PATH": path} | found,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode == 0) is there, result.stdout + result.stderr
    assert there or "no python3.13t:" in result.stderr


# ---------------------------------------------------------------------------------------------
# Setting up the environment

# Plays an interpreter, its venv module and its pip. Every call is a line of the journal.
FAKE_PYTHON = r"""
me=$0
echo "$*" >>"$JOURNAL"
case "$1 $2" in
    "-c "*) [ ! -e "$UNFIT" ] ;;
    "-m venv") mkdir -p "$3/bin"; cp "$me" "$3/bin/python"; cp "$me" "$3/bin/pytest" ;;
    "-m pip") [ ! -e "$BROKEN_PIP" ] && { [ ! -e "$WHILE_PIP_RUNS" ] || . "$WHILE_PIP_RUNS"; } ;;
    "- "*) echo a-requirement ;;
    *) echo "running: $*" ;;
esac
"""


class Checkout:
    """A checkout with nothing in it but what ``ft`` looks at, on a machine of fakes."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self.fakes = folder / "fakes"
        self.journal = folder / "journal"
        self.unfit = folder / "unfit"
        self.broken_pip = folder / "broken-pip"
        self.while_pip_runs = folder / "while-pip-runs"
        self.fakes.mkdir()
        (self.root / "_atomics").mkdir(parents=True)
        shutil.copy2(ROOT / "ft", self.root / "ft")
        for name in ("pyproject.toml", "setup.py", "README.md"):
            (self.root / name).write_text("")
        for name in ("types.c", "atomics.h", "build.py"):
            (self.root / "_atomics" / name).write_text("")
        self.python = write_script(folder / "somewhere" / "python3.13t", FAKE_PYTHON)
        self.environment = {
            "HOME": str(folder),
            "PATH": f"{self.fakes}:/usr/bin:/bin",
            "JOURNAL": str(self.journal),
            "UNFIT": str(self.unfit),
            "BROKEN_PIP": str(self.broken_pip),
            "WHILE_PIP_RUNS": str(self.while_pip_runs),
        }

    def ft(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / "ft", *arguments],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def ft_with_python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.ft(*arguments, OTAVIA_FT_PYTHON=str(self.python))

    def installs(self) -> list[str]:
        """What pip was asked to install in editable mode since the last look."""
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        self.journal.write_text("")
        return [re.sub(r".*\[(.*)\]$", r"\1", line) for line in lines if " -e " in line]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


class TestSetUp:
    def test_python_prints_the_path_in_the_venv_and_nothing_else(self, checkout):
        result = checkout.ft_with_python("python")
        assert result.stdout == f"{checkout.root}/.venv/bin/python\n"

    def test_python_base_prints_the_interpreter_behind_the_venv(self, checkout):
        assert checkout.ft_with_python("python", "--base").stdout == f"{checkout.python}\n"

    def test_happens_once(self, checkout):
        checkout.ft_with_python("python")
        assert checkout.installs() == ["cli"]
        again = checkout.ft_with_python("python")
        assert checkout.installs() == []
        assert again.stderr == ""

    @pytest.mark.parametrize(
        "name",
        [
            "pyproject.toml",
            "setup.py",
            "_atomics/types.c",
            "_atomics/atomics.h",
            "_atomics/build.py",
        ],
    )
    def test_a_changed_input_of_the_build_installs_again(self, checkout, name):
        checkout.ft_with_python("python")
        checkout.installs()
        (checkout.root / name).write_text("changed")
        checkout.ft_with_python("python")
        assert checkout.installs() == ["cli"]

    def test_nothing_else_installs_again(self, checkout):
        checkout.ft_with_python("python")
        checkout.installs()
        (checkout.root / "README.md").write_text("changed")
        (checkout.root / "_atomics" / "_native.so").write_text("built")
        (checkout.root / "pyproject.toml").touch()
        checkout.ft_with_python("python")
        assert checkout.installs() == []

    def test_a_second_extra_keeps_the_first(self, checkout):
        checkout.ft_with_python("python")
        checkout.ft_with_python("test")
        assert checkout.installs() == ["cli", "cli,test"]
        checkout.ft_with_python("python")
        assert checkout.installs() == []

    def test_a_failed_installation_is_not_taken_for_done(self, checkout):
        checkout.broken_pip.touch()
        failed = checkout.ft_with_python("python")
        assert failed.returncode == 1
        assert "installation failed" in failed.stderr
        assert failed.stdout == ""
        checkout.broken_pip.unlink()
        checkout.installs()
        assert checkout.ft_with_python("python").returncode == 0
        assert checkout.installs() == ["cli"]

    def test_an_input_that_changes_while_pip_runs_installs_again(self, checkout):
        """Pip may have looked at it before."""
        checkout.while_pip_runs.write_text(f"echo changed >{checkout.root}/_atomics/types.c\n")
        checkout.ft_with_python("python")
        checkout.while_pip_runs.unlink()
        checkout.installs()
        checkout.ft_with_python("python")
        assert checkout.installs() == ["cli"]
        checkout.ft_with_python("python")
        assert checkout.installs() == []

    @pytest.mark.parametrize("way", ["copied", "moved"])
    def test_a_checkout_in_another_place_gets_a_venv_of_its_own(self, checkout, way):
        """A venv has the path of the checkout in it, and would run the code there."""
        checkout.ft_with_python("python")
        (checkout.root / ".venv" / "leftover").touch()
        place = checkout.root.with_name("elsewhere")
        if way == "copied":
            shutil.copytree(checkout.root, place, symlinks=True)
        else:
            checkout.root.rename(place)
        checkout.root = place
        checkout.installs()
        assert checkout.ft_with_python("python").stdout == f"{place}/.venv/bin/python\n"
        assert checkout.installs() == ["cli"]
        assert not (place / ".venv" / "leftover").exists()

    def test_a_checkout_reached_by_a_link_is_the_same_checkout(self, checkout):
        checkout.ft_with_python("python")
        checkout.installs()
        link = checkout.root.with_name("link")
        link.symlink_to(checkout.root)
        place, checkout.root = checkout.root, link
        assert checkout.ft_with_python("python").stdout == f"{place}/.venv/bin/python\n"
        assert checkout.installs() == []

    def test_another_interpreter_gets_a_new_venv(self, checkout):
        checkout.ft_with_python("python")
        leftover = checkout.root / ".venv" / "leftover"
        leftover.touch()
        other = shutil.copy2(checkout.python, checkout.python.with_name("other"))
        checkout.ft("python", OTAVIA_FT_PYTHON=str(other))
        assert not leftover.exists()
        assert checkout.ft("python", "--base", OTAVIA_FT_PYTHON=str(other)).stdout == f"{other}\n"

    def test_a_second_ft_waits_for_the_first_and_uses_its_work(self, checkout, tmp_path):
        gate = tmp_path / "gate"
        os.mkfifo(gate)
        # The first fake venv stops at the gate.
        slow = checkout.python.read_text().replace('"-m venv")', f'"-m venv") cat "{gate}";')
        checkout.python.write_text(slow)
        environment = checkout.environment | {"OTAVIA_FT_PYTHON": str(checkout.python)}
        pipe = subprocess.PIPE
        start = {"env": environment, "text": True, "stdout": pipe, "stderr": pipe}
        first = subprocess.Popen([checkout.root / "ft", "python"], **start)
        with gate.open("w"):  # opens when the first is there
            second = subprocess.Popen([checkout.root / "ft", "python"], **start)
            assert "waiting" in second.stderr.readline()
        for process in (first, second):
            output, _ = process.communicate()
            assert (process.returncode, output) == (0, f"{checkout.root}/.venv/bin/python\n")
        assert checkout.installs() == ["cli"]

    def test_test_hands_its_arguments_to_pytest(self, checkout):
        result = checkout.ft_with_python("test", "-k", "two words")
        assert "running: -n auto -k two words" in result.stdout


class TestInterpreterSearch:
    def test_a_bad_request_is_an_error_and_not_a_reason_to_search(self, checkout):
        checkout.unfit.touch()
        result = checkout.ft_with_python("python")
        assert result.returncode == 1
        assert "not a free-threaded Python 3.13" in result.stderr
        missing = checkout.ft("python", OTAVIA_FT_PYTHON="/nowhere/python")
        assert "no program '/nowhere/python'" in missing.stderr

    def test_takes_one_from_path(self, checkout):
        fake = write_script(checkout.fakes / "python3.13t", FAKE_PYTHON)
        assert checkout.ft("python", "--base").stdout == f"{fake}\n"

    def test_passes_over_a_shim_that_does_not_run_for_one_that_pyenv_knows(
        self, checkout, tmp_path
    ):
        write_script(checkout.fakes / "python3.13t", "exit 127\n")
        write_script(checkout.fakes / "pyenv", f"echo {tmp_path}/pyenv\n")
        known = write_script(tmp_path / "pyenv/versions/3.13.5t/bin/python3.13t", FAKE_PYTHON)
        assert checkout.ft("python", "--base").stdout == f"{known}\n"

    def test_takes_one_that_uv_knows_and_installs_none(self, checkout, tmp_path):
        known = write_script(tmp_path / "uv" / "python3.13t", FAKE_PYTHON)
        asked = tmp_path / "asked"
        write_script(
            checkout.fakes / "uv",
            f'echo "$*" >>{asked}\n[ "$2" = find ] && echo {known}\n',
        )
        result = checkout.ft("python", "--base")
        assert result.stdout == f"{known}\n"
        [question] = asked.read_text().splitlines()
        assert question.startswith("python find --no-python-downloads")
        assert question.endswith(" 3.13t")

    def test_lets_uv_install_one(self, checkout, tmp_path):
        uv_python = tmp_path / "uv" / "python3.13t"
        shutil.copy2(write_script(tmp_path / "template", FAKE_PYTHON), tmp_path / "downloaded")
        write_script(
            checkout.fakes / "uv",
            f"""
case "$2" in
    install) mkdir -p {uv_python.parent}; cp {tmp_path}/downloaded {uv_python} ;;
    find) [ -e {uv_python} ] && echo {uv_python} ;;
esac
""",
        )
        assert checkout.ft("python", "--base").stdout == f"{uv_python}\n"

    def test_builds_one_when_all_else_fails(self, checkout):
        write_script(checkout.fakes / "uv", "exit 1\n")
        write_script(checkout.root / ".ci/build-python", f"echo {checkout.python}\n")
        result = checkout.ft("python", "--base")
        assert result.stdout == f"{checkout.python}\n"
        assert "uv could not" in result.stderr

    def test_reports_a_failed_build_with_its_status(self, checkout):
        write_script(checkout.root / ".ci/build-python", "echo no compiler >&2; exit 7\n")
        result = checkout.ft("python", "--base")
        assert (result.returncode, result.stdout) == (7, "")
        assert "no compiler" in result.stderr


class TestCommandsOfMissingParts:
    @pytest.mark.parametrize("command", ["stress", "explore", "mutants"])
    def test_say_what_is_missing(self, checkout, command):
        result = checkout.ft_with_python(command)
        assert result.returncode == 1
        assert "this checkout has no stress/" in result.stderr

    def test_bench_lists_what_there_is(self, checkout):
        bench = checkout.root / "bench"
        bench.mkdir()
        (bench / "ring.py").write_text('"""Pass a token round."""\nimport sys\n')
        (bench / "big.py").write_text('"""Everybody to everybody.\n\nMore.\n"""\n')
        (bench / "_common.py").write_text('"""Not a benchmark."""\n')
        lines = checkout.ft_with_python("bench").stdout.splitlines()
        assert [line.split(maxsplit=1) for line in lines] == [
            ["big", "Everybody to everybody."],
            ["ring", "Pass a token round."],
        ]

    def test_bench_refuses_an_unknown_name(self, checkout):
        result = checkout.ft_with_python("bench", "nope")
        assert result.returncode == 1
        assert "no benchmark 'nope'" in result.stderr


# ---------------------------------------------------------------------------------------------
# Building the interpreter

FAKE_CONFIGURE = r"""
for argument; do
    case $argument in --prefix=*) echo "PREFIX = ${argument#--prefix=}" >settings.mk ;; esac
done
"""

# "make" tells the test when it compiles, and goes on when the test lets it.
FAKE_MAKEFILE = """
include settings.mk
all:
\techo compiled >>"$(JOURNAL)"
\t: cc -c one.c; touch one.o
\t[ ! -p "$(GATE)" ] || cat "$(GATE)"
\t: cc -c two.c; touch two.o
install:
\tmkdir -p $(DESTDIR)$(PREFIX)/bin
\tcp "$(NEW_PYTHON)" $(DESTDIR)$(PREFIX)/bin/python3.13t
"""


class Machine:
    """A Debian machine whose python3.13 source package is the few lines above."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache" / "otavia-ft"
        self.final = self.cache / "cpython-3.13t"
        self.python = self.final / "bin" / "python3.13t"
        self.gate = folder / "gate"
        self.journal = folder / "journal"
        self.apt = folder / "apt"
        self.stanzas = folder / "stanzas"
        (self.apt / "parts").mkdir(parents=True)
        self.add_source("debian.sources", "Types: deb\nURIs: http://mirror.test/debian\n")
        self.new_python = write_script(folder / "new-python", "exit 0\n")
        self.pack_source()
        fakes = folder / "fakes"
        write_script(
            fakes / "apt-config",
            f"echo \"list='{self.apt}/sources.list'; parts='{self.apt}/parts/'\"\n",
        )
        write_script(fakes / "dpkg-query", "echo install ok installed\n")
        # With "-c" it is asked for the source, without for the machine's own packages.
        self.fakes = fakes
        self.packages = folder / "packages"
        self.options = folder / "options"
        write_script(
            fakes / "apt-get",
            f"""
[ "$1" = -c ] || {{ echo "$*" >>{self.packages}; exit; }}
apt-config -c "$2" dump >{self.options}
case "$*" in
    *update*)
        cat "${{2%/*}}"/sources/*.sources >>{self.stanzas}
        ! grep -q broken.test "${{2%/*}}"/sources/*.sources ;;
    *source*) cp {folder}/source.tar.gz python3.13_3.13.99.orig.tar.gz ;;
esac
""",
        )
        self.environment = {
            "HOME": str(folder),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PATH": f"{fakes}:{os.environ['PATH']}",
            "JOURNAL": str(self.journal),
            "GATE": str(self.gate),
            "NEW_PYTHON": str(self.new_python),
        }

    def add_source(self, name: str, text: str) -> None:
        (self.apt / "parts" / name).write_text(text)

    def pack_source(self) -> None:
        source = self.folder / "Python-3.13.99"
        write_script(source / "configure", FAKE_CONFIGURE)
        (source / "Makefile").write_text(FAKE_MAKEFILE)
        subprocess.run(
            ["tar", "-czf", self.folder / "source.tar.gz", "-C", self.folder, source.name],
            check=True,
        )

    def start(self, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [ROOT / ".ci/build-python"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,  # a signal to its group must not reach the tests
        )

    def build(self) -> tuple[int, str, str]:
        process = self.start()
        output, errors = process.communicate()
        return process.returncode, output, errors

    def leftovers(self) -> set[str]:
        """What is in the cache besides an interpreter, its lock and the log."""
        known = {self.final.name, "build-3.13t.lock", "build-3.13t.log"}
        return {path.name for path in self.cache.iterdir()} - known

    def compilations(self) -> int:
        return len(self.journal.read_text().splitlines())

    def open_gate(self) -> TextIO:
        """Wait until the build compiles, and hold it there."""
        return self.gate.open("w")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    if not any(Path("/usr/share/keyrings").glob("debian-archive-keyring.*")):
        pytest.skip("the build takes Debian's sources, and there is no Debian keyring here")
    for tool in ("make", "flock", "setsid"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    return Machine(tmp_path)


class TestBuild:
    def test_prints_the_path_and_leaves_only_the_interpreter(self, machine):
        status, output, errors = machine.build()
        assert (status, output) == (0, f"{machine.python}\n"), errors
        assert machine.python.exists()
        assert machine.leftovers() == set()

    def test_a_second_run_finds_it_built(self, machine):
        machine.build()
        assert machine.build() == (0, f"{machine.python}\n", "")
        assert machine.compilations() == 1

    def test_replaces_an_interpreter_that_stopped_working(self, machine):
        machine.build()
        write_script(machine.python, "exit 1\n")
        assert machine.build()[0] == 0
        assert machine.compilations() == 2
        assert machine.leftovers() == set()

    @pytest.mark.parametrize(
        ("signal_number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
    )
    def test_interrupted_while_compiling_it_leaves_nothing(self, machine, signal_number, status):
        os.mkfifo(machine.gate)
        process = machine.start()
        with machine.open_gate():
            os.kill(process.pid, signal_number)
            _, errors = process.communicate()
            assert process.returncode == status
            assert "nothing was installed" in errors
            assert not machine.final.exists()
            assert machine.leftovers() == set()
        machine.gate.unlink()
        assert machine.build()[0] == 0
        assert machine.python.exists()

    def test_killed_outright_it_leaves_nothing_that_passes_for_an_interpreter(self, machine):
        os.mkfifo(machine.gate)
        process = machine.start()
        with machine.open_gate():
            process.kill()
            process.communicate()
            assert not machine.final.exists()
        machine.gate.unlink()
        assert machine.build()[0] == 0
        assert machine.leftovers() == set()

    def test_a_second_run_waits_for_the_first_and_uses_its_work(self, machine):
        os.mkfifo(machine.gate)
        first = machine.start()
        with machine.open_gate():
            second = machine.start()
            assert "waiting" in second.stderr.readline()
        for process in (first, second):
            output, errors = process.communicate()
            assert (process.returncode, output) == (0, f"{machine.python}\n"), errors
        assert machine.compilations() == 1

    def test_a_run_interrupted_while_waiting_leaves_the_first_alone(self, machine):
        os.mkfifo(machine.gate)
        first = machine.start()
        with machine.open_gate():
            second = machine.start()
            assert "waiting" in second.stderr.readline()
            second.terminate()
            second.communicate()
            assert second.returncode == 143
        first.communicate()
        assert first.returncode == 0
        assert machine.python.exists()

    def test_an_interpreter_that_fails_its_self_test_is_not_installed(self, machine):
        write_script(machine.new_python, "exit 1\n")
        status, output, errors = machine.build()
        assert (status, output) == (1, "")
        assert "self-test" in errors
        assert f"the log is {machine.cache}/build-3.13t.log" in errors
        assert not machine.final.exists()
        assert machine.leftovers() == set()

    def test_a_terminal_sees_how_far_it_is(self, machine):
        os.mkfifo(machine.gate)
        screen, terminal = os.openpty()
        with open(screen, "rb", buffering=0) as seen:
            process = machine.start(stderr=terminal)
            os.close(terminal)
            text = b""
            with machine.open_gate():  # one of the two objects is there
                while b"\r\x1b[Kcompiling 1/2  0:" not in text:
                    text += seen.read(100)
            output, _ = process.communicate()
        assert (process.returncode, output) == (0, f"{machine.python}\n")

    def test_a_log_gets_a_line_for_each_step(self, machine):
        os.mkfifo(machine.gate)
        process = machine.start()
        with machine.open_gate():
            lines = []
            while not lines or "compiling" not in lines[-1]:
                lines.append(process.stderr.readline())
                assert lines[-1], lines
        assert re.fullmatch(r"build-python: compiling [01]/2 \(\d+ s\)\n", lines[-1])
        assert process.communicate()[0] == f"{machine.python}\n"

    def test_refuses_a_version_that_cannot_be_free_threaded(self):
        result = subprocess.run(
            [ROOT / ".ci/build-python", "3.12"], capture_output=True, text=True, check=False
        )
        assert result.returncode == 2
        assert "'3.12'" in result.stderr


class TestPackageSources:
    def mirrors(self, machine: Machine) -> list[str]:
        machine.build()
        return re.findall(r"^URIs: (.*)$", machine.stanzas.read_text(), re.MULTILINE)

    def test_every_mirror_is_tried_in_turn_in_both_formats_of_apt(self, machine):
        machine.add_source(
            "debian.sources",
            "# a comment\nTypes: deb\nURIs: http://one.broken.test/debian\n"
            " http://two.broken.test/debian\nSuites: trixie\n\n"
            "Types: deb\nEnabled: no\nURIs: http://off.broken.test/debian\n",
        )
        machine.add_source(
            "old.list",
            "# deb http://comment.test/debian trixie main\n"
            "deb http://three.broken.test/debian-security trixie-security main\n"
            "deb [arch=amd64 signed-by=/k.gpg] http://four.test/debian trixie main\n"
            "deb-src http://never-reached.test/debian trixie main\n",
        )
        assert self.mirrors(machine) == [
            "http://one.broken.test/debian",
            "http://two.broken.test/debian",
            "http://four.test/debian",
        ]

    def test_the_debian_keyring_must_sign_whatever_the_mirror_says(self, machine):
        machine.build()
        stanza = machine.stanzas.read_text()
        assert re.search(r"^Signed-By: /usr/share/keyrings/debian-archive-keyring", stanza, re.M)
        assert "Trusted" not in stanza

    def test_unsigned_sources_are_refused_whatever_the_machine_allows(self, machine):
        """As apt itself reads its files, and with the machine's own among them."""
        real = shutil.which("apt-config")
        if real is None:
            pytest.skip("apt is not installed")
        lax = machine.apt / "machine.conf"
        (machine.apt / "conf.d").mkdir()
        lax.write_text(f'Dir::Etc::parts "{machine.apt}/conf.d";\n')
        names = [
            "APT::Get::AllowUnauthenticated",
            "Acquire::AllowInsecureRepositories",
            "Acquire::AllowDowngradeToInsecureRepositories",
            "Acquire::AllowWeakRepositories",
        ]
        machine.environment["APT_CONFIG"] = str(lax)
        (machine.apt / "conf.d" / "99lax").write_text(
            'Acquire::Retries "7";\n' + "".join(f'{name} "true";\n' for name in names)
        )
        fake = (machine.fakes / "apt-config").read_text()
        write_script(machine.fakes / "apt-config", f'[ "$1" != -c ] || exec {real} "$@"\n' + fake)
        machine.build()
        options = machine.options.read_text().splitlines()
        assert 'Acquire::Retries "7";' in options, "the machine's other settings stay"
        for name in names:
            assert [line for line in options if line.startswith(name)] == [f'{name} "false";']

    def test_no_mirror_that_works_is_an_error_that_names_the_log(self, machine):
        machine.add_source("debian.sources", "Types: deb\nURIs: http://broken.test/debian\n")
        status, _, errors = machine.build()
        assert status == 1
        assert "could not be downloaded" in errors
        assert "the log is" in errors

    def test_missing_packages_are_named_to_a_user_who_is_not_root(self, machine):
        write_script(machine.fakes / "dpkg-query", "exit 1\n")
        write_script(machine.fakes / "id", "echo 1000\n")
        status, _, errors = machine.build()
        assert status == 1
        assert "apt-get install gcc" in errors
        assert "libffi-dev" in errors
        assert not machine.packages.exists()

    def test_missing_packages_are_installed_for_root(self, machine):
        write_script(
            machine.fakes / "dpkg-query",
            'case "$*" in *gcc* | *libbz2-dev*) exit 1 ;; esac\necho install ok installed\n',
        )
        write_script(machine.fakes / "id", "echo 0\n")
        status, output, errors = machine.build()
        assert (status, output) == (0, f"{machine.python}\n")
        assert "installing build packages: gcc libbz2-dev\n" in errors
        assert machine.packages.read_text().splitlines() == [
            "update",
            "install -y --no-install-recommends gcc libbz2-dev",
        ]

    def test_packages_that_root_cannot_install_are_an_error_that_names_the_log(self, machine):
        write_script(machine.fakes / "dpkg-query", "exit 1\n")
        write_script(machine.fakes / "id", "echo 0\n")
        write_script(machine.fakes / "apt-get", "exit 100\n")
        status, _, errors = machine.build()
        assert status == 1
        assert "could not install: gcc" in errors
        assert "the log is" in errors
        assert machine.leftovers() == set()
