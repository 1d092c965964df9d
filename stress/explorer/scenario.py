"""What a scenario states: a small program with a few threads, and what must hold at its end.

    @scenario("park-wake")
    class ParkWake(Scenario):
        '''One line for `--list`.'''
        runtime = ("otavia_ft.parking",)       # modules to run under the simulated doors
        sizes = {"wakers": 2}                  # become attributes; minimisation makes them smaller
        watch = ("parking.Parker",)            # classes whose plain fields get the race check

        def setup(self): ...                   # make objects; self.thread(name, function, *args)
        def work_left(self): ...               # at the end: what nobody will ever do, or None
        def finish(self): ...                  # at the end: assertions

A run ends when nothing can move. Then `work_left` is asked (an answer is a lost wake-up), threads
that have not ended are looked at (a deadlock, or a livelock if they only spin; daemons may stay
blocked), and `finish` is called. Uncaught exceptions and failed assertions are always findings.

Rules for scenario code: threads talk through the doors only. A Python list to which two threads
append is a fifth door, and the explorer would not try both orders; let each thread keep its own.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from typing import Any, ClassVar

from stress.explorer.loading import Runtime
from stress.explorer.world import Thread, Violation, Word, World, labels

__all__ = ["Scenario", "Violation", "label", "scenario", "scenarios", "sources_of"]

LARGEST = 100  # of a size: more threads or messages than that are for real threads

_registry: dict[str, type[Scenario]] = {}


class Scenario:
    name: ClassVar[str] = ""
    runtime: ClassVar[tuple[str, ...]] = ()
    sizes: ClassVar[dict[str, int]] = {}
    least: ClassVar[dict[str, int]] = {}  # how small each size may become; 1 if not given
    watch: ClassVar[tuple[str, ...]] = ()
    # When a wait with a timeout gives up: "never" (a wake-up that only a timeout repairs is lost),
    # "idle" (when nothing else can move, the earliest first, and the clock moves on), or a number
    # (each thread may time out that often, at any moment).
    timeouts: ClassVar[str | int] = "never"
    # What identifies a state in the state-hash search: "trace" (who has read from whom, which
    # accounts for plain fields too), or "values" (coarser and faster; only if all shared state
    # lies in atomic cells with hashable values).
    key: ClassVar[str] = "trace"
    steps: ClassVar[int] = 2000
    # Preemptions up to which the searches of the test suite go, where not all can be searched.
    bound: ClassVar[int] = 2
    errors: ClassVar[bool] = False  # whether the runtime may log errors (its handlers raise)

    def __init__(self, rt: Runtime, world: World, sizes: dict[str, int]) -> None:
        self.rt: Any = rt
        self.doors = rt.doors
        self.world = world
        for size, number in sizes.items():
            setattr(self, size, number)

    def __getattr__(self, name: str) -> Any:
        # Sizes are attributes; this only tells type checkers and misspellers so.
        raise AttributeError(f"scenario {self.name} has no attribute or size {name!r}")

    @classmethod
    def full_sizes(cls, given: dict[str, int]) -> dict[str, int]:
        """The given sizes and, for the others, the scenario's own; ValueError for a wrong one."""
        unknown = set(given) - set(cls.sizes)
        if unknown:
            raise ValueError(
                f"scenario {cls.name} has no size {', '.join(sorted(unknown))}; "
                f"it has {', '.join(cls.sizes) or 'none'}"
            )
        for name, number in given.items():
            if not cls.least.get(name, 1) <= number <= LARGEST:
                raise ValueError(
                    f"{name}={number}: {cls.name} can have {cls.least.get(name, 1)} to {LARGEST}"
                )
        return {**cls.sizes, **given}

    def thread(
        self, name: str, body: Callable[..., Any], *args: Any, daemon: bool = False
    ) -> Thread:
        """Add a thread. A daemon may still be blocked when all is over."""
        return self.world.add(name, lambda: body(*args), daemon)

    def setup(self) -> None:
        """Make the objects and add the threads."""

    def work_left(self) -> str | None:
        return None

    def finish(self) -> None:
        pass

    def outcome(self) -> Any:
        """The run's result, hashable; the set of all outcomes is in the search's result."""
        return None

    def judge(self) -> Violation | None:
        """The verdict on a run in which nothing can move any more."""
        left = self.work_left()
        if left:
            return Violation("lost wake-up", left)
        stuck = [t for t in self.world.threads if not t.done and not t.daemon]
        if stuck:
            spinning = all(t.kind == "relax" for t in stuck)
            table = "; ".join(f"{t.name} waits at {_waits_at(t)}" for t in stuck)
            return Violation("livelock" if spinning else "deadlock", table)
        try:
            self.finish()
        except Violation as found:
            return found
        except AssertionError as error:
            return Violation("invariant", str(error) or "an assertion of finish() failed")
        return None

    def check(self, holds: Any, text: str) -> None:
        """A finding unless `holds`, wherever it is called: no handler of the runtime's hides it."""
        if not holds:
            self.world.fail(Violation("invariant", text))

    def label_words(self) -> None:
        """Give every word that the scenario can reach the name under which it is reached."""
        _label(self, "", 8, set())
        labels[self.world.clock] = "clock"


