"""An ask storm: every ask ends once, and in the way it has to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from otavia_ft import (
    ActorStopped,
    Ask,
    AskFailed,
    AskTimeout,
    Notice,
    first_of,
    gather,
    on,
    sleep,
)
from stress.parallel.lab import Planned
from stress.parallel.settle import one_shots
from stress.parallel.workloads.base import Watched, Workload

__all__ = ["Asks"]

TIMEOUT_S = 0.004
KINDS = ("reply", "error", "chain", "late", "dead", "sleepy")
COSTLY = ("error", "late", "sleepy")  # they write a log, or wait for the clock


class Question(Ask[Any]):
    """An ask whose kind says how it has to end."""

    __slots__ = ("kind", "number")

    def __init__(self, kind: str, number: int) -> None:
        self.kind = kind
        self.number = number


class Answering(Watched):
    """Answers at once, by an error, by asking the next one, late, or after a sleep."""

    def __init__(self, lab: Any) -> None:
        super().__init__(lab)
        self.following: Any = None

    @on(Question)
    async def question(self, ask: Question) -> Any:
        self.enter()
        self.leave()
        if ask.kind == "error":
            raise Planned(ask.number)
        if ask.kind == "chain":
            return await self.following.ask(Question("reply", ask.number))
        if ask.kind == "late":
            await sleep(4 * TIMEOUT_S)
        elif ask.kind == "sleepy":
            await sleep(0.001)
        return ask.number


class Begin(Notice):
    __slots__ = ("first", "kinds", "style")

    def __init__(self, first: int, kinds: list[str], style: str) -> None:
        self.first = first
        self.kinds = kinds
        self.style = style


class Asking(Watched):
    """Asks one after the other, all at once, or a pair of which the first counts."""

    def __init__(self, storm: Asks) -> None:
        super().__init__(storm.lab)
        self.storm = storm

    async def one(self, kind: str, number: int) -> None:
        future = self.ask(kind, number)
        try:
            reply: Any = await future
        except BaseException as error:
            reply = error
        self.storm.ended(kind, number, reply)

    def ask(self, kind: str, number: int) -> Any:
        target = self.storm.target(kind, number)
        timeout = TIMEOUT_S if kind == "late" else None
        return target.ask(Question(kind, number), timeout=timeout)

    @on(Begin)
    async def begin(self, message: Begin) -> None:
        numbers = range(message.first, message.first + len(message.kinds))
        if message.style == "single":
            for number, kind in zip(numbers, message.kinds, strict=True):
                await self.one(kind, number)
        elif message.style == "gather":
            for start in range(0, len(numbers), 50):
                some = numbers[start : start + 50]
                replies = await gather(*(self.ask("reply", number) for number in some))
                for number, reply in zip(some, replies, strict=True):
                    self.storm.ended("reply", number, reply)
        else:
            for number in numbers:
                _, reply = await first_of(self.ask("reply", number), self.ask("reply", number))
                self.storm.ended("reply", number, reply)


class Asks(Workload):
    """Actors and threads ask for replies, errors, late replies, chains and the dead."""

    name = "asks"

    def build(self, system: Any) -> None:
        rng = self.rng
        self.system = system
        self.ends: list[tuple[int, str]] = []
        self.answering: list[Answering] = []

        def made() -> Answering:
            self.answering.append(Answering(self.lab))
            return self.answering[-1]

        self.targets = [system.build_actor(made) for _ in range(rng.choice((1, 2, 4)))]
        for index, actor in enumerate(self.answering):
            actor.following = system.build_actor(made) if index == 0 else self.targets[0]
        self.answering[-1].following = self.targets[-1]
        self.dead = system.build_actor(made)
        self.dead.stop()
        self.askers = [system.build_actor(Asking, self) for _ in range(rng.choice((1, 2, 3)))]
        self.outside = rng.choice((1, 2, 3))
        each = rng.choice((1, 2, 4)) if self.tiny else rng.randrange(10, 50) * self.lab.case.scale
        self.kinds: list[list[str]] = []
        self.styles = [rng.choice(("single", "gather", "first")) for _ in self.askers]
        for index in range(len(self.askers) + self.outside):
            plain = index < len(self.askers) and self.styles[index] != "single"
            kinds = ["reply" if plain else rng.choice(KINDS) for _ in range(each)]
            costly = [number for number, kind in enumerate(kinds) if kind in COSTLY]
            for number in costly[50:]:  # only a soak has as many
                kinds[number] = "reply"
            self.kinds.append(kinds)
        self.each = each
        self.sent = sum(map(len, self.kinds))

    def target(self, kind: str, number: int) -> Any:
        return self.dead if kind == "dead" else self.targets[number % len(self.targets)]

    def ended(self, kind: str, number: int, reply: Any) -> None:
        """An ask's one end; is it an allowed one?"""
        self.ends.append((number, kind))
        if kind == "error":
            right = isinstance(reply, AskFailed) and isinstance(reply.cause, Planned)
        elif kind == "late":
            right = isinstance(reply, AskTimeout) or reply == number
        elif kind == "dead":
            right = isinstance(reply, ActorStopped)
        else:
            right = reply == number
        if not right:
            self.lab.report("answered-once", f"ask {number} ({kind}) ended with {reply!r}")

    def bodies(self) -> list[Callable[[], Any]]:
        def outside(index: int) -> None:
            futures = []
            for offset, kind in enumerate(self.kinds[index]):
                number = index * self.each + offset
                timeout = TIMEOUT_S if kind == "late" else None
                target = self.target(kind, number)
                future = self.system.ask(target, Question(kind, number), timeout=timeout)
                # A callback and not result(): it would show a second end, too.
                future.add_done_callback(
                    lambda f, k=kind, n=number: self.ended(k, n, f.exception() or f.result())
                )
                futures.append(future)

        for index, asker in enumerate(self.askers):
            asker.notice(Begin(index * self.each, self.kinds[index], self.styles[index]))
        first = len(self.askers)
        return [lambda n=n: outside(n) for n in range(first, first + self.outside)]

    def finished(self) -> bool:
        return len(self.ends) >= self.sent and one_shots(self.system.timer) == 0

    def judge(self) -> None:
        counted = Counter(number for number, _ in self.ends)
        open_ = [n for n in range(self.sent) if n not in counted]
        twice = [n for n, times in counted.items() if times > 1]
        kinds = [kind for each in self.kinds for kind in each]
        text = ", ".join(f"{n} ({kinds[n]})" for n in open_[:8])
        self.lab.check(not open_, "answered-once", f"these asks never ended: {text}")
        self.lab.check(not twice, "answered-once", f"these asks ended twice: {twice[:8]}")
        self.lab.check(len(self.system.outside) == 0, "answered-once",
                       f"{len(self.system.outside)} asks from outside are still open")  # fmt: skip

    def judge_stopped(self) -> None:
        for actor in self.answering:
            actor.following = None
