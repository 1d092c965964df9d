"""The stash: messages that an actor has put aside until it can do something with them.

They go back to the front of their mailboxes in the order in which they came: asks before asks,
notices before notices. (Between the two kinds asks come first, as always.)

A stashed ask takes its asker along. The stack that is left behind answers to nobody, so it does not
matter what the handler returns after `stash()`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otavia_ft.context import running_stack
from otavia_ft.doors import Mailbox
from otavia_ft.errors import ActorStopped, OtaviaError, StackError, fresh
from otavia_ft.house.family import family_of
from otavia_ft.message import Envelope
from otavia_ft.stack.stack import AskStack, NoticeStack, Stack

if TYPE_CHECKING:
    from otavia_ft.address import ActorAddress
    from otavia_ft.deadletters import DeadLetters
    from otavia_ft.house.house import House

__all__ = ["Stash", "stash", "unstash"]

ASK, NOTICE = int(Mailbox.ASK), int(Mailbox.NOTICE)


class _Nobody:
    """Takes the answers of a stack whose ask has been stashed."""

    def answer(self, ids: int | tuple[int, ...], reply: object) -> None: ...
    def answer_error(self, ids: int | tuple[int, ...], error: OtaviaError) -> None: ...
    def asker_address(self) -> ActorAddress | None:
        return None


_NOBODY = _Nobody()


class Stash:
    """One actor's. It does not know its house: that may be gone before it, and then it is the
    stash that answers the asks."""

    __slots__ = ("_dead_letters", "_items", "_last", "_name")

    def __init__(self, name: str, dead_letters: DeadLetters) -> None:
        self._name = name
        self._dead_letters = dead_letters
        self._items: deque[tuple[int, Any]] = deque()
        self._last: tuple[Stack, Any] | None = None

    def add(self, stack: Stack) -> None:
        """Put the message of a running stack aside."""
        if isinstance(stack, AskStack):
            if stack.asker is _NOBODY:
                raise StackError(f"{self._name}: this ask is stashed already")
            if stack.done:
                raise StackError(f"{self._name}: this ask is answered, there is nothing to stash")
            self._items.append((ASK, Envelope(stack.asker, stack.ask_id, stack.ask)))
            stack.asker = _NOBODY
        elif isinstance(stack, NoticeStack):
            message = stack.notice
            if self._last is not None and self._last[0] is stack and self._last[1] is message:
                raise StackError(f"{self._name}: this notice is stashed already")
            self._items.append((NOTICE, message))
            self._last = (stack, message)
        else:
            raise StackError(
                f"{self._name}: a {type(stack).__name__} cannot be stashed, only a single ask or "
                "notice; let the batch filter keep out what you may want to stash"
            )

    def take(self, everything: bool) -> list[tuple[int, Any]]:
        """The oldest, or all of them, oldest first."""
        count = len(self._items) if everything else min(1, len(self._items))
        self._last = None
        return [self._items.popleft() for _ in range(count)]

    def bury(self, reason: OtaviaError) -> None:
        """Nobody will come back to them: dead letters, and errors for the askers."""
        for mailbox, item in self.take(everything=True):
            if mailbox == ASK:
                item.asker.answer_error(item.message_id, fresh(reason))
                item = item.message
            self._dead_letters.add(item, self._name, str(reason))

    def __len__(self) -> int:
        return len(self._items)

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        # The actor went with its last address. Nothing can unstash these any more. (When the
        # interpreter ends, this module's names may be gone.)
        if self._items and not at_exit():
            self.bury(ActorStopped(f"{self._name} is gone: nobody had its address any more"))


def stash() -> None:
    """Put the message in hand aside."""
    stack = running_stack("self.stash()")
    house = stack.house
    if house.stop_reason is not None:
        raise StackError(f"{house.name} has stopped: nothing could unstash this message")
    family = family_of(house)
    if family.stash is None:
        family.stash = Stash(house.name, house.scheduler.system.dead_letters)
        house.enter_register()
    family.stash.add(stack)


def unstash(house: House, everything: bool) -> int:
    """Put the oldest, or all, back to the front of the mailboxes; returns how many."""
    family = house.family
    if family is None or family.stash is None:
        return 0
    taken = family.stash.take(everything)
    for mailbox, item in reversed(taken):
        house.put_front(mailbox, item)
    return len(taken)
