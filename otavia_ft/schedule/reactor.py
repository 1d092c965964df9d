"""The IO phase: one selector a thread, with the thread's bell among its channels.

Channels register a file object and a handler here; the handler runs on the thread, in Phase 1.
Without channels there is nothing to poll, so a busy thread makes no system call at all, and an idle
one blocks on its bell.

Some kernels and selectors have been seen to return early and empty-handed, over and over. Such
*premature* wake-ups are counted (a return with nothing, from a wait that had no limit), and after
`rebuild_threshold` of them in a row the selector is replaced. An ordinary poll that finds nothing
is not one of them; one that finds something ends the row. A selector that raises is replaced at
once.

Whatever goes wrong here, with one channel or with the selector itself, the thread has to live on:
it has its actors to run. A channel that can no longer be watched is dropped and named in the log.
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
Ready = list[tuple[selectors.SelectorKey, int]]


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
        try:
            selector.register(self.bell.fileno(), selectors.EVENT_READ, None)
        except BaseException:
            selector.close()
            raise
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
        ready = self._select(0)
        if ready:
            self._premature = 0
        return self.serve(ready)

    def wait(self) -> Ready:
        """Block until a channel is ready or the bell rings. What it returns is to be served, when
        everybody can see that the thread is awake: a handler is work like any other."""
        if self.channels == 0:
            self.bell.wait()
            return []
        ready = self._select(None)
        if ready:
            self._premature = 0
        else:
            self._premature += 1
            if self._threshold and self._premature >= self._threshold:
                self._rebuild(f"{self._premature} premature wake-ups")
        return ready

    def _select(self, timeout: float | None) -> Ready:
        try:
            return self._selector.select(timeout)
        except (OSError, ValueError) as error:
            self._rebuild(repr(error))
            return []

    def serve(self, ready: Ready) -> int:
        """Call the handlers of what is ready; returns how many there were.

        One of them may unregister or modify a channel that comes after it: that one's turn, if it
        still has any, is at the next look. The same number may be another channel's by then.
        """
        started = now_ns()
        served = 0
        watched = self._selector.get_map() if ready else {}
        for key, events in ready:
            if key.data is None:
                self.bell.silence()
                continue
            if watched.get(key.fd) is not key:
                continue
            served += 1
            try:
                key.data(events)
            except BaseException:  # a channel's handler never kills its thread
                _log.exception("the handler of %r failed", key.fileobj)
        self.io_ns = now_ns() - started
        return served

    def _rebuild(self, why: str) -> None:
        self._premature = 0
        try:
            new = self._open()
        except OSError:  # no descriptor left, perhaps: it may go better the next time
            _log.exception("after %s: there is no new selector, the old one stays", why)
            return
        old, self._selector = self._selector, new
        for key in list(old.get_map().values()):
            if key.data is None:
                continue
            try:
                new.register(key.fileobj, key.events, key.data)
            except (OSError, ValueError, KeyError):
                self.channels -= 1
                _log.exception("%r was closed and still registered: it is dropped", key.fileobj)
        old.close()
        self.rebuilds += 1
        _log.info("selector rebuilt after %s", why)

    def close(self) -> None:
        if "_selector" in vars(self):
            self._selector.close()
        self.bell.close()
