"""What a thread is doing right now: which house it runs, which stack, and what it has counted.

Every ActorThread makes one `Context` on its own thread and keeps it in a C thread local (`me()`).
Made there, it is owned there: CPython counts references to it without atomics. Actors reach their
address, their system and their timers through it, so an actor holds no reference to its house and
dies, by reference counting alone, with its last address.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from otavia_ft.doors import me, set_me
from otavia_ft.errors import OutsideActor
from otavia_ft.lane import ContextBase
from otavia_ft.message import Envelope
from otavia_ft.pool import ALONE, ThreadPool, pooled
from otavia_ft.stack.coroutine import CoroutineState
from otavia_ft.stack.promise import ChannelPromise, MessagePromise
from otavia_ft.stack.stack import (
    START,
    AskStack,
    BatchAskStack,
    BatchNoticeStack,
    NoticeStack,
    Stack,
)
from otavia_ft.stack.state import ChannelFutureState, FuturesState, FutureState, StackState

if TYPE_CHECKING:
    from otavia_ft.house.house import House

__all__ = [
    "ASK",
    "NOTICE",
    "NOT_BARE",
    "Context",
    "bare_stack",
    "borrowed_context",
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
        "let_go",
        "new_ask_stack",
        "new_batch_ask_stack",
        "new_batch_notice_stack",
        "new_channel_future_state",
        "new_channel_promise",
        "new_coroutine_state",
        "new_envelope",
        "new_future_state",
        "new_futures_state",
        "new_notice_stack",
        "new_promise",
        "owner",
        "pools",
    )

    house: House | None
    stack: Stack | None
    recycle: Callable[[Stack], None] | None
    """Takes a stack whose message is finished. None: there are no pools."""

    def __init__(self, owner: Any, budget: int, seat: Any = None) -> None:
        super().__init__()
        self.owner = owner
        self.budget = budget
        self.seat = seat  # what this thread is the owner of: its HouseManager
        # Functions to run at the end of the pass in hand; empty between two turns.
        self.later: deque[Callable[[], Any]] = deque()
        # The seam for object pools; see pool.py for why the default is to make everything anew.
        self.new_notice_stack: Callable[[], NoticeStack] = NoticeStack
        self.new_ask_stack: Callable[[], AskStack] = AskStack
        self.new_batch_notice_stack: Callable[[], BatchNoticeStack] = BatchNoticeStack
        self.new_batch_ask_stack: Callable[[], BatchAskStack] = BatchAskStack
        self.new_promise: Callable[[], MessagePromise[Any]] = MessagePromise
        self.new_channel_promise: Callable[..., ChannelPromise[Any]] = ChannelPromise
        self.new_envelope: Callable[[Any, int, Any], Envelope] = Envelope
        self.new_coroutine_state: Callable[[Any], CoroutineState] = CoroutineState
        self.new_future_state: Callable[[int], FutureState[Any]] = FutureState
        self.new_futures_state: Callable[[int, int], FuturesState[Any]] = FuturesState
        self.new_channel_future_state: Callable[[int], ChannelFutureState] = ChannelFutureState
        # Takes a promise, envelope or state that the runtime has done with. None: no pools.
        self.let_go: Callable[[Any], None] | None = None
        self.pools: tuple[ThreadPool[Any], ...] = ()

    def use_pools(self, max_size: int, debug: bool) -> None:
        """From now on take all of these from this thread's pools."""
        mine: dict[type[Any], ThreadPool[Any]] = {}

        def pool(kind: type[Any], *blank: Any) -> Callable[[], Any]:
            made = mine[kind] = ThreadPool(kind, max_size, debug, blank)
            self.pools += (made,)
            return made.get

        def let_go(thing: Any) -> None:
            # Only if the caller's reference is the last one. (So an object cannot be given back
            # twice either: the pool has it then.) And only if it was made on this thread: of such
            # an object the count is exact, of another thread's it may be just changing.
            its_pool = mine.get(type(thing))
            if its_pool is not None and thing.pool is its_pool and getrefcount(thing) == ALONE:
                its_pool.recycle(thing)

        def recycle(stack: Stack) -> None:
            # To this thread's pool, whoever made it: a house that was stolen ends its stacks here,
            # and another thread's pool is not ours to touch. The pool drops what is not its own.
            if stack.pool is None:
                return
            state, stack.state = stack.state, START
            let_go(state)
            if isinstance(stack, BatchAskStack):
                envelopes, stack.asks = list(stack.asks), ()
                while envelopes:
                    envelope = envelopes.pop()
                    let_go(envelope)
            mine[type(stack)].recycle(stack)

        self.new_notice_stack = pool(NoticeStack)
        self.new_ask_stack = pool(AskStack)
        self.new_batch_notice_stack = pool(BatchNoticeStack)
        self.new_batch_ask_stack = pool(BatchAskStack)
        self.new_promise = pool(pooled(MessagePromise))
        self.new_channel_promise = _of_channel(pool(pooled(ChannelPromise)))
        self.new_envelope = _of_ask(pool(pooled(Envelope), None, 0, None))
        self.new_coroutine_state = _of_coroutine(pool(pooled(CoroutineState), None))
        self.new_future_state = _of_id(pool(pooled(FutureState)))
        self.new_futures_state = _of_number(pool(pooled(FuturesState), 1))
        self.new_channel_future_state = _of_id(pool(pooled(ChannelFutureState)))
        self.let_go = let_go
        self.recycle = recycle


# What a pool gives is blank; these fill in what the constructors of the same types take.


def _of_ask(blank: Callable[[], Envelope]) -> Callable[[Any, int, Any], Envelope]:
    def new(asker: Any, message_id: int, message: Any) -> Envelope:
        envelope = blank()
        envelope.asker = asker
        envelope.message_id = message_id
        envelope.message = message
        return envelope

    return new


def _of_channel(blank: Callable[[], ChannelPromise[Any]]) -> Callable[..., ChannelPromise[Any]]:
    def new(channel: Any = None, ask: Any = None) -> ChannelPromise[Any]:
        promise = blank()
        promise.channel = channel
        promise.ask = ask
        return promise

    return new


def _of_coroutine(blank: Callable[[], CoroutineState]) -> Callable[[Any], CoroutineState]:
    def new(coroutine: Any) -> CoroutineState:
        state = blank()
        state.coroutine = coroutine
        return state

    return new


def _of_id[S: StackState](blank: Callable[[], S]) -> Callable[[int], S]:
    def new(id: int) -> S:  # noqa: A002  # the seed's word for it
        state = blank()
        state.id = id
        return state

    return new


def _of_number(blank: Callable[[], FuturesState[Any]]) -> Callable[[int, int], FuturesState[Any]]:
    def new(n: int, id: int) -> FuturesState[Any]:  # noqa: A002  # as above
        state = blank()
        state.resize(n)
        state.id = id
        return state

    return new


@contextmanager
def borrowed_context(house: House) -> Iterator[Context]:
    """For hooks of an actor that no thread of its system will run any more: this thread, whoever it
    is and whatever it has in hand, is for a while one of that system's."""
    before = me()
    context = Context(house.scheduler, 0)
    context.house = house
    set_me(context)
    try:
        yield context
    finally:
        set_me(before)


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
