"""Watch actors run in parallel: the same job on one worker and on all cores.

The job counts the solutions of the queens puzzle, in pure Python: no waiting, no C code that would
run in parallel anyway. Some openings of the board take far longer than others, so workers run out
of work at different times, and stealing shows.
"""

import argparse
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from otavia_ft import ActorAddress, ActorSystem, AtomicInt, Notice, StateActor, on

EXAMPLE = "otavia-ft demo --workers 4"

BOARD = 9
RELAYS, TOKENS, HOPS = 64, 16, 6_000
PATIENCE = 120.0
"""Seconds after which the demo gives up on a phase: many times what the slowest machine takes."""
LONGEST = PATIENCE / 4


@dataclass(frozen=True, slots=True)
class Opening(Notice):
    """Two queens placed: the attacked columns and diagonals as bit masks."""

    columns: int
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Found(Notice):
    solutions: int


@dataclass(frozen=True, slots=True)
class Token(Notice):
    hops_left: int


def count_solutions(columns: int, left: int, right: int) -> int:
    """Ways to fill the remaining rows of the board."""
    full = (1 << BOARD) - 1
    if columns == full:
        return 1
    solutions = 0
    free = full & ~(columns | left | right)
    while free:
        queen = free & -free
        free -= queen
        solutions += count_solutions(columns | queen, (left | queen) << 1, (right | queen) >> 1)
    return solutions


def openings() -> list[Opening]:
    """Every way to place the first two queens."""
    squares = [1 << column for column in range(BOARD)]
    return [
        Opening(first | second, (first << 1 | second) << 1, (first >> 1 | second) >> 1)
        for first in squares
        for second in squares
        if not second & (first | first << 1 | first >> 1)
    ]


class Watch:
    """What all actors of a phase report to. Touched once a message at most."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.done = AtomicInt()
        self.overlaps = AtomicInt()
        self.finished = threading.Event()

    def one_done(self) -> None:
        if self.done.get_and_add(1) + 1 == self.expected:
            self.finished.set()


class Guarded(StateActor):
    """An actor that notices if it ever runs on two threads at once.

    The flag is an atomic of its own, so the check does not depend on what it checks.
    """

    def __init__(self, watch: Watch) -> None:
        self.witness = watch
        self.occupied = AtomicInt()

    def enter(self) -> None:
        if self.occupied.get_and_set(1):
            self.witness.overlaps.get_and_add(1)

    def leave(self) -> None:
        self.occupied.set(0)


class Collector(Guarded):
    """Adds up what the searchers find."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.solutions = 0

    @on(Found)
    def add(self, found: Found) -> None:
        self.enter()
        self.solutions += found.solutions
        self.witness.one_done()
        self.leave()


class Searcher(Guarded):
    def __init__(self, watch: Watch, collector: ActorAddress) -> None:
        super().__init__(watch)
        self.collector = collector

    @on(Opening)
    def search(self, opening: Opening) -> None:
        self.enter()
        found = count_solutions(opening.columns, opening.left, opening.right)
        self.collector.notice(Found(found))
        self.leave()


class Relay(Guarded):
    """Hands tokens on round a ring, as an example of many small messages."""

    next: ActorAddress

    @on(Token)
    def hand_on(self, token: Token) -> None:
        self.enter()
        if token.hops_left:
            self.next.notice(Token(token.hops_left - 1))
        else:
            self.witness.one_done()
        self.leave()


@dataclass(frozen=True, slots=True)
class Outcome:
    seconds: float
    messages: int
    steals: int
    overlaps: int
    solutions: int = 0


class DemoFailed(Exception):
    """The demo's own end; the message says why."""


def follow(watch: Watch, show: Callable[[int], None]) -> None:
    """Show the progress until the phase is over."""
    deadline = time.monotonic() + PATIENCE
    while not watch.finished.wait(0.1):
        show(watch.done.load())
        if time.monotonic() > deadline:
            done = f"{watch.done.load()} of {watch.expected}"
            raise DemoFailed(f"stuck at {done} messages; please report this")
    show(watch.expected)


def outcome(system: ActorSystem, watch: Watch, started: float) -> Outcome:
    seconds = time.perf_counter() - started
    statistics = system.statistics()
    return Outcome(seconds, statistics.messages, statistics.steals, watch.overlaps.load())


