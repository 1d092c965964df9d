"""The README's example: a counter, a notice, an ask from outside."""

from dataclasses import dataclass

from otavia_ft import ActorSystem, Ask, Notice, Reply, StateActor, on


@dataclass(frozen=True, slots=True)
class Add(Notice):
    n: int


@dataclass(frozen=True, slots=True)
class Total(Reply):
    value: int


class Get(Ask[Total]):
    pass


class Counter(StateActor):
    def __init__(self) -> None:
        self.total = 0

    @on(Add)
    def add(self, message: Add) -> None:
        self.total += message.n  # no lock: one actor runs on one thread at a time

    @on(Get)
    def get(self, message: Get) -> Total:
        return Total(self.total)


if __name__ == "__main__":
    with ActorSystem() as system:
        counter = system.build_actor(Counter)
        for n in range(10):
            counter.notice(Add(n))
        print(system.ask(counter, Get(), timeout=5).result())
