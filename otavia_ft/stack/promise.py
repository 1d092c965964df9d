"""Promises: the two ends of one answer that is still to come.

A `MessagePromise` is its own future and its own hash node: whoever asks holds it as the future,
the runtime completes it as the promise, and the actor's `FutureDispatcher` chains it through
`hash_next`. One object an ask, no wrapper.

A promise is linked into exactly one chain of exactly one stack (`prev`, `next`). Only the runner of
the stack's actor ever touches it, so nothing here is atomic.

The traceback of an error holds the frames it has gone through, and their variables. A function that
raises the error of a promise therefore drops the promise from its own, or the two would hold each
other until the garbage collector finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn, Self

from otavia_ft.errors import AskTimeout, StackError
from otavia_ft.lane import PromiseBase, twin

if TYPE_CHECKING:
    from otavia_ft.stack.stack import Stack
    from otavia_ft.timer import TimerTask

__all__ = ["ChannelFuture", "ChannelPromise", "MessageFuture", "MessagePromise", "Promise"]


class Outcome(Enum):
    """How far a promise has come."""

    PENDING = 0
    SUCCESS = 1
    FAILURE = 2


PENDING, SUCCESS, FAILURE = Outcome


class Promise[R](PromiseBase):
    """An answer to come, owned by one stack."""

    __slots__ = ()

    @twin(PromiseBase)
    def __init__(self) -> None:
        self.stack: Stack | None = None
        self.prev: Promise[Any] | None = None
        self.next: Promise[Any] | None = None
        self.outcome = PENDING
        self.value: Any = None
        # Of a MessagePromise only: its number, its neighbour in the table, its timeout.
        self.aid = 0
        self.hash_next: MessagePromise[Any] | None = None
        self.timer: TimerTask | None = None

    def clean(self) -> None:
        """Forget the answer: for the next user."""
        self.stack = self.prev = self.next = None
        self.outcome = PENDING
        self.value = None
        self.aid = 0
        self.hash_next = self.timer = None

    # The future's side: what a handler reads.

    @property
    def is_done(self) -> bool:
        return self.outcome is not PENDING

    @property
    def is_success(self) -> bool:
        return self.outcome is SUCCESS

    @property
    def is_failed(self) -> bool:
        return self.outcome is FAILURE

    @property
    def is_timeout(self) -> bool:
        return self.outcome is FAILURE and isinstance(self.value, AskTimeout)

    @property
    def cause(self) -> BaseException | None:
        """Why it failed; None while pending and after a success."""
        return self.value if self.outcome is FAILURE else None

    @twin(PromiseBase)
    def get_now(self) -> R:
        """The answer. Raises the error if it failed, and StackError if there is none yet."""
        try:
            if self.outcome is not SUCCESS:
                no_answer(self)
            answer: R = self.value
            return answer
        finally:
            del self  # or the error's traceback would lead back to the error: see receive_error

    def ready(self) -> bool:
        """Whether an `await` on it may go on (see driver.py)."""
        return self.outcome is not PENDING

    def promises(self) -> tuple[Promise[Any], ...]:
        return (self,)

    @twin(PromiseBase)
    def __await__(self) -> Generator[Self, None, R]:
        try:
            if self.outcome is PENDING:
                yield self
            return self.get_now()
        finally:
            del self  # as above

    def __repr__(self) -> str:
        shown = "" if self.outcome is PENDING else f" {self.value!r}"
        return f"<{type(self).__name__} {self.outcome.name.lower()}{shown}>"


def no_answer(promise: Promise[Any]) -> NoReturn:
    """Say why `get_now` has nothing to give."""
    if promise.outcome is FAILURE:
        try:
            raise promise.value
        finally:
            del promise  # as in get_now
    raise StackError(
        "get_now() on a future that is still pending: suspend the stack on a state that holds "
        "it and read it when the stack is resumed, or await it"
    )


class MessagePromise[R](Promise[R]):
    """The answer to an ask; also the node of the hash table that finds it by its number."""

    __slots__ = ()

    def set_success(self, answer: R) -> None:
        self._complete(SUCCESS, answer)

    def set_failure(self, error: BaseException) -> None:
        self._complete(FAILURE, error)

    def _complete(self, outcome: Outcome, value: Any) -> None:
        if self.outcome is not PENDING:
            raise StackError(f"{self!r} is completed already; {value!r} came too late")
        self.outcome = outcome
        self.value = value


class ChannelPromise[R](Promise[R]):
    """The outcome of a channel operation, with an optional callback.

    Completion never resumes a stack from inside the call that completes it: the promise is put
    into its house's list of channel futures, and the house resumes the stack when it dispatches
    them. A resume inside a resume of the same stack is thus impossible.
    """

    __slots__ = ("ask", "callback", "channel")

    def __init__(self, channel: Any = None, ask: Any = None) -> None:
        super().__init__()
        self.channel = channel
        self.ask = ask
        self.callback: Callable[[ChannelPromise[R]], None] | None = None

    def clean(self) -> None:
        super().clean()
        self.channel = self.ask = self.callback = None

    def on_completed(self, callback: Callable[[ChannelPromise[R]], None]) -> None:
        """Call back when completed; at once if it is already."""
        if self.outcome is not PENDING:
            callback(self)
        else:
            self.callback = callback

    def set_success(self, result: R) -> None:
        self._complete(SUCCESS, result)

    def set_failure(self, error: BaseException) -> None:
        self._complete(FAILURE, error)

    def _complete(self, outcome: Outcome, value: Any) -> None:
        if self.outcome is not PENDING:
            raise StackError(f"{self!r} is completed already; {value!r} came too late")
        self.outcome = outcome
        self.value = value
        if self.stack is not None:
            self.stack.house.channel_completed(self)
        callback, self.callback = self.callback, None
        if callback is not None:
            callback(self)


MessageFuture = MessagePromise
ChannelFuture = ChannelPromise
