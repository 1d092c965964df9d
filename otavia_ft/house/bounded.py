"""Bounded mailboxes: at most `mailbox_capacity` asks and as many notices wait; the policy decides.

An actor class says so (`mailbox_capacity = 100`, `overflow = Overflow.DROP_OLDEST`), or the
system's configuration does for all of them. A policy without a capacity from either is refused.
Only such actors get a house of this kind; all others
have the plain one and pay nothing.

    FAIL         a notice raises MailboxFull at its sender
    DROP_NEWEST  the message that came last becomes a dead letter
    DROP_OLDEST  the message that waits longest does, to make room for the new one
    BLOCK        the sender waits for room, `overflow_timeout_s` at most, then as FAIL; an
                 ActorThread must not wait, so there it fails at once

An ask that is refused or dropped is answered with MailboxFull. Replies, errors, events and system
messages are never bounded: they are what makes room. Neither is `notice_self_first`.

How: the house's own mailboxes are many-producers, one-consumer, so a sender could not take the
oldest message out. Here they hold only tokens (None), one for each message in a `_Shelf` beside
them, a linked list under a spin lock. A sender puts its message on the shelf first and the token
into the mailbox second, so whoever takes a token finds a message. To drop the oldest is to exchange
it on the shelf; the number of tokens stays. The wake-up handshake is that of the tokens, which is
the usual one. No call is made under the lock, for the reason given in schedule/queues.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any

from otavia_ft.doors import AtomicInt, Condition, Mailbox, SpinLock, me, now
from otavia_ft.errors import ConfigError, MailboxFull
from otavia_ft.house.house import House
from otavia_ft.lane import laid_in_plots

if TYPE_CHECKING:
    from otavia_ft.actor.base import AbstractActor
    from otavia_ft.atomic import Drain
    from otavia_ft.config import Config
    from otavia_ft.house.house import Scheduler
    from otavia_ft.message import Envelope

__all__ = ["BoundedHouse", "Overflow", "house_for"]

ASK, NOTICE = int(Mailbox.ASK), int(Mailbox.NOTICE)


class Overflow(Enum):
    """What happens to a message for a full mailbox."""

    FAIL = "fail"
    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"
    BLOCK = "block"


class _Node:
    __slots__ = ("item", "next")

    def __init__(self, item: Any) -> None:
        self.item = item
        self.next: _Node | None = None


class _Shelf:
    """The messages behind one mailbox's tokens, oldest first."""

    __slots__ = ("_capacity", "_count", "_head", "_lock", "_tail")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = SpinLock()
        self._head: _Node | None = None
        self._tail: _Node | None = None
        self._count = 0

    def put(self, node: _Node, anyway: bool = False) -> bool:
        """To the end, if there is room or it has to be. Any thread."""
        with self._lock:
            if self._count >= self._capacity and not anyway:
                return False
            if self._tail is None:
                self._head = node
            else:
                self._tail.next = node
            self._tail = node
            self._count += 1
        return True

    def exchange(self, node: _Node) -> _Node | None:
        """To the end; if there is no room, the first one leaves for it and is returned."""
        with self._lock:
            oldest = self._head
            if self._tail is None:
                self._head = node
            else:
                self._tail.next = node
            self._tail = node
            if self._count < self._capacity or oldest is None:
                self._count += 1
                return None
            self._head = oldest.next
        return oldest

    def put_first(self, node: _Node) -> None:
        """To the front, room or not."""
        with self._lock:
            node.next = self._head
            self._head = node
            if self._tail is None:
                self._tail = node
            self._count += 1

    def take(self) -> Any:
        """The oldest. Whoever holds a token finds one."""
        with self._lock:
            node = self._head
            assert node is not None
            self._head = node.next
            if node.next is None:
                self._tail = None
            self._count -= 1
        return node.item


class _ShelfDrain:
    """`House.drain` for a mailbox of tokens."""

    __slots__ = ("_house", "_shelf", "_tokens")

    def __init__(self, house: BoundedHouse, shelf: _Shelf, tokens: Drain) -> None:
        self._house = house
        self._shelf = shelf
        self._tokens = tokens

    @property
    def left(self) -> int:
        return self._tokens.left

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        next(self._tokens)
        item = self._shelf.take()
        self._house._made_room()
        return item


