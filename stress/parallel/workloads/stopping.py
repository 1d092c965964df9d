"""Ends: of actors and of the system, while others go on sending."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from otavia_ft import (
    ActorStopped,
    ActorSystem,
    Ask,
    AutoCleanable,
    Notice,
    SystemStopped,
    on,
    sleep,
)
from otavia_ft.atomic import AtomicInt
from stress.parallel.lab import Lab
from stress.parallel.settle import one_shots
from stress.parallel.workloads.base import Answers, Ledger, Watched, Workload, account

__all__ = ["Shutdown", "Stop", "judge_ends"]


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


class Quit(Notice):
    """To be stopped by, or to be stuck in."""

    __slots__ = ()


class Quitter(Mortal):
    """Stops its system in its handler."""

    @on(Quit)
    def quit(self, message: Quit) -> None:
        self.enter()
        self.system.signal_stop()
        self.leave()


class Trapped(Mortal):
    """Stays in its handler until the system has stopped without it."""

    entered: threading.Event
    release: threading.Event

    @on(Quit)
    def wait(self, message: Quit) -> None:
        self.enter()
        self.entered.set()
        self.release.wait()
        self.leave()


class Across(Mortal):
    """Asks an actor of another system what it is asked, whatever becomes of the two."""

    there: Any = None
    begun = ended = 0

    @on(Query)
    async def query(self, message: Query) -> int:
        self.begun += 1
        try:
            return int(await self.there.ask(message))
        except (SystemStopped, ActorStopped):
            return message.number
        finally:
            self.ended += 1


class Shutdown(Workload):
    """The system stops while threads send, ask and build: nothing is forgotten.

    In some rounds a second system stops at about the same time, while actors of either wait for
    answers of the other. In some a handler ends only after the stop has; its neighbours are stopped
    without it, and it is after that.
    """

    name = "shutdown"

    @classmethod
    def settings(cls, drawn: dict[str, Any]) -> dict[str, Any]:
        return {"shutdown_timeout_s": 0.5}  # for a stop in a handler, which names no limit

    def build(self, system: Any) -> None:
        self.system = system
        self.actors: list[Mortal] = []
        self.names = AtomicInt()  # several threads build
        self.cleaned: list[int] = []
        self.dead: list[tuple[int, int]] = []
        system.dead_letters.subscribe(self.died)
        rng = self.rng
        self.addresses = [system.build_actor(self.made) for _ in range(rng.choice((1, 2, 4)))]
        self.each, self.senders = self.burst(150, backlog=True), rng.choice((1, 2, 3))
        self.limit = rng.choice((0.0, 0.001, 0.5))
        self.builders, self.num = rng.choice((0, 1, 2)), rng.choice((1, 2, 3))
        self.how = rng.choice(("once", "once", "several", "inside"))
        self.late: list[Any] = []
        self.asks = Answers()
        self.sent = self.each * self.senders
        self.other: Any = None
        self.trap: Any = None
        if rng.random() < 0.3:
            self._second_system()
        if self.how == "inside":
            self.quitter = system.build_actor(self.made, Quitter)
        elif rng.random() < 0.06:  # seldom, because such a stop takes two seconds
            self._set_trap()
        self.lab.warning = "is stuck in a handler" if self.trap else ""

    def _second_system(self) -> None:
        self.other = other = ActorSystem("other", **self.lab.settings)
        other._ids.get_and_add(1 << 20)  # the instruments know houses by their numbers
        other.dead_letters.subscribe(self.died)
        for ours, theirs in ((other, self.system), (self.system, other)):
            self.addresses.append(ours.build_actor(self.made, Across))
            asking: Any = self.actors[-1]
            asking.there = theirs.build_actor(self.made)

    def _set_trap(self) -> None:
        trap = self.system.build_actor(self.made, Trapped)
        self.trap = self.actors[-1]
        self.trap.entered, self.trap.release = threading.Event(), threading.Event()
        self.addresses.append(trap)
        trap.notice(Quit())

    def made(self, kind: type[Mortal] = Mortal) -> Mortal:
        actor = kind(self.lab, self.names.get_and_add(1), self.cleaned, gaps=True)
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

        def build() -> None:
            try:
                for _ in range(20):
                    self.late.append(self.system.build_actor(self.made_slowly, num=self.num))
                    time.sleep(1e-4)
            except SystemStopped:
                pass

        bodies: list[Callable[[], Any]] = [lambda n=n: send(n) for n in range(self.senders)]  # type: ignore[misc]
        bodies += [build] * self.builders
        bodies += [self.stop] * (3 if self.how == "several" else 1)
        if self.other is not None:
            bodies.append(self.stop_other)
        return bodies

    def stop(self) -> None:
        if self.trap is not None:
            text = "an actor gets a message, and does not begin to handle it"
            self.until(self.trap.entered.is_set, "no-lost-wake-up", text)
        self._wait_a_moment()
        if self.how == "inside":
            self.quitter.notice(Quit())
            self.system.wait()
        else:
            self.system.stop(self.limit)
        if self.trap is not None:
            self.trap.release.set()

    def stop_other(self) -> None:
        self._wait_a_moment()
        self.other.stop(self.limit)

    def _wait_a_moment(self) -> None:
        time.sleep(self.lab.coin().choice((0, 1e-4, 1e-3, 3e-3)))

    def judge_stopped(self) -> None:
        lab, threads = self.lab, [worker.thread for worker in self.system.scheduler.threads]
        text = "a thread that was left behind in a handler does not end after it"
        self.until(lambda: not any(t.is_alive() for t in threads), "nothing-left", text)
        sent = [(s, n) for s in range(self.senders) for n in range(1, self.each + 1)]
        handled = [item for actor in self.actors for item in actor.handled]
        account(lab, "shutdown", sent, handled, self.dead)
        for number, future in self.asks.items:
            if not future.done():
                lab.report("answered-once", f"query {number} is open after the stop")
                continue
            error = future.exception()
            right = error is None or isinstance(error, (SystemStopped, ActorStopped))
            lab.check(right, "answered-once", f"query {number} ended with {error!r}")
        for actor in self.actors:
            if isinstance(actor, Across):
                text = f"{actor.begun} asks of another system, {actor.ended} of them have ended"
                lab.check(actor.begun == actor.ended, "answered-once", text)
        judge_ends(lab, self.actors)
        cleaned = Counter(self.cleaned)
        for actor in self.actors:
            # One that has not begun has a cleaner if there was time to give it a house.
            right = cleaned[actor.name] == 1 or (cleaned[actor.name] == 0 and not actor.starts)
            lab.check(right, "hooks-once", f"its cleaner ran {cleaned[actor.name]} times")


def judge_ends(lab: Lab, actors: Iterable[Mortal]) -> None:
    """After any stop, and when the last thread has ended: who has begun has had its one end."""
    for actor in actors:
        ran = f"started {actor.starts} times, post_stop ran {actor.stops} times"
        lab.check(actor.stops == actor.starts <= 1, "hooks-once", ran)
