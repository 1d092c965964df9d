"""Notices in masses: counting, tokens in a ring."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from otavia_ft import Notice, NoticeStack, on
from stress.parallel.lab import Lab
from stress.parallel.workloads.base import Ledger, Watched, Workload, account

__all__ = ["Count", "Tokens"]


class Numbered(Notice):
    """Message `number`, from 1 on, of a sender."""

    __slots__ = ("number", "sender")

    def __init__(self, sender: Any, number: int) -> None:
        self.sender = sender
        self.number = number


class Counting(Watched):
    def __init__(self, lab: Lab, name: int) -> None:
        super().__init__(lab)
        self.ledger = Ledger(lab, f"actor {name}")

    @on(Numbered)
    def numbered(self, message: Numbered) -> None:
        self.enter()
        self.ledger.came(message.sender, message.number)
        self.leave()


class CountingByHand(Counting):
    def resume_notice(self, stack: NoticeStack) -> Any:
        self.numbered(stack.notice)
        return stack.return_()


class Go(Notice):
    """Tells a relay to send its numbered messages to these."""

    __slots__ = ("name", "number", "targets")

    def __init__(self, name: str, number: int, targets: list[Any]) -> None:
        self.name = name
        self.number = number
        self.targets = targets


class Relay(Watched):
    @on(Go)
    def go(self, message: Go) -> None:
        self.enter()
        for number in range(1, message.number + 1):
            for target in message.targets:
                target.notice(Numbered(message.name, number))
        self.leave()


class Count(Workload):
    """Several threads and several actors send numbered notices; each is handled once, in order."""

    name = "count"

    def __init__(self, lab: Lab, rng: random.Random) -> None:
        super().__init__(lab, rng)
        self.actors: list[Counting] = []
        self.addresses: list[Any] = []
        self.each = self.burst()
        self.outside = rng.choice((1, 2, 3, 4))
        self.inside = rng.choice((0, 1, 2))
        self.many = rng.choice((1, 2, 8, 30)) if self.tiny else rng.choice((1, 2, 3))

    def build(self, system: Any) -> None:
        def made(kind: type[Counting], number: int) -> Counting:
            self.actors.append(kind(self.lab, number))
            return self.actors[-1]

        for number in range(self.many):
            kind = self.rng.choice((Counting, CountingByHand))
            self.addresses.append(system.build_actor(made, kind, number))
        self.relays = [system.build_actor(Relay, self.lab) for _ in range(self.inside)]
        self.expected = (self.outside + self.inside) * self.each
        self.sent = self.expected * self.many

    def bodies(self) -> list[Callable[[], Any]]:
        def send(name: str) -> None:
            for number in range(1, self.each + 1):
                self.pace(number, self.addresses)
                for address in self.addresses:
                    address.notice(Numbered(name, number))

        for index, relay in enumerate(self.relays):
            relay.notice(Go(f"relay {index}", self.each, self.addresses))
        return [lambda name=f"sender {n}": send(name) for n in range(self.outside)]

    def tally(self) -> int:
        return sum(actor.ledger.total for actor in self.actors)

    def finished(self) -> bool:
        return all(actor.ledger.total >= self.expected for actor in self.actors)

    def judge(self) -> None:
        for actor in self.actors:
            text = f"of {self.expected} messages {actor.ledger.total} were handled by {actor!r}"
            self.lab.check(actor.ledger.total >= self.expected, "no-lost-message", text)
            self.lab.check(actor.ledger.total <= self.expected, "no-duplicate", text)
            self.lab.check(actor.count == actor.ledger.total, "single-runner",
                           f"{actor!r} counted {actor.count} of {actor.ledger.total}")  # fmt: skip


class Token(Notice):
    __slots__ = ("hops", "number")

    def __init__(self, number: int, hops: int) -> None:
        self.number = number
        self.hops = hops


class Station(Watched):
    def __init__(self, lab: Lab, arrived: list[int]) -> None:
        super().__init__(lab)
        self.arrived = arrived
        self.following: Any = None

    @on(Token)
    def token(self, token: Token) -> None:
        self.enter()
        if token.hops == 0:
            self.arrived.append(token.number)
        else:
            self.following.notice(Token(token.number, token.hops - 1))
        self.leave()


class Tokens(Workload):
    """Tokens go round a ring of actors; each arrives once, after as many hops as it was given."""

    name = "tokens"

    def build(self, system: Any) -> None:
        rng = self.rng
        self.arrived: list[int] = []
        self.stations: list[Station] = []
        self.hops = rng.randrange(1, 8) if self.tiny else self.burst(300)
        self.tokens = rng.choice((1, 2, 3, 7))

        def made() -> Station:
            self.stations.append(Station(self.lab, self.arrived))
            return self.stations[-1]

        self.ring = [system.build_actor(made) for _ in range(rng.choice((1, 2, 5, 17)))]
        for index, station in enumerate(self.stations):
            station.following = self.ring[(index + 1) % len(self.ring)]
        self.sent = self.tokens * (self.hops + 1)

    def bodies(self) -> list[Callable[[], Any]]:
        ring = self.ring
        return [
            lambda n=n: ring[n % len(ring)].notice(Token(n, self.hops)) for n in range(self.tokens)
        ]

    def tally(self) -> int:
        return sum(station.count for station in self.stations)

    def finished(self) -> bool:
        return len(self.arrived) >= self.tokens

    def judge(self) -> None:
        account(self.lab, "tokens", range(self.tokens), self.arrived)
        turns = self.tally()
        self.lab.check(turns == self.sent, "single-runner",
                       f"{self.sent} hops, but the stations counted {turns}")  # fmt: skip

    def judge_stopped(self) -> None:
        for station in self.stations:  # a ring of addresses keeps itself alive
            station.following = None
