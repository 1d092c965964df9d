"""The operating system's part of sleeping: a bell that ends a wait, and the condition variable.

The protocol that makes it safe stands in `parking.py`; here is only what really blocks a thread. A
`Bell` is a condition variable with a sticky flag (`_atomics/bell.h`): a ring before the wait ends
the wait at once. A selector that has channels to watch besides asks it for a descriptor. It belongs
to one thread, and not to the main one: no signal ends the wait.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from otavia_ft.atomic import lane_face

__all__ = ["Bell", "Condition"]

# What a sender blocks on who wants room in a full mailbox.
Condition = threading.Condition

if TYPE_CHECKING:

    class Bell:
        """Ends one thread's sleep."""

        def ring(self) -> None: ...
        def silence(self) -> None: ...
        def wait(self, timeout: float | None = None, /) -> bool: ...
        def fileno(self) -> int: ...
        def close(self) -> None: ...

else:
    Bell = lane_face["Bell"]
