"""Where the time of one message goes, step by step.

Whole things are measured through the public face, on one thread, in the lane that runs, as that
thread's processor time:
  send      address.notice(message) to an actor that is awake already: into the mailbox, no more
  receive   a turn over a full mailbox: take each message out and call a handler that does nothing
  pass on   the same, but the handler passes a token to an actor that is awake already
  hop       the same handler passes the token to an actor that waits: send, make ready, queue, run,
            receive, wait again
  ready     notices to many actors that wait, less the same notices to the same actors, which are
            awake by then: make ready and queue
A hop and a "pass on" have the same handler and differ in nothing but the receiver's sleep, so what
a hop costs more is the price of a turn (the median of the rounds' differences). What of that is not
"ready" is the runner's: take from the queue, run, wait again. Below them stand parts, timed back to
back in a loop, which the processor likes better than real life. Those of the house are calls of the
Python lane: the native lane does the same steps without them, so they can be dearer than its whole
turn.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import alternate, arguments, finish, table

from otavia_ft import ActorSystem, StateActor, on
from otavia_ft.atomic import AtomicInt, HouseCell
from otavia_ft.lane import NATIVE_LANE

UNROLLED, RING, CROWD = 20, 10, 100
PATIENCE = 60

Contender = Callable[[], float]


# ---- whole things


class Fill:
    """Send yourself so many messages, and handle them in this turn."""

    def __init__(self, n: int) -> None:
        self.n = n


class Begin(Fill):
    """Send the next one so many."""


class Sink(StateActor):
    """`began`, and what goes into `over`, are the worker's processor time."""

    def __init__(self, over: queue.SimpleQueue[float]) -> None:
        self.over, self.next, self.me = over, None, None
        self.sent_since = self.began = 0.0

    @on(Fill)
    def fill(self, fill: Fill) -> None:
        self.sent_since = thread_time()
        for number in range(fill.n, -1, -1):
            self.me.notice(number)
        self.began = thread_time()

    @on(int)
    def handle(self, token: int) -> None:
        if not token:
            self.over.put(thread_time())


class Node(Sink):
    @on(Begin)
    def begin(self, begin: Begin) -> None:
        self.began = thread_time()
        self.next.notice(begin.n)

    @on(int)
    def handle(self, token: int) -> None:
        if token:
            self.next.notice(token - 1)
        else:
            self.over.put(thread_time())


def filled(kind: type[Sink], n: int) -> tuple[float, float]:
    """Nanoseconds of filling an actor's mailbox, and of its one turn over all of it."""
    over: queue.SimpleQueue[float] = queue.SimpleQueue()
    first, other = kind(over), Sink(queue.SimpleQueue())
    with ActorSystem(workers=1, throughput_budget=n + 2) as system:
        first.me = system.build_actor(lambda: first)
        first.next = system.build_actor(lambda: other)
        first.me.notice(Fill(n))
        ended = over.get(timeout=PATIENCE)
        first.me = first.next = None
    return (first.began - first.sent_since) * 1e9 / n, (ended - first.began) * 1e9 / n


def hop(n: int) -> float:
    """Nanoseconds of a hop in a ring of actors that sleep until the token comes."""
    over: queue.SimpleQueue[float] = queue.SimpleQueue()
    nodes = [Node(over) for _ in range(RING)]
    with ActorSystem(workers=1) as system:
        addresses = [system.build_actor(lambda node=node: node) for node in nodes]
        for i, node in enumerate(nodes):
            node.next = addresses[(i + 1) % RING]
        addresses[0].notice(Begin(n))
        seconds = over.get(timeout=PATIENCE) - nodes[0].began
        for node in nodes:
            node.next = None
    return seconds * 1e9 / n


class Crowd(StateActor):
    """Sends to all that wait, and to all once more: now they are awake."""

    def __init__(self, over: queue.SimpleQueue[float]) -> None:
        self.over, self.relay = over, None
        self.notices: list[Callable[[int], None]] = []
        self.extra = 0.0

    @on(int)
    def again(self, rounds: int) -> None:
        began = thread_time()
        for notice in self.notices:
            notice(1)
        woken = thread_time()
        for notice in self.notices:
            notice(1)
        self.extra += (woken - began) - (thread_time() - woken)
        if rounds > 1:
            self.relay.notice(rounds)  # queued behind all of them, so they wait again by then
        else:
            self.over.put(self.extra)