def label(thing: Any, name: str) -> None:
    """Name the words that belong to a thing, where they have no name yet."""
    _label(thing, name, 4, set())


def _waits_at(t: Thread) -> str:
    if t.kind == "relax":
        return "a spin on " + ", ".join(labels.get(w, w.home) for w in t.reads)
    return t.kind if t.word is None else f"{t.kind} {labels.get(t.word, t.word.home)}"


def _label(thing: Any, path: str, depth: int, seen: set[int]) -> None:
    if id(thing) in seen or depth < 0:
        return
    seen.add(id(thing))
    if isinstance(thing, Word):
        labels.setdefault(thing, path or thing.home)
        return
    if isinstance(thing, dict):
        children = [(f"{path}[{key}]", value) for key, value in thing.items()]
    elif isinstance(thing, list | tuple):
        children = [(f"{path}{number}", value) for number, value in enumerate(thing)]
    else:
        slots = [s for cls in type(thing).__mro__ for s in cls.__dict__.get("__slots__", ())]
        names = [*getattr(thing, "__dict__", ()), *slots]
        if not names or isinstance(thing, type | World | Runtime):
            return
        children = [
            (_join(path, name), value)
            for name in names
            if isinstance(name, str) and (value := _peek(thing, name)) is not None
        ]
    for name, child in children:
        if isinstance(child, list) and child and all(isinstance(c, Word) for c in child):
            for word in child:
                labels.setdefault(word, f"{path}.{word.home}")
        elif not callable(child):
            _label(child, name, depth - 1, seen)


def _peek(thing: Any, name: str) -> Any:
    try:
        return object.__getattribute__(thing, name)
    except AttributeError:
        return None


def _join(path: str, name: str) -> str:
    name = name.lstrip("_")
    if name in ("word", "flag"):  # the only one in its owner
        return path or name
    return f"{path}.{name}" if path else name


def scenario(name: str) -> Callable[[type[Scenario]], type[Scenario]]:
    """Register a scenario under a name."""

    def register(cls: type[Scenario]) -> type[Scenario]:
        if name in _registry and _registry[name].__qualname__ != cls.__qualname__:
            raise ValueError(f"two scenarios are called {name}")
        cls.name = name
        _registry[name] = cls
        return cls

    return register


def scenarios() -> dict[str, type[Scenario]]:
    """All scenarios by name, from all modules of `stress.scenarios`."""
    import stress.scenarios

    for module in pkgutil.iter_modules(stress.scenarios.__path__, "stress.scenarios."):
        if module.name not in sys.modules and "._" not in module.name:
            importlib.import_module(module.name)
    return dict(sorted(_registry.items()))


def sources_of(cls: type[Scenario]) -> list[str]:
    """The files in which a scenario is written, and those of the classes that it is made from."""
    files = {getattr(sys.modules[base.__module__], "__file__", None) for base in cls.__mro__}
    return sorted(str(file) for file in files if file is not None)
