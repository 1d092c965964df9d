"""The operating system's part of sleeping: a bell that ends a wait, and the condition variable.

The protocol that makes it safe stands in `parking.py`; here is only what really blocks a thread.
"""

from __future__ import annotations

import math
import os
import select
import socket
import threading

__all__ = ["Bell", "Condition"]

# The pool's workers park on a condition variable; it is a door like the others.
Condition = threading.Condition

_LONGEST_MS = 2**31 - 1  # what poll can wait at once; whoever waits longer looks again


class Bell:
    """A sticky, level-triggered file descriptor: an eventfd, or a socket pair where there is none.

    A selector watches `fileno()` among its channels; a thread without channels uses `wait`. The
    descriptor blocks, so that a wait without a limit is one system call: the read that also
    silences the bell. A ring cannot block: nobody rings 2**64 times, and of many wakers one rings.
    """

    __slots__ = ("_poll", "_read", "_write")

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self._read = self._write = os.eventfd(0, os.EFD_CLOEXEC)
        else:
            reader, writer = socket.socketpair()
            writer.setblocking(False)
            self._read, self._write = reader.detach(), writer.detach()
        # Not select.select: that refuses file descriptors from 1024 up.
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)

    def fileno(self) -> int:
        return self._read

    def ring(self) -> None:
        """End the owner's sleep, or its next one. Any thread."""
        try:
            os.write(self._write, b"\1\0\0\0\0\0\0\0")
        except BlockingIOError:
            pass  # the bell is full, that is: it rings already

    def silence(self) -> None:
        """Forget all rings. The owner only, and only when it rings: otherwise it would wait."""
        os.read(self._read, 4096)  # a socket pair may hold several rings

    def wait(self, timeout: float | None = None) -> bool:
        """Block until it rings (True) or `timeout` seconds have passed (False)."""
        if timeout is None:
            self.silence()
            return True
        ready = self._poll.poll(
            None if timeout is None else min(math.ceil(timeout * 1000), _LONGEST_MS)
        )
        if ready:
            self.silence()
        return bool(ready)

    def close(self) -> None:
        os.close(self._read)
        if self._write != self._read:
            os.close(self._write)
