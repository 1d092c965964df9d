"""One call that searches: `explore(scenario, mode=...)`.

Modes:

    dpor     every schedule up to the order of independent steps, to the end
    states   every state, by remembering; the yardstick of dpor
    bound    every schedule with at most `bound` preemptions, fewest first
    pct      `schedules` runs by PCT with `depth` ordering constraints
    random   `schedules` runs, uniformly at each step
    every    every schedule, for counting

and two memory models, "sc" and "tso", that go with each of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stress.explorer import races
from stress.explorer.carriers import Carriers, default_carriers
from stress.explorer.dpor import Dpor
from stress.explorer.loading import Runtime, load_runtime
from stress.explorer.records import listen, mute
from stress.explorer.sampling import Pct, Uniform
from stress.explorer.scenario import Scenario
from stress.explorer.search import Every, States
from stress.explorer.world import Violation, World, enter

__all__ = ["MODELS", "MODES", "Result", "Runner", "explore"]

MODES = ("dpor", "states", "bound", "pct", "random", "every")
MODELS = ("sc", "tso")


class Runner:
    """Runs one scenario, at its sizes and in one memory model, as often as wanted."""

    def __init__(
        self,
        cls: type[Scenario],
        *,
        model: str = "sc",
        sizes: dict[str, int] | None = None,
        runtime: Runtime | None = None,
        carriers: Carriers | None = None,
    ) -> None:
        if model not in MODELS:
            raise ValueError(f"no memory model {model!r}: there are {', '.join(MODELS)}")
        self.cls = cls
        self.model = model
        self.sizes = cls.full_sizes(sizes or {})
        self.runtime = runtime or load_runtime(*cls.runtime)
        self.carriers = carriers or default_carriers()
        races.watch(self.runtime, cls.watch)
        listen()

    def run(
        self,
        picker: Any,
        *,
        shared: set[Any] | None = None,
        keyed: bool = False,
        logging: bool = False,
    ) -> World:
        cls = self.cls
        world = World(
            picker.pick,
            carriers=self.carriers,
            tso=self.model == "tso",
            shared=shared,
            keyed=cls.key if keyed else "",
            logging=logging,
            step_limit=cls.steps,
            timeouts=cls.timeouts,
        )
        world.on_stand_still = getattr(picker, "stand_still", world.on_stand_still)
        world.on_time_passed = getattr(picker, "time_passed", world.on_time_passed)
        world.on_end = mute
        world.checking = bool(cls.watch)
        world.errors_expected = cls.errors
        enter(world, self.runtime.static)
        try:
            scenario = cls(self.runtime, world, self.sizes)
            scenario.setup()
            if logging:
                scenario.label_words()
            mute(False)
            world.run()
            if world.diverged is not None:
                raise world.diverged
            if world.violation is None and not world.cut:
                if logging:
                    scenario.label_words()
                world.violation = scenario.judge()
                world.outcome = scenario.outcome()
        finally:
            enter(None, [])
        return world


@dataclass
class Result:
    scenario: str
    mode: str
    model: str
    sizes: dict[str, int]
    schedules: int = 0  # runs to their end
    cut: int = 0  # runs left early: all that could follow was known
    steps: int = 0
    longest: int = 0
    states: int | None = None
    complete: bool = False
    bound: int | None = None  # preemptions
    chance: float | None = None  # PCT: of each of the stable runs
    stable: int = 0  # PCT: runs that have this chance, see sampling.py
    seconds: float = 0.0
    violation: Violation | None = None
    schedule: list[int] = field(default_factory=list)  # the one that failed, quiet steps included
    outcomes: Counter[Any] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        return self.schedules / self.seconds if self.seconds else 0.0

    @property
    def promise(self) -> float:
        """PCT: the least probability that the stable runs, together, find a bug of this depth."""
        return 1 - (1 - (self.chance or 0.0)) ** self.stable

    def __str__(self) -> str:
        parts = [f"{self.scenario} {self.mode}/{self.model}: {self.schedules} schedules"]
        if self.cut:
            parts.append(f"{self.cut} cut")
        visited = f"{self.steps} states visited"
        if self.states is not None:
            visited += f" ({self.states} different ones)"
        parts.append(visited)
        parts.append(f"at most {self.longest} steps")
        if self.bound is not None:
            parts.append(f"{self.bound} preemptions")
        if self.chance:
            parts.append(
                f"each of the last {self.stable} finds a bug of this depth with "
                f"p >= {self.chance:.2g}, all of them with p >= {self.promise:.2g}"
            )
        if self.mode not in ("pct", "random"):
            parts.append("complete" if self.complete else "not complete")
        parts.append(f"{self.seconds:.2f} s, {self.rate:.0f}/s")
        return ", ".join(parts)


class _Budget:
    def __init__(self, schedules: int | None, seconds: float | None) -> None:
        self.schedules = schedules
        self.until = None if seconds is None else time.monotonic() + seconds

    def spent(self, result: Result) -> bool:
        if self.schedules is not None and result.schedules >= self.schedules:
            return True
        return self.until is not None and time.monotonic() >= self.until


def explore(
    cls: type[Scenario],
    mode: str = "dpor",
    *,
    model: str = "sc",
    bound: int = 2,
    depth: int = 3,
    seed: int = 0,
    schedules: int | None = None,
    seconds: float | None = None,
    sizes: dict[str, int] | None = None,
    runtime: Runtime | None = None,
    quiet: bool = True,
    keep_going: bool = False,
    progress: Callable[[Result], None] | None = None,
    carriers: Carriers | None = None,
) -> Result:
    """Search until a violation, the end, or the budget. `keep_going` collects outcomes instead."""
    if mode not in MODES:
        raise ValueError(f"no mode {mode!r}: there are {', '.join(MODES)}")
    runner = Runner(cls, model=model, sizes=sizes, runtime=runtime, carriers=carriers)
    result = Result(cls.name, mode, model, runner.sizes)
    if schedules is None and mode in ("pct", "random"):
        schedules = 1000
    budget = _Budget(schedules, seconds)
    shared: set[Any] | None = set() if quiet else None
    started = time.monotonic()
    make = _maker(mode, seed, depth)
    bounds = range(bound + 1) if mode == "bound" else [None]
    for result.bound in bounds:
        _search(runner, make, shared, result, budget, keep_going, progress)
        if (result.violation and not keep_going) or not result.complete:
            break
    result.seconds = time.monotonic() - started
    return result


def _maker(mode: str, seed: int, depth: int) -> Callable[[int | None], Any]:
    return {
        "dpor": lambda _: Dpor(),
        "states": lambda _: States(),
        "bound": States,
        "every": lambda _: Every(),
        "pct": lambda _: Pct(seed, depth),
        "random": lambda _: Uniform(seed),
    }[mode]


def _search(
    runner: Runner,
    make: Callable[[int | None], Any],
    shared: set[Any] | None,
    result: Result,
    budget: _Budget,
    keep_going: bool,
    progress: Callable[[Result], None] | None,
) -> None:
    picker = make(result.bound)
    exhaustive = not isinstance(picker, Uniform)
    keyed = isinstance(picker, States)
    more = True
    reported = time.monotonic()
    result.complete = False
    while more and not budget.spent(result):
        picker.begin()
        world = runner.run(picker, shared=shared, keyed=keyed)
        if exhaustive and world.learned and (world.violation is None or keep_going):
            picker = make(result.bound)  # see "Quiet words" in world.py
            result.outcomes.clear()
            continue
        if world.cut:
            result.cut += 1
        else:
            result.schedules += 1
            result.steps += len(world.schedule)
            result.longest = max(result.longest, len(world.schedule))
            if world.violation is not None and not keep_going:
                result.violation = world.violation
                result.schedule = world.full
                break
            kind = world.violation.kind if world.violation else ""
            result.outcomes[kind, world.outcome] += 1
        more = picker.end(world)
        if progress is not None and time.monotonic() - reported > 0.5:
            reported = time.monotonic()
            progress(result)
    result.complete = exhaustive and not more
    if isinstance(picker, States):
        result.states = len(picker.seen)
    if isinstance(picker, Pct):
        result.chance, result.stable = picker.bound, picker.stable
