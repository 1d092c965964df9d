"""The short way for `@on` handlers: most messages never need a stack.

A stack remembers where to go on. A plain handler never goes on: its message is done when it
returns. So it runs bare: look the handler up, call it, take the next message. A stack is made the
moment one is wanted, and everything is then as if it had been there from the start:
 - the handler asks or sleeps (`running_stack` in context.py makes it);
 - the handler is `async def`: calling it gives a coroutine, which needs a place to wait in;
 - the handler raises.

An actor that overrides `resume_notice` or `resume_ask`, or has barriers or batches, does not come
here.
"""

from __future__ import annotations

from types import CoroutineType
from typing import TYPE_CHECKING, Any

from otavia_ft.context import ASK, NOT_BARE, NOTICE, Context, bare_stack
from otavia_ft.house import engine
from otavia_ft.stack.driver import checked_reply
from otavia_ft.stack.stack import Stack

if TYPE_CHECKING:
    from otavia_ft.atomic import Drain
    from otavia_ft.house.house import House
    from otavia_ft.message import Envelope

__all__ = ["end", "fail", "go_async", "run_asks", "run_notices"]


def run_notices(context: Context, house: House, box: Drain) -> int:
    """Handle the notices of a mailbox; returns what is left of the budget."""
    actor: Any = house.actor
    handlers = house.plan.handlers
    for message in box:
        context.message = message
        context.bare = NOTICE
        try:
            result = handlers[type(message)](actor, message)
            if type(result) is CoroutineType:
                go_async(context, house, result)
            elif context.stack is not None:
                end(context, house)
        except BaseException as error:  # a handler never kills its thread
            fail(context, house, error)
        # Handled. Code that runs from now on (the message's `__del__`, say) has no stack to ask on.
        context.bare = NOT_BARE
        result = None
    context.message = None
    return box.left


def run_asks(context: Context, house: House, box: Drain) -> int:
    """Handle the asks of a mailbox; returns what is left of the budget."""
    actor: Any = house.actor
    handlers = house.plan.handlers
    let_go = context.let_go
    envelope: Envelope | None = None
    for envelope in box:
        context.message = envelope
        context.bare = ASK
        message = envelope.message
        try:
            result = handlers[type(message)](actor, message)
            if type(result) is CoroutineType:
                go_async(context, house, result)
            elif context.stack is None:
                checked_reply(result)
                context.bare = NOT_BARE  # a callback of an outside ask's future is no handler
                envelope.asker.answer(envelope.message_id, result)
            else:
                end(context, house, result)
        except BaseException as error:  # a handler never kills its thread
            fail(context, house, error)
        context.bare = NOT_BARE  # as above
        message = result = None
        if let_go is not None:
            context.message = None
            let_go(envelope)
    envelope = None  # it leads to the asker, who may have an error that leads here
    context.message = None
    return box.left


def _take_stack(context: Context) -> Stack:
    """The message's stack, made now unless it was before. From here on no other can be made: a
    restart hook must not ask on behalf of a message that failed."""
    stack: Stack = context.stack or bare_stack(context)
    context.stack = None
    context.bare = NOT_BARE
    return stack


def go_async(context: Context, house: House, coroutine: Any) -> None:
    stack = _take_stack(context)
    stack.state = context.new_coroutine_state(coroutine)
    engine.run_stack(context, house, stack)


def end(context: Context, house: House, *reply: Any) -> None:
    """A plain handler that asked something and did not wait for it."""
    stack: Any = _take_stack(context)
    stack.return_(*map(checked_reply, reply))
    engine.finished(context, house, stack)


def fail(context: Context, house: House, error: BaseException) -> None:
    engine.fail_stack(context, house, _take_stack(context), error)
