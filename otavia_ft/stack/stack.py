"""Stacks: the execution of one message, from its arrival to its end.

A stack holds what a coroutine's frame would hold in a language that had them: where to go on
(`state`) and what is awaited (the chain of uncompleted promises; those that have come are in the
chain of completed ones until the state changes). A handler is called with the stack, does what it
can, and either finishes it (`return_`, `throw`) or suspends it on a state. Handlers written as
`async def` are driven by the very same stacks, see driver.py.

Only the runner of the stack's actor touches a stack. After the handler has finished it, it belongs
to the runtime and may serve the next message: do not keep it. In debug mode a kept one raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from otavia_ft.doors import me
from otavia_ft.errors import AskFailed, OtaviaError, StackError, fresh
from otavia_ft.lane import StackBase, twin
from otavia_ft.message import Asker, Envelope
from otavia_ft.stack.promise import Promise
from otavia_ft.stack.state import StackState, StackYield

if TYPE_CHECKING:
    from otavia_ft.address import ActorAddress
    from otavia_ft.house.house import House
    from otavia_ft.pool import ThreadPool

__all__ = [
    "AskStack",
    "BatchAskStack",
    "BatchNoticeStack",
    "ChannelStack",
    "NoticeStack",
    "Stack",
]

START = StackState.START
SUSPEND = StackYield.SUSPEND
RETURN = StackYield.RETURN


class Stack(StackBase):
    """What all stacks share: state, promises, and the end."""

    __slots__ = ()

    house: House
    return_: Callable[..., StackYield]
    """How a stack ends well; what it takes is the kind of stack's own matter."""
    replies: ClassVar[bool] = True
    """Whether `return_` takes a value."""

    @twin(StackBase)
    def __init__(self) -> None:
        # What reset() does, written out once more: this runs for many messages, and a call costs
        # as much as all the stores.
        self.pool: ThreadPool[Any] | None = None
        self.state: StackState = START
        self.next_state: StackState | None = None
        self.uncompleted_head: Promise[Any] | None = None
        self.uncompleted_tail: Promise[Any] | None = None
        self.completed_head: Promise[Any] | None = None
        self.completed_tail: Promise[Any] | None = None
        self.attach: Any = None
        self.done = False

    def reset(self) -> None:
        """Back to the start, with nothing left of the message before."""
        self.state = START
        self.next_state = None
        self.uncompleted_head = self.uncompleted_tail = None
        self.completed_head = self.completed_tail = None
        self.attach = self.content = self.asker = None
        self.ask_id = 0
        self.done = False

    def clean(self) -> None:
        """Back to the start, and out of its actor's life: an idle stack must not keep it alive."""
        self.reset()
        self.house = self.actor = None  # type: ignore[assignment]  # idle in its pool

    # ---- what a handler calls

    @twin(StackBase)
    def suspend(self, state: StackState) -> StackYield:
        """Wait; `state` says where to go on. Returns what the handler has to return."""
        if self.done or not isinstance(state, StackState):
            refuse_suspend(self, state)
        self.next_state = state
        return SUSPEND

    def _finish(self) -> None:
        if self.done:
            refuse_finish(self)
        self.done = True

    # ---- what the runtime calls

    @property
    def message(self) -> Any:
        """What this stack handles, for reports."""
        raise NotImplementedError

    def resume(self) -> Any:
        """Call the actor's resume method for this kind of stack."""
        raise NotImplementedError

    def fail(self, error: BaseException) -> bool:
        """Tell whoever waits for this stack. False: nobody does, the actor's strategy decides."""
        return False

    def abandon(self, error: OtaviaError) -> None:
        """The actor stops: answer whoever waits with a copy of `error` unless it is answered."""

    def unhandled(self) -> None:
        """The actor has no handler for this message: an asker is told so."""
        kind = type(self.message).__name__
        raise StackError(f"{self.house.name} has no handler for {kind}")

    @property
    def waiting(self) -> bool:
        """Whether something is still to come."""
        return self.uncompleted_head is not None

    def add_uncompleted(self, promise: Promise[Any]) -> None:
        """Link a promise of this stack's own to the end of the uncompleted chain."""
        promise.stack = self
        tail = self.uncompleted_tail
        promise.prev = tail
        if tail is None:
            self.uncompleted_head = promise
        else:
            tail.next = promise
        self.uncompleted_tail = promise

    def move_completed(self, promise: Promise[Any]) -> None:
        """From the uncompleted chain to the end of the completed one."""
        self._unlink(promise)
        tail = self.completed_tail
        promise.prev = tail
        if tail is None:
            self.completed_head = promise
        else:
            tail.next = promise
        self.completed_tail = promise

    def set_state(self, state: StackState) -> None:
        """Enter a state; what the old one has waited for is let go."""
        self.drop_completed()
        left, self.state = self.state, state
        if self.pool is not None and (let_go := _let_go()) is not None:
            let_go(left)

    def drop_completed(self) -> None:
        """Let the promises that have come go. Otherwise a stack and its promises would hold each
        other until the garbage collector finds them, and one that waits often, more and more."""
        promise = self.completed_head
        self.completed_head = self.completed_tail = None
        let_go = None if self.pool is None else _let_go()
        while promise is not None:
            following = promise.next
            promise.stack = promise.prev = promise.next = None
            if let_go is not None:
                if following is not None:
                    following.prev = None  # or it would hold what is given back
                let_go(promise)
            promise = following

    def uncompleted(self) -> Iterator[Promise[Any]]:
        """The promises still to come, oldest first; each may be unlinked by the caller."""
        promise = self.uncompleted_head
        while promise is not None:
            following = promise.next
            yield promise
            promise = following

    def _unlink(self, promise: Promise[Any]) -> None:
        before, after = promise.prev, promise.next
        if before is None:
            self.uncompleted_head = after
        else:
            before.next = after
        if after is None:
            self.uncompleted_tail = before
        else:
            after.prev = before
        promise.prev = promise.next = None

    def forget(self, promise: Promise[Any]) -> None:
        """Nobody waits for this promise any more."""
        self._unlink(promise)
        promise.stack = None


