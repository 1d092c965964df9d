"""`async def` handlers on stacks, without an event loop.

A coroutine runs until it awaits something that has not come. What it awaits yields itself up to
`Coroutine.advance`, which suspends the stack on the coroutine as its state; the promises were
linked to the stack when they were made. When they have come, the stack is resumed like any other,
and so is the coroutine. Barrier, priority, timeouts and tracing therefore mean the same in both
styles.

What can be awaited: the future of `address.ask(...)`, `sleep`, `gather`, `first_of`, and any
coroutine that awaits these.
"""

from __future__ import annotations

import math
from collections.abc import Coroutine as PyCoroutine
from collections.abc import Generator
from typing import Any, Protocol, Self

from otavia_ft.context import running_stack
from otavia_ft.errors import AskCancelled, StackError
from otavia_ft.lane import CoroutineBase
from otavia_ft.message import TimeoutReply
from otavia_ft.stack.promise import MessagePromise, Promise
from otavia_ft.stack.stack import Stack
from otavia_ft.stack.state import StackState, StackYield

__all__ = ["CoroutineState", "checked_reply", "first_of", "gather", "sleep"]


class Awaited(Protocol):
    """What may reach the driver through `await`."""

    def ready(self) -> bool: ...
    def promises(self) -> tuple[Promise[Any], ...]: ...


class CoroutineState(CoroutineBase, StackState):
    """A suspended coroutine as the state of its stack."""

    __slots__ = ()

    coroutine: PyCoroutine[Any, None, Any]
    awaited: Awaited | None

    def __init__(self, coroutine: PyCoroutine[Any, None, Any]) -> None:
        self.coroutine = coroutine
        self.awaited = None

    def resumable(self) -> bool:
        return self.awaited is None or self.awaited.ready()

    def advance(self, stack: Stack) -> StackYield:
        """Run the coroutine until it awaits something that is not there, or ends."""
        try:
            awaited = self.coroutine.send(None)
        except StopIteration as end:
            return stack.return_(*_result(stack, end.value))
        return self.wait_for(stack, awaited)

    def wait_for(self, stack: Stack, awaited: Any) -> StackYield:
        """Suspend on what the coroutine awaits; tell it what it cannot await."""
        try:
            while (refusal := _refusal(awaited, stack)) is not None:
                awaited = self.coroutine.throw(refusal)
        except StopIteration as end:
            return stack.return_(*_result(stack, end.value))
        self.awaited = awaited
        stack.drop_completed()  # the state stays the same, and what has come is in the coroutine
        return stack.suspend(self)

    def cancel(self) -> None:
        """End the coroutine where it stands; its `finally` blocks run, awaiting in them fails."""
        error: BaseException = AskCancelled("the actor stops while this handler is waiting")
        for _ in range(100):  # a coroutine that swallows every cancellation is closed by force
            try:
                self.coroutine.throw(error)
            except StopIteration:
                return
            except AskCancelled:
                return
            error = AskCancelled("await in a handler whose actor stops")
        self.coroutine.close()


def _result(stack: Stack, value: Any) -> tuple[Any, ...]:
    """What return_ takes: an ask's handler returns its reply, a notice's nothing."""
    return (checked_reply(value),) if stack.replies else ()


def checked_reply(value: Any) -> Any:
    """Refuse a future as a reply: it belongs to the handler's own stack, and dies with it."""
    if isinstance(value, Promise):
        raise StackError(
            f"a handler returned {value!r} as its reply: make it `async def` and return what "
            "`await` gives"
        )
    return value


def _refusal(awaited: Any, stack: Stack) -> StackError | None:
    """Why this stack cannot wait for that; None if it can."""
    promises = getattr(awaited, "promises", None)
    if promises is None:
        return StackError(
            f"an actor cannot await {awaited!r}: await the future of address.ask(...), sleep, "
            "gather or first_of (there is no asyncio loop here)"
        )
    for promise in promises():
        if promise.outcome.value == 0 and promise.stack is not stack:
            return StackError(
                f"{promise!r} belongs to another message's execution: every handler awaits only "
                "what it has asked itself"
            )
    return None


class gather:  # noqa: N801  # used like a function, as in asyncio
    """Wait for all; gives the list of answers. The first failure is raised at once."""

    __slots__ = ("_futures",)

    def __init__(self, *futures: Promise[Any]) -> None:
        self._futures = _checked("gather", futures)

    def ready(self) -> bool:
        return all(f.is_done for f in self._futures) or any(f.is_failed for f in self._futures)

    def promises(self) -> tuple[Promise[Any], ...]:
        return self._futures

    def __await__(self) -> Generator[Self, None, list[Any]]:
        if not self.ready():
            yield self
        for future in self._futures:
            if future.is_failed:
                future.get_now()
        return [future.get_now() for future in self._futures]


class first_of:  # noqa: N801  # as above
    """Wait for the first that comes; gives `(index, answer)`, or raises if that one failed."""

    __slots__ = ("_futures",)

    def __init__(self, *futures: Promise[Any]) -> None:
        self._futures = _checked("first_of", futures)
        if not futures:
            raise ValueError("first_of() of nothing would wait for ever")

    def ready(self) -> bool:
        return any(f.is_done for f in self._futures)

    def promises(self) -> tuple[Promise[Any], ...]:
        return self._futures

    def __await__(self) -> Generator[Self, None, tuple[int, Any]]:
        if not self.ready():
            yield self
        index = next(i for i, f in enumerate(self._futures) if f.is_done)
        return index, self._futures[index].get_now()


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
    promise: MessagePromise[Any] = MessagePromise()
    stack = running_stack("sleep()")
    if seconds == 0:
        promise.set_success(TimeoutReply)
        return promise
    stack.house.attach_sleep(stack, promise, seconds)
    return promise
