"""Planted bugs, to test the tools that look for bugs.

A mutant has a name, says in words what it breaks, and how it is planted: by `patches` of a module's
source (a text that occurs exactly once, and its replacement), which both engines understand; by
`native` patches of the C sources, in the same form and by file, for the native lane under real
threads; or by `doors`, a function that answers other doors for the explorer.
It names the workload that must notice it under real threads, and the scenario that must notice it
in the explorer; one of the two may be missing. To add one, write it into the catalogue:

    Mutant(
        "no-recheck",
        breaks="complete_running does not look again after WAITING",
        patches={"otavia_ft.house.house": [(OLD, NEW)]},
        workload="count",
        scenario="complete-running",
    )
"""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Mutant", "PatchError", "Patches", "by", "mutants", "plant", "source_of"]

PACKAGE = "otavia_ft"
Patches = Mapping[str, Sequence[tuple[str, str]]]


class PatchError(Exception):
    """A patch does not fit the source it was written for."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug."""

    name: str
    breaks: str
    workload: str | None = None
    patches: Patches = field(default_factory=dict)
    native: Patches = field(default_factory=dict)  # of files in _atomics: see parallel/stalled.py
    scheduler: str | None = None  # under real threads only this one, if the other has no such code
    doors: Callable[[], dict[str, Any]] | None = None
    scenario: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)  # of the scenario, if not its own
    model: str = "sc"  # the explorer's memory model: "sc" or "tso"


def by(module: str, old: str, new: str) -> Patches:
    """One text of one module, replaced by another."""
    return {module: [(old, new)]}


def mutants() -> dict[str, Mutant]:
    """All mutants by name, in the order of the catalogue."""
    from stress.mutants import doors, edges, houses, native, parking, schedulers, shares

    found: dict[str, Mutant] = {}
    lists = (houses, schedulers, shares, parking, edges, doors, native)
    for mutant in (mutant for each in lists for mutant in each.MUTANTS):
        if mutant.name in found:
            raise ValueError(f"two mutants are called {mutant.name}")
        found[mutant.name] = mutant
    return found


def plant(name: str) -> None:
    """Make the runtime of this process a mutant. Before it is imported."""
    mutant = mutants()[name]
    loaded = [module for module in sys.modules if module.startswith(PACKAGE)]
    if loaded:
        raise PatchError(f"the runtime is imported already: {', '.join(loaded[:3])}")
    if not mutant.patches and not mutant.native:
        raise PatchError(f"{name} is a bug of the doors, which only the explorer can plant")
    finder: Any = _Finder(mutant.patches)
    sys.meta_path.insert(0, finder)


def patched(name: str, text: str, patches: Sequence[tuple[str, str]]) -> str:
    """A module's source with its patches; each must fit exactly once."""
    for old, new in patches:
        if text.count(old) != 1:
            raise PatchError(
                f"a patch of {name} looks for a text that occurs {text.count(old)} times instead "
                f"of once; adapt it to the source:\n{old}"
            )
        text = text.replace(old, new)
    return text


def source_of(module: str) -> Path:
    """The source file of one of the runtime's modules."""
    spec = importlib.machinery.PathFinder.find_spec(PACKAGE)
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        raise PatchError(f"{PACKAGE} is not installed where its source can be read")
    return Path(places[0], *module.split(".")[1:]).with_suffix(".py")


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the source with its patches; reads and writes no cached code."""

    patches: Sequence[tuple[str, str]] = ()

    def get_code(self, fullname: str) -> Any:
        text = Path(self.path).read_text(encoding="utf-8")
        return compile(patched(fullname, text, self.patches), self.path, "exec", dont_inherit=True)


class _Finder:
    def __init__(self, patches: Patches) -> None:
        self._patches = patches

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._patches:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            raise PatchError(f"there is no source of {name} to patch")
        loader = _Loader(name, spec.loader.path)
        loader.patches = self._patches[name]
        spec.loader = loader
        return spec
