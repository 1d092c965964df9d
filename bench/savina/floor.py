"""What no message can be cheaper than: append, popleft and a method call, in one thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any

from savina.common import expect, result


class Empty:
    def handle(self, message: int) -> None:
        pass


class Counting:
    def __init__(self) -> None:
        self.total = 0

    def handle(self, message: int) -> None:
        self.total += message


def one(handle: Callable[[int], None], n: int) -> float:
    queue: deque[int] = deque()
    append, popleft = queue.append, queue.popleft
    began = perf_counter()
    for _ in range(n):
        append(1)
        handle(popleft())
    return perf_counter() - began


def floor(n: int) -> dict[str, Any]:
    counter = Counting()
    seconds = one(Empty().handle, n)
    counting = one(counter.handle, n)
    expect(counter.total, n)
    return result(seconds, n, counting=counting / n)


def with_second_thread() -> None:
    """A free-threaded interpreter gives up some shortcuts for good once a thread has started, and
    an actor runtime always has threads."""
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()


WORKLOADS = {"floor": floor}
