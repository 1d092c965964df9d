"""What the workload `channels` is about: pipes and pairs of sockets at a reactor, and its selector.

All that a `Channel` does but for the writing happens on the thread whose reactor it is at.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import threading
from dataclasses import dataclass
from typing import Any

from otavia_ft.message import ReactorEvent
from stress.parallel.lab import Lab

__all__ = ["READ", "WRITE", "Came", "Channel", "Flawed", "part"]

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
PATTERN = bytes(index % 251 for index in range(251 + (1 << 12)))


def part(start: int, length: int) -> bytes:
    """What a channel carries from byte `start` on."""
    return PATTERN[start % 251 : start % 251 + length]


class Flawed(selectors.DefaultSelector):
    """Now and then it has seen nothing although it should have waited, or fails."""

    def __init__(self, lab: Lab, left: list[int]) -> None:
        super().__init__()
        self._lab = lab
        self._left = left

    def select(self, timeout: float | None = None) -> Any:
        chance = self._lab.coin().random()
        if chance < 0.3 and self._left[0]:
            self._left[0] -= 1
            if chance < 0.03:
                raise OSError(errno.EBADF, "planted")
            return []
        return super().select(timeout)


@dataclass(frozen=True, slots=True)
class Came(ReactorEvent):
    """Bytes of a channel; none: it has ended."""

    data: bytes = b""


class Channel:
    """One end in a thread's reactor, the other one in the hands of a writer outside."""

    def __init__(self, lab: Lab, number: int, address: Any, *, pair: bool, ends: bool) -> None:
        self.lab = lab
        self.number = number
        self.house = address.house
        self.thread = self.house.scheduler._thread  # white box: whoever has its reactor
        self.writable = WRITE if pair else 0  # the reading end of a pipe never is
        self.ends = ends
        if pair:
            ours, theirs = socket.socketpair()
            self.inlet, self.outlet = ours.detach(), theirs.detach()
        else:
            self.inlet, self.outlet = os.pipe()
        os.set_blocking(self.inlet, False)
        self.neighbours: list[Channel] = []
        self.written = 0
        # The thread's own, like all below:
        self.holds = 0  # how many keep it out of the reactor
        self.registered = False
        self.wishes = self.granted = 0
        self.informed = 0

    def back(self, events: int) -> None:
        self.holds -= 1
        if self.holds <= 0 and not self.registered and self.inlet >= 0:
            self.registered = True
            self.wishes += bool(events & WRITE)
            self.thread.reactor.register(self.inlet, events, self.ready)

    def away(self, then: int = READ) -> None:
        """Out of the reactor, and back in again a little later."""
        self.holds += 1
        self._leave()
        self.thread.call(lambda: self.back(then))

    def _leave(self) -> None:
        if self.registered:
            self.registered = False
            self.thread.reactor.unregister(self.inlet)

    def ready(self, events: int) -> None:
        on_thread = threading.current_thread() is self.thread.thread
        self.lab.check(on_thread, "io-served", "a handler runs on another thread than its channel")
        if not self.registered:
            text = f"channel {self.number} is not registered any more, but its handler is called"
            self.lab.report("io-served", text)
            return
        if events & WRITE:
            self.granted += 1
            self.thread.reactor.modify(self.inlet, READ, self.ready)
        if events & READ:
            self._read()
        coin = self.lab.coin()
        if self.neighbours and coin.random() < 0.2:
            coin.choice(self.neighbours).away()

    def _read(self) -> None:
        try:
            data = os.read(self.inlet, self.lab.coin().choice((1, 7, 500)))
        except BlockingIOError:
            text = f"channel {self.number} was told to be ready, and there is nothing to read"
            self.lab.report("io-served", text)
            return
        self.informed += 1
        self.house.inform(Came(self, None, data))
        if not data:
            self._leave()
            os.close(self.inlet)
            self.inlet = -1

    def write(self, size: int) -> None:
        os.write(self.outlet, part(self.written, size))
        self.written += size

    def close(self) -> None:
        """What is still open. Nobody is there any more."""
        for number in (self.inlet, self.outlet):
            if number >= 0:
                os.close(number)
        self.inlet = self.outlet = -1
