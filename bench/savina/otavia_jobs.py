"""More workloads as actors of this package: crowds, chains of asks, work, timers."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

from otavia_ft import Ask, StateActor, on
from savina.common import (
    ACCOUNTS,
    BIG,
    COLOURS,
    CREATURES,
    FILTER,
    MAPPERS,
    TELLERS,
    TIMER_ACTORS,
    Dice,
    complement,
    crunch,
    crunched,
    expect,
    result,
    sieve_messages,
)
from savina.otavia import Box, Counter, Go, system, timed

# ---- big, chameneos


class Neighbour(StateActor):
    def __init__(self, index: int, share: int, sink: Any) -> None:
        self.index, self.left, self.share, self.sink = index, share, share, sink
        self.peers: tuple[Any, ...] = ()
        self.dice = Dice(index + 1)

    @on(int)
    def receive(self, sender: int) -> None:
        if sender >= 0:  # a ping
            self.peers[sender].notice(-1)
        elif self.left:
            self.left -= 1
            self.peers[self.dice.below(BIG)].notice(self.index)
        else:
            self.sink.notice(self.share)


def big(n: int) -> dict[str, Any]:
    share = max(1, n // BIG)
    box = Box()
    with system() as actors:
        sink = actors.build_actor(Counter, share * BIG, box)
        neighbours = [Neighbour(i, share, sink) for i in range(BIG)]
        addresses = [actors.build_actor(lambda one=one: one) for one in neighbours]
        for one in neighbours:
            one.peers = tuple(addresses)

        def kick() -> None:
            for address in addresses:
                address.notice(-1)

        seconds, total = timed(kick, box)
    for one in neighbours:  # they keep each other alive
        one.peers = ()
    expect(total(), share * BIG)
    return result(seconds, share * BIG)


class Meet:
    __slots__ = ("colour", "who")

    def __init__(self, who: Any, colour: int) -> None:
        self.who, self.colour = who, colour


class Mate:
    __slots__ = ("colour",)

    def __init__(self, colour: int) -> None:
        self.colour = colour


class Stop:
    __slots__ = ()


class Mall(StateActor):
    def __init__(self, n: int) -> None:
        self.left, self.waiting = n, None

    @on(Meet)
    def meet(self, message: Meet) -> None:
        if not self.left:
            message.who.notice(Stop())
        elif self.waiting is None:
            self.waiting = message
        else:
            first, self.waiting = self.waiting, None
            self.left -= 1
            first.who.notice(Mate(message.colour))
            message.who.notice(Mate(first.colour))


class Creature(StateActor):
    def __init__(self, mall: Any, colour: int, sink: Any) -> None:
        self.mall, self.colour, self.sink, self.met = mall, colour, sink, 0

    @on(Go)
    def go(self, go: Go) -> None:
        self.mall.notice(Meet(self.address, self.colour))

    @on(Mate)
    def mate(self, message: Mate) -> None:
        self.met += 1
        self.colour = complement(self.colour, message.colour)
        self.mall.notice(Meet(self.address, self.colour))

    @on(Stop)
    def end(self, message: Stop) -> None:
        if self.met:
            self.sink.notice(self.met)


def chameneos(n: int) -> dict[str, Any]:
    box = Box()
    with system() as actors:
        sink = actors.build_actor(Counter, 2 * n, box)
        mall = actors.build_actor(Mall, n)
        creatures = [
            actors.build_actor(Creature, mall, i % COLOURS, sink) for i in range(CREATURES)
        ]

        def kick() -> None:
            for creature in creatures:
                creature.notice(Go(0))

        seconds, total = timed(kick, box)
    expect(total(), 2 * n)
    return result(seconds, n)


# ---- bank


class Credit(Ask[int]):
    __slots__ = ("amount",)

    def __init__(self, amount: int) -> None:
        self.amount = amount


class Debit(Ask[int]):
    __slots__ = ("amount", "to")

    def __init__(self, amount: int, to: Any) -> None:
        self.amount, self.to = amount, to


class Account(StateActor):
    def __init__(self) -> None:
        self.balance = 0

    @on(Credit)
    def credit(self, message: Credit) -> int:
        self.balance += message.amount
        return message.amount

    @on(Debit)
    async def debit(self, message: Debit) -> int:
        self.balance -= message.amount
        return await message.to.ask(Credit(message.amount))


class Teller(StateActor):
    def __init__(self, seed: int, sources: list[Any], targets: list[Any], sink: Any) -> None:
        self.dice, self.sources, self.targets, self.sink = Dice(seed), sources, targets, sink

    @on(Go)
    async def go(self, go: Go) -> None:
        moved, dice = 0, self.dice
        for _ in range(go.n):
            source = self.sources[dice.below(ACCOUNTS)]
            moved += await source.ask(Debit(1, self.targets[dice.below(ACCOUNTS)]))
        self.sink.notice(moved)


def bank(n: int) -> dict[str, Any]:
    share = max(1, n // TELLERS)
    box = Box()
    accounts = [Account() for _ in range(2 * ACCOUNTS)]
    with system() as actors:
        sink = actors.build_actor(Counter, share * TELLERS, box)
        addresses = [actors.build_actor(lambda account=account: account) for account in accounts]
        halves = addresses[:ACCOUNTS], addresses[ACCOUNTS:]
        tellers = [actors.build_actor(Teller, i + 1, *halves, sink) for i in range(TELLERS)]

        def kick() -> None:
            for teller in tellers:
                teller.notice(Go(share))

        seconds, total = timed(kick, box)
    expect(total(), share * TELLERS)
    expect(sum(account.balance for account in accounts), 0)
    return result(seconds, share * TELLERS)


# ---- sieve, CPU map, timers


class End:
    __slots__ = ("primes",)

    def __init__(self, primes: int) -> None:
        self.primes = primes


class Filter(StateActor):
    def __init__(self, box: Box) -> None:
        self.box, self.primes, self.next = box, [], None

    @on(int)
    def candidate(self, number: int) -> None:
        for prime in self.primes:
            if number % prime == 0:
                return
        if len(self.primes) < FILTER:
            self.primes.append(number)
        else:
            if self.next is None:
                self.next = self.system.build_actor(Filter, self.box)
            self.next.notice(number)

    @on(End)
    def end(self, message: End) -> None:
        message.primes += len(self.primes)
        if self.next is None:
            self.box.put(message.primes)
        else:
            self.next.notice(message)


class Candidates(StateActor):
    def __init__(self, first: Any) -> None:
        self.first = first

    @on(Go)
    def go(self, go: Go) -> None:
        for number in range(3, go.n, 2):
            self.first.notice(number)
        self.first.notice(End(0))


def sieve(n: int) -> dict[str, Any]:
    messages, primes = sieve_messages(n)
    box = Box()
    with system() as actors:
        source = actors.build_actor(Candidates, actors.build_actor(Filter, box))
        seconds, value = timed(lambda: source.notice(Go(n)), box)
    expect(value, primes)
    return result(seconds, messages)


class Summer(StateActor):
    def __init__(self, n: int, box: Box) -> None:
        self.left, self.total, self.box = n, 0, box

    @on(int)
    def add(self, number: int) -> None:
        self.total += number
        self.left -= 1
        if not self.left:
            self.box.put(self.total)


class Mapper(StateActor):
    def __init__(self, sink: Any) -> None:
        self.sink = sink

    @on(int)
    def work(self, seed: int) -> None:
        self.sink.notice(crunch(seed))


def cpu_map(n: int, workers: int = 0) -> dict[str, Any]:
    wanted = crunched(n)
    box = Box()
    with system(workers) as actors:
        sink = actors.build_actor(Summer, n, box)
        mappers = [actors.build_actor(Mapper, sink) for _ in range(MAPPERS)]

        def kick() -> None:
            for i in range(n):
                mappers[i % MAPPERS].notice(i)

        seconds, value = timed(kick, box)
    expect(value, wanted)
    return result(seconds, n)


class Alarm(StateActor):
    def __init__(self, seed: int, sink: Any) -> None:
        self.dice, self.sink, self.left, self.share = Dice(seed), sink, 0, 0

    @on(Go)
    def go(self, go: Go) -> None:
        self.left = self.share = go.n
        for _ in range(go.n):
            self.after(self.dice.delay())

    def handle_actor_timeout(self, event: Any) -> None:
        self.left -= 1
        if not self.left:
            self.sink.notice(self.share)


def timers(n: int) -> dict[str, Any]:
    share = max(1, n // TIMER_ACTORS)
    box = Box()
    with system() as actors:
        sink = actors.build_actor(Counter, share * TIMER_ACTORS, box)
        alarms = [actors.build_actor(Alarm, i + 1, sink) for i in range(TIMER_ACTORS)]

        def kick() -> None:
            for alarm in alarms:
                alarm.notice(Go(share))

        began = process_time()
        wall, total = timed(kick, box)
        spent = process_time() - began
    expect(total(), share * TIMER_ACTORS)
    return result(spent, share * TIMER_ACTORS, wall=wall)


WORKLOADS: dict[str, Callable[[int], dict[str, Any]]] = {
    "big": big,
    "chameneos": chameneos,
    "bank": bank,
    "sieve": sieve,
    "cpu-map-one": lambda n: cpu_map(n, 1),
    "cpu-map": cpu_map,
    "timers": timers,
}
