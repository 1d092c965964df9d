"""Falling asleep without missing the wake-up call.

Two things make a thread sleep safely: a *flag*, by which a waker learns whether the thread sleeps
at all (a busy thread costs its wakers no system call), and a *bell*, which really ends the sleep.
`Parker` is the flag and its protocol; `Bell` (in `bell.py`) is the operating system's part.

The flag has three values:

    AWAKE      looking at its queues; nobody has called since it started looking
    ASLEEP     about to block, or blocked
    NOTIFIED   somebody called; it has to look again before it may block

    the sleeper                          a waker
      start_looking():  flag := AWAKE      puts work into a queue
      looks at all queues: empty           wake():  old := exchange(flag, NOTIFIED)
      fall_asleep():  CAS AWAKE→ASLEEP              if old = ASLEEP: ring the bell
      blocks until the bell rings

The two orders that could go wrong:
 1. the waker's exchange comes *before* the sleeper's compare-and-set: the flag is NOTIFIED, the
    compare-and-set fails, the sleeper looks again;
 2. it comes *after*: the waker sees ASLEEP and rings. The bell is sticky, so it may ring before
    the sleeper has reached the blocking call.
The call is sticky too (NOTIFIED stays until the next `start_looking`) and coalesced: of many
wakers exactly one rings.

The exchange must be a read-modify-write. "Ring only if I read ASLEEP" by a plain load lets the
load overtake the put into the queue, and both sides then miss each other.
`start_looking` is a full (seq-cst) store for the same reason: the looks must not overtake it.
"""

from __future__ import annotations

from otavia_ft.doors import AtomicInt, Bell

__all__ = ["Parker"]

AWAKE, ASLEEP, NOTIFIED = 0, 1, 2


class Parker:
    """One thread's sleeping flag. The protocol stands at the top of this module."""

    __slots__ = ("bell", "flag")

    def __init__(self, bell: Bell) -> None:
        self.flag = AtomicInt(AWAKE)
        self.bell = bell

    def start_looking(self) -> None:
        """Owner: before it looks at its queues."""
        self.flag.set(AWAKE)

    def fall_asleep(self) -> bool:
        """Owner: after it found nothing. True: block now. False: somebody called, look again."""
        return self.flag.compare_and_set(AWAKE, ASLEEP)

    def wake(self) -> bool:
        """Any thread, after it put work where the owner looks. True: the bell was rung."""
        if self.flag.get_and_set(NOTIFIED) == ASLEEP:
            self.bell.ring()
            return True
        return False

    @property
    def asleep(self) -> bool:
        """Whether the owner sleeps or is about to (a hint: it may have changed by now)."""
        return self.flag.load() == ASLEEP
