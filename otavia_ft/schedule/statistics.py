"""What can be seen of the threads: frozen records of a queue, a thread's queues, and a thread.

A record is filled from counters that are always on, without a lock and while the threads go on. So
its figures are those of about the same moment, not of exactly the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["QueueStatistics", "ThreadQueues", "ThreadStatistics", "look_at"]


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """What waits in one queue."""

    ready: int
    """Houses, or whatever else a ring of the pool holds."""
    high: int
    """Those of them that are of high priority; in a ring there is none."""


@dataclass(frozen=True, slots=True)
class ThreadQueues:
    """A thread's three queues."""

    mounting: QueueStatistics
    """New actors."""
    channels: QueueStatistics
    """IO actors."""
    business: QueueStatistics
    """State actors; for a worker of the pool its own ring."""

    @property
    def ready(self) -> int:
        """In all three."""
        return self.mounting.ready + self.channels.ready + self.business.ready

    @property
    def high(self) -> int:
        """In all three."""
        return self.mounting.high + self.channels.high + self.business.high


@dataclass(frozen=True, slots=True)
class ThreadStatistics:
    """What one thread has done so far, and what it has before it."""

    index: int
    turns: int
    """How often it ran a house."""
    messages: int
    """What was handled in those turns."""
    steals_taken: int
    """How often it took from another thread."""
    steals_given: int
    """How often another one took from it."""
    parks: int
    """How often it lay down to sleep."""
    wakeups: int
    """How often somebody had to wake it."""
    selector_rebuilds: int
    """How often its selector was replaced."""
    asleep: bool
    queues: ThreadQueues


class _Queue(Protocol):
    @property
    def high(self) -> int: ...
    def __len__(self) -> int: ...


def look_at(queue: _Queue) -> QueueStatistics:
    """A queue's record. Two looks, between which others go on: no less are ready than are high."""
    high = queue.high
    return QueueStatistics(max(high, len(queue)), high)
