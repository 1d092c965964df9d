"""The house: one actor's seat in the scheduler.

A house is one `run_turn` away from any scheduler. It is itself the atomic cell: state word, owner
mark and six mailboxes are inherited from `HouseCell`, inside this object. The state machine:

    CREATED → MOUNTING → WAITING ⇄ READY → SCHEDULED → RUNNING → READY or WAITING

Who may touch what:
 - any thread: the `post_*` methods and what is built on them (`notice`, `answer`, `inform`, ...);
   `high_priority` may be set to True by any thread that delivers;
 - the one thread that holds the house RUNNING (or MOUNTING): everything else;
 - the thread that took the house out of a queue, until it has enqueued it again: `next_house`.

The wake-up handshake, once more in words, because everything hangs on it. A sender puts its message
first and reads the state second. A runner that found nothing stores WAITING first and looks at the
mailboxes second (`_complete`). Whatever the order of the four steps, one of the two sees the other:
either the sender finds WAITING and makes the house ready, or the runner finds the message and does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from otavia_ft.context import Context
from otavia_ft.doors import HouseState, Mailbox
from otavia_ft.errors import OtaviaError, StackError
from otavia_ft.house import engine, gathering, handlers, lifecycle
from otavia_ft.lane import HouseBase, laid_in_plots, twin
from otavia_ft.message import AskTimeoutEvent, Envelope, Event, LaterEvent, TimeoutEvent
from otavia_ft.stack.promise import ChannelPromise, MessagePromise
from otavia_ft.stack.stack import Stack
from otavia_ft.stack.table import FutureDispatcher

if TYPE_CHECKING:
    from otavia_ft.actor.base import AbstractActor
    from otavia_ft.address import ActorAddress
    from otavia_ft.system import ActorSystem

__all__ = ["NOBODY", "House", "Scheduler"]

_log = logging.getLogger("otavia_ft.actor")

SYSTEM, REPLY, EXCEPTION, ASK, NOTICE, EVENT = (int(box) for box in Mailbox)
SYSTEM_BIT, REPLY_BIT, EXCEPTION_BIT, ASK_BIT, NOTICE_BIT, EVENT_BIT = (1 << b for b in Mailbox)
EVERYTHING = (1 << len(Mailbox)) - 1
# In a barrier new calls wait; what can end the barrier does not.
IN_BARRIER = EVERYTHING & ~(ASK_BIT | NOTICE_BIT)

NOBODY = FutureDispatcher()  # shared by all houses that never asked; always empty


class Scheduler(Protocol):
    """What a house knows of the scheduler that runs it."""

    system: ActorSystem
    house_type: type[House]  # the kind of house that sits here

    def ready(self, house: House) -> None:
        """Queue a house that has just become READY, and wake whoever may run it. Any thread."""

    def mount(self, house: House) -> None:
        """Have a new house's start hooks run. Any thread."""

    def call(self, thunk: Callable[[], Any]) -> None:
        """Run a function on a thread of the scheduler's: the owner's, where there is one."""

    def make[T](self, factory: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """What the factory makes, laid in memory beside what else is the owner's."""


@laid_in_plots
class House(HouseBase):
    """One actor's seat: the contract between senders, the scheduler and the actor."""

    __slots__ = ("__weakref__",)

    actor: AbstractActor | None
    scheduler: Scheduler
    next_house: House | None
    barrier: Stack | None
    promises: FutureDispatcher
    channel_futures: list[ChannelPromise[Any]] | None
    channel_promises: set[ChannelPromise[Any]] | None
    stop_reason: OtaviaError | None

    @twin(HouseBase)
    def __init__(self, actor: AbstractActor, scheduler: Scheduler, id: int) -> None:  # noqa: A002
        self.settle(actor, type(actor).plan, scheduler, NOBODY, id)

    # ---- delivery: any thread

    @twin(HouseBase)
    def notice(self, message: Any) -> None:
        if self.post_notice(message):
            self.scheduler.ready(self)

    @twin(HouseBase)
    def ask(self, envelope: Envelope) -> None:
        if self.post_ask(envelope):
            self.scheduler.ready(self)

    @twin(HouseBase)
    def answer(self, ids: int | tuple[int, ...], reply: Any) -> None:
        """Deliver a reply to this asker. The eager priority is set before the house is queued."""
        won = self.post_reply((ids, reply))
        if self.size(REPLY) > self.scheduler.system.config.high_priority_replies:
            self.high_priority = True
        if won:
            self.scheduler.ready(self)

    def answer_error(self, ids: int | tuple[int, ...], error: OtaviaError) -> None:
        if self.post_exception((ids, error)):
            self.scheduler.ready(self)

    def inform(self, event: Event) -> None:
        won = self.post_event(event)
        if self.size(EVENT) > self.scheduler.system.config.high_priority_events:
            self.high_priority = True
        if won:
            self.scheduler.ready(self)

    def control(self, message: Any) -> None:
        """Deliver a system message: it overtakes everything."""
        if self.post_system(message):
            self.scheduler.ready(self)

    def asker_address(self) -> ActorAddress:
        from otavia_ft.address import ActorAddress  # the address is made of houses, not they of it

        return ActorAddress(self)

    # ---- the turn: the runner only

    @twin(HouseBase)
    def run_turn(self, context: Context) -> None:
        """Handle messages up to the thread's budget. The only thing a scheduler has to know."""
        if not self.try_run():
            return  # a stale entry: somebody else has run it
        context.turns += 1
        left = self.work(context, context.budget)
        context.messages += context.budget - left
        self._complete()

    @twin(HouseBase)
    def work(self, context: Context, left: int) -> int:
        """Handle messages until there are none or the budget is used up; returns what is left."""
        context.house = self
        try:
            while left > 0:
                mail = self.mail()
                if self.barrier is not None:
                    mail &= IN_BARRIER
                if mail:
                    left = self._dispatch(context, mail, left)
                elif self.channel_futures:
                    left = self._dispatch_channel_futures(context, left)
                else:
                    break
                if context.later:
                    self.run_later(context)
        except BaseException as error:  # the engine catches all; this is the net
            self.log_failure("could not finish its turn", error)
            left = 0  # whatever it is, others come first
        context.house = None
        return left

    def _dispatch(self, context: Context, mail: int, left: int) -> int:
        """One pass over the mailboxes in strict order; returns what is left of the budget.

        Every loop ends early when a system message comes, so that the next pass starts with it.
        """
        if mail & SYSTEM_BIT:
            left = self._dispatch_system(context, left)
        if self.stop_reason is not None:
            return lifecycle.bury(self, left, context)
        if mail & REPLY_BIT:
            box = self.drain(REPLY, left)
            for ids, reply in box:
                engine.receive_reply(context, self, ids, reply)
            left = box.left
        if mail & EXCEPTION_BIT:
            box = self.drain(EXCEPTION, left)
            for ids, error in box:
                engine.receive_error(context, self, ids, error)
                del error  # see engine.py
            left = box.left
        if mail & ASK_BIT and self.barrier is None:
            if self.plan.short_asks:
                left = handlers.run_asks(context, self, self.drain(ASK, left))
            else:
                left = self._dispatch_asks(context, left)
        if mail & NOTICE_BIT and self.barrier is None:
            if self.plan.short_notices:
                left = handlers.run_notices(context, self, self.drain(NOTICE, left))
            else:
                left = self._dispatch_notices(context, left)
        if mail & EVENT_BIT:
            box = self.drain(EVENT, left)
            for event in box:
                self._receive_event(context, event)
            left = box.left
        if self.channel_futures:
            left = self._dispatch_channel_futures(context, left)
        return left

    def run_later(self, context: Context) -> None:
        """The later tasks of the pass in hand. What they queue comes at the end of the next pass.

        It goes there by way of the house's own mail: then there is a next pass, on whatever thread
        runs the house by then, and a task that always queues another uses up the budget.
        """
        for _ in range(len(context.later)):
            task = context.later.popleft()
            try:
                task()
            except BaseException as error:  # tasks are user code
                self.log_failure(f"had a later task that failed: {task!r}", error)
        if context.later:
            self.put(EVENT, LaterEvent(tuple(context.later)))
            context.later.clear()

    def _dispatch_asks(self, context: Context, left: int) -> int:
        actor: Any = self.actor
        if self.plan.special:
            return gathering.dispatch(context, self, ASK, left)
        box = self.drain(ASK, left)
        new, let_go = context.new_ask_stack, context.let_go
        for envelope in box:
            stack = new()
            stack.house = self
            stack.actor = actor
            stack.asker = envelope.asker
            stack.ask_id = envelope.message_id
            stack.ask = envelope.message
            if let_go is not None:
                let_go(envelope)
            engine.run_stack(context, self, stack)
        return box.left

    def _dispatch_notices(self, context: Context, left: int) -> int:
        actor: Any = self.actor
        if self.plan.special:
            return gathering.dispatch(context, self, NOTICE, left)
        box = self.drain(NOTICE, left)
        new = context.new_notice_stack
        for message in box:
            stack = new()
            stack.house = self
            stack.actor = actor
            stack.notice = message
            engine.run_stack(context, self, stack)
        return box.left

    def _dispatch_system(self, context: Context, left: int) -> int:
        box = self.drain(SYSTEM, left)
        for message in box:
            try:
                lifecycle.receive_system(context, self, message)
            except BaseException as error:  # hooks are user code
                self.log_failure(f"failed on {message!r}", error)
        return box.left

    def _receive_event(self, context: Context, event: Any) -> None:
        if type(event) is AskTimeoutEvent:
            engine.receive_ask_timeout(context, self, event)
            return
        actor: Any = self.actor
        try:
            if type(event) is TimeoutEvent:
                actor.handle_actor_timeout(event)
            elif type(event) is LaterEvent:
                context.later.extend(event.tasks)
            else:
                actor.receive_event(event)
        except BaseException as error:  # hooks are user code
            self.log_failure(f"failed on {event!r}", error)

    def channel_completed(self, promise: ChannelPromise[Any]) -> None:
        """A channel operation of this actor's ended; its stack is resumed in the next pass.

        Inside a turn that pass comes anyway. The reactor, on the owner's thread between two turns,
        has to ask for it.
        """
        if self.channel_futures is None:
            self.channel_futures = []
        self.channel_futures.append(promise)
        if self.try_ready():
            self.scheduler.ready(self)

    def _dispatch_channel_futures(self, context: Context, left: int) -> int:
        completed, self.channel_futures = self.channel_futures or [], None
        left -= len(completed)
        completed.reverse()
        while completed:
            promise = completed.pop()
            if self.channel_promises is not None:
                self.channel_promises.discard(promise)
            engine.promise_completed(context, self, promise)
            if context.let_go is not None:
                context.let_go(promise)
        return left

    def _complete(self) -> None:
        """complete_running: READY again, or WAITING and look once more."""
        mask = EVERYTHING if self.barrier is None else IN_BARRIER
        nothing_awaited = self.promises.count == 0
        if self.channel_futures or self.has_mail(mask):
            config = self.scheduler.system.config
            self.high_priority = (
                nothing_awaited
                or self.size(REPLY) > config.high_priority_replies
                or self.size(EVENT) > config.high_priority_events
            )
            self.run_to_ready()
            self.scheduler.ready(self)
        else:
            self.high_priority = nothing_awaited
            self.run_to_waiting()
            if self.has_mail(mask) and self.try_ready():
                self.scheduler.ready(self)

    def mount(self, context: Context) -> None:
        """Run the start hooks; only then may messages be handled. The owner's thread."""
        context.house = self
        try:
            lifecycle.start(self)
        except BaseException as error:  # hooks are user code
            lifecycle.stop(context, self, lifecycle.failed_to_start(self, error))
        if context.later:
            self.run_later(context)
        context.house = None
        if self.promises.count == 0:
            self.high_priority = True  # or a new actor would wait behind all that have had a turn
        # Still MOUNTING up to here: nobody could run a turn while the hooks ran.
        self.end_mount()
        if self.has_mail(EVERYTHING) and self.try_ready():
            self.scheduler.ready(self)

    # ---- asking: the runner only

    def attach(self, stack: Stack, promise: MessagePromise[Any]) -> int:
        """Let `stack` wait for `promise`; returns the number under which to answer."""
        if promise.stack is not None or promise.is_done:
            raise StackError(f"{promise!r} was used before: every ask needs a future of its own")
        if stack.done:
            raise StackError("this stack is finished: nobody would be there for the answer")
        self.next_id = aid = self.next_id + 1
        promise.aid = aid
        stack.add_uncompleted(promise)
        if self.promises is NOBODY:
            self.promises = FutureDispatcher(self.scheduler.system.register.waiting)
            self.enter_register()
        self.promises.push(promise)
        return aid

    def attach_channel(self, stack: Stack, promise: ChannelPromise[Any]) -> None:
        """Let `stack` wait for a channel operation. Remembered, so that a stop finds the stack."""
        if promise.stack is not None or promise.is_done:
            raise StackError(f"{promise!r} was used before: every operation needs its own future")
        if stack.done:
            raise StackError("this stack is finished: nobody would be there for the outcome")
        stack.add_uncompleted(promise)
        if self.channel_promises is None:
            self.channel_promises = set()
            self.enter_register()
        self.channel_promises.add(promise)

    def enter_register(self) -> None:
        """From now on this actor has something to say at the system's end. If the goodbyes have
        been said meanwhile, it was not among those who were told."""
        system = self.scheduler.system
        system.register.add(self)
        if system.register.closed:
            self.control(lifecycle.Stop(system.stopped_error))

    def attach_sleep(self, stack: Stack, promise: MessagePromise[Any], seconds: float) -> None:
        aid = self.attach(stack, promise)
        promise.timer = self.scheduler.system.timer.after(
            seconds, self.inform, AskTimeoutEvent(aid, sleep=True)
        )

    def attach_timeout(self, promise: MessagePromise[Any], seconds: float) -> None:
        promise.timer = self.scheduler.system.timer.after(
            seconds, self.inform, AskTimeoutEvent(promise.aid)
        )

    # ---- telling people

    @property
    def name(self) -> str:
        return f"{self.plan.name}#{self.id}"

    def notice_failed(self, stack: Stack, error: BaseException) -> None:
        lifecycle.notice_failed(self, stack, error)

    def log_failure(self, what: str, error: BaseException) -> None:
        try:
            _log.error("%s %s", self.name, what, exc_info=error, extra={"actor": self.name})
        except BaseException:  # a broken log handler must not break the actor
            pass

    def dead_letter(self, message: Any, reason: str) -> None:
        self.scheduler.system.dead_letters.add(message, self.name, reason)

    def __repr__(self) -> str:
        return f"<House {self.name} {HouseState(self.state).name}>"
