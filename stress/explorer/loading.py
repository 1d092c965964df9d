"""A private copy of the runtime, imported under the simulated doors.

`load_runtime("otavia_ft.parking", ...)` imports the named modules, and whatever they import of the
package, from their source once more, with `otavia_ft.doors`, `otavia_ft.atomic` and
`otavia_ft.bell` replaced. The modules that the rest of the process uses are put back afterwards,
untouched.

`patches` plant bugs: for a module's name, pairs of a text and its replacement. The text must occur
exactly once, otherwise a patch that no longer fits the source would silently test nothing.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import otavia_ft.doors  # noqa: F401 - brings in what the stand-ins are made from
from stress.explorer import cells
from stress.explorer.world import Word, collect_static

__all__ = ["PatchError", "Runtime", "load_runtime", "source_hash"]

PACKAGE = "otavia_ft"
Patches = Mapping[str, Sequence[tuple[str, str]]]
DOORS = ("atomic", "bell", "doors")


class PatchError(Exception):
    """A patch does not fit the source it was written for."""


class Runtime:
    """The modules of one loading, as attributes by their last name; `doors` is always there."""

    def __init__(self, modules: dict[str, ModuleType], doors: ModuleType) -> None:
        self.modules = modules
        self.static: list[Word] = []
        self.kept: dict[Any, Any] = {}  # what scenarios make once for this copy
        self.doors: Any = doors
        self.planted = ""  # says which bugs, if any
        self._short = {
            name.rpartition(".")[2]: module
            for name, module in modules.items()
            if not hasattr(module, "__path__")
        }
        self.sources = sorted(
            module.__file__ for module in modules.values() if getattr(module, "__file__", None)
        )

    def __getattr__(self, name: str) -> Any:
        try:
            return self._short[name]
        except KeyError:
            raise AttributeError(
                f"no module {name} was loaded; there are {', '.join(self.modules)}"
            ) from None


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the source as it is now, with its patches; reads and writes no cached code."""

    patches: Sequence[tuple[str, str]] = ()

    def get_code(self, fullname: str) -> Any:
        text = Path(self.path).read_text(encoding="utf-8")
        for old, new in self.patches:
            if text.count(old) != 1:
                raise PatchError(
                    f"a patch of {fullname} looks for a text that occurs {text.count(old)} times "
                    f"instead of once; adapt it to the source:\n{old}"
                )
            text = text.replace(old, new)
        return compile(text, self.path, "exec", dont_inherit=True)


class _Finder:
    def __init__(self, patches: Patches) -> None:
        self._patches = patches

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith(PACKAGE + "."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            loader = _Loader(name, spec.loader.path)
            loader.patches = self._patches.get(name, ())
            spec.loader = loader
        return spec


def _stand_in(name: str, original: ModuleType, changes: Mapping[str, Any]) -> ModuleType:
    """A module with the original's names, where the simulation's take precedence."""
    module = ModuleType(name)
    for key in original.__all__:
        value = changes.get(key, getattr(cells, key, None))
        setattr(module, key, getattr(original, key) if value is None else value)
    for key in ("relax", "advance"):  # offered to scenarios
        setattr(module, key, getattr(cells, key))
    module.__all__ = list(original.__all__)  # type: ignore[attr-defined]
    return module


def load_runtime(
    *names: str,
    patches: Patches | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Runtime:
    """Fresh copies of the named modules. `changes` replaces names of the simulated doors."""
    patches, changes = patches or {}, changes or {}
    mine = [n for n in sys.modules if n == PACKAGE or n.startswith(PACKAGE + ".")]
    saved = {name: sys.modules.pop(name) for name in mine}
    package = ModuleType(PACKAGE)  # its own __init__ would import everything
    package.__path__ = list(saved[PACKAGE].__path__)
    stand_ins = {
        short: _stand_in(f"{PACKAGE}.{short}", saved[f"{PACKAGE}.{short}"], changes)
        for short in DOORS
    }
    sys.modules[PACKAGE] = package
    for short, module in stand_ins.items():
        sys.modules[f"{PACKAGE}.{short}"] = module
        setattr(package, short, module)
    finder: Any = _Finder(patches)
    sys.meta_path.insert(0, finder)
    try:
        _, static = collect_static(lambda: [importlib.import_module(name) for name in names])
        loaded = {n: m for n, m in sys.modules.items() if n.startswith(PACKAGE + ".")}
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n == PACKAGE or n.startswith(PACKAGE + ".")]:
            del sys.modules[name]
        sys.modules.update(saved)
    unused = set(patches) - set(loaded)
    if unused:
        raise PatchError(f"patches for modules that were not loaded: {', '.join(sorted(unused))}")
    runtime = Runtime(loaded, stand_ins["doors"])
    runtime.static = static
    if patches or changes:
        places = [(name, door.__module__, door.__qualname__) for name, door in changes.items()]
        runtime.planted = repr((sorted(patches.items()), sorted(places)))
        files = {sys.modules[module].__file__ for _, module, _ in places}
        runtime.sources += sorted(file for file in files if file is not None)
    return runtime


def source_hash(paths: Sequence[str], planted: str = "") -> str:
    """Six digits that change when a source does: a schedule only means something with its code."""
    digest = hashlib.sha256(planted.encode())
    for path in sorted(set(paths)):
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()[:6]
