"""Growth: does a message cost more, the more actors have work or the more messages wait?

All sizes are alive at once in one process, each in a system with one worker. They take turns, up
and down, window by window; all but one of the workers stand still. A figure is the worker's
processor time for each message, so what others do on the machine does not count, and a size's
figure is the median of its windows. Every message is one that an actor sends itself again, in all
sizes with the same few lines; there are no other messages, nobody counts, and what a window's
mailboxes hold was allocated by the worker that empties them.

Each system first handles as many messages as make a whole round through its actors. A window of a
large size is shorter than such a round, and goes on where the last one stopped: whatever it
touches has left the caches long ago. At the end all mailboxes are emptied, and what was in them is
counted: nothing was lost, and nothing doubled.
"""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from otavia_ft import ActorSystem, StateActor, on
from savina.common import PATIENCE, expect, result
from savina.otavia import dispatcher_of

WINDOWS = 9  # of each size
WINDOW_S = 0.4  # at most: a million messages and more

open_size = 0  # the number of the one size whose worker may run; 0: none
sizes: dict[int, Size] = {}


class Fill:
    """So many messages are to wait from now on."""

    __slots__ = ("messages", "number")

    def __init__(self, number: int, messages: int) -> None:
        self.number, self.messages = number, messages


class Again(StateActor):
    def __init__(self) -> None:
        self.me: Any = None

    @on(str)
    def warm(self, nothing: str) -> None:
        """From now on its house is of the same priority as all others, and knows its handlers."""

    @on(Fill)
    def fill(self, fill: Fill) -> None:
        for _ in range(fill.messages):
            self.me.notice(fill.number)

    @on(int)
    def again(self, number: int) -> None:
        if number != open_size and sizes[number].ends():  # a small number: nobody counts its users
            return
        self.me.notice(number)


class Size:
    """A system that holds so much work, and stands still but for its windows."""

    def __init__(self, number: int, actors: int, queued: int, order: str, **settings: Any) -> None:
        self.number = number
        self.left, self._over = actors * queued, False  # at the end: messages not yet seen again
        self._stopped, self._go = threading.Semaphore(0), threading.Semaphore(0)
        self._system = ActorSystem(
            workers=1, dispatcher=dispatcher_of(), stealing=False, memory_monitor=False, **settings
        )
        # Messages until each actor had its turn, and each message that waits has been handled.
        self.round = actors * max(queued, self._system.config.throughput_budget)
        self._actors = [Again() for _ in range(actors)]
        for actor in self._actors:
            actor.me = self._system.build_actor(lambda actor=actor: actor)
        self._until_quiet()
        for actor in self._actors:
            actor.me.notice("")
        self._until_quiet()
        sizes[number] = self
        if order == "random":
            random.Random(actors).shuffle(self._actors)
        for actor in self._actors:  # the first one stops the worker until all have theirs
            actor.me.notice(Fill(number, queued))
        expect(self._stopped.acquire(timeout=PATIENCE), True)

    def ends(self) -> bool:
        """In the worker: its window is over. Wait for the next; or was it the last?"""
        if not self._over:
            self._cpu = time.thread_time_ns()
            self._stopped.release()
            self._go.acquire()
        if self._over:
            self.left -= 1
        return self._over

    def window(self, seconds: float, messages: int = 1) -> float:
        """Processor time of one message in a window of so long, and of so many at least; in ns."""
        global open_size
        spent, handled = self._cpu, self._handled()
        open_size = self.number
        self._go.release()
        time.sleep(seconds)
        give_up = time.perf_counter() + PATIENCE
        while self._handled() - handled < messages:
            expect(time.perf_counter() < give_up, True)
            time.sleep(0.001)
        open_size = 0
        expect(self._stopped.acquire(timeout=PATIENCE), True)
        return (self._cpu - spent) / (self._handled() - handled)

    def close(self) -> None:
        """All mailboxes run empty: there was as much in them as at the beginning."""
        self._over = True
        self._go.release()
        self._until_quiet()
        expect(self.left, 0)
        for actor in self._actors:
            actor.me = None
        del sizes[self.number]
        gc.freeze()  # the end of the process frees them; nothing has to look at each once more
        self._system.stop()

    def _handled(self) -> int:
        """Up to a turn less than really: a turn is counted when it ends."""
        return self._system.statistics().messages

    def _until_quiet(self) -> None:
        give_up = time.perf_counter() + PATIENCE
        while not self._system.scheduler.quiet():
            expect(time.perf_counter() < give_up, True)
            time.sleep(0.001)


def growth(wanted: list[int], make: Callable[[int, int], Size]) -> dict[str, Any]:
    """`make(number, size)`; a curve of seconds a message, by size."""
    alive = {size: make(number, size) for number, size in enumerate(wanted, 1)}
    gc.collect()
    gc.freeze()  # no collection looks at a million actors within a window
    seconds = min(WINDOW_S, wanted[-1] * 1e-5)
    for one in alive.values():
        one.window(0, one.round)
    windows: dict[str, list[float]] = {str(size): [] for size in wanted}
    for turn in range(WINDOWS):
        for size in reversed(wanted) if turn % 2 else wanted:
            windows[str(size)].append(alive[size].window(seconds))
    for one in alive.values():
        one.close()
    curve = {size: median(costs) * 1e-9 for size, costs in windows.items()}
    return result(curve[str(wanted[-1])], 1, curve=curve, windows=windows)


def powers(first: int, last: int) -> list[int]:
    wanted = [first]
    while wanted[-1] * 10 < last:
        wanted.append(wanted[-1] * 10)
    return [*wanted, last]


def actors(n: int, order: str = "as built", **settings: Any) -> dict[str, Any]:
    """So many actors, each with one message that it sends itself again."""
    return growth(powers(10, n), lambda number, size: Size(number, size, 1, order, **settings))


def queue(n: int) -> dict[str, Any]:
    """One actor that has so many messages, and sends itself each of them again."""
    return growth(powers(1, n), lambda number, size: Size(number, 1, size, "as built"))


WORKLOADS: dict[str, Callable[[int], dict[str, Any]]] = {
    "growth-actors": lambda n: actors(n, "random"),
    "growth-in-order": actors,
    "growth-worst": lambda n: actors(n, "random", throughput_budget=1),
    "growth-queue": queue,
}
