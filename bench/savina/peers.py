"""The workloads for everybody else: an actor is an object whose `receive` is called for a message.

A kit (kits.py) knows how to spawn one, `spawn(behaviour) -> tell`, where `tell(message)` is the
contender's own cheapest way to send. So nothing stands between a workload and the contender.
Messages from one actor to another have to stay in order: the sieve relies on it.

A workload is a function `(spawn, n, finish) -> (kick, wanted, operations)`: it spawns its actors,
`kick()` begins, and some actor ends it with `finish(value)`, where value must be `wanted`, or a
function that returns it when all is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from savina.common import (
    BIG,
    COLOURS,
    CREATURES,
    FILTER,
    FORKS,
    MAPPERS,
    PRODUCERS,
    RING,
    RING_END,
    Dice,
    complement,
    crunch,
    crunched,
    ring_hops,
    sieve_messages,
)

Tell = Callable[[Any], Any]
Spawn = Callable[[Any], Tell]
Program = tuple[Callable[[], object], Any, int]


class Counter:
    """Counts down: the number to compare with would be one counted object for all threads. The
    result is a function, to be called when all is over: more may come than was wanted."""

    def __init__(self, wanted: int, finish: Tell) -> None:
        self.left, self.wanted, self.finish = wanted, wanted, finish

    def receive(self, number: int) -> None:
        self.left = left = self.left - number
        if not left:
            self.finish(self.total)

    def total(self) -> int:
        return self.wanted - self.left


class Producer:
    def __init__(self, target: Tell) -> None:
        self.target = target

    def receive(self, n: int) -> None:
        tell = self.target
        for _ in range(n):
            tell(1)


def counting(spawn: Spawn, n: int, finish: Tell, producers: int = 1) -> Program:
    counter = spawn(Counter(n, finish))
    sources = [spawn(Producer(counter)) for _ in range(producers)]

    def kick() -> None:
        for source in sources:
            source(n // producers)

    return kick, n, n


def fan_in(spawn: Spawn, n: int, finish: Tell) -> Program:
    return counting(spawn, n - n % PRODUCERS, finish, PRODUCERS)


class Player:
    """A ball is the number of round trips that are left. Another than the one that was thrown (one
    that came twice, or that was not thrown at all) is the result, and a wrong one."""

    def __init__(self, n: int, finish: Tell) -> None:
        self.left, self.finish, self.peer = n, finish, finish

    def receive(self, ball: int) -> None:
        if ball == self.left and ball:
            self.left = left = ball - 1
            self.peer(left)
        else:
            self.finish((ball, self.left))


class Wall:
    def __init__(self, peer: Tell) -> None:
        self.peer = peer

    def receive(self, ball: int) -> None:
        self.peer(ball)


def ping_pong(spawn: Spawn, n: int, finish: Tell) -> Program:
    player = Player(n, finish)
    tell = spawn(player)
    player.peer = spawn(Wall(tell))
    return lambda: tell(n), (0, 0), n


class Node:
    """A token is the number of hops that are left. The last node says which one it is: a token
    that went astray on its way ends elsewhere."""

    def __init__(self, index: int, finish: Tell) -> None:
        self.index, self.finish, self.next = index, finish, finish

    def receive(self, token: int) -> None:
        if token:
            self.next(token - 1)
        else:
            self.finish(self.index)


def ring(spawn: Spawn, n: int, finish: Tell) -> Program:
    hops = ring_hops(n)
    nodes = [Node(i, finish) for i in range(RING)]
    tells = [spawn(node) for node in nodes]
    for i, node in enumerate(nodes):
        node.next = tells[(i + 1) % RING]
    return lambda: tells[0](hops), RING_END, hops


class Worker:
    def __init__(self, share: int, sink: Tell) -> None:
        self.left, self.share, self.sink = share, share, sink

    def receive(self, number: int) -> None:
        self.left = left = self.left - number
        if left <= 0:  # once, unless too much comes
            self.sink(self.share)


class Fork:
    def __init__(self, targets: list[Tell]) -> None:
        self.targets = targets

    def receive(self, n: int) -> None:
        targets = self.targets
        for _ in range(n):
            for tell in targets:
                tell(1)


def fork_join(spawn: Spawn, n: int, finish: Tell) -> Program:
    share = max(1, n // FORKS)
    sink = spawn(Counter(share * FORKS, finish))
    fork = spawn(Fork([spawn(Worker(share, sink)) for _ in range(FORKS)]))
    return lambda: fork(share), share * FORKS, share * FORKS


def fork_join_create(spawn: Spawn, n: int, finish: Tell) -> Program:
    sink = spawn(Counter(n, finish))

    def kick() -> None:
        for _ in range(n):
            spawn(Worker(1, sink))(1)

    return kick, n, n


def many(spawn: Spawn, n: int, finish: Tell) -> Program:
    sink = spawn(Counter(n, finish))

    def kick() -> None:
        for tell in [spawn(Worker(1, sink)) for _ in range(n)]:
            tell(1)

    return kick, n, n


class Neighbour:
    def __init__(self, index: int, share: int, sink: Tell) -> None:
        self.index, self.left, self.share, self.sink = index, share, share, sink
        self.peers: tuple[Tell, ...] = ()
        self.dice = Dice(index + 1)

    def receive(self, sender: int) -> None:
        if sender >= 0:  # a ping
            self.peers[sender](-1)
        elif self.left:
            self.left -= 1
            self.peers[self.dice.below(BIG)](self.index)
        else:
            self.sink(self.share)


def big(spawn: Spawn, n: int, finish: Tell) -> Program:
    share = max(1, n // BIG)
    sink = spawn(Counter(share * BIG, finish))
    neighbours = [Neighbour(i, share, sink) for i in range(BIG)]
    tells = [spawn(one) for one in neighbours]
    for one in neighbours:
        one.peers = tuple(tells)

    def kick() -> None:
        for tell in tells:
            tell(-1)

    return kick, share * BIG, share * BIG


STOP, GO = -1, -2


class Mall:
    def __init__(self, n: int) -> None:
        self.left, self.waiting = n, None

    def receive(self, message: Any) -> None:
        if not self.left:
            message[0](STOP)
        elif self.waiting is None:
            self.waiting = message
        else:
            first, self.waiting = self.waiting, None
            self.left -= 1
            first[0](message[1])
            message[0](first[1])


class Creature:
    def __init__(self, mall: Tell, colour: int, sink: Tell) -> None:
        self.mall, self.colour, self.sink, self.met = mall, colour, sink, 0
        self.me = sink

    def receive(self, colour: int) -> None:
        if colour == STOP:
            if self.met:  # or the sink, which may have all already, would end a second time
                self.sink(self.met)
            return
        if colour != GO:
            self.met += 1
            self.colour = complement(self.colour, colour)
        self.mall((self.me, self.colour))


def chameneos(spawn: Spawn, n: int, finish: Tell) -> Program:
    sink = spawn(Counter(2 * n, finish))
    mall = spawn(Mall(n))
    creatures = [Creature(mall, i % COLOURS, sink) for i in range(CREATURES)]
    for creature in creatures:
        creature.me = spawn(creature)

    def kick() -> None:
        for creature in creatures:
            creature.me(GO)

    return kick, 2 * n, n


class Filter:
    def __init__(self, spawn: Spawn, finish: Tell) -> None:
        self.spawn, self.finish, self.primes = spawn, finish, []
        self.next: Tell | None = None

    def receive(self, number: int) -> None:
        if number <= 0:  # the end, with the primes so far as a negative number
            number -= len(self.primes)
            if self.next is None:
                self.finish(-number)
            else:
                self.next(number)
            return
        for prime in self.primes:
            if number % prime == 0:
                return
        if len(self.primes) < FILTER:
            self.primes.append(number)
        else:
            if self.next is None:
                self.next = self.spawn(Filter(self.spawn, self.finish))
            self.next(number)


class Candidates:
    def __init__(self, first: Tell) -> None:
        self.first = first

    def receive(self, n: int) -> None:
        for number in range(3, n, 2):
            self.first(number)
        self.first(0)


def sieve(spawn: Spawn, n: int, finish: Tell) -> Program:
    messages, primes = sieve_messages(n)
    source = spawn(Candidates(spawn(Filter(spawn, finish))))
    return lambda: source(n), primes, messages


class Summer:
    def __init__(self, n: int, finish: Tell) -> None:
        self.left, self.total, self.finish = n, 0, finish

    def receive(self, number: int) -> None:
        self.total += number
        self.left -= 1
        if not self.left:
            self.finish(self.total)


class Mapper:
    def __init__(self, sink: Tell) -> None:
        self.sink = sink

    def receive(self, seed: int) -> None:
        self.sink(crunch(seed))


def cpu_map(spawn: Spawn, n: int, finish: Tell, mappers: int = MAPPERS) -> Program:
    sink = spawn(Summer(n, finish))
    tells = [spawn(Mapper(sink)) for _ in range(mappers)]

    def kick() -> None:
        for i in range(n):
            tells[i % mappers](i)

    return kick, crunched(n), n


def cpu_map_one(spawn: Spawn, n: int, finish: Tell) -> Program:
    return cpu_map(spawn, n, finish, 1)


PROGRAMS: dict[str, Callable[[Spawn, int, Tell], Program]] = {
    "counting": counting,
    "fan-in": fan_in,
    "ping-pong": ping_pong,
    "ping-pong-across": ping_pong,
    "ring": ring,
    "ring-across": ring,
    "fork-join": fork_join,
    "fork-join-create": fork_join_create,
    "big": big,
    "chameneos": chameneos,
    "sieve": sieve,
    "cpu-map-one": cpu_map_one,
    "cpu-map": cpu_map,
    "many": many,
}
