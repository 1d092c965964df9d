"""What only makes sense for this package, or needs its inside: latency, wake-ups, growth."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

from otavia_ft import ActorSystem, StateActor, on
from savina.common import expect, result
from savina.latency import half_load
from savina.otavia import Box, Counter, Get, Server, dispatcher_of, system, timed

GROWTH_BUDGET = 4  # messages a turn, whatever the number of actors
LEAST = 1_000_000  # messages of one measurement: a third of a second, longer than most disturbances


def latency(n: int) -> dict[str, Any]:
    with system() as actors:
        server = actors.build_actor(Server)

        def request(done: Callable[[Any], None]) -> None:
            actors.ask(server, Get()).add_done_callback(done)

        return half_load(n, request)


class Sleeper(StateActor):
    def __init__(self, box: Box) -> None:
        self.box = box

    @on(float)
    def woken(self, sent: float) -> None:
        self.box.put(perf_counter() - sent)


def wake_up(n: int) -> dict[str, Any]:
    """A notice to a sleeping thread and a bare eventfd, in turns: median seconds of each."""
    box, bare = Box(), Box()
    fd = os.eventfd(0)
    sent = [0.0]

    def wait() -> None:
        while sent[0] >= 0:
            os.read(fd, 8)
            bare.put(perf_counter() - sent[0])

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    ours, theirs = [], []
    began = perf_counter()
    with system() as actors:
        sleeper = actors.build_actor(Sleeper, box)
        for _ in range(n):
            time.sleep(0.001)  # by now both are asleep
            sent[0] = perf_counter()
            os.write(fd, b"\1\0\0\0\0\0\0\0")
            theirs.append(bare.get())
            time.sleep(0.001)
            sleeper.notice(perf_counter())
            ours.append(box.get())
    wall = perf_counter() - began
    sent[0] = -1.0
    os.write(fd, b"\1\0\0\0\0\0\0\0")
    thread.join()
    os.close(fd)
    return result(median(ours), 1, eventfd=median(theirs), wall=wall)


# ---- growth


class Again(StateActor):
    """Sends itself every message again while there are more to come than wait already, so its
    mailbox stays as full as it was; then it runs empty."""

    def __init__(self, share: int, queued: int, gate: threading.Event, sink: Any) -> None:
        self.left, self.share, self.queued = share, share, queued
        self.gate, self.sink, self.me = gate, sink, None

    @on(int)
    def again(self, number: int) -> None:
        left = self.left = self.left - 1
        if left >= self.queued:
            self.me.notice(number)
        elif not left:
            self.sink.notice(self.share)

    @on(type(None))
    def wait(self, nothing: None) -> None:
        self.gate.wait()


def steady(actors_wanted: int, queued: int, messages: int) -> float:
    """Seconds a message, with this many actors that hold this many messages each."""
    box, gate = Box(), threading.Event()
    share = max(queued, messages // actors_wanted)
    with ActorSystem(
        workers=1, dispatcher=dispatcher_of(), throughput_budget=GROWTH_BUDGET, stealing=False
    ) as actors:
        sink = actors.build_actor(Counter, share * actors_wanted, box)
        guard = actors.build_actor(Again, 0, 0, gate, sink)
        workers = [Again(share, queued, gate, sink) for _ in range(actors_wanted)]
        for worker in workers:
            worker.me = actors.build_actor(lambda worker=worker: worker)
        while not actors.scheduler.quiet():
            time.sleep(0.001)
        guard.notice(None)  # holds the only thread until all is queued
        for worker in workers:
            for _ in range(queued):
                worker.me.notice(1)
        seconds, value = timed(gate.set, box)
        for worker in workers:
            worker.me = None
    expect(value, share * actors_wanted)
    return seconds / (share * actors_wanted)


def _growth(sizes: list[int], measure: Callable[[int], float]) -> dict[str, Any]:
    """Every size four times, up and down and once more, so that a drift of the machine cancels
    out; the best of each, because a neighbour on the same core can only make it slower."""
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for size in [*sizes, *reversed(sizes)] * 2:
        times[size].append(measure(size))
    curve = {str(size): min(runs) for size, runs in times.items()}
    return result(curve[str(sizes[-1])], 1, curve=curve)


def _powers(first: int, last: int) -> list[int]:
    sizes = [first]
    while sizes[-1] * 10 < last:
        sizes.append(sizes[-1] * 10)
    return [*sizes, last]


def growth_actors(n: int) -> dict[str, Any]:
    return _growth(
        _powers(10, n), lambda size: steady(size, 1, max(min(LEAST, 10 * n), GROWTH_BUDGET * size))
    )


def growth_queue(n: int) -> dict[str, Any]:
    return _growth(_powers(1, n), lambda size: steady(1, size, max(min(LEAST, 10 * n), 2 * size)))


WORKLOADS: dict[str, Callable[[int], dict[str, Any]]] = {
    "latency": latency,
    "wake-up": wake_up,
    "growth-actors": growth_actors,
    "growth-queue": growth_queue,
}
