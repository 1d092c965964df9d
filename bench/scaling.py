"""Two workers against one: handlers that compute, and pairs of actors that only send messages."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from _measure import alternate, arguments, finish, median, ratio, table, verdict

from otavia_ft import ActorSystem, AtomicInt, Notice, StateActor, on

CPU_BAR = 1.9
MESSAGE_BAR = 1.8


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


def computing(workers: int, actors: int, jobs: int, size: int) -> Callable[[], float]:
    """Seconds for `actors` x `jobs` jobs on that many workers."""

    def run() -> float:
        with ActorSystem(workers=workers) as system:
            countdown = Countdown(actors)
            addresses = [system.build_actor(Computer, jobs, size, countdown) for _ in range(actors)]
            messages = [Job() for _ in addresses]
            started = time.perf_counter()
            for _ in range(jobs):
                for address, message in zip(addresses, messages, strict=True):
                    address.notice(message)
            countdown.wait()
            return time.perf_counter() - started

    return run


def playing(workers: int, pairs: int, hits: int) -> Callable[[], float]:
    """Seconds for `pairs` x `hits` messages to and fro, both players of a pair on one thread."""

    def run() -> float:
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
            started = time.perf_counter()
            for first, ball in zip(firsts, balls, strict=True):
                first.notice(ball)
            countdown.wait()
            return time.perf_counter() - started

    return run


def main() -> None:
    options = arguments("Two workers against one.")
    part = 10 if options.quick else 1
    actors, jobs, size = 32, 40 // part, 10_000
    pairs, hits = 16, 20_000 // part
    figures = alternate(
        {
            "computing, 1 worker": computing(1, actors, jobs, size),
            "computing, 2 workers": computing(2, actors, jobs, size),
            "messages, 1 worker": playing(1, pairs, hits),
            "messages, 2 workers": playing(2, pairs, hits),
        },
        options.rounds,
    )
    work = {"computing": actors * jobs, "messages": pairs * hits}
    rows = []
    for name, runs in figures.items():
        seconds = median(runs)
        rate = work[name.split(",")[0]] / seconds
        rows.append([name, f"{seconds:.3f}", f"{rate:,.0f}"])
    table("seconds, and messages a second", ["contender", "seconds", "messages/s"], rows)
    computed = ratio(figures["computing, 1 worker"], figures["computing, 2 workers"])
    played = ratio(figures["messages, 1 worker"], figures["messages, 2 workers"])
    verdict(f"computing: {computed:.2f} times as fast (bar {CPU_BAR})", computed >= CPU_BAR)
    verdict(f"messages: {played:.2f} times as fast (bar {MESSAGE_BAR})", played >= MESSAGE_BAR)
    finish(options, figures)


if __name__ == "__main__":
    main()
