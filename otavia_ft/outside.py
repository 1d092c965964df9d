"""Asking from outside: a thread that is no ActorThread gets a `concurrent.futures.Future`.

Every such ask ends, exactly once: with the reply, the error, the timeout, its cancellation, or the
system's stop. Whoever takes its number out of the book is the one who ends it.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any

from otavia_ft.doors import AtomicInt
from otavia_ft.errors import AskTimeout, OtaviaError, SystemStopped, fresh
from otavia_ft.message import Envelope

if TYPE_CHECKING:
    from otavia_ft.address import ActorAddress
    from otavia_ft.deadletters import DeadLetters
    from otavia_ft.house.house import House
    from otavia_ft.timer import Timer, TimerTask

__all__ = ["OutsideAsks"]

_log = logging.getLogger("otavia_ft.outside")


class OutsideAsks:
    """The book of all asks from outside that are still open."""

    def __init__(self, timer: Timer, dead_letters: DeadLetters) -> None:
        self._timer = timer
        self._dead_letters = dead_letters
        self._open: dict[int, OutsideAsk] = {}
        self._numbers = AtomicInt()
        self._closed = AtomicInt()

    def ask(self, house: House, message: Any, timeout: float | None) -> Future[Any]:
        number = self._numbers.get_and_add(1) + 1
        future: Future[Any] = Future()
        ask = OutsideAsk(self, number, future)
        self._open[number] = ask
        # Entered first, looked second; close() closes first and sweeps second.
        if self._closed.load():
            ask.end(error=SystemStopped("the actor system has stopped"))
            return future
        if timeout is not None:
            ask.timer = self._timer.after(timeout, ask.expire, timeout)
        future.add_done_callback(ask.cancelled)
        house.ask(Envelope(ask, number, message))
        return future

    def take(self, number: int) -> OutsideAsk | None:
        return self._open.pop(number, None)

    def bury(self, answer: Any) -> None:
        """An answer to an ask that has ended before: by its timeout, say."""
        reason = "nobody waits for this reply any more"
        self._dead_letters.add(answer, "an ask from outside", reason)

    def close(self, error: OtaviaError) -> None:
        """Answer all that are open, and from now on every new one, with an error."""
        self._closed.set(1)
        for ask in list(self._open.values()):
            ask.end(error=fresh(error))

    def __len__(self) -> int:
        return len(self._open)


class OutsideAsk:
    """One ask from outside: the asker that the asked actor answers."""

    __slots__ = ("_book", "_future", "_number", "timer")

    def __init__(self, book: OutsideAsks, number: int, future: Future[Any]) -> None:
        self._book = book
        self._number = number
        self._future: Future[Any] | None = future
        self.timer: TimerTask | None = None

    def answer(self, ids: int | tuple[int, ...], reply: Any) -> None:
        if not self.end(reply):
            self._book.bury(reply)

    def answer_error(self, ids: int | tuple[int, ...], error: OtaviaError) -> None:
        if not self.end(error=error):
            self._book.bury(error)

    def asker_address(self) -> ActorAddress | None:
        return None

    def expire(self, timeout: float) -> None:
        self.end(error=AskTimeout(f"no reply within {timeout} s"))

    def cancelled(self, future: Future[Any]) -> None:
        if future.cancelled():
            self.end()

    def end(self, reply: Any = None, error: OtaviaError | None = None) -> bool:
        """False: it has ended before."""
        if self._book.take(self._number) is None:
            return False
        if self.timer is not None:
            self.timer.cancel()
        future, self._future = self._future, None  # it holds us through its callback
        assert future is not None
        try:
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(reply)
        except InvalidStateError:
            pass  # cancelled by its holder at this very moment: that is an end too
        except BaseException:  # a callback of the future's holder; it has ended
            _log.exception("a callback of an ask's future failed")
        return True
