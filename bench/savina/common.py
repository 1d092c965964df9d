"""What the workloads of all contenders share, so that all of them do the same work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

RING, FORKS, PRODUCERS, BIG, CREATURES = 100, 60, 8, 64, 20
RING_END = 37  # the node where a token's way ends; not the one where it begins
TELLERS, ACCOUNTS, MAPPERS, TIMER_ACTORS = 8, 16, 8, 10
FILTER = 10  # primes that one filter of the sieve knows
COLOURS = 3
TIMER_SPREAD = 0.1  # seconds over which the timers of a storm are spread
PATIENCE = 300.0  # seconds after which a run is taken for a hang


class WrongResultError(AssertionError):
    """A contender was fast because it did not do the work."""


def expect(actual: Any, wanted: Any) -> None:
    if actual != wanted:
        raise WrongResultError(f"the result is {actual!r} and should be {wanted!r}")


def at_the_end(value: Any) -> Any:
    """A result that is a function is called when all is over: by then it may be too much."""
    return value() if callable(value) else value


def result(seconds: float, operations: int, **extra: Any) -> dict[str, Any]:
    return {"seconds": seconds, "operations": operations, **extra}


def cores() -> int:
    return len(os.sched_getaffinity(0))


def crunch(seed: int) -> int:
    """Half a millisecond of pure Python on local integers, so that sending a chunk is nothing.

    The constants are below 257 on purpose. Larger ones are objects with a reference count, which
    all threads that run this code share: two threads then took up to 3.8 times as long each
    (docs/performance.md, "Two cores").
    """
    x = seed
    for _ in range(10_000):
        x = (x * 109 + 89) & 255
    return x


@cache
def crunched(n: int) -> int:
    return sum(crunch(i) for i in range(n))


def ring_hops(n: int) -> int:
    """About n, and the way ends at the node RING_END."""
    return n // RING * RING + RING_END


def complement(mine: int, other: int) -> int:
    """Chameneos: two of a colour keep it, two that differ take the third."""
    return mine if mine == other else COLOURS - mine - other


def sieve_messages(limit: int) -> tuple[int, int]:
    """How many messages the sieve needs up to `limit`, and how many primes it finds."""
    filters: list[list[int]] = [[]]
    messages = 0
    for candidate in range(3, limit, 2):
        for known in filters:
            messages += 1
            if any(candidate % prime == 0 for prime in known):
                break
            if len(known) < FILTER:
                known.append(candidate)
                break
        else:
            filters.append([candidate])
            messages += 1
    return messages + len(filters), sum(len(known) for known in filters)


class Dice:
    """A small generator of its own for each actor: nothing shared, the same for all contenders.

    Two still smaller ones, since their constants have to be below 257: see `crunch`. Together they
    begin anew after 32,000 numbers.
    """

    __slots__ = ("_x", "_y")

    def __init__(self, seed: int) -> None:
        self._x, self._y = seed & 255, 2 + seed % 249

    def below(self, n: int) -> int:
        self._x = x = (self._x * 109 + 89) & 255
        self._y = y = self._y * 6 % 251
        return (x * 251 + y) % n

    def delay(self) -> float:
        return self.below(1000) * TIMER_SPREAD / 1000


def resident_bytes() -> int:
    """Memory of this process that is really there."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def available_bytes() -> int:
    """Memory that this machine could still give."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable"):
                return int(line.split()[1]) * 1024
    raise OSError("no MemAvailable in /proc/meminfo")


def quantile(values: Sequence[float], share: float) -> float:
    """Of sorted values."""
    return values[min(len(values) - 1, int(share * len(values)))]
