"""Two workers against one: handlers that compute, and pairs of actors that only send messages.

Beside them stand two processes with a system of one worker each, which share nothing at all: what
they do not reach either, the machine does not give. The table also has the processor time, which
tells two losses apart: more of it with two workers means that they get in each other's way; the
same of it, and no speed-up, means that they had to wait for a core or for each other.

On a virtual machine both cores may be halves of one real core, today and not tomorrow. Then a lone
worker has all of it, and two have half each: two processes do 1.1 to 1.3 times the work of one, and
so do two workers. What two workers reach of what two processes reach is the runtime's own share.

Every round is a new process. CPython keeps the attributes of all classes in one cache of 4096
places, which depend on where strings and classes happen to lie in memory. How often a process
misses differs a lot from one to the next, and while one thread writes to the cache the other has to
wait. One process would measure its own luck.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from _measure import (
    Strangers,
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
TURNS = 3  # of everybody, in one process
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
    __slots__ = ()


class Serve(Notice):
    __slots__ = ()


class Player(StateActor):
    """Sends the ball back until it has had it often enough. The one who serves brings the ball, so
    that it belongs to the thread that it stays on, as messages do that actors make themselves."""

    __slots__ = ("countdown", "hits", "peer")

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
        elif type(message) is Serve:
            self.peer.notice(Ball())
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
        start()
        started = time.perf_counter()
        for first in firsts:
            first.notice(Serve())
        countdown.wait()
        return time.perf_counter() - started


WORK: dict[str, Callable[..., float]] = {"computing": computing, "messages": playing}


def stranger(order: str, start: Start) -> None:
    """Half of the work, in a process with one worker."""
    name, many, each = order.split()
    WORK[name](1, int(many) // 2, int(each), start)


def one_round(orders: list[str]) -> None:
    """In a process of its own: every order with one worker, with two, with one stranger and with
    two, in turns, after a warm-up."""
    seen: dict[str, list[float]] = defaultdict(list)
    with Strangers(__file__) as strangers:
        for order in orders:
            name, many, each = order.split()
            for turn in range(1 + TURNS):
                for workers in (1, 2):
                    began = time.process_time()
                    seconds = WORK[name](
                        workers, int(many), int(each) if turn else 1 + int(each) // 10
                    )
                    spent = time.process_time() - began
                    alone = strangers.one(order) if workers == 1 else strangers.both(order)
                    if turn:
                        seen[f"{name}, {workers}"].append(seconds)
                        seen[f"{name}, {workers}, processor"].append(spent)
                        seen[f"{name}, {workers} processes"].append(alone)
    print(json.dumps(seen))


def main() -> None:
    options = arguments("Two workers against one.", rounds=5)
    part = 10 if options.quick else 1
    sizes = {"computing": (32, 40 // part), "messages": (16, 50_000 // part)}
    orders = {name: f"{name} {many} {each}" for name, (many, each) in sizes.items()}
    figures: dict[str, list[float]] = defaultdict(list)
    for _ in range(options.rounds):
        command = [sys.executable, __file__, "round", *orders.values()]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        for name, runs in json.loads(done.stdout).items():
            figures[name] += runs

    rows = []
    for name, (many, each) in sizes.items():
        for workers in (1, 2):
            seconds, spent = (
                median(figures[f"{name}, {workers}{what}"]) for what in ("", ", processor")
            )
            rows.append(
                [f"{name}, {workers}", f"{seconds:.3f}", f"{spent:.3f}",
                 f"{many * each / seconds:,.0f}"]
            )  # fmt: skip
    columns = ["what, and workers", "seconds", "processor", "messages/s"]
    table("Seconds, also of processor time", columns, rows)
    for name, bar in (("computing", CPU_BAR), ("messages", MESSAGE_BAR)):
        faster = ratio(figures[f"{name}, 1"], figures[f"{name}, 2"])
        apart = 2 * ratio(figures[f"{name}, 1 processes"], figures[f"{name}, 2 processes"])
        beside = ratio(figures[f"{name}, 2 processes"], figures[f"{name}, 2"])
        dearer = ratio(figures[f"{name}, 2, processor"], figures[f"{name}, 1, processor"])
        verdict(
            f"{name}: {faster:.2f} times as fast with two workers (bar {bar}; two processes "
            f"{apart:.2f}; two workers are {beside:.2f} times as fast as those), for {dearer:.2f} "
            "times the processor time",
            faster >= bar,
        )
    finish(options, figures)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(stranger)
    elif sys.argv[1:2] == ["round"]:
        one_round(sys.argv[2:])
    else:
        main()
