"""The bars: what the figures of a run are held against, nearly all of them ratios within it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import median
from typing import Any

from savina.catalogue import FLOOR, OURS, PEERS

Figures = Mapping[str, Any]
BYTES, SPAWN_RATE, CROWD = 1000, 150_000, 10_000_000


@dataclass(frozen=True)
class Bar:
    """One line of the verdict."""

    name: str
    wanted: str
    measured: str
    met: bool | None  # None: something that it compares was not measured

    @property
    def verdict(self) -> str:
        return "-" if self.met is None else "PASS" if self.met else "FAIL"

    def row(self) -> list[str]:
        return [self.name, self.wanted, self.measured, self.verdict]

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def at_least(name: str, wanted: float, figure: float | None, note: str = "") -> Bar:
    met = None if figure is None else figure >= wanted
    return Bar(name, f">= {wanted:,g}", shown(figure, note), met)


def at_most(name: str, wanted: float, figure: float | None, note: str = "") -> Bar:
    met = None if figure is None else figure <= wanted
    return Bar(name, f"<= {wanted:,g}", shown(figure, note), met)


def shown(figure: float | None, note: str) -> str:
    if figure is None:
        return "not measured"
    text = f"{figure:,.0f}" if figure >= 100 else f"{figure:.2f}"
    return f"{text} ({note})" if note else text


def over(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def best(figures: Figures, names: tuple[str, ...]) -> tuple[float | None, str]:
    """The smallest median among these contenders, and whose it is."""
    known = [(figures[n]["median"], n) for n in names if "median" in figures.get(n, {})]
    return min(known) if known else (None, "nobody")


def against(name: str, figures: Figures, peers: tuple[str, ...]) -> tuple[float | None, str]:
    """How many times as fast this dispatcher of ours is as the best of these peers."""
    (ours, _), (theirs, whose) = best(figures, (name,)), best(figures, peers)
    return over(theirs, ours), f"against {whose}"


def judge(results: Mapping[str, Figures], processes: float | None = None) -> list[Bar]:
    """Each dispatcher has to reach each bar by itself. `processes`: what two unrelated processes
    do together, the control of the CPU map."""
    return [bar for name in OURS for bar in one_dispatcher(name, results, processes)]


def beside_peers(name: str, results: Mapping[str, Figures]) -> list[Bar]:
    bars: list[Bar] = []
    for workload in ("counting", "fan-in"):
        if workload in results:
            bars += busy_receiver(name, workload, results[workload])
    for workload, wanted in (
        ("ping-pong", 6), ("ring", 6), ("ask-reply", 4), ("ask-reply-await", 4), ("big", 4),
        ("fork-join", 2),
    ):  # fmt: skip
        if workload in results:
            ratio, whom = against(name, results[workload], PEERS)
            title = f"{workload}, times as fast as the best peer ({name})"
            bars.append(at_least(title, wanted, ratio, whom))
    if "fork-join" in results:
        bars.append(beside_erlang(name, results["fork-join"]))
    return bars


def busy_receiver(name: str, workload: str, figures: Figures) -> list[Bar]:
    ratio, _ = against(name, figures, ("threads",))
    ours, _ = best(figures, (name,))
    floor = figures.get(FLOOR, {})
    same = floor["counting"] * 1e6 if "counting" in floor else None
    title = f"{workload}, times as fast as a thread with a SimpleQueue ({name})"
    return [
        at_least(title, 1, ratio),
        at_most(
            f"{workload}, times the floor ({name})", 3, over(ours, floor.get("median")),
            f"with a handler that counts as ours does: {shown(over(ours, same), '')}",
        ),
    ]  # fmt: skip


def beside_erlang(name: str, figures: Figures) -> Bar:
    """Wished for, not demanded: so there is no verdict."""
    (ours, _), (theirs, _) = best(figures, (name,)), best(figures, ("erlang",))
    title = f"fork-join, times Erlang's time ({name})"
    return Bar(title, "1 if we can", shown(over(ours, theirs), ""), None)


def one_dispatcher(name: str, results: Mapping[str, Figures], processes: float | None) -> list[Bar]:
    """What each of ours has to reach."""
    bars = beside_peers(name, results)

    def figure(workload: str, what: str = "median") -> float | None:
        value: float | None = results.get(workload, {}).get(name, {}).get(what)
        return value

    if "ask-reply" in results and "ask-reply-await" in results:
        ratio = over(figure("ask-reply-await"), figure("ask-reply"))
        bars.append(at_most(f"ask-reply, await against by hand ({name})", 1.5, ratio))
    if "cpu-map" in results and "cpu-map-one" in results:
        ratio = over(figure("cpu-map-one"), figure("cpu-map"))
        note = f"two unrelated processes: {processes}" if processes else ""
        bars.append(at_least(f"CPU map, all workers against one ({name})", 1.9, ratio, note))
    if "wake-up" in results:
        bare = figure("wake-up", "eventfd")
        ratio = over(figure("wake-up"), bare * 1e6 if bare else None)
        note = f"{bare * 1e6:.0f} µs bare" if bare else ""
        bars.append(
            at_most(f"notice to a sleeper, times a bare eventfd ({name})", 1.3, ratio, note)
        )
    if "many" in results:
        bars += memory(name, results["many"])
    if "crowd" in results:
        bars += crowd(name, results["crowd"].get(name, {}))
    for workload, title in (("growth-actors", "actors"), ("growth-queue", "queued messages")):
        if workload in results:
            bars.append(growth(f"growth with {title} ({name})", figure(workload, "curve")))
    return bars


def memory(name: str, figures: Figures) -> list[Bar]:
    ours, erlang = figures.get(name, {}), figures.get("erlang", {})
    bars = [
        at_most(
            f"bytes an actor ({name})", BYTES, ours.get("bytes"), f"{ours.get('n', 0):,} actors"
        )
    ]
    if "bytes" in erlang:
        ratio = over(ours.get("bytes"), erlang["bytes"])
        note = f"{erlang['bytes']:,.0f} bytes there"
        bars.append(at_most(f"bytes an actor, times an Erlang process's ({name})", 1, ratio, note))
    return bars


def crowd(name: str, figure: Figures) -> list[Bar]:
    """A size that was not reached is a bar that was not met, unless the machine is too small."""
    n, spawn = figure.get("n"), figure.get("spawn")
    why = str(figure.get("why", ""))
    alive = Bar(
        f"actors alive at once ({name})", f">= {CROWD:,}", f"{n:,}" if n else why or "not measured",
        n >= CROWD if n else False if "Error" in why else None,
    )  # fmt: skip
    return [alive, at_least(f"actors spawned a second ({name})", SPAWN_RATE, over(n, spawn))]


def growth(title: str, curve: Any) -> Bar:
    """Flat within 20 %: the median of the slowest size over that of the fastest, whichever they
    are. growth.py says what a median is of."""
    if not curve:
        return at_most(title, 1.2, None)
    slow, fast = max(curve, key=curve.__getitem__), min(curve, key=curve.__getitem__)
    sizes = list(curve)
    note = f"{int(sizes[0]):,} to {int(sizes[-1]):,}; slowest {int(slow):,}, fastest {int(fast):,}"
    return at_most(title, 1.2, curve[slow] / curve[fast], note)


# ---- one revision against another


LEAST_SLOWDOWN = 1.05  # what nobody would notice is no slowdown, however sure we are of it


@dataclass(frozen=True)
class Slowdown:
    """How many times as long `here` takes as `base`, and from where on that is beyond noise."""

    ratio: float
    limit: float

    @property
    def failed(self) -> bool:
        return self.ratio > self.limit


def slowdown(base: Sequence[float], here: Sequence[float]) -> Slowdown:
    """From runs that took turns. What both runs of a round share cancels out in their ratio; what
    is left is the noise, and the ratios' own spread tells how much of it there is.

    The ratio is the median of the rounds' ratios. The limit is three times the standard error of
    that median, from the median distance to it: one round that was disturbed moves neither.
    """
    ratios = [one / other for one, other in zip(here, base, strict=True)]
    middle = median(ratios)
    deviation = 1.4826 * median(abs(ratio - middle) for ratio in ratios)
    error = 1.2533 * deviation / sqrt(len(ratios))
    return Slowdown(middle, max(LEAST_SLOWDOWN, 1 + 3 * error))
