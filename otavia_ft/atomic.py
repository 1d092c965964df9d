"""Atomic integers, the spin lock and the house's cell. The only importer of `_atomics`.

`AtomicInt` is for everybody; `SpinLock` protects a few instructions at a time; `HouseCell` is the
base class of a house: its state word, its owner mark and its mailboxes, inside one object.

Guarantees: every operation is atomic and, but for `AtomicInt.lazy_set` and `SpinLock.unlock`,
sequentially consistent. A lazy set is a release store: it publishes what came before it, but a
later load of *another* cell may overtake it. So it never belongs into a handshake in which two
threads each write one cell and then read the other's (see `docs/memory-orders.md`).

Misuse raises: a value that is no 64-bit int, an unlock by a stranger, a second lock by the holder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, final

import _atomics

__all__ = [
    "NATIVE_LANE",
    "TRANSITIONS",
    "AtomicInt",
    "HouseCell",
    "HouseState",
    "InvariantError",
    "Mailbox",
    "SpinLock",
    "Transition",
    "make_immortal",
    "me",
    "set_me",
]

_face = _atomics.face


def _native_lane() -> bool:
    """See `otavia_ft.lane`. Asked once, when the package is imported."""
    lane = os.environ.get("OTAVIA_FT_LANE", "native")
    if lane not in ("native", "python"):
        raise ImportError(f"OTAVIA_FT_LANE={lane!r} must be 'native' (the default) or 'python'")
    return lane == "native"


NATIVE_LANE = _native_lane()
lane_face: dict[str, Any] = _face  # for the runtime's own modules: not in __all__

if TYPE_CHECKING:

    class InvariantError(SystemError):
        """The runtime broke one of its own rules. Never the fault of an actor; please report it."""

    @final
    class AtomicInt:
        """A signed 64-bit integer shared between threads."""

        def __init__(self, value: int = 0) -> None: ...
        def load(self) -> int: ...
        def lazy_set(self, value: int, /) -> None: ...
        def set(self, value: int, /) -> None: ...
        def compare_and_set(self, expected: int, desired: int, /) -> bool: ...
        def get_and_set(self, value: int, /) -> int: ...
        def get_and_add(self, n: int, /) -> int: ...

    @final
    class SpinLock:
        """Mutual exclusion for a few instructions at a time; not re-entrant."""

        @property
        def holder(self) -> int | None: ...
        def lock(self) -> None: ...
        def try_lock(self) -> bool: ...
        def unlock(self) -> None: ...
        def __enter__(self) -> SpinLock: ...
        def __exit__(self, *exc_info: object) -> None: ...

    class Drain(Iterator[Any]):
        """The loop over one mailbox, one message a step."""

        @property
        def left(self) -> int: ...
        def __next__(self) -> Any: ...

    class HouseCell:
        """State word, owner mark and six mailboxes of one house."""

        @property
        def state(self) -> int: ...
        @property
        def runner(self) -> int: ...
        def begin_mount(self) -> bool: ...
        def end_mount(self) -> bool: ...
        def try_ready(self) -> bool: ...
        def try_schedule(self) -> bool: ...
        def try_run(self) -> bool: ...
        def run_to_ready(self) -> bool: ...
        def run_to_waiting(self) -> bool: ...
        def post_system(self, message: object, /) -> bool: ...
        def post_reply(self, message: object, /) -> bool: ...
        def post_exception(self, message: object, /) -> bool: ...
        def post_ask(self, message: object, /) -> bool: ...
        def post_notice(self, message: object, /) -> bool: ...
        def post_event(self, message: object, /) -> bool: ...
        def put(self, mailbox: int, message: object, /) -> None: ...
        def put_front(self, mailbox: int, message: object, /) -> None: ...
        def take(self, mailbox: int, empty: Any, /) -> Any: ...
        def drain(self, mailbox: int, budget: int, /) -> Drain: ...
        def size(self, mailbox: int, /) -> int: ...
        def mail(self) -> int: ...
        def has_mail(self, mask: int, /) -> bool: ...

    def me() -> Any:
        """The object that stands for this thread (see `set_me`), or None."""

    def set_me(thread: object, /) -> None:
        """Say what `me()` answers on this thread; None to forget."""

    def make_immortal(thing: object, /) -> None:
        """Exempt a process-long object from reference counting; nothing on builds with the GIL."""

else:
    InvariantError = _face["InvariantError"]
    AtomicInt = _face["AtomicInt"]
    SpinLock = _face["SpinLock"]
    HouseCell = _face["HouseCell"]
    me = _face["me"]
    set_me = _face["set_me"]
    make_immortal = _face["make_immortal"]


# The enums and the table below are made from the C header's own table (`OTV_STATES`,
# `OTV_TRANSITIONS`, `OTV_MAILBOXES`), so that there is one place to change.

if TYPE_CHECKING:

    class HouseState(IntEnum):
        CREATED = 0
        MOUNTING = 1
        WAITING = 2
        READY = 3
        SCHEDULED = 4
        RUNNING = 5

    class Mailbox(IntEnum):
        SYSTEM = 0
        REPLY = 1
        EXCEPTION = 2
        ASK = 3
        NOTICE = 4
        EVENT = 5

else:
    HouseState = IntEnum("HouseState", _face["STATES"])
    Mailbox = IntEnum("Mailbox", [(name.upper(), number) for name, number in _face["MAILBOXES"]])


class Transition(NamedTuple):
    """One arrow of the state machine: the method that performs it, and what it connects."""

    name: str
    source: HouseState
    target: HouseState


TRANSITIONS: tuple[Transition, ...] = tuple(
    Transition(name, HouseState[source], HouseState[target])
    for name, source, target in _face["TRANSITIONS"]
)
