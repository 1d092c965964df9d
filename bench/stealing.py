"""A hot thread with and without thieves; and that balanced load is left alone.

The control: two processes that do half of the jobs each and share nothing. The last jobs, as many
as the steal floor, are not stolen, which costs a few hundredths.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from _measure import (
    Strangers,
    alternate,
    arguments,
    finish,
    median,
    ratio,
    serve,
    table,
    verdict,
)

from otavia_ft import ActorSystem, AtomicInt, Notice, StateActor, on

BAR = 1.7


class Job(Notice):
    pass


def compute(size: int) -> int:
    """About half a millisecond of pure Python for a size of 20,000."""
    total = 0
    for i in range(size):
        total += i & 7
    return total


class Heavy(StateActor):
    """Computes for every message."""

    def __init__(self, left: AtomicInt, over: threading.Event, size: int) -> None:
        self.left = left
        self.over = over
        self.size = size

    @on(Job)
    def job(self, message: Job) -> None:
        compute(self.size)
        if self.left.get_and_add(-1) == 1:
            self.over.set()


class Restless(StateActor):
    """Keeps itself busy until told to stop."""

    def __init__(self, stop: threading.Event) -> None:
        self.stop_now = stop

    @on(Job)
    def job(self, message: Job) -> None:
        compute(200)
        if not self.stop_now.is_set():
            self.address.notice(message)


def hot(stealing: bool, actors: int, size: int) -> tuple[Callable[[], float], list[int]]:
    """Seconds for one job of each of `actors` actors that all live on the first of two threads."""
    steals: list[int] = []

    def run() -> float:
        with ActorSystem(workers=2, stealing=stealing) as system:
            left, over = AtomicInt(actors), threading.Event()
            built = [system.build_actor(Heavy, left, over, size) for _ in range(2 * actors)]
            home: Any = system.scheduler.threads[0].manager
            pinned = [address for address in built if address.house.scheduler is home]
            job = Job()
            started = time.perf_counter()
            for address in pinned:
                address.notice(job)
            if not over.wait(120):
                raise TimeoutError("the actors did not finish within two minutes")
            seconds = time.perf_counter() - started
            steals.append(system.statistics().steals)
            return seconds

    return run, steals


def balanced(actors: int, seconds: float) -> int:
    """Steals while both threads are busy all the time."""
    with ActorSystem(workers=2) as system:
        stop = threading.Event()
        addresses = [system.build_actor(Restless, stop) for _ in range(actors)]
        for address in addresses:
            address.notice(Job())
        time.sleep(0.2)  # until both threads have their share
        before = system.statistics().steals
        time.sleep(seconds)
        after = system.statistics().steals
        stop.set()
        return after - before


def stranger(order: str, start: Callable[[], object]) -> None:
    jobs, size = map(int, order.split())
    start()
    for _ in range(jobs):
        compute(size)


def main() -> None:
    options = arguments("A hot thread with and without thieves.")
    actors = 100 if options.quick else 1000
    size = 20_000
    alone, _ = hot(False, actors, size)
    helped, steals = hot(True, actors, size)
    order = f"{actors // 2} {size}"
    with Strangers(__file__) as strangers:
        figures = alternate(
            {
                "without stealing": alone,
                "with stealing": helped,
                "one process, half of it": lambda: strangers.one(order),
                "two processes": lambda: strangers.both(order),
            },
            options.rounds,
        )
    calm = [balanced(400, 0.2 if options.quick else 1.0) for _ in range(3)]
    rows = [[name, f"{median(runs):.3f} s"] for name, runs in figures.items()]
    figures["steals, hot"] = [float(n) for n in steals[1:]]
    figures["steals, balanced"] = [float(n) for n in calm]
    rows += [
        [f"steals, {n}", f"{median(figures[f'steals, {n}']):.0f}"] for n in ("hot", "balanced")
    ]
    table(f"{actors} actors on one of two threads", ["contender", "median"], rows)
    faster = ratio(figures["without stealing"], figures["with stealing"])
    apart = 2 * ratio(figures["one process, half of it"], figures["two processes"])
    verdict(
        f"with stealing {faster:.2f} times as fast (bar {BAR}; two processes {apart:.2f})",
        faster >= BAR,
    )
    verdict(f"balanced load: {max(calm)} steals (bar 0)", max(calm) == 0)
    finish(options, figures)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve(stranger)
    else:
        main()
