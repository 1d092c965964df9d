"""States: where a suspended stack goes on, and when.

A stack is resumed when its state says `resumable()`, or when nothing is left to wait for. The
helper states keep the default (not resumable before everything has come: all-of); a state of your
own may be satisfied earlier:

    class AnyOf(StackState):
        def __init__(self, n):
            self.futures = [MessageFuture() for _ in range(n)]
        def resumable(self):
            return any(future.is_done for future in self.futures)
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar

from otavia_ft.stack.promise import ChannelFuture, MessageFuture

__all__ = [
    "ChannelFutureState",
    "FutureState",
    "FuturesState",
    "StackState",
    "StackYield",
    "StartState",
]


class StackYield(Enum):
    """What a resume method returns: the stack waits, or it is done."""

    SUSPEND = False
    RETURN = True

    @property
    def completed(self) -> bool:
        return self is StackYield.RETURN


class StackState:
    """Base of all states. `id` is free for handlers that like to branch on a number."""

    __slots__ = ()

    START: ClassVar[StartState]
    id: int = 0

    def resumable(self) -> bool:
        """Whether the stack should be resumed although some of its promises are still pending."""
        return False


class StartState(StackState):
    """Where every stack begins. There is one: `StackState.START`."""

    __slots__ = ()

    def resumable(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "START"


StackState.START = StartState()


class FutureState[R](StackState):
    """Waits for one answer: `address.ask(message, state.future)`, then `stack.suspend(state)`."""

    __slots__ = ("future", "id")

    def __init__(self, id: int = 0) -> None:  # noqa: A002  # the seed's word for it
        self.id = id
        self.future: MessageFuture[R] = MessageFuture()


class FuturesState[R](StackState):
    """Waits for several answers, all of them."""

    __slots__ = ("futures", "id")

    def __init__(self, n: int, id: int = 0) -> None:  # noqa: A002  # as above
        if n < 1:
            raise ValueError(f"FuturesState needs at least one future, not n={n!r}")
        self.id = id
        self.futures: list[MessageFuture[R]] = [MessageFuture() for _ in range(n)]


class ChannelFutureState(StackState):
    """Waits for one channel operation."""

    __slots__ = ("future", "id")

    def __init__(self, id: int = 0) -> None:  # noqa: A002  # as above
        self.id = id
        self.future: ChannelFuture[Any] = ChannelFuture()
