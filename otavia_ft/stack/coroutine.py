"""A suspended coroutine as the state of its stack.

A coroutine runs until it awaits something that has not come. What it awaits yields itself up to
`CoroutineState.advance`, which suspends the stack on the coroutine as its state; the promises were
linked to the stack when they were made. When they have come, the stack is resumed like any other,
and so is the coroutine. Barrier, priority, timeouts and tracing therefore mean the same in both
styles. What can be awaited is in driver.py.
"""

from __future__ import annotations

from collections.abc import Coroutine as PyCoroutine
from typing import Any, Protocol

from otavia_ft.errors import AskCancelled, StackError
from otavia_ft.lane import CoroutineBase
from otavia_ft.stack.promise import Promise
from otavia_ft.stack.stack import Stack
from otavia_ft.stack.state import StackState, StackYield

__all__ = ["Awaited", "CoroutineState", "checked_reply"]


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
        self.awaited = None  # it has come; if it is an error, nothing of ours may lead back to it
        try:
            awaited = self.coroutine.send(None)
        except StopIteration as end:
            return self._end(stack, end.value)
        return self.wait_for(stack, awaited)

    def wait_for(self, stack: Stack, awaited: Any) -> StackYield:
        """Suspend on what the coroutine awaits; tell it what it cannot await."""
        try:
            while (refusal := _refusal(awaited, stack)) is not None:
                awaited = self.coroutine.throw(refusal)
        except StopIteration as end:
            return self._end(stack, end.value)
        self.awaited = awaited
        stack.drop_completed()  # the state stays the same, and what has come is in the coroutine
        return stack.suspend(self)

    def _end(self, stack: Stack, value: Any) -> StackYield:
        """An ask's handler returns its reply, a notice's nothing."""
        self.awaited = None
        return stack.return_(checked_reply(value)) if stack.replies else stack.return_()

    def cancel(self) -> None:
        """End the coroutine where it stands; its `finally` blocks run, awaiting in them fails."""
        why = "the actor stops while this handler is waiting"
        for _ in range(100):  # a coroutine that swallows every cancellation is closed by force
            try:
                self.coroutine.throw(AskCancelled(why))
            except StopIteration:
                return
            except AskCancelled:
                return
            why = "await in a handler whose actor stops"
        self.coroutine.close()

    def clean(self) -> None:
        self.coroutine = self.awaited = None  # type: ignore[assignment]  # idle in its pool


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
