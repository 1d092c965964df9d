"""The workloads as actors of this package, in its everyday style."""

from __future__ import annotations

import gc
import queue
import time
from collections.abc import Callable
from time import perf_counter
from typing import Any

from otavia_ft import ActorSystem, Ask, FutureState, StackState, StateActor, on
from savina.common import (
    FORKS,
    PATIENCE,
    PRODUCERS,
    RING,
    RING_END,
    cores,
    expect,
    resident_bytes,
    result,
    ring_hops,
)

dispatcher = "pinned"  # the child sets it before the first run


class Go:
    """Begin."""

    __slots__ = ("n",)

    def __init__(self, n: int) -> None:
        self.n = n


def dispatcher_of() -> str:
    return dispatcher


def system(workers: int = 0) -> ActorSystem:
    return ActorSystem(workers=workers, dispatcher=dispatcher)


class Box:
    """Where a workload leaves its result for the thread outside."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.put = self._queue.put

    def get(self) -> Any:
        return self._queue.get(timeout=PATIENCE)

    def expect_no_more(self) -> None:
        """What ended once did not end twice."""
        expect(self._queue.qsize(), 0)


def timed(kick: Callable[[], object], box: Box) -> tuple[float, Any]:
    began = perf_counter()
    kick()
    value = box.get()
    return perf_counter() - began, value


# ---- counting, fan-in


class Counter(StateActor):
    """Counts down: the number to compare with would be a counted object of another thread's. The
    result is a function, to be called when all is over: more may come than was wanted."""

    def __init__(self, wanted: int, box: Box) -> None:
        self.left, self.wanted, self.box = wanted, wanted, box

    @on(int)
    def add(self, number: int) -> None:
        self.left = left = self.left - number
        if not left:
            self.box.put(self.total)

    def total(self) -> int:
        return self.wanted - self.left


class Producer(StateActor):
    def __init__(self, target: Any) -> None:
        self.target = target

    @on(Go)
    def go(self, go: Go) -> None:
        notice = self.target.notice
        for _ in range(go.n):
            notice(1)


def counting(n: int, producers: int = 1) -> dict[str, Any]:
    box = Box()
    with system() as actors:
        counter = actors.build_actor(Counter, n, box)
        sources = [actors.build_actor(Producer, counter) for _ in range(producers)]

        def kick() -> None:
            for source in sources:
                source.notice(Go(n // producers))

        seconds, total = timed(kick, box)
    expect(total(), n)
    return result(seconds, n)


def fan_in(n: int) -> dict[str, Any]:
    return counting(n - n % PRODUCERS, PRODUCERS)


# ---- ping-pong, ring


class Player(StateActor):
    """A ball is the number of round trips that are left, and has to be the one that was thrown."""

    def __init__(self, n: int, box: Box) -> None:
        self.box, self.left, self.peer = box, n, None

    @on(int)
    def back(self, ball: int) -> None:
        if ball == self.left and ball:
            self.left = left = ball - 1
            self.peer.notice(left)
        else:
            self.box.put((ball, self.left))


class Wall(StateActor):
    def __init__(self, peer: Any) -> None:
        self.peer = peer

    @on(int)
    def back(self, ball: int) -> None:
        self.peer.notice(ball)


def ping_pong(n: int, workers: int = 1) -> dict[str, Any]:
    box = Box()
    player = Player(n, box)
    with system(workers) as actors:
        address = actors.build_actor(lambda: player)
        player.peer = actors.build_actor(Wall, address)
        seconds, value = timed(lambda: address.notice(n), box)
        player.peer = None
    expect(value, (0, 0))
    box.expect_no_more()
    return result(seconds, n)


class Node(StateActor):
    """A token is the number of hops that are left; a result is the node where its way ended."""

    def __init__(self, index: int, box: Box) -> None:
        self.box, self.index, self.next = box, index, None

    @on(int)
    def pass_on(self, token: int) -> None:
        if token:
            self.next.notice(token - 1)
        else:
            self.box.put(self.index)


def ring(n: int, workers: int = 1) -> dict[str, Any]:
    box, hops = Box(), ring_hops(n)
    nodes = [Node(i, box) for i in range(RING)]
    with system(workers) as actors:
        addresses = [actors.build_actor(lambda node=node: node) for node in nodes]
        for i, node in enumerate(nodes):
            node.next = addresses[(i + 1) % RING]
        seconds, value = timed(lambda: addresses[0].notice(hops), box)
        for node in nodes:
            node.next = None
    expect(value, RING_END)
    box.expect_no_more()
    return result(seconds, hops)


# ---- ask-reply


class Get(Ask[int]):
    __slots__ = ()


class StackServer(StateActor):
    def resume_ask(self, stack: Any) -> Any:
        return stack.return_(1)


class StackAsker(StateActor):
    def __init__(self, server: Any, box: Box) -> None:
        self.server, self.box, self.left, self.total = server, box, 0, 0

    def resume_notice(self, stack: Any) -> Any:
        state = stack.state
        if state is StackState.START:
            self.left = stack.notice.n
        else:
            self.total += state.future.get_now()
            self.left -= 1
            if not self.left:
                self.box.put(self.total)
                return stack.return_()
        state = FutureState()
        self.server.ask(Get(), state.future)
        return stack.suspend(state)


class Server(StateActor):
    @on(Get)
    def get(self, message: Get) -> int:
        return 1


class Asker(StateActor):
    def __init__(self, server: Any, box: Box) -> None:
        self.server, self.box = server, box

    @on(Go)
    async def go(self, go: Go) -> None:
        total = 0
        for _ in range(go.n):
            total += await self.server.ask(Get())
        self.box.put(total)


def ask_reply(n: int, server: Any = StackServer, asker: Any = StackAsker) -> dict[str, Any]:
    box = Box()
    with system(1) as actors:
        source = actors.build_actor(asker, actors.build_actor(server), box)
        seconds, value = timed(lambda: source.notice(Go(n)), box)
    expect(value, n)
    return result(seconds, n)


# ---- fork-join


class Worker(StateActor):
    """Counts down, as the Counter does."""

    def __init__(self, share: int, sink: Any) -> None:
        self.left, self.share, self.sink = share, share, sink

    @on(int)
    def work(self, number: int) -> None:
        self.left = left = self.left - number
        if left <= 0:  # once, unless too much comes
            self.sink.notice(self.share)


class Fork(StateActor):
    def __init__(self, targets: list[Any]) -> None:
        self.targets = targets

    @on(Go)
    def go(self, go: Go) -> None:
        targets = self.targets
        for _ in range(go.n):
            for target in targets:
                target.notice(1)


def fork_join(n: int) -> dict[str, Any]:
    share = max(1, n // FORKS)
    box = Box()
    with system() as actors:
        sink = actors.build_actor(Counter, share * FORKS, box)
        workers = [actors.build_actor(Worker, share, sink) for _ in range(FORKS)]
        fork = actors.build_actor(Fork, workers)
        seconds, total = timed(lambda: fork.notice(Go(share)), box)
    expect(total(), share * FORKS)
    return result(seconds, share * FORKS)


def fork_join_create(n: int) -> dict[str, Any]:
    box = Box()
    with system() as actors:
        sink = actors.build_actor(Counter, n, box)

        def kick() -> None:
            for _ in range(n):
                actors.build_actor(Worker, 1, sink).notice(1)

        seconds, total = timed(kick, box)
    expect(total(), n)
    return result(seconds, n)


def many(n: int) -> dict[str, Any]:
    """`spawn` is the time until all are built and mounted; then each gets its message."""
    box = Box()
    with system() as actors:
        sink = actors.build_actor(Counter, n, box)
        kept: list[Any] = []
        before = resident_bytes()
        began = perf_counter()
        for _ in range(n):
            kept.append(actors.build_actor(Worker, 1, sink))
        while not actors.scheduler.quiet():
            time.sleep(0.001)
        spawned = perf_counter() - began

        def kick() -> None:
            for address in kept:
                address.notice(1)

        seconds, total = timed(kick, box)
        grown = resident_bytes() - before
        gc.freeze()  # the end of the process frees them; nothing has to look at each once more
    expect(total(), n)
    return result(spawned + seconds, n, bytes=grown / n, spawn=spawned)


WORKLOADS: dict[str, Callable[[int], dict[str, Any]]] = {
    "counting": counting,
    "fan-in": fan_in,
    "ping-pong": ping_pong,
    "ping-pong-across": lambda n: ping_pong(n, cores()),
    "ask-reply": ask_reply,
    "ask-reply-await": lambda n: ask_reply(n, Server, Asker),
    "ring": ring,
    "ring-across": lambda n: ring(n, cores()),
    "fork-join": fork_join,
    "fork-join-create": fork_join_create,
    "many": many,
    "crowd": many,
}
