"""`async def` handlers on stacks, without an event loop: what they can await.

That is: the future of `address.ask(...)`, `sleep`, `gather`, `first_of`, and any coroutine that
awaits these. How a coroutine and its stack go together is in coroutine.py.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, Self

from otavia_ft.context import running_stack
from otavia_ft.doors import me
from otavia_ft.message import TimeoutReply
from otavia_ft.stack.coroutine import CoroutineState, checked_reply
from otavia_ft.stack.promise import MessagePromise, Promise

__all__ = ["CoroutineState", "checked_reply", "first_of", "gather", "sleep"]


class gather:  # noqa: N801  # used like a function, as in asyncio
    """Wait for all; gives the list of answers. The first failure is raised at once.

    `ready` is called for every answer that comes, so it looks at that one alone: at the newest in
    the stack's chain of completed promises. To look at all of them would be quadratic.
    """

    __slots__ = ("_awaited", "_done", "_futures")

    def __init__(self, *futures: Promise[Any]) -> None:
        self._futures = _checked("gather", futures)
        self._awaited = frozenset(map(id, futures))
        self._done = 0  # so many of the futures, from the first one on, have come

    def ready(self) -> bool:
        futures = self._futures
        while self._done < len(futures) and futures[self._done].is_done:
            self._done += 1
        if self._done == len(futures):
            return True
        newest = _newest(futures[self._done])
        return newest is not None and newest.is_failed and id(newest) in self._awaited

    def promises(self) -> tuple[Promise[Any], ...]:
        return self._futures

    def __await__(self) -> Generator[Self, None, list[Any]]:
        if not (self.ready() or any(future.is_failed for future in self._futures)):
            yield self
        future: Promise[Any] | None = None
        try:
            for future in self._futures:
                if future.is_failed:
                    future.get_now()
            return [each.get_now() for each in self._futures]
        finally:
            del self, future  # see promise.py


class first_of:  # noqa: N801  # as above
    """Wait for the first that comes; gives `(index, answer)`, or raises if that one failed."""

    __slots__ = ("_awaited", "_futures")

    def __init__(self, *futures: Promise[Any]) -> None:
        self._futures = _checked("first_of", futures)
        self._awaited = frozenset(map(id, futures))
        if not futures:
            raise ValueError("first_of() of nothing would wait for ever")

    def ready(self) -> bool:  # called for every answer, as gather's
        newest = _newest(self._futures[0])
        return newest is not None and id(newest) in self._awaited

    def promises(self) -> tuple[Promise[Any], ...]:
        return self._futures

    def __await__(self) -> Generator[Self, None, tuple[int, Any]]:
        if not any(future.is_done for future in self._futures):
            yield self
        try:
            index = next(i for i, f in enumerate(self._futures) if f.is_done)
            return index, self._futures[index].get_now()
        finally:
            del self  # see promise.py


def _newest(future: Promise[Any]) -> Promise[Any] | None:
    """The promise that has come last to the stack that waits for this one."""
    return None if future.stack is None else future.stack.completed_tail


def _checked(name: str, futures: tuple[Any, ...]) -> tuple[Promise[Any], ...]:
    for future in futures:
        if not isinstance(future, Promise):
            if hasattr(future, "close"):
                future.close()  # a coroutine that nobody will await: do not warn about it as well
            raise TypeError(
                f"{name}() takes futures, such as address.ask(...) or sleep(...), not {future!r}"
            )
    return futures


def sleep(seconds: float) -> MessagePromise[Any]:
    """Suspend this message's execution for a while; the actor goes on with others."""
    if not 0 <= seconds < math.inf:
        raise ValueError(f"cannot sleep for {seconds!r} seconds: give a finite number from 0 up")
    stack = running_stack("sleep()")
    promise: MessagePromise[Any] = me().new_promise()
    if seconds == 0:
        promise.set_success(TimeoutReply)
        return promise
    stack.house.attach_sleep(stack, promise, seconds)
    return promise
