"""Two lanes for one walk: a message's way through the house, in Python and in C.

The Python lane is the whole runtime, and where everything is explained; the explorer searches its
interleavings. The native lane (`_atomics/lane.c`) is the same walk once more for the messages that
are most common, step by step in the same order: about a quarter of the cost if many come at once,
and a twentieth if each needs a turn of its own (counting and ping-pong of bench/messages.py).
Whatever is not common it leaves to the Python functions. `OTAVIA_FT_LANE=python` switches it off.
The tests run in both.

How the two meet:
 - the fields that C touches are declared here, as base classes: C structures in the native lane,
   ordinary slots in the other, with the same names;
 - a method or class that C has as well is marked `@twin(Base)` where it is written. In the native
   lane the mark puts Base's method of the same name in its place;
 - `connect` (called by `house/wiring.py`) gives C the functions to fall back on.

To change a step, change it in Python first, run the explorer, then change its twin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otavia_ft.doors import NATIVE_LANE, HouseCell, lane_face

__all__ = [
    "NATIVE_LANE",
    "AddressBase",
    "ContextBase",
    "CoroutineBase",
    "EnvelopeBase",
    "HouseBase",
    "HouseQueue",
    "PlanBase",
    "PromiseBase",
    "SeatBase",
    "StackBase",
    "connect",
    "laid_in_plots",
    "twin",
    "twin_class",
    "twin_function",
]

if TYPE_CHECKING or not NATIVE_LANE:

    class HouseBase(HouseCell):
        """The fields of a house. Who may touch which: see house.py."""

        __slots__ = (
            "actor",
            "barrier",
            "channel_futures",
            "channel_promises",
            "family",
            "high_priority",
            "id",
            "load_balanced",
            "next_house",
            "next_id",
            "plain",
            "plan",
            "promises",
            "scheduler",
            "stop_reason",
            "timers",
        )

        actor: Any
        plan: Any
        scheduler: Any
        promises: Any

        def settle(
            self, actor: Any, plan: Any, scheduler: Any, promises: Any, number: int, /
        ) -> None:
            self.actor = actor
            self.plan = plan
            self.scheduler = scheduler
            self.barrier: Any = None
            self.stop_reason: Any = None
            self.channel_futures: Any = None
            self.channel_promises: Any = None
            self.timers: Any = None
            self.family: Any = None
            self.promises = promises
            self.next_house: Any = None
            self.id = number
            self.next_id = 0
            self.high_priority = False
            self.load_balanced = False
            self.plain = True  # its mail is in its own mailboxes, and goes the ordinary way

    class PlanBase:
        """What a house looks up for every message."""

        __slots__ = ("channels", "handlers", "short_asks", "short_notices", "special")

        handlers: Any
        channels: bool
        special: bool
        short_asks: bool
        short_notices: bool

    class ContextBase:
        """What a thread has in hand."""

        __slots__ = (
            "bare",
            "budget",
            "house",
            "later",
            "message",
            "messages",
            "recycle",
            "seat",
            "stack",
            "turns",
        )

        def __init__(self) -> None:
            self.house: Any = None
            self.stack: Any = None
            self.message: Any = None
            self.later: Any = None
            self.recycle: Any = None
            self.seat: Any = None
            self.turns = 0
            self.messages = 0
            self.budget = 0
            self.bare = 0

    class SeatBase:
        """What a house needs of its scheduler."""

        def furnish(self, *needs: Any) -> None:
            """Nothing: the Python lane finds what it needs by itself."""

        def give_rings(self, *needs: Any) -> None:
            """Nothing, for the same reason."""

        def give_desk(self, desk: Any, failed: Any, /) -> None:
            """Nothing, for the same reason."""

        def give_ground(self) -> None:
            """Nothing: where objects lie is a matter of C (_atomics/plots.c)."""

        def make[T](self, factory: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
            """What the factory makes, for this seat."""
            return factory(*args, **kwargs)

    class AddressBase:
        """A handle on a house."""

        __slots__ = ("house",)

        def __init__(self, house: Any) -> None:
            self.house = house

    class EnvelopeBase:
        """An ask on its way."""

        __slots__ = ("asker", "message", "message_id")

        def __init__(self, asker: Any, message_id: int, message: Any) -> None:
            self.asker = asker
            self.message_id = message_id
            self.message = message

    class PromiseBase:
        """An answer to come: links, outcome, number."""

        __slots__ = ("aid", "hash_next", "next", "outcome", "prev", "stack", "timer", "value")

        outcome: Any

    class StackBase:
        """The execution of one message: state, promises, and whom to answer."""

        __slots__ = (
            "actor",
            "ask_id",
            "asker",
            "attach",
            "completed_head",
            "completed_tail",
            "content",
            "done",
            "house",
            "next_state",
            "pool",
            "state",
            "uncompleted_head",
            "uncompleted_tail",
        )

        actor: Any
        asker: Any
        ask_id: int
        content: Any
        done: bool
        house: Any

    class CoroutineBase:
        """A coroutine, and what it awaits."""

        __slots__ = ("awaited", "coroutine")

        coroutine: Any
        awaited: Any

    HouseQueue: Any = None  # PriorityHouseQueue of schedule/queues.py is what this lane has

    def connect(names: dict[str, Any], /) -> None:
        """Nothing: the Python lane needs no introduction."""

else:
    HouseBase = lane_face["HouseBase"]
    PlanBase = lane_face["PlanBase"]
    ContextBase = lane_face["ContextBase"]
    SeatBase = lane_face["SeatBase"]
    AddressBase = lane_face["AddressBase"]
    EnvelopeBase = lane_face["EnvelopeBase"]
    PromiseBase = lane_face["PromiseBase"]
    StackBase = lane_face["StackBase"]
    CoroutineBase = lane_face["CoroutineBase"]
    HouseQueue = lane_face["HouseQueue"]
    connect = lane_face["connect"]


def twin[F: Callable[..., Any]](base: type, name: str = "") -> Callable[[F], F]:
    """Mark a method that the native lane has as well, as `base`'s of the same name or of `name`."""

    def choose(function: F) -> F:
        if not NATIVE_LANE:
            return function
        native: F = getattr(base, name or function.__name__)
        return native

    return choose


def twin_class[C: type](name: str) -> Callable[[C], C]:
    """Mark a class that the native lane has as well, under this name."""

    def choose(cls: C) -> C:
        if not NATIVE_LANE:
            return cls
        native: C = lane_face[name]
        return native

    return choose


def laid_in_plots[C: type](cls: C) -> C:
    """Mark a class of which a thread has many: those of one thread lie together (plots.c)."""
    if NATIVE_LANE:
        lane_face["lay_in_plots"](cls)
    return cls


def twin_function[F: Callable[..., Any]](function: F) -> F:
    """Mark a function that the native lane has as well, under the same name."""
    native: F = lane_face[function.__name__] if NATIVE_LANE else function
    return native
