"""The vocabulary of messages.

Any object may be sent as a notice. Those who want types checked derive from `Notice`, `Ask[R]` and
`Reply`: `await address.ask(message)` is then known to give an `R`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from otavia_ft.errors import OtaviaError
from otavia_ft.lane import EnvelopeBase

if TYPE_CHECKING:
    from otavia_ft.address import ActorAddress

__all__ = [
    "Ask",
    "AskTimeoutEvent",
    "Asker",
    "Call",
    "ChannelTimeoutEvent",
    "Envelope",
    "Event",
    "LaterEvent",
    "Notice",
    "PoisonPill",
    "ReactorEvent",
    "Reply",
    "ResourceTimeoutEvent",
    "SystemMessage",
    "TimeoutEvent",
    "TimeoutReply",
    "UnitReply",
]


class Call:
    """What an actor can be called with: a notice or an ask."""

    __slots__ = ()


class Notice(Call):
    """A message that wants no answer."""

    __slots__ = ()


class Ask[R](Call):
    """A message that is answered with an `R`."""

    __slots__ = ()


class Reply:
    """An answer. Deriving from it is optional: any object can be a reply."""

    __slots__ = ()


class _Unit(Reply):
    __slots__ = ()

    def __repr__(self) -> str:
        return "UnitReply"


class _Timeout(Reply):
    __slots__ = ()

    def __repr__(self) -> str:
        return "TimeoutReply"


UnitReply: Final = _Unit()
"""The reply that says only "done"."""

TimeoutReply: Final = _Timeout()
"""What a sleeping stack wakes up with."""


class Asker(Protocol):
    """Whoever can be answered: a house, or a thread outside the system that holds a future."""

    def answer(self, ids: int | tuple[int, ...], reply: object) -> None: ...
    def answer_error(self, ids: int | tuple[int, ...], error: OtaviaError) -> None: ...
    def asker_address(self) -> ActorAddress | None: ...


class Envelope(EnvelopeBase):
    """An ask on its way: the message, who asked, and under which number the answer is awaited."""

    __slots__ = ()

    @property
    def sender(self) -> ActorAddress | None:
        """The asking actor's address; None when the ask came from outside the system."""
        asker: Asker = self.asker
        return asker.asker_address()

    def clean(self) -> None:
        """Forget the ask: for the next one."""
        self.asker = self.message = None
        self.message_id = 0

    def __repr__(self) -> str:
        return f"Envelope({self.message!r}, id={self.message_id})"


class Event:
    """Something that happened to an actor rather than a message to it: timers and the reactor."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TimeoutEvent(Event):
    """A timer of the actor's own went off; goes to `handle_actor_timeout`."""

    register_id: int
    attach: Any = None


@dataclass(frozen=True, slots=True)
class AskTimeoutEvent(Event):
    """An ask was not answered in time, or a sleeping stack has slept enough."""

    ask_id: int
    sleep: bool = False


@dataclass(frozen=True, slots=True)
class LaterEvent(Event):
    """What an actor's later tasks have queued in turn; for the end of its next pass."""

    tasks: tuple[Callable[[], Any], ...]


@dataclass(frozen=True, slots=True)
class ChannelTimeoutEvent(Event):
    """A channel's timer went off."""

    register_id: int
    channel: Any


@dataclass(frozen=True, slots=True)
class ResourceTimeoutEvent(Event):
    """A timer of a thread's own resource (an object pool, a channel's buffers) went off; goes to
    the thread, which calls `resource.handle_timeout(event)`."""

    register_id: int
    resource: Any


@dataclass(frozen=True, slots=True)
class ReactorEvent(Event):
    """The reactor reports on a channel; the base of its family."""

    channel: Any
    cause: BaseException | None = None


class SystemMessage:
    """Control messages: they travel in the system mailbox and overtake everything else."""

    __slots__ = ()


class PoisonPill(SystemMessage):
    """Stops its receiver after the message in hand, whatever is queued before it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "PoisonPill()"
