"""The slower way through the ask and notice mailboxes: barriers and batches.

An actor that overrides `is_barrier_call` or sets `batchable` takes this way; all others never pay
for it.

Barrier: the message's stack *is* the barrier, from before its handler runs until the stack ends.
While it stands, asks and notices stay in their mailboxes, in order; replies, errors and events go
on, since they are what can end it. Another stack's end does not lower it.

Batch: consecutive messages that pass the filter are handed over as one stack, in order. One that
does not pass is handled alone, after the batch before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otavia_ft.context import Context
from otavia_ft.doors import Mailbox
from otavia_ft.house import engine
from otavia_ft.message import Envelope
from otavia_ft.stack.stack import Stack

if TYPE_CHECKING:
    from otavia_ft.house.house import House

__all__ = ["dispatch"]

ASK = int(Mailbox.ASK)


def dispatch(context: Context, house: House, mailbox: int, left: int) -> int:
    """Drain one of the two mailboxes with barriers and batches; returns the budget left."""
    actor: Any = house.actor
    asks = mailbox == ASK
    limit = house.scheduler.system.config.batch_limit
    batch: list[Any] = []
    box = house.drain(mailbox, left)
    for item in box:
        message = item.message if asks else item
        stack = _single(context, house, asks, item)
        try:
            batched = actor.batchable and (
                actor.batch_ask_filter(message) if asks else actor.batch_notice_filter(message)
            )
            if not batched and actor.is_barrier_call(message):
                barrier = stack
            else:
                barrier = None
        except BaseException as error:  # filter and predicate are user code, properties perhaps
            _flush(context, house, asks, batch)
            engine.fail_stack(context, house, stack, error)
            continue
        if batched:
            if context.recycle is not None:
                context.recycle(stack)
            batch.append(item)
            if len(batch) >= limit:
                _flush(context, house, asks, batch)
            continue
        _flush(context, house, asks, batch)
        if house.barrier is not None:  # the batch failed, and its parent decides first
            house.put_front(mailbox, item)
            break
        house.barrier = barrier
        if asks and context.let_go is not None:
            context.let_go(item)
        engine.run_stack(context, house, stack)
        if house.barrier is not None:
            break
    _flush(context, house, asks, batch)
    return box.left


def _single(context: Context, house: House, asks: bool, item: Any) -> Stack:
    if asks:
        envelope: Envelope = item
        ask_stack = context.new_ask_stack()
        ask_stack.asker = envelope.asker
        ask_stack.ask_id = envelope.message_id
        ask_stack.ask = envelope.message
        return _seated(house, ask_stack)
    notice_stack = context.new_notice_stack()
    notice_stack.notice = item
    return _seated(house, notice_stack)


def _flush(context: Context, house: House, asks: bool, batch: list[Any]) -> None:
    if not batch:
        return
    if asks:
        ask_stack = context.new_batch_ask_stack()
        ask_stack.asks = tuple(batch)
        batch.clear()
        engine.run_stack(context, house, _seated(house, ask_stack))
    else:
        notice_stack = context.new_batch_notice_stack()
        notice_stack.notices = tuple(batch)
        batch.clear()
        engine.run_stack(context, house, _seated(house, notice_stack))


def _seated(house: House, stack: Stack) -> Stack:
    stack.house = house
    stack.actor = house.actor
    return stack
