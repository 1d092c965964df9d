"""What only makes sense for this package, or needs its inside: latency and wake-ups."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

from otavia_ft import StateActor, on
from savina.common import expect, result
from savina.latency import half_load
from savina.otavia import Box, Get, Server, system


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
        self.box.put((sent, perf_counter()))


def wake_up(n: int) -> dict[str, Any]:
    """A notice to a sleeping thread and a bare eventfd: median seconds of each. They take turns,
    and take turns in who is first. Each hears what was sent to it and nothing else; and our
    threads are asleep, or the turn does not begin."""
    box, bare = Box(), Box()
    fd = os.eventfd(0)
    sent = [0.0]

    def wait() -> None:
        while sent[0] >= 0:
            os.read(fd, 8)
            bare.put((sent[0], perf_counter()))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    took: dict[str, list[float]] = {"ours": [], "theirs": []}

    def wake_theirs(now: float) -> None:
        sent[0] = now
        os.write(fd, b"\1\0\0\0\0\0\0\0")

    began = perf_counter()
    with system() as actors:
        sleeper = actors.build_actor(Sleeper, box)
        contenders = [("theirs", wake_theirs, bare), ("ours", sleeper.notice, box)]
        for turn in range(n):
            for name, wake, heard in reversed(contenders) if turn % 2 else contenders:
                time.sleep(0.001)  # by now the other one is asleep
                while not actors.scheduler.quiet():
                    time.sleep(0.001)
                now = perf_counter()
                wake(now)
                which, when = heard.get()
                expect(which, now)
                took[name].append(when - now)
    box.expect_no_more()
    bare.expect_no_more()
    wall = perf_counter() - began
    sent[0] = -1.0
    os.write(fd, b"\1\0\0\0\0\0\0\0")
    thread.join()
    os.close(fd)
    return result(median(took["ours"]), 1, eventfd=median(took["theirs"]), wall=wall)


WORKLOADS: dict[str, Callable[[int], dict[str, Any]]] = {
    "latency": latency,
    "wake-up": wake_up,
}
