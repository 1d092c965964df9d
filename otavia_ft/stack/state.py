"""States: where a suspended stack goes on, and when.

A stack is resumed when its state says `resumable()`, or when nothing is left to wait for. The
helper states keep the default (not resumable before everything has come: all-of); a state of your
own may be satisfied earlier:

    class AnyOf(StackState):
        def __init__(self, n):
            self.futures = [MessageFuture() for _ in range(n)]
        def resumable(self):
            return any(future.is_done for future in self.futures)

`FutureState.reused()` and its like take a state, future and all, that another stack has left, if
the threads keep such (`Config.pooling`). One that its handler still holds is never among them.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar

from otavia_ft.doors import me
from otavia_ft.pool import alone
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

    @staticmethod
    def reused(id: int = 0) -> FutureState[Any]:  # noqa: A002  # as above
        """One that was used before, or a new one; for handlers of actors."""
        context = me()
        return FutureState(id) if context is None else context.new_future_state(id)

    def clean(self) -> None:
        """For the next user. A future that somebody still holds stays with him."""
        self.id = 0
        if alone(self.future):
            self.future.clean()
        else:
            self.future = MessageFuture()


class FuturesState[R](StackState):
    """Waits for several answers, all of them."""

    __slots__ = ("futures", "id")

    def __init__(self, n: int, id: int = 0) -> None:  # noqa: A002  # as above
        if n < 1:
            raise _too_few(n)
        self.id = id
        self.futures: list[MessageFuture[R]] = [MessageFuture() for _ in range(n)]

    @staticmethod
    def reused(n: int, id: int = 0) -> FuturesState[Any]:  # noqa: A002  # as above
        """One that was used before, or a new one; for handlers of actors."""
        context = me()
        return FuturesState(n, id) if context is None else context.new_futures_state(n, id)

    def clean(self) -> None:
        """For the next user, as FutureState."""
        self.id = 0
        if not alone(self.futures):
            self.futures = [MessageFuture()]
            return
        for index in range(len(self.futures)):
            if alone(self.futures[index]):
                self.futures[index].clean()
            else:
                self.futures[index] = MessageFuture()

    def resize(self, n: int) -> None:
        """Wait for `n` answers; nothing was asked yet."""
        if n < 1:
            raise _too_few(n)
        del self.futures[n:]
        self.futures += [MessageFuture() for _ in range(n - len(self.futures))]


def _too_few(n: int) -> ValueError:
    return ValueError(f"FuturesState needs at least one future, not n={n!r}")


class ChannelFutureState(StackState):
    """Waits for one channel operation."""

    __slots__ = ("future", "id")

    def __init__(self, id: int = 0) -> None:  # noqa: A002  # as above
        self.id = id
        self.future: ChannelFuture[Any] = ChannelFuture()

    @staticmethod
    def reused(id: int = 0) -> ChannelFutureState:  # noqa: A002  # as above
        """One that was used before, or a new one; for handlers of actors."""
        context = me()
        return ChannelFutureState(id) if context is None else context.new_channel_future_state(id)

    def clean(self) -> None:
        """For the next user, as FutureState."""
        self.id = 0
        if alone(self.future):
            self.future.clean()
        else:
            self.future = ChannelFuture()
