"""Loads the compiled atomics without letting the GIL come back.

On free-threaded 3.13, importing cffi's backend through the import system turns the GIL on for the
whole process, because cffi 1.17 does not declare itself safe without it. For our use it is: after
start-up we call only native methods and generated wrappers on integers, none of which touch shared
state of the backend. So there, and only there, the two extension files are opened past the import
system's check. Everywhere else (3.14 and later, where cffi 2.1 declares itself; ordinary builds; a
user who asked for the GIL) this is a plain import.
"""

import ctypes
import importlib
import importlib.machinery
import importlib.util
import sys
import sysconfig
from types import ModuleType
from typing import Any


def _free_threaded_313() -> bool:
    """Whether importing cffi's backend would turn on a GIL that is off now."""
    return (
        bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
        and sys.version_info < (3, 14)
        and not sys._is_gil_enabled()
    )


def _missing(name: str) -> ImportError:
    return ImportError(
        f"the compiled module {name} is missing: install the package "
        "(./ft does, or `pip install -e .`) so that it is built",
        name=name,
    )


def _elsewhere() -> ImportError:
    return ImportError(
        "otavia_ft can be used in one interpreter of a process only, and another one has it"
    )


def _load(name: str) -> ModuleType:
    """A plain import that says what to do when there is nothing to load."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise  # it is there, and something that it needs is not
        raise _missing(name) from None
    except ImportError as error:
        # From 3.14 on Python itself keeps such modules out of other interpreters than the main one.
        if "subinterpreters" in str(error):
            raise _elsewhere() from error
        raise


def _load_past_gil_check(name: str) -> ModuleType:
    """Import a single-phase extension module by calling its init function ourselves."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise _missing(name)
    library = ctypes.PyDLL(spec.origin)
    init = getattr(library, "PyInit_" + name.rpartition(".")[2])
    init.restype = ctypes.py_object
    module: ModuleType = init()
    module.__spec__ = spec
    module.__file__ = spec.origin
    module.__loader__ = importlib.machinery.ExtensionFileLoader(name, spec.origin)
    sys.modules[name] = module
    return module


if _free_threaded_313():
    _load_past_gil_check("_cffi_backend")
    _native: Any = _load_past_gil_check("_atomics._native")
else:
    _native = _load("_atomics._native")

ffi = _native.ffi
lib = _native.lib


def _native_face() -> dict[str, Any]:
    address = lib.otv_native_face()
    if not address:
        raise ImportError("the native atomic types could not be made; the reason stands above")
    if address == 1:
        raise _elsewhere()
    # The cast takes a reference of its own; C keeps another, so the dict (and with it the types)
    # lives as long as the process, which is what we want of them.
    face: dict[str, Any] = ctypes.cast(address, ctypes.py_object).value
    return face


face = _native_face()

# The functions of `lib` are made on first use and then shared by all threads: as counted objects
# they would be cache lines that every core fights for.
for _name in dir(lib):
    face["make_immortal"](getattr(lib, _name))
