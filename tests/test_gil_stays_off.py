"""Loading and using the package never turns the GIL on, and never overrules a user who wants it.

Each test looks into a child process, because the GIL belongs to the whole process and the test
runner has imported who knows what.
"""

import pytest

IMPORT_ALL = """
import importlib, pkgutil, sys
import otavia_ft

names = [
    info.name
    for info in pkgutil.walk_packages(otavia_ft.__path__, "otavia_ft.", onerror=lambda name: 1 / 0)
    if not info.name.endswith(".__main__")
]
for name in names:
    importlib.import_module(name)
"""

USE_CFFI = """
import cffi

ffi = cffi.FFI()
ffi.cdef("typedef struct { int a; double b[3]; } pair; size_t strlen(const char *);")
pair = ffi.new("pair *", {"a": 7, "b": [1.0, 2.0, 3.0]})
assert (pair.a, list(pair.b)) == (7, [1.0, 2.0, 3.0])
assert ffi.dlopen(None).strlen(b"four") == 4
"""

PRINT_GIL = """
import sys
print(sys._is_gil_enabled())
"""


@pytest.mark.usefixtures("free_threaded")
class TestWithoutAnyFlag:
    def test_importing_the_package_leaves_the_gil_off(self, run_python):
        result = run_python("import otavia_ft" + PRINT_GIL)
        assert (result.stdout, result.stderr) == ("False\n", "")

    def test_importing_every_module_leaves_the_gil_off(self, run_python):
        result = run_python(IMPORT_ALL + "assert 'otavia_ft.cli.doctor' in names" + PRINT_GIL)
        assert (result.stdout, result.stderr) == ("False\n", "")

    def test_using_cffi_after_the_package_leaves_the_gil_off(self, run_python):
        result = run_python(IMPORT_ALL + USE_CFFI + PRINT_GIL)
        assert (result.stdout, result.stderr) == ("False\n", "")

    def test_a_thread_that_imports_the_package_leaves_the_gil_off(self, run_python):
        code = (
            "import threading\nt = threading.Thread(target=__import__, args=['otavia_ft.atomic'])\n"
        )
        result = run_python(code + "t.start(); t.join()" + PRINT_GIL)
        assert (result.stdout, result.stderr) == ("False\n", "")


@pytest.mark.usefixtures("free_threaded")
class TestUserWhoWantsTheGil:
    @pytest.mark.parametrize(
        ("arguments", "environment"),
        [((), {"PYTHON_GIL": "1"}), (("-X", "gil=1"), {})],
        ids=["environment", "option"],
    )
    def test_keeps_it(self, run_python, arguments, environment):
        result = run_python(IMPORT_ALL + USE_CFFI + PRINT_GIL, *arguments, environment=environment)
        assert (result.stdout, result.stderr) == ("True\n", "")


SYSTEMS = """
from otavia_ft import ActorSystem, StateActor, on

class Echo(StateActor):
    @on(str)
    def echo(self, message):
        return message

for dispatcher in ("pinned", "pool", "pinned"):
    with ActorSystem(workers=2, dispatcher=dispatcher) as system:
        print(system.ask(system.build_actor(Echo), dispatcher, timeout=30).result())
"""


class TestSystemsWithTheGil:
    def test_work_and_say_once_that_nothing_will_run_in_parallel(self, run_python):
        result = run_python(SYSTEMS, environment={"PYTHON_GIL": "1"})
        assert result.stdout.split() == ["pinned", "pool", "pinned"]
        (line,) = result.stderr.splitlines()
        assert line.startswith("the GIL is on: actors will work, but only one at a time")
        assert "doctor" in line, "it says what to do about it"

    @pytest.mark.usefixtures("free_threaded")
    def test_without_it_there_is_nothing_to_say(self, run_python):
        result = run_python(SYSTEMS + PRINT_GIL)
        assert result.stdout.split() == ["pinned", "pool", "pinned", "False"]
        assert result.stderr == ""


def test_a_second_load_gets_the_types_of_the_first(run_python, complaints):
    result = run_python("""
import importlib, sys
import _atomics, otavia_ft
from otavia_ft import ActorSystem
first = _atomics.face
assert importlib.reload(_atomics).face is first
del sys.modules["_atomics"]
assert importlib.import_module("_atomics").face is first
with ActorSystem(workers=1):
    print("fine")
""")
    assert (result.stdout, complaints(result.stderr)) == ("fine\n", "")


def test_another_interpreter_of_the_process_is_refused_and_breaks_nothing(run_python):
    result = run_python("""
import _interpreters
from otavia_ft import ActorSystem

other = _interpreters.create("legacy")
failed = _interpreters.run_string(other, "import otavia_ft")
print(failed.type.__name__, failed.msg)
_interpreters.destroy(other)
with ActorSystem(workers=1):
    print("fine")
""")
    refused, fine = result.stdout.splitlines()
    assert refused.startswith("ImportError otavia_ft can be used in one interpreter"), refused
    assert (fine, result.returncode) == ("fine", 0), result.stderr


HIDE_THE_COMPILED_MODULE = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name == "_atomics._native" else self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""


@pytest.mark.parametrize("gil", ["as it is", "wanted"])
def test_a_package_that_was_not_built_says_so_with_and_without_the_gil(run_python, gil):
    environment = {"PYTHON_GIL": "1"} if gil == "wanted" else {}
    result = run_python(HIDE_THE_COMPILED_MODULE + "import otavia_ft", environment=environment)
    last = result.stderr.splitlines()[-1]
    assert last.startswith("ImportError: the compiled module _atomics._native is missing"), last
    assert "./ft" in last, "it says what to do"


def test_every_module_imports_without_a_warning(run_python):
    """Also on a build with the GIL, where the tests above are skipped."""
    result = run_python(IMPORT_ALL + USE_CFFI)
    assert (result.returncode, result.stderr) == (0, "")