def ready(n: int) -> float:
    """Nanoseconds that a notice costs more if its receiver waits."""
    over: queue.SimpleQueue[float] = queue.SimpleQueue()
    crowd, relay = Crowd(over), Node(over)
    with ActorSystem(workers=1) as system:
        relay.next = system.build_actor(lambda: crowd)
        crowd.relay = system.build_actor(lambda: relay)
        others = [system.build_actor(Sink, over) for _ in range(CROWD)]
        crowd.notices = [address.notice for address in others]
        rounds = max(1, n // CROWD)
        relay.next.notice(rounds)
        extra = over.get(timeout=PATIENCE)
        crowd.relay, crowd.notices, relay.next = None, [], None
    return extra * 1e9 / (rounds * CROWD)


# ---- parts: a setup and a statement, and how many of it make one step


class Handler:
    def __init__(self) -> None:
        self.left = 0

    def handle(self, number: int) -> None:
        pass

    def count(self, number: int) -> None:
        self.left -= 1


WAITING_HOUSE = "c = HouseCell(); c.begin_mount(); c.end_mount()"
PARTS = {
    "the loop itself": ("pass", "pass"),
    "call a method": ("f = Handler().handle", "f(1)"),
    "call a method that counts": ("f = Handler().count", "f(1)"),
    "append and popleft": ("q = deque(); a = q.append; p = q.popleft", "a(1); p()"),
    "the floor: append, popleft, call": (
        "q = deque(); a = q.append; p = q.popleft; f = Handler().handle", "a(1); f(p())",
    ),
    "look up an attribute": ("o = Handler()", "o.left"),
    "Python lane: post to a mailbox and take out": (
        WAITING_HOUSE, "c.post_notice(1); c.take(4, 0)",
    ),
    "Python lane: four state transitions": (
        WAITING_HOUSE, "c.try_ready(); c.try_schedule(); c.try_run(); c.run_to_waiting()",
    ),
    "one atomic read": ("c = AtomicInt()", "c.load()"),
    "one atomic read-modify-write": ("c = AtomicInt()", "c.get_and_add(1)"),
}  # fmt: skip
SCOPE = {"AtomicInt": AtomicInt, "HouseCell": HouseCell, "Handler": Handler, "deque": deque}


def part(setup: str, statement: str, n: int) -> Contender:
    """Nanoseconds of the statement, written out often enough to make the loop negligible."""
    body = "\n".join(f"        {statement}" for _ in range(UNROLLED))
    scope = dict(SCOPE)
    source = f"def run(n):\n    {setup}\n    for _ in range(n):\n{body}\n"
    exec(source, scope)
    run: Any = scope["run"]

    def contender() -> float:
        began = thread_time()
        run(n // UNROLLED)
        return (thread_time() - began) * 1e9 / (n // UNROLLED * UNROLLED)

    return contender


def figures(rounds: int, n: int) -> dict[str, list[float]]:
    pairs: list[tuple[float, float]] = []

    def send() -> float:
        pairs.append(filled(Sink, n))
        return pairs[-1][0]

    contenders: dict[str, Contender] = {
        "send": send,
        "receive": lambda: pairs[-1][1],
        "pass on": lambda: filled(Node, n)[1],
        "hop": lambda: hop(n),
        "ready": lambda: ready(n),
    }
    for name, (setup, statement) in PARTS.items():
        contenders[name] = part(setup, statement, n)
    return alternate(contenders, rounds)


def rows(runs: dict[str, list[float]]) -> list[list[str]]:
    """(step, nanoseconds, times the floor)"""
    cost = {name: median(values) for name, values in runs.items()}
    floor = cost["the floor: append, popleft, call"]
    turn = median(hop - awake for hop, awake in zip(runs["hop"], runs["pass on"], strict=True))
    whole = {
        "the floor: append, popleft, call": floor,
        "send: a notice to an awake actor": cost["send"],
        "receive: take it out, call the handler": cost["receive"],
        "receive it and pass it on to an awake actor": cost["pass on"],
        "a hop: the same to a waiting actor": cost["hop"],
        "... of that, the turn": turn,
        "... of the turn, make ready and queue": cost["ready"],
        "... of the turn, take from the queue, run, wait again": turn - cost["ready"],
    }
    parts = {name: cost[name] for name in PARTS if name not in whole}
    return [
        [name, f"{value:.0f}", f"{value / floor:.1f}"] for name, value in (whole | parts).items()
    ]


def measured(rounds: int, quick: bool) -> list[list[str]]:
    """The rows, from a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "steps.json")
        command = [sys.executable, __file__, "--rounds", str(rounds), "--json", str(file)]
        subprocess.run(
            [*command, *(["--quick"] if quick else [])], check=True, stdout=subprocess.DEVNULL
        )
        return rows(json.loads(file.read_text())["runs"])


COLUMNS = ["step", "ns", "times the floor"]


def main() -> None:
    options = arguments("Where the time of one message goes.", rounds=9)
    runs = figures(options.rounds, 5_000 if options.quick else 100_000)
    lane = "native" if NATIVE_LANE else "Python"
    table(f"Where the time of one message goes ({lane} lane)", COLUMNS, rows(runs))
    finish(options, runs)


if __name__ == "__main__":
    main()
