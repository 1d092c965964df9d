"""The bars: what the figures of a run are held against. All are ratios within the one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from savina.catalogue import FLOOR, OURS, PEERS


@dataclass(frozen=True)
class Bar:
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


def best(figures: Mapping[str, Any], names: tuple[str, ...]) -> tuple[float, str] | None:
    """The smallest median among these contenders, and whose it is."""
    known = [(figures[n]["median"], n) for n in names if "median" in figures.get(n, {})]
    return min(known) if known else None


def judge(results: Mapping[str, Mapping[str, Any]], processes: float | None = None) -> list[Bar]:
    """`processes`: what two unrelated processes do together, the control of the CPU map."""
    bars: list[Bar] = []

    def at_least(name: str, wanted: float, ratio: float | None, note: str = "") -> None:
        met = None if ratio is None else ratio >= wanted
        measured = "not measured" if ratio is None else f"{ratio:.2f}{note}"
        bars.append(Bar(name, f">= {wanted:g}", measured, met))

    def at_most(name: str, wanted: float, ratio: float | None, note: str = "") -> None:
        met = None if ratio is None else ratio <= wanted
        measured = "not measured" if ratio is None else f"{ratio:.2f}{note}"
        bars.append(Bar(name, f"<= {wanted:g}", measured, met))

    def times_peer(workload: str, peers: tuple[str, ...] = PEERS) -> tuple[float | None, str]:
        figures = results.get(workload, {})
        ours, theirs = best(figures, OURS), best(figures, peers)
        if ours is None or theirs is None:
            return None, ""
        return theirs[0] / ours[0], f" ({ours[1]} against {theirs[1]})"

    for workload in ("counting", "fan-in"):
        if workload not in results:
            continue
        figures = results[workload]
        at_least(f"{workload}, against a thread with a SimpleQueue", 1,
                 *times_peer(workload, ("threads",)))  # fmt: skip
        ours, floor = best(figures, OURS), figures.get(FLOOR, {})
        ratio = ours[0] / floor["median"] if ours and "median" in floor else None
        at_most(f"{workload}, times the floor", 3, ratio)
        if ratio is not None and ours is not None and "counting" in floor:
            at_most(f"{workload}, times the floor with the same handler", 3,
                    ours[0] / (floor["counting"] * 1e6))  # fmt: skip
    for workload, wanted in (
        ("ping-pong", 6), ("ring", 6), ("ask-reply", 4), ("big", 4), ("fork-join", 2),
    ):  # fmt: skip
        if workload in results:
            at_least(f"{workload}, against the best peer", wanted, *times_peer(workload))
    if "ask-reply" in results and "ask-reply-await" in results:
        for name in OURS:
            by_hand, awaited = (
                results[w].get(name, {}).get("median") for w in ("ask-reply", "ask-reply-await")
            )
            at_most(f"ask-reply, await against by hand ({name})", 1.5,
                    awaited / by_hand if by_hand and awaited else None)  # fmt: skip
    if "cpu-map" in results and "cpu-map-one" in results:
        for name in OURS:
            alone, together = (
                results[w].get(name, {}).get("median") for w in ("cpu-map-one", "cpu-map")
            )
            at_least(f"CPU map, all workers against one ({name})", 1.9,
                     alone / together if alone and together else None,
                     f" (two unrelated processes: {processes})" if processes else "")  # fmt: skip
    if "wake-up" in results:
        for name in OURS:
            figure = results["wake-up"].get(name, {})
            at_most(f"notice to a sleeper, times a bare eventfd ({name})", 1.3,
                    figure["median"] / (figure["eventfd"] * 1e6) if "median" in figure else None,
                    )  # fmt: skip
    for workload, title in (("growth-actors", "actors"), ("growth-queue", "queued messages")):
        for name in OURS if workload in results else ():
            curve = results[workload].get(name, {}).get("curve")
            if not curve:
                at_most(f"growth with {title} ({name})", 1.2, None)
                continue
            first, *rest = curve.values()
            worst = max(rest, key=lambda value: value, default=first)
            sizes = list(curve)
            note = f" ({sizes[0]} to {sizes[-1]})"
            at_most(f"growth with {title} ({name})", 1.2, worst / first, note)
    return bars
