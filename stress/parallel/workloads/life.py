"""Beginnings, restarts, and actors that are dropped."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable
from typing import Any

from otavia_ft import AutoCleanable, Notice, on
from stress.parallel.lab import Lab, Planned
from stress.parallel.workloads.base import Ledger, Watched, Workload

__all__ = ["Churn", "Mount", "Restart"]


class Risky(Notice):
    """Numbered; `fails` makes its handler raise, after the message is counted."""

    __slots__ = ("fails", "number", "sender")

    def __init__(self, sender: Any, number: int, fails: bool = False) -> None:
        self.sender = sender
        self.number = number
        self.fails = fails


class Restarting(Watched):
    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.ledger = Ledger(lab, "the restarting actor")
        self.steps: list[str] = []
        self.restarts = 0

    def _step(self, name: str) -> None:
        self.lab.check(not self.inside, "single-runner", f"{name} during a handler")
        self.inside = True
        self.lab.stall()
        self.steps.append(name)
        self.inside = False

    def before_restart(self) -> None:
        self._step("before")

    def restart(self) -> None:
        self._step("restart")

    def after_restart(self) -> None:
        self._step("after")
        self.lab.check(self.steps == ["before", "restart", "after"], "hooks-once",
                       f"the hooks of a restart ran as {self.steps}")  # fmt: skip
        self.steps.clear()
        self.restarts += 1

    @on(Risky)
    def risky(self, message: Risky) -> None:
        self.enter()
        self.ledger.came(message.sender, message.number)
        self.leave()
        if message.fails:
            raise Planned(message.number)


class Restart(Workload):
    """Handlers raise and others ask for restarts: every hook runs, and all mail is kept."""

    name = "restart"

    def build(self, system: Any) -> None:
        self.actors: list[Restarting] = []

        def made() -> Restarting:
            self.actors.append(Restarting(self.lab))
            return self.actors[-1]

        self.addresses = [system.build_actor(made) for _ in range(self.rng.choice((1, 2, 4)))]
        self.each, self.senders = self.burst(80), self.rng.choice((1, 2, 3))
        failing = self.few(self.each, 0.25, 40)
        self.fails = [index in failing for index in range(self.each)]
        self.asked = self.rng.randrange(0, 6)
        self.expected = self.each * self.senders
        self.restarts = self.asked + self.senders * sum(self.fails)
        self.sent = self.expected * len(self.addresses)

    def bodies(self) -> list[Callable[[], Any]]:
        def send(sender: int) -> None:
            for number, fails in enumerate(self.fails, 1):
                self.pace(number, self.addresses)
                for address in self.addresses:
                    address.notice(Risky(sender, number, fails))

        def restart() -> None:
            for _ in range(self.asked):
                for address in self.addresses:
                    address.restart()
                    self.lab.stall()

        return [*(lambda n=n: send(n) for n in range(self.senders)), restart]

    def finished(self) -> bool:
        return all(
            actor.ledger.total >= self.expected and actor.restarts >= self.restarts
            for actor in self.actors
        )

    def judge(self) -> None:
        for actor in self.actors:
            text = f"{actor.ledger.total} of {self.expected} messages were handled"
            self.lab.check(actor.ledger.total >= self.expected, "no-lost-message", text)
            self.lab.check(actor.restarts == self.restarts, "hooks-once",
                           f"{actor.restarts} restarts instead of {self.restarts}")  # fmt: skip


class Mounting(Watched):
    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.ledger = Ledger(lab, "the new actor")

    def after_mount(self) -> None:
        if self.lab.coin().random() < 0.3:
            time.sleep(0.0003)  # long enough for a sender to find the house MOUNTING
        super().after_mount()

    @on(Risky)
    def risky(self, message: Risky) -> None:
        self.enter()
        self.ledger.came(message.sender, message.number)
        self.leave()


class Mount(Workload):
    """Messages race with the mount: the hooks come first, and no message is lost."""

    name = "mount"

    def build(self, system: Any) -> None:
        self.system = system
        self.actors: list[Mounting] = []
        scale = self.lab.case.scale
        self.many = self.rng.choice((4, 15, 40)) * min(scale, 8)
        self.each, self.senders = self.rng.choice((1, 2, 5)), self.rng.choice((1, 2, 3))
        self.each *= max(1, scale // 8)
        self.addresses: list[Any] = []
        self.sent = self.many * self.each * self.senders

    def made(self) -> Mounting:
        self.actors.append(Mounting(self.lab))
        return self.actors[-1]

    def bodies(self) -> list[Callable[[], Any]]:
        def build() -> None:
            for _ in range(self.many):
                self.addresses.append(self.system.build_actor(self.made))
                self.lab.stall()

        def send(sender: int) -> None:
            for index in range(self.many):
                while len(self.addresses) <= index:
                    time.sleep(0)  # the builder is not that far yet
                for number in range(1, self.each + 1):
                    self.addresses[index].notice(Risky(sender, number))

        return [build, *(lambda n=n: send(n) for n in range(self.senders))]

    def tally(self) -> int:
        return sum(actor.ledger.total for actor in self.actors)

    def finished(self) -> bool:
        return self.tally() >= self.sent

    def judge(self) -> None:
        expected = self.each * self.senders
        for actor in self.actors:
            text = f"{actor.ledger.total} of {expected} messages were handled"
            self.lab.check(actor.ledger.total == expected, "no-lost-message", text)
            self.lab.check(actor.mounted, "hooks-once", f"{actor!r} was never mounted")


class Cleaned(Watched, AutoCleanable):
    def __init__(self, churn: Churn, number: int, born: bool) -> None:
        super().__init__(churn.lab)
        self.churn = churn
        self.number = number
        self.born = born
        churn.lives.append(weakref.ref(self))

    def cleaner(self) -> Callable[[], None]:
        cleaned, number = self.churn.cleaned, self.number
        return lambda: cleaned.append(number)

    @on(Risky)
    def risky(self, message: Risky) -> None:
        self.enter()
        self.churn.handled.append(message.number)
        self.leave()
        if message.fails:  # have a child, tell it something, and forget it
            child = self.system.build_actor(Cleaned, self.churn, -message.number, True)
            child.notice(Risky("parent", -message.number))


class Churn(Workload):
    """Actors are made, told something and dropped: all is handled, all are freed and cleaned up.

    Freed, that is, once every worker has run again: see `nudge`. A soak makes no more of them:
    the runtime's look at a cleaner stops all threads, many times for each actor.
    """

    name = "churn"

    def build(self, system: Any) -> None:
        self.system = system
        self.lives: list[Any] = []
        self.cleaned: list[int] = []
        self.handled: list[int] = []
        self.each, self.makers = self.rng.choice((3, 10, 25)), self.rng.choice((1, 2, 3))
        self.expected = 2 * self.each * self.makers
        self.sent = self.expected

    def bodies(self) -> list[Callable[[], Any]]:
        def make(maker: int) -> None:
            for index in range(self.each):
                number = 1 + maker * self.each + index
                address = self.system.build_actor(Cleaned, self, number, False)
                address.notice(Risky(maker, number, True))
                del address
                self.lab.stall()

        return [lambda n=n: make(n) for n in range(self.makers)]

    def finished(self) -> bool:
        return len(self.handled) >= self.expected

    def nudge(self) -> None:
        """Have every worker run once more, and wait for what that sets free.

        CPython counts the references that other threads drop with the thread that made the object,
        and that one has to run to notice the last. A worker that sleeps does not.
        """
        deadline = time.monotonic() + 5.0
        while len(self.cleaned) < self.expected and time.monotonic() < deadline:
            for thread in self.system.scheduler.threads:
                thread.wake()
            time.sleep(0.002)

    def judge(self) -> None:
        self.nudge()
        text = f"{self.expected} actors, {len(self.handled)} messages handled"
        self.lab.check(len(set(self.handled)) == self.expected, "no-lost-message", text)
        self.lab.check(len(self.handled) <= self.expected, "no-duplicate", text)
        gc.collect()
        alive = [life() for life in self.lives if life() is not None]
        self.lab.check(not alive, "nothing-left", f"{len(alive)} dropped actors are still there")
        text = f"{self.expected} actors, {len(self.cleaned)} cleaned up"
        self.lab.check(len(set(self.cleaned)) == self.expected, "hooks-once", text)
        self.lab.check(len(self.cleaned) <= self.expected, "hooks-once", text)