@laid_in_plots
class BoundedHouse(House):
    """A house whose ask and notice mailboxes have an end."""

    __slots__ = ("_overflow", "_patience", "_room", "_shelves", "_waiters")

    def __init__(self, actor: AbstractActor, scheduler: Scheduler, id: int) -> None:  # noqa: A002
        super().__init__(actor, scheduler, id)
        self.plain = False  # its mail is on the shelves
        config = scheduler.system.config
        capacity, self._overflow = bounds(actor, config)
        self._shelves = {ASK: _Shelf(capacity), NOTICE: _Shelf(capacity)}
        self._patience = config.overflow_timeout_s
        self._waiters = AtomicInt()
        self._room = Condition() if self._overflow is Overflow.BLOCK else None

    # ---- senders: any thread

    def notice(self, message: Any) -> None:
        self._deliver(NOTICE, message)

    def ask(self, envelope: Envelope) -> None:
        self._deliver(ASK, envelope)

    def _deliver(self, box: int, item: Any) -> None:
        node = _Node(item)
        shelf = self._shelves[box]
        if self._overflow is Overflow.DROP_OLDEST:
            dropped = shelf.exchange(node)
            if dropped is not None:  # its token now stands for the new message
                self._drop(box, dropped.item, "dropped for a newer one: the mailbox is full")
                return
        elif not shelf.put(node):
            if self._overflow is Overflow.DROP_NEWEST:
                self._drop(box, item, "dropped: the mailbox is full")
                return
            refusal = self._wait_for_room(shelf, node)
            if refusal is not None:
                self._refuse(box, item, refusal)
                return
        if self.post_notice(None) if box == NOTICE else self.post_ask(None):
            self.scheduler.ready(self)

    def _wait_for_room(self, shelf: _Shelf, node: _Node) -> str | None:
        """BLOCK: put the node when there is room. Returns why it could not be put."""
        if self._room is None:
            return "its mailbox is full"
        if me() is not None:
            return (
                "its mailbox is full, and Overflow.BLOCK lets only threads outside the system "
                "wait: an ActorThread that waits could be the one that has to make room"
            )
        deadline = now() + self._patience
        # Announced first, tried second; the runner takes first and looks for waiters second.
        self._waiters.get_and_add(1)
        try:
            with self._room:
                while not shelf.put(node):
                    left = deadline - now()
                    if left <= 0:
                        return f"its mailbox was full for {self._patience} s"
                    self._room.wait(left)
        finally:
            self._waiters.get_and_add(-1)
        return None

    def _refuse(self, box: int, item: Any, why: str) -> None:
        error = MailboxFull(f"{self.name}: {why}")
        if box == NOTICE:
            raise error
        item.asker.answer_error(item.message_id, error)

    def _drop(self, box: int, item: Any, why: str) -> None:
        if box == ASK:
            item.asker.answer_error(item.message_id, MailboxFull(f"{self.name}: {why}"))
            item = item.message
        self.dead_letter(item, why)

    # ---- the runner

    def drain(self, mailbox: int, budget: int) -> Any:
        tokens = super().drain(mailbox, budget)
        shelf = self._shelves.get(mailbox)
        return tokens if shelf is None else _ShelfDrain(self, shelf, tokens)

    def put(self, mailbox: int, message: Any) -> None:
        shelf = self._shelves.get(mailbox)
        if shelf is not None:
            shelf.put(_Node(message), anyway=True)
            message = None
        super().put(mailbox, message)

    def put_front(self, mailbox: int, message: Any) -> None:
        shelf = self._shelves.get(mailbox)
        if shelf is not None:
            shelf.put_first(_Node(message))
            message = None
        super().put_front(mailbox, message)

    def _made_room(self) -> None:
        # A read-modify-write, because a plain load might overtake the shelf's lazy unlock.
        if self._room is not None and self._waiters.get_and_add(0):
            with self._room:
                self._room.notify_all()


def bounds(actor: AbstractActor, config: Config) -> tuple[int, Overflow]:
    """The capacity (0: none) and the policy: the class's, or else the configuration's."""
    capacity: Any = actor.mailbox_capacity
    if capacity is None:
        capacity = config.mailbox_capacity
    elif isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 0:
        raise ConfigError(
            f"{type(actor).__name__}.mailbox_capacity={capacity!r} must be an int from 0 "
            "(no limit) up, or None"
        )
    overflow: Any = actor.overflow
    if overflow is None:
        return capacity, Overflow(config.overflow)
    if not isinstance(overflow, Overflow):
        allowed = ", ".join(str(policy) for policy in Overflow)
        raise ConfigError(
            f"{type(actor).__name__}.overflow={overflow!r} must be one of {allowed}, or None"
        )
    if not capacity and actor.mailbox_capacity is None:
        raise ConfigError(
            f"{type(actor).__name__}.overflow={overflow!r} says what happens when the mailbox is "
            "full, but it has no limit: set mailbox_capacity (to 0 if there is to be none)"
        )
    return capacity, overflow


_bounded: dict[type[House], type[House]] = {House: BoundedHouse}


def house_for(actor: AbstractActor, scheduler: Scheduler, id: int) -> House:  # noqa: A002
    """The house for a new actor: the scheduler's own kind, bounded if the actor wants that."""
    kind = scheduler.house_type
    config = scheduler.system.config
    unbounded = (
        actor.mailbox_capacity is None and actor.overflow is None and not config.mailbox_capacity
    )
    if not unbounded and bounds(actor, config)[0]:
        if kind not in _bounded:
            made = type(f"Bounded{kind.__name__}", (BoundedHouse, kind), {"__slots__": ()})
            _bounded.setdefault(kind, laid_in_plots(made))
        kind = _bounded[kind]
    house = kind(actor, scheduler, id)
    if config.pooling:
        house.plain = False  # the native lane makes everything anew; the pools are Python's
    return house