def search(
    workers: int, rounds: int, show: Callable[[int], None], *, uneven: bool = False
) -> Outcome:
    """One searcher for every opening; each gets its opening `rounds` times.

    New actors are dealt to the workers in turn. For an uneven load every worker but the first is
    dealt bystanders, so that all searchers live on one worker and the others have to steal.
    """
    work = openings() * 2  # enough actors for a backlog that is worth stealing from
    rounds = max(1, rounds // 2)
    watch = Watch(len(work) * rounds)
    collector = Collector(watch)
    with ActorSystem("demo", workers=workers) as system:
        collecting = system.build_actor(lambda: collector)
        bystanders: list[ActorAddress] = []
        searchers = []
        for _ in work:
            searchers.append(system.build_actor(Searcher, watch, collecting))
            for _ in range(workers - 1 if uneven else 0):
                bystanders.append(system.build_actor(Searcher, watch, collecting))
        started = time.perf_counter()
        for _ in range(rounds):
            for searcher, opening in zip(searchers, work, strict=True):
                searcher.notice(opening)
        follow(watch, show)
        result = outcome(system, watch, started)
    # The system has stopped, so nobody writes to the collector any more.
    return replace(result, solutions=collector.solutions // rounds // 2)


def relay(workers: int, show: Callable[[int], None]) -> Outcome:
    watch = Watch(TOKENS)
    relays = [Relay(watch) for _ in range(RELAYS)]
    with ActorSystem("demo", workers=workers) as system:
        ring = [system.build_actor(lambda relay=relay: relay) for relay in relays]
        # Before the first token, so that no relay runs yet and the assignment is safe.
        for position, actor in enumerate(relays):
            actor.next = ring[(position + 1) % RELAYS]
        started = time.perf_counter()
        for token in range(TOKENS):
            ring[token * RELAYS // TOKENS].notice(Token(HOPS))
        follow(watch, show)
        return outcome(system, watch, started)


def rounds_for(seconds: float) -> int:
    """How often to repeat the job so that one core takes about this long."""
    started = time.perf_counter()
    count_solutions(0, 0, 0)
    return max(1, round(seconds / (time.perf_counter() - started)))


def at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of workers: 1 or more")
    return int(text)


def some_time(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: seconds above 0, {LONGEST:g} at most"
        )
    return seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    cores = os.process_cpu_count() or 1
    parser.add_argument(
        "--workers",
        type=at_least_one,
        default=cores,
        help="workers to compare with one (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=some_time,
        default=4.0,
        help="about how long one worker shall take (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    console = Console()
    workers = options.workers
    rounds = rounds_for(options.seconds)
    steps = len(openings()) * 2 * max(1, rounds // 2)
    progress = Progress(
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        refresh_per_second=5,  # the display needs a core too
    )
    try:
        with progress:

            def bar(text: str, total: int) -> Callable[[int], None]:
                task = progress.add_task(text, total=total)
                return lambda done: progress.update(task, completed=done)

            one = search(1, rounds, bar(f"{BOARD} queens, 1 worker", steps))
            all_cores = search(workers, rounds, bar(f"{BOARD} queens, {workers} workers", steps))
            uneven = search(
                workers, rounds, bar(f"uneven load, {workers} workers", steps), uneven=True
            )
            ring = relay(workers, bar("tokens round a ring", TOKENS))
    except DemoFailed as failure:
        console.print(f"The demo failed: {failure}", style="red")
        return 1
    return report(console, workers, one, all_cores, uneven, ring)


def report(
    console: Console,
    workers: int,
    one: Outcome,
    all_cores: Outcome,
    uneven: Outcome,
    ring: Outcome,
) -> int:
    phases = (one, all_cores, uneven, ring)
    handled = sum(phase.messages for phase in phases)
    overlaps = sum(phase.overlaps for phase in phases)
    table = Table.grid(padding=(0, 2))
    table.add_row("1 worker", f"{one.seconds:.2f} s")
    table.add_row(f"{workers} workers", f"{all_cores.seconds:.2f} s")
    table.add_row("speed-up", f"[bold green]{one.seconds / all_cores.seconds:.2f} times[/]")
    table.add_row(
        "all work on one worker",
        f"{uneven.seconds:.2f} s: {one.seconds / uneven.seconds:.2f} times, "
        f"with {uneven.steals:,} turns stolen by idle workers",
    )
    table.add_row("messages", f"{ring.messages / ring.seconds:,.0f} a second, round the ring")
    table.add_row("actor on two threads at once", f"{overlaps} times in {handled:,} messages")
    console.print()
    console.print(table)
    if sys._is_gil_enabled():
        console.print(
            "The GIL is on, so nothing ran in parallel: ./ft doctor says why.", style="yellow"
        )
    if overlaps or not one.solutions == all_cores.solutions == uneven.solutions:
        console.print(
            f"This is a bug: {overlaps} overlaps, {one.solutions}, {all_cores.solutions} and "
            f"{uneven.solutions} solutions. Please report it.",
            style="red",
        )
        return 1
    return 0
