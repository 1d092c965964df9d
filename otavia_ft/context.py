"""What a thread is doing right now: which house it runs, which stack, and what it has counted.

Every ActorThread makes one `Context` on its own thread and keeps it in a C thread local (`me()`).
Made there, it is owned there: CPython counts references to it without atomics. Actors reach their
address, their system and their timers through it, so an actor holds no reference to its house and
dies, by reference counting alone, with its last address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otavia_ft.doors import me
from otavia_ft.errors import OutsideActor
from otavia_ft.stack.stack import AskStack, NoticeStack, Stack

if TYPE_CHECKING:
    from otavia_ft.house.house import House

__all__ = ["Context", "running_house", "running_stack"]


class Context:
    """One thread's hands. Only that thread reads or writes it (statistics may peek)."""

    __slots__ = (
        "budget",
        "house",
        "messages",
        "new_ask_stack",
        "new_notice_stack",
        "owner",
        "recycle",
        "stack",
        "turns",
    )

    def __init__(self, owner: Any, budget: int) -> None:
        self.owner = owner
        self.budget = budget
        self.house: House | None = None
        self.stack: Stack | None = None
        self.turns = 0
        self.messages = 0
        # The seam for object pools: see otavia_ft.pool and docs/performance for why the default is
        # to make them anew.
        self.new_notice_stack = NoticeStack
        self.new_ask_stack = AskStack
        self.recycle: Any = None


def running_house(what: str) -> House:
    """The house whose actor runs on this thread."""
    context: Context | None = me()
    if context is None or context.house is None:
        raise OutsideActor(
            f"{what} works only inside a running actor (a handler or a hook); "
            "from elsewhere use the actor's address and the system"
        )
    return context.house


def running_stack(what: str) -> Stack:
    """The stack that runs on this thread."""
    context: Context | None = me()
    if context is None or context.stack is None:
        raise OutsideActor(
            f"{what} needs a running stack, that is: a handler of a notice or an ask. In a hook "
            "send yourself a notice and go on from there; outside actors use system.ask(...)"
        )
    return context.stack
