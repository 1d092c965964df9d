"""Short work beside other work: what a message to an idle actor waits while others are long, block,
or have more to do than there is time for. Used by dispatchers.py.

Each function runs one system for about so many seconds and returns the waits of the short work,
sorted, in seconds: from the moment the message was sent until its handler began.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from time import perf_counter
from typing import Any

from savina.common import PATIENCE, cores, expect

from otavia_ft import ActorSystem, StateActor, on, sleep

__all__ = ["BESIDE"]

TICK_S = 0.0005  # between two messages to short actors
COMPUTED_S, SLEPT_S = 0.002, 0.001  # what one long or blocking handler takes
SHORT, LEAST = 16, 20  # actors; a percentile of fewer waits says nothing
BULK_A_WORKER, BULK_MAIL = 16, 64  # actors that are never done; twice a budget of messages each


class Short(StateActor):
    """Writes down how long each message has waited."""

    def __init__(self, waits: list[float]) -> None:
        self.waits = waits

    @on(float)
    def come(self, sent: float) -> None:
        self.waits.append(perf_counter() - sent)


class Computes(StateActor):
    """Keeps its worker busy for a while with each message."""

    @on(int)
    def compute(self, number: int) -> None:
        end = perf_counter() + COMPUTED_S
        while perf_counter() < end:
            number += 1


class Blocks(StateActor):
    """Does what no handler should: it waits for something outside, and its worker with it."""

    @on(int)
    def block(self, number: int) -> None:
        time.sleep(SLEPT_S)


def beside(kind: type[StateActor], every: int) -> Callable[..., list[float]]:
    """Two actors a worker of that kind have messages in turn, one at every so many ticks."""

    def run(seconds: float, **settings: Any) -> list[float]:
        waits: list[float] = []
        with ActorSystem(workers=cores(), memory_monitor=False, **settings) as system:
            others = [system.build_actor(kind) for _ in range(2 * cores())]
            short = [system.build_actor(Short, waits) for _ in range(SHORT)]
            end, tick = perf_counter() + max(seconds, 2 * LEAST * TICK_S), 0
            while perf_counter() < end:
                if tick % every == 0:
                    others[tick // every % len(others)].notice(tick)
                short[tick % SHORT].notice(perf_counter())
                tick += 1
                time.sleep(TICK_S)
        return sorted(waits[len(waits) // 10 :])

    return run


class Bulk(StateActor):
    """In the middle of something (one of its handlers awaits), and flooded: of normal priority. An
    actor that awaits nothing, such as the short ones here, is of high priority, where there are
    two."""

    def __init__(self) -> None:
        self.more: bool = True
        self.me: Any = None

    @on(str)
    async def begin(self, _: str) -> None:
        await sleep(PATIENCE)

    @on(int)
    def again(self, number: int) -> None:
        if self.more:
            self.me.notice(number)


def beside_bulk(seconds: float, **settings: Any) -> list[float]:
    """All workers have more bulk work than they can do; short actors have a message each tick."""
    waits: list[float] = []
    with ActorSystem(workers=cores(), memory_monitor=False, **settings) as system:
        bulk = [Bulk() for _ in range(BULK_A_WORKER * cores())]
        short = [system.build_actor(Short, waits) for _ in range(SHORT)]
        for address in short:
            address.notice(perf_counter())  # under pinned a new actor is of normal priority
        for busy in bulk:
            busy.me = system.build_actor(lambda busy=busy: busy)
            busy.me.notice("begin")
            for number in range(BULK_MAIL):
                busy.me.notice(number)
        give_up = perf_counter() + PATIENCE
        while len(waits) < SHORT:
            expect(perf_counter() < give_up, True)
            time.sleep(TICK_S)
        seen = len(waits)
        end, tick = perf_counter() + seconds, 0
        while perf_counter() < end or len(waits) < seen + LEAST:
            expect(perf_counter() < give_up, True)
            short[tick % SHORT].notice(perf_counter())
            tick += 1
            time.sleep(TICK_S)
        measured = sorted(waits[seen:])
        for busy in bulk:
            busy.more = False
    for busy in bulk:
        busy.me = None  # an actor that holds its own address is never collected
    return measured


BESIDE: dict[str, tuple[str, Callable[..., list[float]]]] = {
    "long": (f"handlers that compute for {COMPUTED_S * 1e3:.0f} ms, one with every fourth message",
             beside(Computes, every=4)),
    "blocking": (f"handlers that block for {SLEPT_S * 1e3:.0f} ms, one with every second message",
                 beside(Blocks, every=2)),
    "bulk": ("bulk work of normal priority, more than can be done", beside_bulk),
}  # fmt: skip
