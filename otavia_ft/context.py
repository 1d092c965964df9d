"""What a thread is doing right now: which house it runs, which stack, and what it has counted.

Every ActorThread makes one `Context` on its own thread and keeps it in a C thread local (`me()`).
Made there, it is owned there: CPython counts references to it without atomics. Actors reach their
address, their system and their timers through it, so an actor holds no reference to its house and
dies, by reference counting alone, with its last address.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otavia_ft.doors import me
from otavia_ft.errors import OutsideActor
from otavia_ft.lane import ContextBase
from otavia_ft.message import Envelope
from otavia_ft.pool import ThreadPool
from otavia_ft.stack.stack import (
    AskStack,
    BatchAskStack,
    BatchNoticeStack,
    NoticeStack,
    Stack,
)

if TYPE_CHECKING:
    from otavia_ft.house.house import House

__all__ = [
    "ASK",
    "NOTICE",
    "NOT_BARE",
    "Context",
    "bare_stack",
    "running_context",
    "running_house",
    "running_stack",
]

# A plain handler runs bare, without a stack; should it want one, it is made of the message in hand,
# and this says what that is.
NOT_BARE, NOTICE, ASK = 0, 1, 2


class Context(ContextBase):
    """One thread's hands. Only that thread reads or writes it (statistics may peek)."""

    __slots__ = (
        "new_ask_stack",
        "new_batch_ask_stack",
        "new_batch_notice_stack",
        "new_notice_stack",
        "owner",
        "pools",
    )

    house: House | None
    stack: Stack | None
    recycle: Callable[[Stack], None] | None

    def __init__(self, owner: Any, budget: int, seat: Any = None) -> None:
        super().__init__()
        self.owner = owner
        self.budget = budget
        self.seat = seat  # what this thread is the owner of: its HouseManager
        # Functions to run on this thread at the end of the pass in hand.
        self.later: deque[Callable[[], Any]] = deque()
        # The seam for object pools; see pool.py for why the default is to make stacks anew.
        self.new_notice_stack: Callable[[], NoticeStack] = NoticeStack
        self.new_ask_stack: Callable[[], AskStack] = AskStack
        self.new_batch_notice_stack: Callable[[], BatchNoticeStack] = BatchNoticeStack
        self.new_batch_ask_stack: Callable[[], BatchAskStack] = BatchAskStack
        self.pools: tuple[ThreadPool[Any], ...] = ()

    def use_pools(self, max_size: int, debug: bool) -> None:
        """From now on take stacks from this thread's pools."""
        mine: dict[type[Stack], ThreadPool[Any]] = {}

        def pool[T: Stack](kind: type[T]) -> ThreadPool[T]:
            made = mine[kind] = ThreadPool(kind, max_size, debug)
            self.pools += (made,)
            return made

        def recycle(stack: Stack) -> None:
            # To this thread's pool, whoever made it: a house that was stolen ends its stacks here,
            # and another thread's pool is not ours to touch. The pool drops what is not its own.
            if stack.pool is not None:
                mine[type(stack)].recycle(stack)

        self.new_notice_stack = pool(NoticeStack).get
        self.new_ask_stack = pool(AskStack).get
        self.new_batch_notice_stack = pool(BatchNoticeStack).get
        self.new_batch_ask_stack = pool(BatchAskStack).get
        self.recycle = recycle


def bare_stack(context: Context) -> Stack:
    """The stack of a message whose handler has begun without one."""
    house = context.house
    assert house is not None
    stack: Stack
    if context.bare == NOTICE:
        notice_stack = stack = context.new_notice_stack()
        notice_stack.notice = context.message
    else:
        envelope: Envelope = context.message
        ask_stack = stack = context.new_ask_stack()
        ask_stack.asker = envelope.asker
        ask_stack.ask_id = envelope.message_id
        ask_stack.ask = envelope.message
    stack.house = house
    stack.actor = house.actor
    return stack


def running_context(what: str) -> Context:
    """This thread's context, if an actor runs on it."""
    context: Context | None = me()
    if context is None or context.house is None:
        raise OutsideActor(
            f"{what} works only inside a running actor (a handler or a hook); "
            "from elsewhere use the actor's address and the system"
        )
    return context


def running_house(what: str) -> House:
    """The house whose actor runs on this thread."""
    house = running_context(what).house
    assert house is not None
    return house


def running_stack(what: str) -> Stack:
    """The stack that runs on this thread."""
    context: Context | None = me()
    if context is not None:
        if context.stack is not None:
            return context.stack
        if context.bare:
            context.stack = stack = bare_stack(context)
            return stack
    raise OutsideActor(
        f"{what} needs a running stack, that is: a handler of a notice or an ask. In a hook "
        "send yourself a notice and go on from there; outside actors use system.ask(...)"
    )
