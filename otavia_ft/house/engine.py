"""Running stacks: resume, switch state, complete promises, fail.

All functions run on the thread that holds the house RUNNING. None of them lets an exception out:
whatever a handler raises, `SystemExit` included, ends at `fail_stack`, which answers the asker or
lets the actor's strategy decide.

An error that a handler has seen holds, by its traceback, the frames that have called the handler.
So these drop the promise and the error when they are done with them: see promise.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otavia_ft.context import Context
from otavia_ft.errors import AskTimeout, OtaviaError, StackError, fresh
from otavia_ft.message import AskTimeoutEvent, TimeoutReply
from otavia_ft.stack.driver import CoroutineState
from otavia_ft.stack.promise import MessagePromise, Promise
from otavia_ft.stack.stack import RETURN, START, SUSPEND, Stack

if TYPE_CHECKING:
    from otavia_ft.house.house import House

__all__ = [
    "cancel_stack",
    "fail_stack",
    "finished",
    "promise_completed",
    "receive_ask_timeout",
    "receive_error",
    "receive_reply",
    "run_stack",
    "switch_state",
]


def run_stack(context: Context, house: House, stack: Stack) -> None:
    """Call the handler once and do what its result says."""
    context.stack = stack
    try:
        result = stack.resume()
        if result is RETURN and stack.done:
            finished(context, house, stack)
        else:
            switch_state(house, stack, result)
    except BaseException as error:  # a handler never kills its thread
        context.stack = None  # a restart hook must not ask on behalf of the stack that failed
        fail_stack(context, house, stack, error)
    finally:
        context.stack = None


def switch_state(house: House, stack: Stack, result: Any) -> None:
    """The suspend path, and everything that a handler can return wrongly."""
    state, stack.next_state = stack.next_state, None
    if result is not SUSPEND or state is None:
        raise StackError(
            f"{house.name}: the handler of {type(stack.message).__name__} returned {result!r}; it "
            "must return stack.return_(...), stack.throw(...) or stack.suspend(state)"
        )
    if stack.done:
        raise StackError(
            f"{house.name}: the handler of {type(stack.message).__name__} finished its stack and "
            "then suspended it: return what the first of the two gives"
        )
    if stack.state is not state:
        stack.set_state(state)
    if stack.uncompleted_head is None:
        raise StackError(
            f"{house.name}: the handler of {type(stack.message).__name__} suspended without a "
            "pending future, so nothing could ever resume it: ask or sleep before you suspend"
        )


def finished(context: Context, house: House, stack: Stack) -> None:
    """A stack's end, good or bad: let go of what it waited for, lower its own barrier."""
    stack.drop_completed()
    _forget_state(context, stack)
    if stack.uncompleted_head is not None:
        _let_go(house, stack)
    if house.barrier is stack:
        house.barrier = None
    if context.recycle is not None:
        context.recycle(stack)


def _forget_state(context: Context, stack: Stack) -> None:
    """A state leads to the future that was awaited, thus to its error, thus by the traceback to the
    frames that the error went through, and these know the stack: a ring for the collector."""
    state = stack.state
    if isinstance(state, CoroutineState):
        state.awaited = None
    if context.recycle is None:  # which takes the state from the stack, and needs it there
        stack.state = START


def _let_go(house: House, stack: Stack) -> None:
    for promise in stack.uncompleted():
        if isinstance(promise, MessagePromise):
            house.promises.pop(promise.aid)
            if promise.timer is not None:
                promise.timer.cancel()
                promise.timer = None
        elif house.channel_promises is not None:
            house.channel_promises.discard(promise)
        stack.forget(promise)


def fail_stack(context: Context, house: House, stack: Stack, error: BaseException) -> None:
    """End a stack whose user code raised: answer the asker, or let the strategy decide."""
    try:
        if not stack.fail(error):
            house.notice_failed(stack, error)
        else:
            house.log_failure(f"failed on {type(stack.message).__name__}", error)
    except BaseException as second:  # nothing gets past here
        house.log_failure("failed while failing", second)
    stack.done = True
    finished(context, house, stack)


def promise_completed(context: Context, house: House, promise: Promise[Any]) -> None:
    """An answer came: resume its stack if that is all, or all that its state wants."""
    stack = promise.stack
    if stack is None:
        return  # the stack ended before its channel operation did
    stack.move_completed(promise)
    if stack.uncompleted_head is not None:
        try:
            if not stack.state.resumable():
                return
        except BaseException as error:  # a state is user code too
            fail_stack(context, house, stack, error)
            return
    del promise  # see receive_error
    run_stack(context, house, stack)


def receive_reply(context: Context, house: House, ids: int | tuple[int, ...], reply: Any) -> None:
    """A reply to one ask, or one reply to several."""
    for aid in ids if isinstance(ids, tuple) else (ids,):
        promise = _awaited(house, aid, reply)
        if promise is not None:
            promise.set_success(reply)
            promise_completed(context, house, promise)
            if context.let_go is not None:
                context.let_go(promise)


def receive_error(
    context: Context, house: House, ids: int | tuple[int, ...], error: OtaviaError
) -> None:
    """An exception reply. Each of several asks gets its own copy of the error.

    If the handler raises it, its traceback refers to the handler's frame, and that to the frames
    that called it, this one among them. A frame that ended with the error, or with what holds it,
    would make a cycle of them all, and the actor would not go with its last address. Hence the
    `del`, here and in the callers.
    """
    several = isinstance(ids, tuple)
    for aid in ids if isinstance(ids, tuple) else (ids,):
        if several:
            error = fresh(error)
        promise = _awaited(house, aid, error)
        if promise is not None:
            promise.set_failure(error)
            promise_completed(context, house, promise)
            if context.let_go is not None:
                context.let_go(promise)
        del promise
    del error


def receive_ask_timeout(context: Context, house: House, event: AskTimeoutEvent) -> None:
    """Time is up for an ask (it fails) or for a sleeping stack (it wakes up)."""
    promise = house.promises.pop(event.ask_id)
    if promise is None:
        return  # answered just before: the timer could not be cancelled any more
    promise.timer = None
    if event.sleep:
        promise.set_success(TimeoutReply)
    else:
        promise.set_failure(AskTimeout(f"{house.name}: no reply in time (ask {event.ask_id})"))
    promise_completed(context, house, promise)
    if context.let_go is not None:
        context.let_go(promise)
    del promise  # see receive_error


def _awaited(house: House, aid: int, answer: Any) -> MessagePromise[Any] | None:
    promise = house.promises.pop(aid)
    if promise is None:
        house.dead_letter(answer, "nobody waits for this reply any more")
    elif promise.timer is not None:
        promise.timer.cancel()
        promise.timer = None  # it holds the house, and an actor may keep its promises
    return promise


def cancel_stack(context: Context, house: House, stack: Stack, error: OtaviaError) -> None:
    """The actor stops: answer the asker, then let a coroutine run its `finally` blocks."""
    context.stack = stack
    try:
        stack.abandon(error)
        stack.done = True
        if isinstance(stack.state, CoroutineState):
            stack.state.cancel()
    except BaseException as raised:  # user code in a finally block
        house.log_failure("failed while it was cancelled", raised)
    finally:
        context.stack = None
    finished(context, house, stack)
