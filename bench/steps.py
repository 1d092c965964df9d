"""Where the time of one message goes, step by step.

Three whole things are measured through the public face, on one thread at a time:
  send      address.notice(message) to an actor that is awake already: into the mailbox, no more
  receive   a turn over a full mailbox: take each message out and call the handler
  hop       an actor passes one token to the next: send, make ready, queue, run, receive, wait again
What a hop costs beyond its send and its receive is the price of a turn. Then the parts of a turn
are measured on their own, so that the reader sees what it is made of. Parts are timed back to back
in a loop, which the processor likes better than real life: they add up to less than the whole.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import alternate, arguments, finish, table

from otavia_ft import ActorSystem, StateActor, on
from otavia_ft.atomic import AtomicInt, HouseCell

UNROLLED, RING = 20, 10
PATIENCE = 60

Contender = Callable[[], float]


# ---- whole things


class Sink(StateActor):
    """Holds its thread until the gate opens, then handles what has come meanwhile."""

    def __init__(self, gate: threading.Event, over: threading.Event, messages: int) -> None:
        self.gate, self.over, self.left = gate, over, messages
        self.began = self.ended = 0.0

    @on(int)
    def handle(self, number: int) -> None:
        self.left -= 1
        if not self.left:
            self.ended = perf_counter()
            self.over.set()

    @on(type(None))
    def wait(self, nothing: None) -> None:
        self.gate.wait()
        self.began = perf_counter()


def send_and_receive(n: int) -> tuple[float, float]:
    """Nanoseconds of a notice to an awake actor; and of taking it out and handling it."""
    gate, over = threading.Event(), threading.Event()
    sink = Sink(gate, over, n)
    with ActorSystem(workers=1, throughput_budget=1000) as system:
        address = system.build_actor(lambda: sink)
        address.notice(None)
        notice = address.notice
        began = perf_counter()
        for _ in range(n):
            notice(1)
        sent = perf_counter() - began
        gate.set()
        if not over.wait(PATIENCE):
            raise TimeoutError("the messages were not handled")
    return sent * 1e9 / n, (sink.ended - sink.began) * 1e9 / n


class Node(StateActor):
    def __init__(self, over: threading.Event) -> None:
        self.over, self.next = over, None

    @on(int)
    def hop(self, token: int) -> None:
        if token:
            self.next.notice(token - 1)
        else:
            self.over.set()


def hop(n: int) -> float:
    """Nanoseconds of a hop in a ring of actors that sleep until the token comes."""
    over = threading.Event()
    nodes = [Node(over) for _ in range(RING)]
    with ActorSystem(workers=1) as system:
        addresses = [system.build_actor(lambda node=node: node) for node in nodes]
        for i, node in enumerate(nodes):
            node.next = addresses[(i + 1) % RING]
        began = perf_counter()
        addresses[0].notice(n)
        if not over.wait(PATIENCE):
            raise TimeoutError("the token got lost")
        seconds = perf_counter() - began
        for node in nodes:
            node.next = None
    return seconds * 1e9 / n


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
    "post to a mailbox and take out": (WAITING_HOUSE, "c.post_notice(1); c.take(4, 0)"),
    "four state transitions": (
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
        began = perf_counter()
        run(n // UNROLLED)
        return (perf_counter() - began) * 1e9 / (n // UNROLLED * UNROLLED)

    return contender


def figures(rounds: int, n: int) -> dict[str, list[float]]:
    pairs: list[tuple[float, float]] = []

    def send() -> float:
        pairs.append(send_and_receive(n))
        return pairs[-1][0]

    contenders: dict[str, Contender] = {
        "send": send,
        "receive": lambda: pairs[-1][1],
        "hop": lambda: hop(n),
    }
    for name, (setup, statement) in PARTS.items():
        contenders[name] = part(setup, statement, n)
    return alternate(contenders, rounds)


def rows(runs: dict[str, list[float]]) -> list[list[str]]:
    """(step, nanoseconds, times the floor)"""
    cost = {name: median(values) for name, values in runs.items()}
    floor = cost["the floor: append, popleft, call"]
    whole = {
        "the floor: append, popleft, call": floor,
        "send: a notice to an awake actor": cost["send"],
        "receive: take it out, call the handler": cost["receive"],
        "a hop to a waiting actor": cost["hop"],
        "... of that, the turn (neither send nor receive)": cost["hop"]
        - cost["send"]
        - cost["receive"],
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
    table("Where the time of one message goes", COLUMNS, rows(runs))
    finish(options, runs)


if __name__ == "__main__":
    main()
