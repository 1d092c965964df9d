"""Dead letters: messages that reached nobody, with the reason."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from otavia_ft.doors import AtomicInt

__all__ = ["DeadLetter", "DeadLetters"]

_log = logging.getLogger("otavia_ft.deadletters")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message that reached nobody."""

    message: Any
    receiver: str
    reason: str


class DeadLetters:
    """Counts all, keeps the latest, tells whoever listens. Any thread."""

    def __init__(self, keep: int = 100) -> None:
        self._latest: deque[DeadLetter] = deque(maxlen=keep)
        self._total = AtomicInt()
        # Any thread appends, and any thread takes a copy: either is one step under the list's lock.
        self._listeners: list[Callable[[DeadLetter], Any]] = []

    def add(self, message: Any, receiver: str, reason: str) -> None:
        letter = DeadLetter(message, receiver, reason)
        self._total.get_and_add(1)
        self._latest.append(letter)
        _log.debug("dead letter for %s: %r (%s)", receiver, message, reason)
        for listener in tuple(self._listeners):
            try:
                listener(letter)
            except BaseException:  # a listener never kills an actor
                _log.exception("a listener for dead letters failed")

    def subscribe(self, listener: Callable[[DeadLetter], Any]) -> None:
        """Call `listener(letter)` for every dead letter, on the thread where it happens."""
        self._listeners.append(listener)

    @property
    def total(self) -> int:
        return self._total.load()

    @property
    def latest(self) -> list[DeadLetter]:
        return list(self._latest)
