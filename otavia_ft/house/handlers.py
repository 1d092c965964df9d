"""The short way for `@on` handlers: most messages never need a stack.

A stack remembers where to go on. A plain handler never goes on: its message is done when it
returns. So it runs bare: look the handler up, call it, take the next message. A stack is made the moment one
is wanted, and everything is then as if it had been there from the start:
 - the handler asks or sleeps (`running_stack` in context.py makes it);
 - the handler is `async def`: calling it gives a coroutine, which needs a place to wait in;
 - the handler raises.

An actor that overrides `resume_notice` or `resume_ask`, or has barriers or batches, does not come
here.
"""

from __future__ import annotations

from types import CoroutineType
from typing import TYPE_CHECKING, Any

from otavia_ft.context import Context
from otavia_ft.house import engine
from otavia_ft.stack.driver import CoroutineState, checked_reply
from otavia_ft.stack.stack import Stack

if TYPE_CHECKING:
    from otavia_ft.atomic import Drain
    from otavia_ft.house.house import House
    from otavia_ft.message import Envelope

__all__ = ["run_asks", "run_notices"]


def run_notices(context: Context, house: House, box: Drain) -> int:
    """Handle the notices of a mailbox; returns what is left of the budget."""
    actor: Any = house.actor
    handlers = house.plan.handlers
    for message in box:
        context.message = message
        context.new_stack = _notice_stack
        try:
            result = handlers[type(message)](actor, message)
            if type(result) is CoroutineType:
                _go_async(context, house, result)
            elif context.stack is not None:
                _end(context, house)
        except BaseException as error:  # a handler never kills its thread
            _fail(context, house, error)
    context.message = context.new_stack = None
    return box.left


def run_asks(context: Context, house: House, box: Drain) -> int:
    """Handle the asks of a mailbox; returns what is left of the budget."""
    actor: Any = house.actor
    handlers = house.plan.handlers
    envelope: Envelope
    for envelope in box:
        context.message = envelope
        context.new_stack = _ask_stack
        message = envelope.message
        try:
            result = handlers[type(message)](actor, message)
            if type(result) is CoroutineType:
                _go_async(context, house, result)
            elif context.stack is None:
                envelope.asker.answer(envelope.message_id, checked_reply(result))
            else:
                _end(context, house, checked_reply(result))
        except BaseException as error:  # a handler never kills its thread
            _fail(context, house, error)
    context.message = context.new_stack = None
    return box.left


def _notice_stack(context: Context) -> Stack:
    stack = context.new_notice_stack()
    stack.notice = context.message
    return _seated(context, stack)


def _ask_stack(context: Context) -> Stack:
    envelope: Envelope = context.message
    stack = context.new_ask_stack()
    stack.asker = envelope.asker
    stack.ask_id = envelope.message_id
    stack.ask = envelope.message
    return _seated(context, stack)


def _seated(context: Context, stack: Stack) -> Stack:
    house = context.house
    assert house is not None
    stack.house = house
    stack.actor = house.actor
    return stack


def _take_stack(context: Context) -> Stack:
    """The message's stack, made now unless it was before. From here on no other can be made: a
    restart hook must not ask on behalf of a message that failed."""
    stack = context.stack
    if stack is None:
        assert context.new_stack is not None
        stack = context.new_stack(context)
    context.stack = context.new_stack = None
    return stack


def _go_async(context: Context, house: House, coroutine: Any) -> None:
    stack = _take_stack(context)
    stack.state = CoroutineState(coroutine)
    engine.run_stack(context, house, stack)


def _end(context: Context, house: House, *reply: Any) -> None:
    """A plain handler that asked something and did not wait for it."""
    stack: Any = _take_stack(context)
    stack.return_(*reply)
    engine.finished(context, house, stack)


def _fail(context: Context, house: House, error: BaseException) -> None:
    engine.fail_stack(context, house, _take_stack(context), error)
