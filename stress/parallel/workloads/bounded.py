"""Bounded mailboxes under each policy: every notice and every ask that was not handled is accounted
for, and every ask is answered, whoever asks.

Actors send, too. An ActorThread never waits for room: with one worker it would wait for itself, and
so it does here, since nobody else could make room, until the watchdog ends the case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from otavia_ft import Ask, MailboxFull, Notice, Overflow, on
from otavia_ft.doors import Mailbox
from stress.parallel.lab import Lab
from stress.parallel.workloads.base import Ledger, Watched, Workload, account

__all__ = ["Bounded"]

type Key = tuple[str, int]


class Parcel(Notice):
    __slots__ = ("key",)

    def __init__(self, key: Key) -> None:
        self.key = key


class Price(Ask[Any]):
    """The answer is the key."""

    __slots__ = ("key",)

    def __init__(self, key: Key) -> None:
        self.key = key


class Send(Notice):
    """Tells an actor to send as a thread outside does."""


class Narrow(Watched):
    def __init__(self, lab: Lab, capacity: int) -> None:
        super().__init__(lab)
        self.capacity = capacity
        self.notices: list[Key] = []
        self.asks: list[Key] = []
        self._ledgers = {box: Ledger(lab, f"the bounded actor's {box.name.lower()}s")
                         for box in (Mailbox.ASK, Mailbox.NOTICE)}  # fmt: skip

    def _take(self, box: Mailbox, key: Key, place: list[Key]) -> None:
        self.enter()
        place.append(key)
        self._ledgers[box].came(*key, gaps=True)
        for each in self._ledgers:
            shelf = self.address.house._shelves[each]  # white box: a size that only it knows
            if shelf._count > self.capacity:
                text = f"more {each.name.lower()}s wait than the capacity {self.capacity}"
                self.lab.report("bounded", text)
        self.leave()

    @on(Parcel)
    def parcel(self, message: Parcel) -> None:
        self._take(Mailbox.NOTICE, message.key, self.notices)

    @on(Price)
    def price(self, message: Price) -> Key:
        self._take(Mailbox.ASK, message.key, self.asks)
        return message.key


class Sending(Watched):
    """An actor that sends, and awaits its answers when it is through."""

    def __init__(self, bounded: Bounded, name: str) -> None:
        super().__init__(bounded.lab)
        self.bounded = bounded
        self.name = name

    @on(Send)
    async def send(self, message: Send) -> None:
        self.enter()
        self.leave()
        bounded, open_ = self.bounded, []
        for number in range(1, bounded.each + 1):
            bounded.notice((self.name, number))
            if number % bounded.ask_every == 0:
                key = (self.name, number)
                open_.append((key, bounded.address.ask(Price(key))))
        for key, future in open_:
            try:
                bounded.ended(key, await future)
            except MailboxFull as error:
                bounded.ended(key, error)


class Bounded(Workload):
    """A bounded mailbox under each policy: what was not handled is accounted for."""

    name = "bounded"

    def build(self, system: Any) -> None:
        rng = self.rng
        self.system = system
        self.policy = rng.choice(list(Overflow))
        capacity = rng.choice((1, 2, 5, 50))
        kind = type("Narrow", (Narrow,), {"mailbox_capacity": capacity, "overflow": self.policy})
        self.dead_notices: list[Key] = []
        self.dead_asks: list[Key] = []
        system.dead_letters.subscribe(self.died)
        self.actors: list[Narrow] = []

        def made() -> Narrow:
            self.actors.append(kind(self.lab, capacity))
            return self.actors[-1]

        self.address = system.build_actor(made)
        # Most of them are refused, dropped, or wait for room: each costs as much as ten others.
        self.each = self.burst(120, up_to=40)
        self.outside = [f"sender {n}" for n in range(rng.choice((1, 2, 4)))]
        self.inside = [f"actor {n}" for n in range(rng.choice((0, 1, 2)))]
        self.relays = [system.build_actor(Sending, self, name) for name in self.inside]
        names = [*self.outside, *self.inside]
        self.notices = [(name, number) for name in names for number in range(1, self.each + 1)]
        self.asks = [key for key in self.notices if key[1] % self.ask_every == 0]
        self.sent = len(self.notices) + len(self.asks)
        self.refused: list[Key] = []
        self.answers: list[tuple[Key, Any]] = []

    def died(self, letter: Any) -> None:
        asked = isinstance(letter.message, Price)
        (self.dead_asks if asked else self.dead_notices).append(letter.message.key)

    def notice(self, key: Key) -> None:
        try:
            self.address.notice(Parcel(key))
        except MailboxFull:
            self.refused.append(key)

    def ended(self, key: Key, answer: Any) -> None:
        """An ask's one end: its own answer, or the news that there was no room."""
        self.answers.append((key, answer))
        right = answer == key or isinstance(answer, MailboxFull)
        self.lab.check(right, "answered-once", f"ask {key} ended with {answer!r}")

    def bodies(self) -> list[Callable[[], Any]]:
        def send(name: str) -> None:
            for number in range(1, self.each + 1):
                key = (name, number)
                self.notice(key)
                if number % self.ask_every == 0:
                    future = self.system.ask(self.address, Price(key))
                    # A callback and not result(): it would show a second end, too.
                    future.add_done_callback(
                        lambda f, key=key: self.ended(key, f.exception() or f.result())
                    )

        for relay in self.relays:
            relay.notice(Send())
        return [lambda name=name: send(name) for name in self.outside]

    def tally(self) -> int:
        return len(self.actors[0].notices) + len(self.actors[0].asks)

    def finished(self) -> bool:
        gone = len(self.dead_notices) + len(self.refused) + len(self.actors[0].notices)
        return gone >= len(self.notices) and len(self.answers) >= len(self.asks)

    def judge(self) -> None:
        lab, policy, actor = self.lab, self.policy, self.actors[0]
        name = f"bounded ({policy.value})"
        account(lab, f"{name} notices", self.notices, actor.notices, self.dead_notices,
                self.refused)  # fmt: skip
        full = [key for key, answer in self.answers if isinstance(answer, MailboxFull)]
        account(lab, f"{name} asks", self.asks, actor.asks, full)
        self.judge_answers()
        # Who is refused is told, who is dropped is a dead letter as well.
        drops = policy in (Overflow.DROP_NEWEST, Overflow.DROP_OLDEST)
        text = f"{name}: {len(full)} asks found no room, {len(self.dead_asks)} are dead letters"
        same = Counter(self.dead_asks) == Counter(full if drops else ())
        lab.check(same, "bounded", text)
        lab.check(drops or not self.dead_notices, "bounded", f"{name} made dead letters")
        # Only threads outside wait for room.
        refused = [key for key in (*self.refused, *(() if drops else full))
                   if policy is not Overflow.BLOCK or key[0] in self.outside]  # fmt: skip
        lab.check(policy is Overflow.FAIL or not refused, "bounded",
                  f"{name} refused {len(refused)} messages")  # fmt: skip

    def judge_answers(self) -> None:
        counted = Counter(key for key, _ in self.answers)
        open_ = [key for key in self.asks if key not in counted]
        twice = [key for key, times in counted.items() if times > 1]
        self.lab.check(not open_, "answered-once", f"these asks never ended: {open_[:8]}")
        self.lab.check(not twice, "answered-once", f"these asks ended twice: {twice[:8]}")
