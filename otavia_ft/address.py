"""Addresses: how actors are reached, from any thread.

An address is a handle on a house, and the only thing that keeps an actor alive: when the last one
is gone and no message or timer is on its way, the actor is gone too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self, overload

from otavia_ft.context import Context, running_stack
from otavia_ft.doors import AtomicInt, me
from otavia_ft.errors import OtaviaError, StackError, fresh
from otavia_ft.house.lifecycle import Restart
from otavia_ft.lane import AddressBase, laid_in_plots
from otavia_ft.message import Ask, Event, PoisonPill, SystemMessage
from otavia_ft.stack.promise import MessageFuture
from otavia_ft.timer import check_timeout

if TYPE_CHECKING:
    from otavia_ft.house.house import House
    from otavia_ft.system import ActorSystem

__all__ = ["ActorAddress", "Address", "RobinAddress"]


class Address:
    """What all addresses can do."""

    __slots__ = ()

    house: House
    """Who gets the next notice."""

    def _for_ask(self) -> House:
        raise NotImplementedError

    def _system(self) -> ActorSystem:
        raise NotImplementedError

    def notice(self, message: Any) -> None:
        """Send a message that wants no answer. Any object will do."""
        house = self.house
        if isinstance(message, SystemMessage):
            house.control(message)
        else:
            house.notice(message)

    @overload
    def ask[R](
        self,
        message: Ask[R],
        future: MessageFuture[R] | None = None,
        *,
        timeout: float | None = None,
    ) -> MessageFuture[R]: ...

    @overload
    def ask(
        self,
        message: object,
        future: MessageFuture[Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> MessageFuture[Any]: ...

    def ask(
        self,
        message: Any,
        future: MessageFuture[Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> MessageFuture[Any]:
        """Ask from inside an actor. Await the future, or suspend the stack on a state with it.

        With a timeout the future fails with AskTimeout after that many seconds. From outside an
        actor use `system.ask(address, message)`.
        """
        context: Any = me()
        stack = None if context is None else context.stack
        if stack is None:
            stack = running_stack("address.ask(...)")  # makes it, or says why there is none
        asker = stack.house
        if future is None:
            future = context.new_promise()
        elif not isinstance(future, MessageFuture):
            raise TypeError(f"the future of an ask is a MessageFuture, not {future!r}")
        if timeout is not None:
            check_timeout(timeout)
        house = self._for_ask()
        if house is asker and asker.barrier is stack:
            raise StackError(
                f"{asker.name} asks itself inside a barrier call: the ask would wait for the "
                "barrier and the barrier for the answer. Call the method directly instead"
            )
        number = asker.attach(stack, future)
        if timeout is not None:
            asker.attach_timeout(future, timeout)
        house.ask(context.new_envelope(asker, number, message))
        return future

    def __copy__(self) -> Self:
        """The same: an address is a name, and a copied message names the same actor."""
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled: an address leads nowhere in another process")

    def stop(self) -> None:
        """Stop the actor after the message in hand; what is queued becomes dead letters."""
        self.notice(PoisonPill())

    def restart(self) -> None:
        """Run the actor's restart hooks as a turn; its mail is kept."""
        self.notice(Restart())


def _checked_id(ask_id: Any) -> int:
    if isinstance(ask_id, bool) or not isinstance(ask_id, int):
        raise TypeError(f"the number of an ask is an int, not {ask_id!r}")
    if not 0 < ask_id < 1 << 63:
        raise ValueError(f"no ask has the number {ask_id!r}: take the one that came with it")
    return ask_id


@laid_in_plots
class ActorAddress(AddressBase, Address):
    """The address of one actor. In the native lane `notice` and `ask` are AddressBase's."""

    __slots__ = ("__weakref__",)

    house: House

    def _for_ask(self) -> House:
        return self.house

    def _system(self) -> ActorSystem:
        return self.house.scheduler.system

    def reply(self, reply: Any, ask_id: int) -> None:
        """Answer ask number `ask_id` of this actor's. Handlers use `stack.return_(reply)`."""
        self.house.answer(_checked_id(ask_id), reply)

    def throw(self, error: OtaviaError, ask_id: int) -> None:
        """Answer ask number `ask_id` of this actor's with an error."""
        if not isinstance(error, OtaviaError):
            raise TypeError(f"throw() sends an OtaviaError, not {error!r}: wrap it in AskFailed")
        self.house.answer_error(_checked_id(ask_id), fresh(error))  # who knows who else has it

    def inform(self, event: Event) -> None:
        """Deliver an event."""
        if not isinstance(event, Event):
            raise TypeError(f"inform() delivers an Event, not {event!r}; use notice() for messages")
        self.house.inform(event)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorAddress) and other.house is self.house

    def __hash__(self) -> int:
        return hash(self.house.id)

    def __repr__(self) -> str:
        return f"<ActorAddress {self.house.name}>"


class RobinAddress(Address):
    """The address of several actors of one kind, each taking its turn.

    If the actors are load-balanced (one on every thread) and the asker is too, an ask goes to the
    one on the asker's own thread.
    """

    __slots__ = ("_ask_cursor", "_houses", "_notice_cursor", "load_balanced")

    def __init__(self, houses: Sequence[House], load_balanced: bool = False) -> None:
        self._houses = tuple(houses)
        self._notice_cursor = AtomicInt()
        self._ask_cursor = AtomicInt()
        self.load_balanced = load_balanced

    @property
    def house(self) -> House:  # type: ignore[override]  # each look deals the next one
        return self._houses[self._notice_cursor.get_and_add(1) % len(self._houses)]

    def _for_ask(self) -> House:
        if self.load_balanced:
            context: Context | None = me()
            asker = context.house if context is not None else None
            if asker is not None and asker.load_balanced:
                for house in self._houses:
                    if house.scheduler is asker.scheduler:
                        return house
        return self._houses[self._ask_cursor.get_and_add(1) % len(self._houses)]

    def _system(self) -> ActorSystem:
        return self._houses[0].scheduler.system

    def stop(self) -> None:
        for address in self.addresses:
            address.stop()

    def restart(self) -> None:
        for address in self.addresses:
            address.restart()

    @property
    def addresses(self) -> tuple[ActorAddress, ...]:
        """The single actors."""
        return tuple(ActorAddress(house) for house in self._houses)

    def __len__(self) -> int:
        return len(self._houses)

    def __repr__(self) -> str:
        return f"<RobinAddress of {len(self)} {self._houses[0].plan.name}>"
