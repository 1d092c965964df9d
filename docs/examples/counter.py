"""The README's example: a counter, asks from outside, a notice."""

from dataclasses import dataclass

from otavia_ft import ActorSystem, Ask, Notice, Reply, StateActor, on


@dataclass(frozen=True, slots=True)
class Total(Reply):
    value: int


@dataclass(frozen=True, slots=True)
class Add(Ask[Total]):  # is answered with a Total
    n: int


class Reset(Notice):  # wants no answer
    pass


class Counter(StateActor):
    def __init__(self) -> None:
        self.total = 0

    @on(Add)
    def add(self, message: Add) -> Total:
        self.total += message.n  # no lock: one actor runs on one thread at a time
        return Total(self.total)

    @on(Reset)
    def reset(self, message: Reset) -> None:
        self.total = 0


if __name__ == "__main__":
    with ActorSystem() as system:
        counter = system.build_actor(Counter)
        totals = [system.ask(counter, Add(n), timeout=5) for n in range(10)]
        print(totals[-1].result())  # Total(value=45)
        counter.notice(Reset())
