"""ThreadPoolExecutor: a queue for each actor, and one call in the pool that empties it."""

from __future__ import annotations

import gc
import queue
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

from savina.common import ACCOUNTS, PATIENCE, TELLERS, cores, expect, result
from savina.kits import Kit, Run, blocking_bank, timers_of_threads
from savina.latency import half_load
from savina.peers import Tell

BUDGET = 64  # messages that an actor may handle before others come


class Executor(Kit):
    """Where a message is a call of its own, a lock has to keep an actor's calls apart; they block
    threads of the pool, lose their order, and each pays for a place in the pool's queue. This is
    how people do it who need many messages: it took a tenth of the time."""

    def __init__(self, threads: int = 0) -> None:
        self._pool = ThreadPoolExecutor(threads or cores())

    def spawn(self, behaviour: Any) -> Tell:
        return Strand(behaviour.receive, self._pool.submit).tell

    def close(self) -> None:
        """When nobody is busy any more, if that comes soon: then what came too much has been
        handled, too. To keep a list of the actors would be work that nobody else has."""
        give_up = perf_counter() + 5
        while any(isinstance(one, Strand) and one.busy for one in gc.get_objects()):
            if perf_counter() > give_up:  # one that raised
                break
            time.sleep(0.001)
        self._pool.shutdown()

    def measure(self, program: Any, n: int) -> dict[str, Any]:
        if program.__name__ == "cpu_map_one":
            self._pool.shutdown()
            self._pool = ThreadPoolExecutor(1)
        return super().measure(program, n)

    def ask(self, tell: Tell, message: Any) -> Any:
        reply: queue.SimpleQueue[Any] = queue.SimpleQueue()
        tell((message, reply.put))
        return reply.get()

    def extras(self) -> dict[str, Run]:
        return {
            "ask-reply": self._ask_reply,
            "ask-reply-await": self._ask_reply,
            "bank": self._bank,
            "latency": self._latency,
            "timers": lambda n: timers_of_threads(self, n),
        }

    def _ask_reply(self, n: int) -> dict[str, Any]:
        """Without any actor: what a user of an executor would write."""

        def asker() -> int:
            return sum(self._pool.submit(int, 1).result() for _ in range(n))

        if cores() == 1:
            self._pool._max_workers = 2  # or it would wait for itself
        began = perf_counter()
        expect(self._pool.submit(asker).result(PATIENCE), n)
        seconds = perf_counter() - began
        self.close()
        return result(seconds, n)

    def _bank(self, n: int) -> dict[str, Any]:
        """Whoever waits for an answer holds a thread of the pool: there has to be one for each."""
        self.close()
        return blocking_bank(Executor(TELLERS + 2 * ACCOUNTS))(n)

    def _latency(self, n: int) -> dict[str, Any]:
        try:
            return half_load(n, lambda done: self._pool.submit(int, 1).add_done_callback(done))
        finally:
            self.close()


class Strand:
    """One actor. `_busy` says that a call that empties the mailbox is on its way or running; who
    sets it sees to it that there is one. Who clears it looks at the mailbox once more, since a
    message may have come that relied on it."""

    __slots__ = ("_busy", "_lock", "_mailbox", "_receive", "_submit")

    def __init__(self, receive: Tell, submit: Any) -> None:
        self._receive, self._submit = receive, submit
        self._mailbox: deque[Any] = deque()
        self._lock, self._busy = threading.Lock(), False

    def tell(self, message: Any) -> None:
        self._mailbox.append(message)
        if not self._busy and self._begin():
            self._submit(self._empty)

    @property
    def busy(self) -> bool:
        """Whether it handles something, or will soon."""
        return self._busy

    def _begin(self) -> bool:
        with self._lock:
            first, self._busy = not self._busy, True
        return first

    def _empty(self) -> None:
        popleft, receive = self._mailbox.popleft, self._receive
        for _ in range(BUDGET):
            try:
                message = popleft()
            except IndexError:
                self._busy = False
                if not self._mailbox or not self._begin():
                    return
            else:
                receive(message)
        self._submit(self._empty)
