"""Ends: of actors and of the system, while others go on sending."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from otavia_ft import (
    ActorStopped,
    Ask,
    AutoCleanable,
    Notice,
    SystemStopped,
    on,
    sleep,
)
from otavia_ft.shutdown import FORCED_S
from stress.parallel.lab import Lab
from stress.parallel.settle import one_shots
from stress.parallel.workloads.base import Answers, Ledger, Watched, Workload, account

__all__ = ["Shutdown", "Stop"]


class Letter(Notice):
    __slots__ = ("number", "sender")

    def __init__(self, sender: int, number: int) -> None:
        self.sender = sender
        self.number = number


class Query(Ask[int]):
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Mortal(Watched, AutoCleanable):
    def __init__(self, lab: Lab, name: int, cleaned: list[int], gaps: bool = False) -> None:
        super().__init__(lab)
        self.name = name
        self.gaps = gaps
        self.cleaned = cleaned
        self.ledger = Ledger(lab, f"mortal {name}")
        self.handled: list[tuple[int, int]] = []

    def cleaner(self) -> Callable[[], None]:
        cleaned, name = self.cleaned, self.name
        return lambda: cleaned.append(name)

    def post_stop(self) -> None:
        self.lab.check(not self.inside, "single-runner", "post_stop during a handler")
        self.stops += 1
        self.lab.check(self.stops == 1, "hooks-once", f"post_stop ran {self.stops} times")

    @on(Letter)
    def letter(self, message: Letter) -> None:
        self.enter()
        self.ledger.came(message.sender, message.number, gaps=self.gaps)
        self.handled.append((message.sender, message.number))
        self.leave()

    @on(Query)
    async def query(self, message: Query) -> int:
        self.enter()
        self.leave()
        if message.number % 3 == 0:
            await sleep(0.001)  # a stop finds this one waiting
        return message.number


class Stop(Workload):
    """A pill races with senders and askers: handled and dead letters add up to what was sent."""

    name = "stop"

    def build(self, system: Any) -> None:
        self.system = system
        self.actors: list[Mortal] = []
        self.cleaned: list[int] = []
        self.dead: dict[str, list[tuple[int, int]]] = {}
        system.dead_letters.subscribe(self.died)

        def made() -> Mortal:
            self.actors.append(Mortal(self.lab, len(self.actors), self.cleaned))
            return self.actors[-1]

        self.addresses = [system.build_actor(made) for _ in range(self.rng.choice((1, 3, 8)))]
        self.each, self.senders = self.burst(60, backlog=True), self.rng.choice((1, 2, 3))
        self.stoppers = self.rng.choice((1, 1, 2))
        self.asks = Answers()
        self.sent = self.each * self.senders * len(self.addresses)

    def died(self, letter: Any) -> None:
        if isinstance(letter.message, Letter):
            place = self.dead.setdefault(letter.receiver, [])
            place.append((letter.message.sender, letter.message.number))

    def bodies(self) -> list[Callable[[], Any]]:
        def send(sender: int) -> None:
            for number in range(1, self.each + 1):
                self.pace(number, self.addresses)
                for address in self.addresses:
                    address.notice(Letter(sender, number))
                    if number % (4 * self.ask_every) == 0:
                        self.asks.add(number, self.system.ask(address, Query(number)))

        def stop() -> None:
            for address in self.addresses:
                time.sleep(self.lab.coin().choice((0, 1e-5, 2e-4, 1e-3)))
                address.stop()

        return [*(lambda n=n: send(n) for n in range(self.senders)), *[stop] * self.stoppers]

    def finished(self) -> bool:
        handled = sum(len(actor.handled) for actor in self.actors)
        dead = sum(len(place) for place in list(self.dead.values()))
        quiet = self.asks.all_done() and one_shots(self.system.timer) == 0
        return handled + dead >= self.sent and quiet

    def judge(self) -> None:
        sent = [(s, n) for s in range(self.senders) for n in range(1, self.each + 1)]
        for address, actor in zip(self.addresses, self.actors, strict=True):
            name = address.house.name
            account(self.lab, name, sent, actor.handled, self.dead.get(name, ()))
            self.lab.check(actor.stops == 1, "hooks-once", f"post_stop ran {actor.stops} times")
        for number, future in self.asks.items:
            error = future.exception() if future.done() else None
            right = isinstance(error, ActorStopped) or (error is None and future.done())
            self.lab.check(right, "answered-once", f"query {number} ended with {error!r}")
            if right and error is None:
                self.lab.check(future.result() == number, "answered-once", "another's answer")
        self.lab.check(sorted(self.cleaned) == list(range(len(self.actors))), "hooks-once",
                       f"cleaners ran for {sorted(self.cleaned)}")  # fmt: skip


class Shutdown(Workload):
    """The system stops while threads send, ask and build: nothing is forgotten."""

    name = "shutdown"

    def build(self, system: Any) -> None:
        self.system = system
        self.actors: list[Mortal] = []
        self.cleaned: list[int] = []
        self.dead: list[tuple[int, int]] = []
        system.dead_letters.subscribe(self.died)
        self.addresses = [system.build_actor(self.made) for _ in range(self.rng.choice((1, 2, 4)))]
        self.each, self.senders = self.burst(150, backlog=True), self.rng.choice((1, 2, 3))
        self.limit = self.rng.choice((0.0, 0.001, 0.5))
        self.builders, self.num = self.rng.choice((0, 1, 2)), self.rng.choice((1, 2, 3))
        self.took = 0.0
        self.late: list[Any] = []
        self.asks = Answers()
        self.sent = self.each * self.senders

    def made(self) -> Mortal:
        actor = Mortal(self.lab, len(self.actors), self.cleaned, gaps=True)
        self.actors.append(actor)
        return actor

    def made_slowly(self) -> Mortal:
        self.lab.stall()
        return self.made()

    def died(self, letter: Any) -> None:
        if isinstance(letter.message, Letter):
            self.dead.append((letter.message.sender, letter.message.number))

    def bodies(self) -> list[Callable[[], Any]]:
        def send(sender: int) -> None:
            for number in range(1, self.each + 1):
                address = self.addresses[(sender + number) % len(self.addresses)]
                address.notice(Letter(sender, number))
                if number % (3 * self.ask_every) == 0:
                    self.asks.add(number, self.system.ask(address, Query(number)))

        def stop() -> None:
            time.sleep(self.lab.coin().choice((0, 1e-4, 1e-3, 3e-3)))
            began = time.monotonic()
            self.system.stop(self.limit)
            self.took = time.monotonic() - began

        def build() -> None:
            try:
                for _ in range(20):
                    self.late.append(self.system.build_actor(self.made_slowly, num=self.num))
                    time.sleep(1e-4)
            except SystemStopped:
                pass

        senders = [lambda n=n: send(n) for n in range(self.senders)]
        return [*senders, *[build] * self.builders, stop]

    def judge_stopped(self) -> None:
        sent = [(s, n) for s in range(self.senders) for n in range(1, self.each + 1)]
        handled = [item for actor in self.actors for item in actor.handled]
        account(self.lab, "shutdown", sent, handled, self.dead)
        for number, future in self.asks.items:
            if not future.done():
                self.lab.report("answered-once", f"query {number} is open after the stop")
                continue
            error = future.exception()
            right = error is None or isinstance(error, (SystemStopped, ActorStopped))
            self.lab.check(right, "answered-once", f"query {number} ended with {error!r}")
        # A stop that had time enough for the goodbyes has reached everybody; one that ran out of it
        # may have left somebody out, but nobody may have two ends.
        had_time = self.took < FORCED_S
        for actor in self.actors:
            right = actor.stops == actor.starts if had_time else actor.stops <= actor.starts
            ran = f"started {actor.starts} times, post_stop ran {actor.stops} times"
            self.lab.check(right, "hooks-once", ran)
