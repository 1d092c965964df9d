"""Who runs what, and in which order: stealing, IO actors, priorities."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

from otavia_ft import Ask, Notice, on
from stress.parallel.lab import Lab
from stress.parallel.workloads.base import Ledger, Watched, Workload

__all__ = ["Priority", "Stealing"]


class Job(Notice):
    __slots__ = ("number", "sender", "size")

    def __init__(self, sender: int, number: int, size: int) -> None:
        self.sender = sender
        self.number = number
        self.size = size


class Busy(Watched):
    """Takes a little time, so that a backlog builds up."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.ledger = Ledger(lab, repr(self))

    @on(Job)
    def job(self, message: Job) -> None:
        self.enter()
        for _ in range(message.size):
            pass
        self.ledger.came(message.sender, message.number)
        self.leave()


class BusyIO(Busy):
    """An IO actor: it must stay on its own thread."""

    has_channels: ClassVar[bool] = True

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.thread: int | None = None

    @on(Job)
    def job(self, message: Job) -> None:
        ident = threading.get_ident()
        if self.thread is None:
            self.thread = ident
        self.lab.check(ident == self.thread, "steal-rules", "an IO actor runs on two threads")
        super().job(message)


class Stealing(Workload):
    """All work falls on the actors of one thread, and the others help; IO actors stay at home."""

    name = "stealing"

    @classmethod
    def settings(cls, drawn: dict[str, Any]) -> dict[str, Any]:
        return {"stealing": True, "steal_floor": min(drawn["steal_floor"], 1),
                "workers": max(2, drawn["workers"])}  # fmt: skip

    def build(self, system: Any) -> None:
        self.actors: list[Busy] = []
        workers = system.config.workers

        def made(kind: type[Busy]) -> Busy:
            self.actors.append(kind(self.lab))
            return self.actors[-1]

        # Actors are laid over the threads in turn: every `workers`-th one is on the first.
        every = [system.build_actor(made, Busy) for _ in range(workers * self.rng.choice((3, 8)))]
        self.loaded = list(range(0, len(every), workers))
        self.addresses = [every[index] for index in self.loaded]
        self.chosen = [self.actors[index] for index in self.loaded]
        for _ in range(self.rng.choice((0, 1, 2 * workers))):
            self.addresses.append(system.build_actor(made, BusyIO))
            self.chosen.append(self.actors[-1])
        self.owners = [address.house.scheduler for address in self.addresses]
        self.each, self.senders = self.burst(60), self.rng.choice((1, 2))
        self.size = self.rng.choice((0, 50, 500))
        self.sent = self.each * self.senders * len(self.addresses)

    def bodies(self) -> list[Callable[[], Any]]:
        def send(sender: int) -> None:
            for number in range(1, self.each + 1):
                self.pace(number, self.addresses)
                for address in self.addresses:
                    address.notice(Job(sender, number, self.size))

        return [lambda n=n: send(n) for n in range(self.senders)]

    def tally(self) -> int:
        return sum(actor.ledger.total for actor in self.chosen)

    def finished(self) -> bool:
        return self.tally() >= self.sent

    def judge(self) -> None:
        expected = self.each * self.senders
        for actor in self.chosen:
            text = f"{actor!r} handled {actor.ledger.total} of {expected}"
            self.lab.check(actor.ledger.total == expected, "no-lost-message", text)
            self.lab.check(actor.count == expected, "single-runner", f"count {actor.count}; {text}")
        for address, owner in zip(self.addresses, self.owners, strict=True):
            self.lab.check(address.house.scheduler is owner, "steal-rules",
                           f"{address.house.name} has not gone back to its owner")  # fmt: skip


class Ping(Ask[int]):
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Pinged(Watched):
    @on(Ping)
    def ping(self, message: Ping) -> int:
        self.enter()
        self.leave()
        return message.number


class Pinging(Watched):
    """Awaits many answers: of normal priority while it waits, high when replies pile up."""

    def __init__(self, lab: Lab, targets: list[Any]) -> None:
        super().__init__(lab)
        self.targets = targets
        self.ledger = Ledger(lab, repr(self))
        self.replies = 0

    @on(Job)
    async def job(self, message: Job) -> None:
        self.enter()
        self.ledger.came(message.sender, message.number)
        self.leave()
        futures = [target.ask(Ping(message.number)) for target in self.targets]
        for future in futures:
            reply = await future
            if reply != message.number:
                self.lab.report("answered-once", f"another's reply: {reply}")
            self.replies += 1


class Priority(Workload):
    """High and normal houses in one queue: the order at the dequeue is watched, nobody starves."""

    name = "priority"

    @classmethod
    def settings(cls, drawn: dict[str, Any]) -> dict[str, Any]:
        # With thieves the look and the take could not be compared.
        return {"stealing": False, "dispatcher": "pinned", "workers": min(2, drawn["workers"]),
                "ageing_limit": min(5, drawn["ageing_limit"])}  # fmt: skip

    def build(self, system: Any) -> None:
        self.actors: list[Any] = []

        def made(kind: Any, *args: Any) -> Any:
            self.actors.append(kind(self.lab, *args))
            return self.actors[-1]

        rng = self.rng
        pinged = [system.build_actor(Pinged, self.lab) for _ in range(rng.choice((1, 2, 4)))]
        self.addresses = [
            system.build_actor(made, Pinging, pinged) for _ in range(rng.choice((2, 5)))
        ]
        self.pings = len(pinged)
        self.addresses += [system.build_actor(made, Busy) for _ in range(rng.choice((2, 5)))]
        self.each, self.senders = self.burst(25), rng.choice((1, 2))
        self.sent = self.each * self.senders * len(self.addresses)

    def bodies(self) -> list[Callable[[], Any]]:
        def send(sender: int) -> None:
            for number in range(1, self.each + 1):
                self.pace(number, self.addresses)
                for address in self.addresses:
                    address.notice(Job(sender, number, 20))

        return [lambda n=n: send(n) for n in range(self.senders)]

    def _expected(self, actor: Any) -> int:
        return self.each * self.senders * (self.pings if isinstance(actor, Pinging) else 1)

    def _got(self, actor: Any) -> int:
        return actor.replies if isinstance(actor, Pinging) else actor.ledger.total

    def tally(self) -> int:
        return sum(map(self._got, self.actors))

    def finished(self) -> bool:
        return all(self._got(actor) >= self._expected(actor) for actor in self.actors)

    def judge(self) -> None:
        for actor in self.actors:
            text = f"{actor!r}: {self._got(actor)} of {self._expected(actor)}"
            self.lab.check(self._got(actor) == self._expected(actor), "no-lost-message", text)
