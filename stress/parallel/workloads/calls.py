"""Barrier calls and batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from otavia_ft import Ask, BatchAskStack, BatchNoticeStack, Notice, on, sleep
from stress.parallel.lab import Lab
from stress.parallel.workloads.base import Answers, Ledger, Watched, Workload

__all__ = ["Barrier", "Batch"]


class Work(Notice):
    """Numbered; `kind` is how it is handled: plain, barrier, waiting (a barrier that awaits)."""

    __slots__ = ("kind", "number", "sender")

    def __init__(self, sender: int, number: int, kind: str) -> None:
        self.sender = sender
        self.number = number
        self.kind = kind


class Echo(Ask[int]):
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Helper(Watched):
    @on(Echo)
    def echo(self, ask: Echo) -> int:
        self.enter()
        self.leave()
        return ask.number


class Guarded(Watched):
    def __init__(self, lab: Lab, helper: Any) -> None:
        super().__init__(lab)
        self.helper = helper
        self.ledger = Ledger(lab, "the guarded actor")
        self.standing: Any = None  # the barrier call under way
        self.sleep_every = 7 * lab.case.scale
        self.asks = 0
        self.ended = 0

    def is_barrier_call(self, message: Any) -> bool:
        return isinstance(message, Work) and message.kind in ("barrier", "waiting")

    def begin(self, message: Any) -> None:
        self.enter()
        if self.standing is not None:
            text = f"{_name(message)} begins inside the barrier call {_name(self.standing)}"
            self.lab.report("barrier-exclusive", text)

    @on(Work)
    async def work(self, message: Work) -> None:
        self.begin(message)
        self.ledger.came(message.sender, message.number)
        if self.is_barrier_call(message):
            self.standing = message
        self.leave()
        if message.kind in ("waiting", "open"):
            await self.helper.ask(Echo(message.number))
            if message.number % self.sleep_every == 0:
                await sleep(0.0005)
        if self.is_barrier_call(message):
            self.lab.check(self.standing is message, "barrier-exclusive",
                           f"{_name(message)} ends, but {self.standing} stands")  # fmt: skip
            self.standing = None
        self.ended += 1

    @on(Echo)
    def echo(self, ask: Echo) -> int:
        self.begin(ask)
        self.asks += 1
        self.leave()
        return ask.number


def _name(message: Any) -> str:
    kind = getattr(message, "kind", "an ask")
    return f"{kind} {message.number}"


class Barrier(Workload):
    """Notices and asks to an actor of which some are barrier calls that await an answer."""

    name = "barrier"

    def build(self, system: Any) -> None:
        self.system = system
        self.actors: list[Guarded] = []
        helper = system.build_actor(Helper, self.lab)

        def made() -> Guarded:
            self.actors.append(Guarded(self.lab, helper))
            return self.actors[-1]

        self.address = system.build_actor(made)
        self.each, self.senders = self.burst(60), self.rng.choice((1, 2, 3))
        self.kinds = [self.rng.choice(("plain", "barrier", "waiting", "waiting", "open"))
                      for _ in range(self.each)]  # fmt: skip
        self.expected = self.each * self.senders
        self.asks = self.senders * (self.each // self.ask_every)
        self.sent = self.expected + self.asks
        self.answers = Answers()

    def bodies(self) -> list[Callable[[], Any]]:
        def send(sender: int) -> None:
            for number, kind in enumerate(self.kinds, 1):
                self.pace(number, [self.address])
                self.address.notice(Work(sender, number, kind))
                if number % self.ask_every == 0:
                    self.answers.add(number, self.system.ask(self.address, Echo(number)))

        return [lambda n=n: send(n) for n in range(self.senders)]

    def finished(self) -> bool:
        actor = self.actors[0]
        return actor.ended >= self.expected and self.answers.all_done()

    def judge(self) -> None:
        actor = self.actors[0]
        text = (
            f"of {self.expected} calls {actor.ended} have ended, "
            f"of {self.asks} asks {actor.asks} were handled"
        )
        self.lab.check(actor.ended == self.expected, "no-lost-message", text)
        self.lab.check(actor.asks == self.asks, "no-lost-message", text)
        self.lab.check(self.answers.all_done(), "answered-once", text)
        wrong = [n for n, f in self.answers.items if f.done() and f.result() != n]
        self.lab.check(not wrong, "answered-once", f"asks with another's answer: {wrong[:8]}")
        self.lab.check(actor.count == self.sent, "single-runner", f"count {actor.count}")


class Item(Notice):
    __slots__ = ("alone", "number", "sender")

    def __init__(self, sender: int, number: int, alone: bool) -> None:
        self.sender = sender
        self.number = number
        self.alone = alone


class Price(Ask[int]):
    __slots__ = ("alone", "number", "sender")

    def __init__(self, sender: int, number: int, alone: bool) -> None:
        self.sender = sender
        self.number = number
        self.alone = alone


class Batching(Watched):
    batchable = True

    def __init__(self, lab: Lab, limit: int) -> None:
        super().__init__(lab)
        self.limit = limit
        self.notices = Ledger(lab, "the batching actor's notices")
        self.asks = Ledger(lab, "the batching actor's asks")
        self.sum = 0

    def batch_notice_filter(self, message: Any) -> bool:
        return not message.alone

    batch_ask_filter = batch_notice_filter

    def check(self, messages: Sequence[Any], ledger: Ledger) -> None:
        self.enter()
        if not 1 <= len(messages) <= self.limit:
            self.lab.report("batch", f"a batch of {len(messages)}, the limit is {self.limit}")
        for message in messages:
            if message.alone:
                self.lab.report("batch", f"{message.number} should come alone")
            ledger.came(message.sender, message.number)
            self.sum += message.number
        self.leave()

    def single(self, message: Any, ledger: Ledger) -> None:
        self.enter()
        if not message.alone:
            self.lab.report("batch", f"{message.number} should come in a batch")
        ledger.came(message.sender, message.number)
        self.sum += message.number
        self.leave()

    def resume_batch_notice(self, stack: BatchNoticeStack) -> Any:
        self.check(stack.notices, self.notices)
        return stack.return_()

    def resume_batch_ask(self, stack: BatchAskStack) -> Any:
        self.check([envelope.message for envelope in stack.asks], self.asks)
        return stack.return_([(envelope, envelope.message.number) for envelope in stack.asks])

    @on(Item)
    def item(self, message: Item) -> None:
        self.single(message, self.notices)

    @on(Price)
    def price(self, message: Price) -> int:
        self.single(message, self.asks)
        return message.number


class Batch(Workload):
    """Notices and asks in batches, with some that do not pass the filter; the sums are exact."""

    name = "batch"

    def build(self, system: Any) -> None:
        self.system = system
        self.actors: list[Batching] = []

        def made() -> Batching:
            self.actors.append(Batching(self.lab, system.config.batch_limit))
            return self.actors[-1]

        self.address = system.build_actor(made)
        self.each, self.senders = self.burst(100), self.rng.choice((1, 2, 3))
        self.alone = [self.rng.random() < 0.2 for _ in range(self.each)]
        self.asks = self.each // self.ask_every
        self.sent = self.senders * (self.each + self.asks)
        self.answers = Answers()

    def bodies(self) -> list[Callable[[], Any]]:
        def send(sender: int) -> None:
            for number, alone in enumerate(self.alone, 1):
                self.pace(number, [self.address])
                self.address.notice(Item(sender, number, alone))
                asked, rest = divmod(number, self.ask_every)
                if rest == 0:
                    price = Price(sender, asked, alone)
                    self.answers.add(asked, self.system.ask(self.address, price))

        return [lambda n=n: send(n) for n in range(self.senders)]

    def finished(self) -> bool:
        actor = self.actors[0]
        handled = actor.notices.total + actor.asks.total
        return handled >= self.sent and self.answers.all_done()

    def judge(self) -> None:
        actor = self.actors[0]
        expected = self.senders * sum(n * (n + 1) // 2 for n in (self.each, self.asks))
        text = f"the sum is {actor.sum} instead of {expected}"
        self.lab.check(actor.sum >= expected, "no-lost-message", text)
        self.lab.check(actor.sum <= expected, "no-duplicate", text)
        wrong = [n for n, f in self.answers.items if not f.done() or f.result() != n]
        self.lab.check(not wrong, "answered-once", f"asks without their own answer: {wrong[:8]}")
