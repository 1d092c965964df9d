"""Burying what is left in the queues of a closed scheduler, without a call inside the call.

To bury a house is to answer its askers; an answer makes the asker's house ready; a ready house of a
closed scheduler has to be buried. Written plainly that recurses once for each link in a chain of
askers, and the chain may be as long as there are actors.

So one thread at a time is at it, and whoever comes meanwhile, that thread itself included, only
asks for another look. The count is what makes the asking safe: the one at work may leave only if
nobody has added to it since it began its last look. It leaves by the count whatever happens, or
there would be no burial ever again, and whoever waits for the last answer would wait for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from otavia_ft.doors import AtomicInt

__all__ = ["Burial"]

_log = logging.getLogger("otavia_ft.thread")


class Burial:
    """Calls `bury_all` as often as needed; any thread, as often as it likes."""

    __slots__ = ("_bury_all", "_wanted")

    def __init__(self, bury_all: Callable[[], None]) -> None:
        self._bury_all = bury_all
        self._wanted = AtomicInt()

    def __call__(self) -> None:
        if self._wanted.get_and_add(1):
            return
        seen = 0
        while not self._wanted.compare_and_set(seen, 0):
            seen = self._wanted.load()
            try:
                self._bury_all()
            except BaseException:  # the caller may be any sender: it is none of its business
                _log.exception("a closed scheduler could not bury all that was left in it")
