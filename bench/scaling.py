"""Two workers against one: handlers that compute, and pairs of actors that only send messages.

Beside them stand two processes with a system of one worker each, which share nothing at all: what
they do not reach either, the machine does not give. The table also has the processor time, which
tells two losses apart: more of it with two workers means that they get in each other's way; the
same of it, and no speed-up, means that they had to wait for a core or for each other.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
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

CPU_BAR = 1.9
MESSAGE_BAR = 1.8
SIZE = 10_000  # rounds of a job's loop: about a third of a millisecond


class Countdown:
    """Lets the starter wait until everybody has finished."""

    def __init__(self, n: int) -> None:
        self._left = AtomicInt(n)
        self._over = threading.Event()

    def finished(self) -> None:
        if self._left.get_and_add(-1) == 1:
            self._over.set()

    def wait(self) -> None:
        if not self._over.wait(120):
            raise TimeoutError("the actors did not finish within two minutes")


class Job(Notice):
    pass


class Computer(StateActor):
    """Adds numbers up, in pure Python, as often as it is told to."""

    def __init__(self, jobs: int, size: int, countdown: Countdown) -> None:
        self.jobs = jobs
        self.size = size
        self.countdown = countdown
        self.sum = 0

    @on(Job)
    def job(self, message: Job) -> None:
        total = 0
        for i in range(self.size):
            total += i & 7
        self.sum += total
        self.jobs -= 1
        if self.jobs == 0:
            self.countdown.finished()


class Ball(Notice):
    pass


class Player(StateActor):
    """Sends the ball back until it has had it often enough."""

    def __init__(self, hits: int, countdown: Countdown) -> None:
        self.hits = hits
        self.countdown = countdown
        self.peer: Any = None

    def resume_notice(self, stack: Any) -> Any:
        message = stack.notice
        if type(message) is Ball:
            self.hits -= 1
            if self.hits > 0:
                self.peer.notice(message)
            else:
                self.countdown.finished()
        else:
            self.peer = message
        return stack.return_()


Start = Callable[[], object]


def at_once() -> None:
    """Nobody to wait for."""


def computing(workers: int, actors: int, jobs: int, start: Start = at_once) -> float:
    """Seconds for `actors` x `jobs` jobs on that many workers."""
    with ActorSystem(workers=workers) as system:
        countdown = Countdown(actors)
        addresses = [system.build_actor(Computer, jobs, SIZE, countdown) for _ in range(actors)]
        messages = [Job() for _ in addresses]
        start()
        started = time.perf_counter()
        for _ in range(jobs):
            for address, message in zip(addresses, messages, strict=True):
                address.notice(message)
        countdown.wait()
        return time.perf_counter() - started


def playing(workers: int, pairs: int, hits: int, start: Start = at_once) -> float:
    """Seconds for `pairs` x `hits` messages to and fro, both players of a pair on one thread."""
    with ActorSystem(workers=workers) as system:
        countdown = Countdown(pairs)
        seats: dict[Any, list[Any]] = defaultdict(list)
        for _ in range(2 * pairs):
            address = system.build_actor(Player, hits // 2, countdown)
            seats[address.house.scheduler].append(address)
        firsts = []
        for players in seats.values():
            for one, other in zip(players[::2], players[1::2], strict=True):
                one.notice(other)
                other.notice(one)
                firsts.append(one)
        balls = [Ball() for _ in firsts]
        start()
        started = time.perf_counter()
        for first, ball in zip(firsts, balls, strict=True):
            first.notice(ball)
        countdown.wait()
        return time.perf_counter() - started


WORK: dict[str, Callable[..., float]] = {"computing": computing, "messages": playing}


def stranger(order: str, start: Start) -> None:
    """Half of the work, in a process with one worker."""
    name, many, each = order.split()
    WORK[name](1, int(many) // 2, int(each), start)


def main() -> None:
    options = arguments("Two workers against one.")
    part = 10 if options.quick else 1
    sizes = {"computing": (32, 40 // part), "messages": (16, 20_000 // part)}
    spent: dict[str, list[float]] = defaultdict(list)

    def contender(name: str, workers: int) -> Callable[[], float]:
        def run() -> float:
            began = time.process_time()
            seconds = WORK[name](workers, *sizes[name])
            spent[f"{name}, {workers}"].append(time.process_time() - began)
            return seconds

        return run

    with Strangers(__file__) as strangers:
        contenders = {}
        for name, (many, each) in sizes.items():
            order = f"{name} {many} {each}"
            contenders[f"{name}, 1 worker"] = contender(name, 1)
            contenders[f"{name}, 2 workers"] = contender(name, 2)
            contenders[f"{name}, 1 process"] = lambda order=order: strangers.one(order)
            contenders[f"{name}, 2 processes"] = lambda order=order: strangers.both(order)
        figures = alternate(contenders, options.rounds)

    rows, bars = [], {"computing": CPU_BAR, "messages": MESSAGE_BAR}
    for name, (many, each) in sizes.items():
        for workers in (1, 2):
            runs = figures[f"{name}, {workers} worker{'s'[: workers - 1]}"]
            cpu = spent[f"{name}, {workers}"][1:]  # the first round warmed up
            rows.append(
                [f"{name}, {workers}", f"{median(runs):.3f}", f"{median(cpu):.3f}",
                 f"{many * each / median(runs):,.0f}"]
            )  # fmt: skip
    columns = ["what, and workers", "seconds", "processor", "messages/s"]
    table("seconds, seconds of processor time, and messages a second", columns, rows)
    for name, bar in bars.items():
        faster = ratio(figures[f"{name}, 1 worker"], figures[f"{name}, 2 workers"])
        apart = 2 * ratio(figures[f"{name}, 1 process"], figures[f"{name}, 2 processes"])
        dearer = ratio(spent[f"{name}, 2"][1:], spent[f"{name}, 1"][1:])
        verdict(
            f"{name}: {faster:.2f} times as fast with two workers (bar {bar}; two processes "
            f"{apart:.2f}), for {dearer:.2f} times the processor time",
            faster >= bar,
        )
    figures |= {f"{name}, processor": runs[1:] for name, runs in spent.items()}
    finish(options, figures)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve(stranger)
    else:
        main()
