"""The four doors between threads, and the only import point for them.

    atomic    AtomicInt, SpinLock, and a house's state word (HouseCell)
    mailbox   a house's six mailboxes (HouseCell too: they live in the same object)
    queue     built above these from a SpinLock and links: `schedule/queues.py`, `schedule/rings.py`
    parking   Bell and Condition; the protocol above them: `parking.py`

Nothing else in the runtime is both shared and mutable. Code that touches another thread takes what
it needs from here, together with its identity (`me`), its coin (`choose`) and its clock (`now`,
`now_ns`). The stress explorer puts another module in this one's place before it imports the
runtime, and then runs the same code above the doors under every interleaving; that works only while
nobody opens a fifth.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from typing import TYPE_CHECKING

from otavia_ft.atomic import (
    NATIVE_LANE,
    AtomicInt,
    HouseCell,
    HouseState,
    InvariantError,
    Mailbox,
    SpinLock,
    lane_face,
    make_immortal,
    me,
    set_me,
)
from otavia_ft.bell import Bell, Condition

__all__ = [
    "NATIVE_LANE",
    "AtomicInt",
    "Bell",
    "Condition",
    "HouseCell",
    "HouseState",
    "InvariantError",
    "Mailbox",
    "SpinLock",
    "choose",
    "lane_face",
    "make_immortal",
    "me",
    "now",
    "now_ns",
    "set_me",
]

if not TYPE_CHECKING and sys.version_info >= (3, 14):
    # The same, but for a handler of a signal that comes back for it (_atomics/cells.c says when).
    SpinLock = lane_face["SectionLock"]

now = time.monotonic
now_ns = time.monotonic_ns

_coins = threading.local()


def choose(n: int) -> int:
    """A number from 0 to n-1: which victim to look at first. Explored, not random, under test."""
    try:
        coin = _coins.randrange
    except AttributeError:
        coin = _coins.randrange = random.Random().randrange
    number: int = coin(n)
    return number
