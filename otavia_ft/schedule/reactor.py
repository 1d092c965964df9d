"""The IO phase: one selector a thread, with the thread's bell among its channels.

Channels register a file object and a handler here; the handler runs on the thread, in Phase 1.
Without channels there is nothing to poll, so a busy thread makes no system call at all, and an idle
one blocks on its bell.

Some kernels and selectors have been seen to return early and empty-handed, over and over. Such
*premature* wake-ups are counted (a return with nothing, from a wait that had no limit), and after
`rebuild_threshold` of them in a row the selector is replaced. An ordinary poll that finds nothing
is not one of them.
"""

from __future__ import annotations

import logging
import selectors
from collections.abc import Callable
from functools import cached_property
from typing import Any

from otavia_ft.doors import Bell, now_ns

__all__ = ["Reactor"]

_log = logging.getLogger("otavia_ft.reactor")

Handler = Callable[[int], Any]


class Reactor:
    """One thread's selector. Only that thread may call it, except for the bell."""

    def __init__(
        self,
        rebuild_threshold: int,
        make_selector: Callable[[], selectors.BaseSelector] = selectors.DefaultSelector,
    ) -> None:
        self.bell = Bell()
        self._make_selector = make_selector
        self._threshold = rebuild_threshold
        self._premature = 0
        self.channels = 0
        self.rebuilds = 0
        self.io_ns = 0  # time that the handlers of the last `run` took; waiting not included

    @cached_property
    def _selector(self) -> selectors.BaseSelector:
        """Made for the first channel: a system without channels opens no descriptor."""
        return self._open()

    def _open(self) -> selectors.BaseSelector:
        selector = self._make_selector()
        selector.register(self.bell.fileno(), selectors.EVENT_READ, None)
        return selector

    def register(self, channel: Any, events: int, handler: Handler) -> None:
        """Call `handler(ready_events)` whenever `channel` is ready for some of `events`."""
        self._selector.register(channel, events, handler)
        self.channels += 1

    def modify(self, channel: Any, events: int, handler: Handler) -> None:
        self._selector.modify(channel, events, handler)

    def unregister(self, channel: Any) -> None:
        self._selector.unregister(channel)
        self.channels -= 1

    def poll(self) -> int:
        """Serve what is ready now; returns how many channels were."""
        if self.channels == 0:
            return 0
        return self._serve(self._selector.select(0))

    def wait(self) -> int:
        """Block until a channel is ready or the bell rings, then serve."""
        if self.channels == 0:
            self.bell.wait()
            return 0
        ready = self._selector.select(None)
        if ready:
            self._premature = 0
        else:
            self._premature += 1
            if self._threshold and self._premature >= self._threshold:
                self._rebuild()
        return self._serve(ready)

    def _serve(self, ready: list[tuple[selectors.SelectorKey, int]]) -> int:
        started = now_ns()
        served = 0
        for key, events in ready:
            if key.data is None:
                self.bell.silence()
                continue
            served += 1
            try:
                key.data(events)
            except BaseException:  # a channel's handler never kills its thread
                _log.exception("the handler of %r failed", key.fileobj)
        self.io_ns = now_ns() - started
        return served

    def _rebuild(self) -> None:
        old, self._selector = self._selector, self._open()
        for key in list(old.get_map().values()):
            if key.data is not None:
                self._selector.register(key.fileobj, key.events, key.data)
        old.close()
        self._premature = 0
        self.rebuilds += 1
        _log.info("selector rebuilt after %d premature wake-ups", self._threshold)

    def close(self) -> None:
        if "_selector" in vars(self):
            self._selector.close()
        self.bell.close()
