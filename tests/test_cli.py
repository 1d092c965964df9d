"""`otavia-ft demo` and `otavia-ft doctor`: what `./ft demo` and `./ft doctor` become."""

import re
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata

import pytest

from otavia_ft.cli import doctor
from otavia_ft.cli.__main__ import COMMANDS, main
from otavia_ft.cli.doctor import GilReport


@pytest.fixture
def cli(run_python):
    """Run a command in a child with a clean environment."""

    def run(*arguments, environment=None, options=()):
        code = f"import sys; from otavia_ft.cli.__main__ import main; sys.exit(main({arguments!r}))"
        wide = {"COLUMNS": "200", **(environment or {})}
        return run_python(code, *options, environment=wide)

    return run


class TestHelp:
    @pytest.mark.parametrize("arguments", [[], *([name] for name in COMMANDS)], ids=str)
    def test_everything_explains_itself_with_an_example(self, arguments, capsys):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--help"])
        assert ended.value.code == 0
        text = " ".join(capsys.readouterr().out.split())
        assert text.startswith(" ".join(["usage: otavia-ft", *arguments]))
        assert " ".join(["Example: otavia-ft", *arguments]) in text

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            ([], "required: COMMAND"),
            (["tset"], "invalid choice: 'tset'"),
            (["demo", "--nonsense"], "unrecognized arguments: --nonsense"),
            (["demo", "--workers", "0"], "'0' is not a number of workers: 1 or more"),
            (["demo", "--workers", "many"], "'many' is not a number of workers"),
            (["demo", "--seconds", "-1"], "'-1' is not a time: seconds above 0"),
            (["demo", "--seconds", "nan"], "'nan' is not a time"),
            (["demo", "--seconds", "1e9"], "30 at most"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_a_mistake_is_named(self, arguments, complaint, capsys):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert complaint in capsys.readouterr().err

    def test_without_the_extra_it_says_which_one_is_missing(self, run_python):
        code = "import sys; sys.modules['rich'] = None\nimport runpy\n"
        result = run_python(code + "runpy.run_module('otavia_ft.cli', run_name='__main__')")
        assert result.returncode == 1
        assert result.stderr.count("\n") == 1, "no traceback"
        assert "pip install 'otavia-ft[cli]'" in result.stderr

    def test_ctrl_c_ends_a_command_as_shells_expect(self, monkeypatch, capsys):
        def interrupted(options):
            raise KeyboardInterrupt

        monkeypatch.setattr(doctor, "run", interrupted)
        assert main(["doctor"]) == 130
        assert capsys.readouterr().err == "stopped\n"


class TestDemo:
    def test_it_shows_the_speed_up_messages_steals_and_that_no_actor_ran_twice_at_once(self, cli):
        result = cli("demo", "--seconds", "0.2", "--workers", "2")
        assert result.returncode == 0, result.stdout + result.stderr
        text = result.stdout
        for pattern in [
            r"1 worker +[\d.]+ s",
            r"2 workers +[\d.]+ s",
            r"speed-up +[\d.]+ times",
            r"with [\d,]+ turns stolen",
            r"messages +[\d,]+ a second",
            r"on two threads at once +0 times in [\d,]+ messages",
        ]:
            assert re.search(pattern, text), f"{pattern} in:\n{text}"

    def test_every_phase_ends_with_a_full_bar(self, cli):
        result = cli("demo", "--seconds", "0.05", "--workers", "1")
        bars = re.findall(r"(\d+)/(\d+)", result.stdout)
        assert len(bars) == 4
        assert all(done == total for done, total in bars)

    def test_with_the_gil_it_says_that_nothing_ran_in_parallel(self, cli):
        result = cli("demo", "--seconds", "0.05", environment={"PYTHON_GIL": "1"})
        assert result.returncode == 0
        assert "The GIL is on, so nothing ran in parallel" in result.stdout


@pytest.fixture
def old_fashioned(tmp_path):
    """The folder of an extension module that says nothing of free threading, as most still do."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source = tmp_path / "oldie.c"
    source.write_text(
        "#include <Python.h>\n"
        'static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "oldie", 0, -1, 0};\n'
        "PyMODINIT_FUNC PyInit_oldie(void) { return PyModule_Create(&def); }\n"
    )
    include = sysconfig.get_path("include")
    target = tmp_path / "oldie.so"
    command = [compiler, "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(target)]
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        command.insert(1, "-DPy_GIL_DISABLED=1")
    subprocess.run(command, check=True)
    return tmp_path


class TestDoctor:
    def test_it_names_interpreter_build_gil_cores_cffi_and_atomics(self, cli, free_threaded):
        result = cli("doctor")
        assert result.returncode == 0, result.stdout
        subjects = re.findall(r"^(?:ok)? +(\w+)", result.stdout, re.MULTILINE)
        assert subjects == ["interpreter", "build", "GIL", "cores", "cffi", "atomics"]
        assert sys.executable in result.stdout
        assert "free-threaded" in result.stdout
        assert "off, with every module of otavia_ft imported" in result.stdout
        assert "none lost" in result.stdout

    def test_an_ordinary_build_is_said_to_be_unfit(self, cli):
        if doctor.FREE_THREADED:
            pytest.skip("this build is fit")
        result = cli("doctor")
        assert result.returncode == 1
        assert "has a GIL: correct, but never parallel" in result.stdout

    @pytest.mark.parametrize(
        ("options", "environment", "said"),
        [
            ((), {"PYTHON_GIL": "1"}, "ON: you did, with PYTHON_GIL=1 in the environment"),
            (("-X", "gil=1"), {}, "ON: you did, with -X gil=1"),
            ((), {"PYTHON_GIL": "0"}, "off by force"),
        ],
        ids=["environment", "option", "forced off"],
    )
    def test_it_says_who_turned_the_gil_on(self, cli, free_threaded, options, environment, said):
        result = cli("doctor", environment=environment, options=options)
        assert said in result.stdout
        assert result.returncode == ("ON" in said)

    def test_it_says_of_each_module_what_importing_it_does(self, cli, free_threaded, old_fashioned):
        environment = {"PYTHONPATH": str(old_fashioned)}
        result = cli("doctor", "json", "oldie", "no_such_module", environment=environment)
        assert result.returncode == 1
        assert re.search(r"ok +json +leaves the GIL off", result.stdout)
        assert re.search(r"bad +oldie +GIL on: .*load module 'oldie'", result.stdout)
        assert re.search(r"bad +no_such_module +does not import: ModuleNotFound", result.stdout)

    def test_a_module_that_kills_the_interpreter_is_a_finding_too(self, tmp_path, monkeypatch):
        (tmp_path / "deadly.py").write_text("import os\nos._exit(3)\n")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        assert doctor.probe_gil(["deadly"]).failed == {"deadly": "exit status 3"}

    def test_a_module_that_prints_does_not_spoil_the_report(self, tmp_path, monkeypatch):
        (tmp_path / "talkative.py").write_text("print('hello')\n")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        assert doctor.probe_gil(["talkative"]).failed == {}

    @pytest.mark.parametrize(
        ("report", "said"),
        [
            (GilReport(True, True, [], {}), "a start-up hook"),
            (GilReport(False, True, ["loading 'x' turned it on"], {}), "loading 'x' turned it on"),
            (GilReport(False, True, [], {}), "unknown"),
        ],
        ids=["hook", "warning", "unknown"],
    )
    def test_it_names_the_culprit_as_exactly_as_it_can(self, monkeypatch, report, said):
        monkeypatch.setattr(doctor, "FREE_THREADED", True)
        monkeypatch.delenv("PYTHON_GIL", raising=False)
        assert said in doctor.who_turned_it_on(report)

    def test_atomics_that_do_not_load_are_a_finding_too(self, root, tmp_path, run_python):
        """As `./ft doctor` runs it: by its path."""
        (tmp_path / "_atomics").mkdir()
        (tmp_path / "_atomics" / "__init__.py").write_text("raise ImportError('no libffi here')\n")
        program = str(root / "otavia_ft" / "cli" / "doctor.py")
        result = run_python(
            f"import runpy, sys; sys.argv = [{program!r}, 'json']\n"
            "runpy.run_path(sys.argv[0], run_name='__main__')",
            environment={"COLUMNS": "200", "PYTHONPATH": str(tmp_path)},
        )
        assert (result.returncode, result.stderr) == (1, "")
        assert re.search(r"bad +imports +ImportError: no libffi here", result.stdout)
        assert re.search(r"bad +atomics +ImportError: no libffi here", result.stdout)
        assert re.search(r"^(ok)? +cores", result.stdout, re.MULTILINE), "the report went on"

    def test_cffi_that_is_not_installed_is_a_finding(self, monkeypatch):
        def version(name):
            raise metadata.PackageNotFoundError(name)

        monkeypatch.setattr(metadata, "version", version)
        assert doctor.cffi_finding().fit is False

    @pytest.mark.parametrize("error", [AssertionError("lost"), ImportError("no such thing")])
    def test_atomics_that_fail_are_a_finding_and_not_a_traceback(self, error):
        def check(threads, rounds):
            raise error

        finding = doctor.atomics_finding(check)
        assert finding.fit is False
        assert str(error) in finding.text