def refuse_suspend(stack: Stack, state: Any) -> NoReturn:
    """Say what is wrong with a suspend."""
    if not isinstance(state, StackState):
        raise StackError(
            f"suspend() wants a StackState, not {state!r}: use FutureState() and its future"
        )
    raise StackError("suspend() after the stack was finished: a stack ends once")


def refuse_finish(stack: Stack) -> NoReturn:
    """Say what is wrong with a second end."""
    raise StackError(
        f"{type(stack).__name__} is finished already: a message is answered once; "
        "if two paths of the handler answer, return after the first"
    )


class NoticeStack(Stack):
    """The execution of one notice."""

    __slots__ = ()

    replies = False

    notice: Any = vars(StackBase)["content"]  # the slot under the name that handlers know

    @twin(StackBase, "return_notice")
    def return_(self) -> StackYield:
        """The notice is handled."""
        self._finish()
        return RETURN

    def resume(self) -> Any:
        return self.actor.resume_notice(self)

    def unhandled(self) -> None:
        """Nobody waits for an answer, so it becomes a dead letter."""
        kind = type(self.notice).__name__
        self.house.dead_letter(self.notice, f"{self.house.name} has no handler for {kind}")

    @property
    def message(self) -> Any:
        return self.notice


class BatchNoticeStack(Stack):
    """The execution of several notices at once, in the order they came."""

    __slots__ = ("notices",)

    replies = False

    notices: Sequence[Any]

    @twin(StackBase, "return_notice")
    def return_(self) -> StackYield:
        """All of them are handled."""
        self._finish()
        return RETURN

    def resume(self) -> Any:
        return self.actor.resume_batch_notice(self)

    @property
    def message(self) -> Any:
        return self.notices

    def clean(self) -> None:
        super().clean()
        self.notices = ()


class AskStack(Stack):
    """The execution of one ask; it ends with a reply or an error to the asker."""

    __slots__ = ()

    ask: Any = vars(StackBase)["content"]  # the slot under the name that handlers know
    asker: Asker

    @twin(StackBase, "return_ask")
    def return_(self, reply: Any) -> StackYield:
        """Reply. The reply is sent now, not when the handler ends."""
        self._finish()
        self.asker.answer(self.ask_id, reply)
        return RETURN

    def throw(self, cause: BaseException) -> StackYield:
        """Answer with an error; the asker's future fails with AskFailed, its cause is `cause`."""
        error = _as_error(cause, self.house)
        self._finish()
        self.asker.answer_error(self.ask_id, error)
        return RETURN

    @property
    def sender(self) -> ActorAddress | None:
        """Who asked; None when the ask came from outside the system."""
        return self.asker.asker_address()

    def resume(self) -> Any:
        return self.actor.resume_ask(self)

    def fail(self, error: BaseException) -> bool:
        if not self.done:
            self.throw(error)
        return True

    def abandon(self, error: OtaviaError) -> None:
        if not self.done:
            self.done = True
            self.asker.answer_error(self.ask_id, fresh(error))

    @property
    def message(self) -> Any:
        return self.ask


