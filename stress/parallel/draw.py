"""One seed draws everything: the workload, its sizes and the configuration of the system.

The parts are drawn from generators of their own, so that naming a workload or a number of workers
on the command line leaves the rest of the case as the seed has it.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Case", "draw"]


@dataclass(frozen=True, slots=True)
class Case:
    """All that a child process needs to know."""

    seed: int
    workload: str
    settings: dict[str, Any]
    rounds: int
    bare: bool  # without stalls and instruments, so that nothing changes the timing
    stall_permille: int  # how often a step is followed by a stall
    collects: bool  # a thread of its own calls the garbage collector
    lane: str  # native, native+stalls (stalled.py) or python, for which the instruments are
    reads: bool = False  # a thread of its own reads the statistics
    mutant: str | None = None
    scale: int = 1  # bursts so many times as long: a soak, always bare
    patience_s: float = 10.0  # no progress for that long is a hang
    forced: dict[str, Any] = field(default_factory=dict)  # what the command line has changed

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def command(self) -> str:
        """The command that runs this very case again."""
        words = [f"./ft stress --seed {self.seed} --cases 1"]
        words += [f"--{name} {value}" for name, value in self.forced.items()]
        if self.mutant is not None:
            words.append(f"--mutant {self.mutant}")
        return " ".join(words)


def draw(
    seed: int,
    workloads: list[str],
    *,
    workload: str | None = None,
    workers: int | None = None,
    mutant: str | None = None,
    scale: int = 1,
    patience_s: float = 10.0,
) -> Case:
    """The case of a seed. `workload` and `workers` replace what was drawn."""
    forced: dict[str, Any] = {}
    chosen = random.Random(f"workload {seed}").choice(workloads)
    if workload is not None:
        forced["workload"] = chosen = workload
    settings = _settings(random.Random(f"settings {seed}"))
    settings |= _pools(random.Random(f"pools {seed}"))
    if scale > 1:
        settings["debug"] = False  # to change an object's class stops all threads for a moment
    if workers is not None:
        forced["workers"] = settings["workers"] = workers
    if scale > 1:
        forced["scale"] = scale
    rng = random.Random(f"case {seed}")
    rounds = rng.choice((6, 12, 24))
    bare = rng.random() < 0.25 or scale > 1
    lane = _lane(random.Random(f"lane {seed}").random(), bare)
    if mutant is not None:
        lane, scheduler = _home_of(mutant)
        bare = bare and lane == "python"
        settings["dispatcher"] = scheduler or settings["dispatcher"]
    return Case(
        seed=seed,
        workload=chosen,
        settings=settings,
        rounds=rounds,
        bare=bare,
        stall_permille=rng.choice((5, 20, 60, 150)),
        collects=rng.random() < 0.3,
        lane=lane,
        reads=random.Random(f"reads {seed}").random() < 0.4,
        mutant=mutant,
        scale=scale,
        patience_s=patience_s,
        forced=forced,
    )


def _lane(number: float, bare: bool) -> str:
    """Of all cases two fifths are native and stalled, a third Python with stalls, a fifth native
    and bare: what users run."""
    if bare:
        return "native" if number < 0.85 else "python"
    return "native+stalls" if number < 0.55 else "python"


def _home_of(mutant: str) -> tuple[str, str | None]:
    """The lane and, if there is only one, the scheduler in which a bug can be planted."""
    from stress.mutants import mutants

    known = mutants().get(mutant)
    if known is None:
        return "python", None
    return "native+stalls" if known.native else "python", known.scheduler


def _settings(rng: random.Random) -> dict[str, Any]:
    pick = rng.choice
    floor = pick((0, 1, 1, 2, 8))
    return {
        "workers": pick((1, 2, 2, 3, 4)),
        "dispatcher": pick(("pinned", "pinned", "pool")),
        "throughput_budget": pick((1, 2, 3, 8, 32)),
        "deadline_stride": pick((1, 2, 16)),
        "min_budget_us": pick((1, 50, 500)),
        "io_ratio": pick((50, 90, 100)),
        "ageing_limit": pick((1, 2, 5, 64)),
        "high_priority_replies": pick((0, 1, 2)),
        "high_priority_events": pick((0, 1, 4)),
        "batch_limit": pick((1, 2, 3, 7, 1024)),
        "stealing": rng.random() < 0.7,
        "steal_floor": floor,
        "steal_aggression": max(1, floor) * pick((1, 2, 4)),
        "local_ring_capacity": pick((2, 2, 3, 8, 256)),
        "global_ring_capacity": pick((2, 2, 4, 64)),
        "global_poll_interval": pick((2, 2, 7, 61)),
        "timer_tick_ms": pick((0.5, 1.0, 2.0)),
        "memory_monitor": False,
    }


def _pools(rng: random.Random) -> dict[str, Any]:
    """Object pools: for a third of the cases, mostly small ones, some trimmed all the time."""
    pick = rng.choice
    return {
        "pooling": pick((False, False, True)),
        "pool_max_size": pick((0, 1, 2, 256)),
        # A look every ten milliseconds also wakes the thread, which would cover up for a wake-up
        # that was lost; so most cases never see one.
        "pool_check_s": pick((60.0, 60.0, 60.0, 0.01)),
        "pool_idle_s": 0.0,
        "pool_keep": pick((0, 1)),
        "debug": pick((False, True)),
    }