class BatchAskStack(Stack):
    """The execution of several asks at once. The envelopes live as long as the stack."""

    __slots__ = ("asks",)

    asks: Sequence[Envelope]

    def return_(self, reply: Any) -> StackYield:
        """One reply for all; or a sequence of (envelope, reply) pairs, one for each ask."""
        if isinstance(reply, (list, tuple)) and reply and _is_pair(reply[0]):
            return self._return_pairs(reply)
        self._finish()
        for asker, ids in self._by_asker():
            asker.answer(ids, reply)
        return RETURN

    def _return_pairs(self, pairs: Sequence[tuple[Envelope, Any]]) -> StackYield:
        missing = {id(envelope): envelope for envelope in self.asks}
        for pair in pairs:
            if not _is_pair(pair) or missing.pop(id(pair[0]), None) is None:
                raise StackError(
                    f"{pair!r} is not an (envelope, reply) pair for an unanswered ask of this batch"
                )
        if missing:
            raise StackError(f"{len(missing)} of {len(self.asks)} asks of the batch got no reply")
        self._finish()
        for envelope, reply in pairs:
            envelope.asker.answer(envelope.message_id, reply)
        return RETURN

    def throw(self, cause: BaseException) -> StackYield:
        """Answer all of them with an error."""
        error = _as_error(cause, self.house)
        self._finish()
        for asker, ids in self._by_asker():
            asker.answer_error(ids, fresh(error))
        return RETURN

    def _by_asker(self) -> Iterator[tuple[Asker, int | tuple[int, ...]]]:
        """One answer an asker, however many of the asks are its own."""
        grouped: dict[int, tuple[Asker, list[int]]] = {}
        for envelope in self.asks:
            grouped.setdefault(id(envelope.asker), (envelope.asker, []))[1].append(
                envelope.message_id
            )
        for asker, ids in grouped.values():
            yield asker, ids[0] if len(ids) == 1 else tuple(ids)

    def resume(self) -> Any:
        return self.actor.resume_batch_ask(self)

    def fail(self, error: BaseException) -> bool:
        if not self.done:
            self.throw(error)
        return True

    def abandon(self, error: OtaviaError) -> None:
        if not self.done:
            self.done = True
            for asker, ids in self._by_asker():
                asker.answer_error(ids, fresh(error))

    @property
    def message(self) -> Any:
        return [envelope.message for envelope in self.asks]

    def clean(self) -> None:
        super().clean()
        self.asks = ()


class ChannelStack(Stack):
    """The execution of one inbound channel message.

    It only records its result; the channel writes it out in the order of its inflight queue and
    recycles the stack then. `message_id` is its key there.
    """

    __slots__ = ("channel", "error", "inbound", "message_id", "result")

    channel: Any
    inbound: Any
    message_id: int

    def __init__(self) -> None:
        super().__init__()
        self.result: Any = None
        self.error: BaseException | None = None

    def return_(self, result: Any = None) -> StackYield:
        self._finish()
        self.result = result
        return RETURN

    def throw(self, cause: BaseException) -> StackYield:
        self._finish()
        self.error = cause
        return RETURN

    def resume(self) -> Any:
        return self.actor.resume_channel(self)

    def fail(self, error: BaseException) -> bool:
        if not self.done:
            self.throw(error)
        return True

    @property
    def message(self) -> Any:
        return self.inbound

    def clean(self) -> None:
        super().clean()
        self.channel = self.inbound = self.result = self.error = None
        self.message_id = 0


def _let_go() -> Callable[[Any], None] | None:
    """Where this thread's pools take what a stack has done with."""
    context = me()
    return None if context is None else context.let_go


def _is_pair(thing: Any) -> bool:
    return isinstance(thing, tuple) and len(thing) == 2 and isinstance(thing[0], Envelope)


def _as_error(cause: BaseException, house: House) -> OtaviaError:
    if not isinstance(cause, BaseException):
        raise StackError(f"throw() wants an exception, not {cause!r}")
    return AskFailed(cause, house.name)
