"""Actors: what a user subclasses.

Two ways to write one, freely mixed. The reference style overrides `resume_notice(stack)` and
`resume_ask(stack)` and says with the stack how it goes on. The everyday style marks handlers with
`@on(Type)`, plain or `async def`. Both run on the same stacks.

Every method here is called on one thread at a time, and never overlaps another of the same actor.
The table of hooks (thread, allowed results, effect of raising) stands in docs/actors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from datetime import datetime
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ClassVar

from otavia_ft.actor.plan import Plan
from otavia_ft.actor.timers import timer_of
from otavia_ft.address import ActorAddress
from otavia_ft.context import running_context, running_house
from otavia_ft.errors import OutsideActor, StackError
from otavia_ft.house import deathwatch, family, stash
from otavia_ft.house.lifecycle import ExceptionStrategy
from otavia_ft.house.supervisor import Supervisor
from otavia_ft.lane import laid_in_plots
from otavia_ft.message import Event, Notice, PoisonPill, SystemMessage, TimeoutEvent
from otavia_ft.stack.driver import CoroutineState, checked_reply
from otavia_ft.stack.stack import (
    AskStack,
    BatchAskStack,
    BatchNoticeStack,
    ChannelStack,
    NoticeStack,
    Stack,
)
from otavia_ft.stack.state import StackState, StackYield
from otavia_ft.timer import Timer, TimerTask

if TYPE_CHECKING:
    from otavia_ft.house.bounded import Overflow
    from otavia_ft.house.house import House
    from otavia_ft.system import ActorSystem

__all__ = ["AbstractActor", "AutoCleanable", "MainActor", "StateActor"]

START = StackState.START


class AbstractActor:
    """The base of all actors: hooks with their defaults, and the way to the runtime."""

    plan: ClassVar[Plan]

    has_channels: ClassVar[bool] = False
    """Whether this is an IO actor: bound to its thread's reactor, never stolen."""

    batchable: ClassVar[bool] = False
    """Whether messages that pass the filters are handed over in batches."""

    serial: ClassVar[bool] = False
    """Whether a waiting handler keeps new messages out (True), or they interleave (False)."""

    mailbox_capacity: ClassVar[int | None] = None
    """Most asks, and most notices, that may wait; 0: no limit, None: as the config says."""

    overflow: ClassVar[Overflow | None] = None
    """What happens to a message beyond that; None: as the system is configured."""

    notice_exception_strategy: ExceptionStrategy = ExceptionStrategy.RESTART
    """What happens when the handler of a notice raises."""

    supervisor: Supervisor | None = None
    """What becomes of children that fail. None: each child's own strategy decides."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.plan = Plan(cls, AbstractActor)
        laid_in_plots(cls)

    # ---- hooks to override

    def pre_start(self) -> None:
        """Once a life, before everything else."""

    def after_mount(self) -> None:
        """Once a life, before the first message; address, system and logger are there."""

    def before_restart(self) -> None:
        """Before a restart."""

    def restart(self) -> None:
        """The restart itself: bring the state back into order. The instance stays the same."""

    def after_restart(self) -> None:
        """After a restart."""

    def post_stop(self) -> None:
        """Once a life, at its end; no message comes after it."""

    def handle_actor_timeout(self, event: TimeoutEvent) -> None:
        """A timer that this actor registered went off."""

    def receive_event(self, event: Event) -> None:
        """An event of another kind. Only channels actors know what to do with one."""
        running_house("receive_event").dead_letter(event, "this actor handles no such event")

    def is_barrier_call(self, message: Any) -> bool:
        """Whether no other ask or notice may be handled until this message's execution ends."""
        return self.serial

    def batch_ask_filter(self, message: Any) -> bool:
        """Which asks of a batchable actor may go into a batch."""
        return True

    def batch_notice_filter(self, message: Any) -> bool:
        """Which notices of a batchable actor may go into a batch."""
        return True

    # ---- the hand-written form; the defaults route to `@on` handlers

    def resume_notice(self, stack: NoticeStack) -> StackYield:
        """Handle a notice, or go on with it where it was suspended."""
        if stack.state is not START:
            return _go_on(stack)
        message = stack.notice
        result = self.plan.handlers[type(message)](self, message)
        if type(result) is CoroutineType:
            return running_context("a handler").new_coroutine_state(result).advance(stack)
        return stack.return_()

    def resume_ask(self, stack: AskStack) -> StackYield:
        """Handle an ask, or go on with it where it was suspended."""
        if stack.state is not START:
            return _go_on(stack)
        message = stack.ask
        result = self.plan.handlers[type(message)](self, message)
        if type(result) is CoroutineType:
            return running_context("a handler").new_coroutine_state(result).advance(stack)
        return stack.return_(checked_reply(result))

    def resume_batch_notice(self, stack: BatchNoticeStack) -> StackYield:
        """Handle a batch of notices; for a batchable actor."""
        raise StackError(f"{stack.house.name} is batchable but has no resume_batch_notice")

    def resume_batch_ask(self, stack: BatchAskStack) -> StackYield:
        """Handle a batch of asks; for a batchable actor."""
        raise StackError(f"{stack.house.name} is batchable but has no resume_batch_ask")

    def resume_channel(self, stack: ChannelStack) -> StackYield:
        """Handle an inbound channel message; for channels actors only."""
        raise StackError(f"{stack.house.name} cannot handle channels: derive from ChannelsActor")

    # ---- the way to the runtime: inside a running handler or hook only

    @property
    def address(self) -> ActorAddress:
        """This actor's address."""
        return ActorAddress(_house_of(self, "self.address"))

    @property
    def system(self) -> ActorSystem:
        """The system that this actor lives in."""
        return _house_of(self, "self.system").scheduler.system

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records name this actor (`record.actor`)."""
        house = _house_of(self, "self.logger")
        return _ActorLogger(logging.getLogger("otavia_ft.actor"), {"actor": house.name})

    def stop(self) -> None:
        """Stop this actor after the message in hand."""
        _house_of(self, "self.stop()").control(PoisonPill())

    # ---- relatives, watches and the stash: see docs/supervision

    def build_child(
        self, factory: Callable[..., AbstractActor], *args: Any, **kwargs: Any
    ) -> ActorAddress:
        """Make an actor by `factory(*args, **kwargs)` whose parent this one is.

        This actor keeps it alive, stops it before it stops itself, and its `supervisor` decides
        when the child fails.
        """
        house = _house_of(self, "self.build_child()")
        return ActorAddress(family.build_child(house, factory, args, kwargs))

    @property
    def children(self) -> tuple[ActorAddress, ...]:
        """The children that have not ended, oldest first."""
        known = _house_of(self, "self.children").family
        records = () if known is None else known.children.values()
        return tuple(ActorAddress(record.house) for record in records)

    @property
    def parent(self) -> ActorAddress | None:
        """The actor that has built this one; None if the system has."""
        known = _house_of(self, "self.parent").family
        house = None if known is None or known.parent is None else known.parent()
        return None if house is None else ActorAddress(house)

    def watch(self, address: ActorAddress) -> None:
        """Get a `Terminated` notice, once, when that actor has ended, or if it has already."""
        deathwatch.watch(_house_of(self, "self.watch()"), _one_house(address))

    def unwatch(self, address: ActorAddress) -> None:
        """Watch no longer."""
        deathwatch.unwatch(_house_of(self, "self.unwatch()"), _one_house(address))

    def stash(self) -> None:
        """Put the message in hand aside; what its handler returns no longer answers an ask."""
        _house_of(self, "self.stash()")
        stash.stash()

    def unstash(self) -> int:
        """Put the oldest stashed message back, before all that wait; returns how many that is."""
        return stash.unstash(_house_of(self, "self.unstash()"), everything=False)

    def unstash_all(self) -> int:
        """Put all stashed messages back, in their order, before all that wait."""
        return stash.unstash(_house_of(self, "self.unstash_all()"), everything=True)

    def notice_self_first(self, message: Any) -> None:
        """Send oneself a notice that is handled before all others that wait."""
        house = _house_of(self, "notice_self_first()")
        if isinstance(message, SystemMessage):
            raise TypeError(
                f"{house.name}: {message!r} is a system message, which is no notice to oneself; it "
                "comes first anyway: use self.stop(), or self.address.restart()"
            )
        house.put_front(4, message)

    def later(self, task: Callable[[], Any]) -> None:
        """Run a function at the end of the pass, after the channel futures; what is queued inside
        such a function runs at the end of the next pass, which comes whether there is mail or not.
        """
        if not callable(task):
            raise TypeError(f"later() takes a function to call, not {task!r}")
        _house_of(self, "self.later()")
        running_context("self.later()").later.append(task)

    def after(self, seconds: float, attach: Any = None, *, every: float | None = None) -> TimerTask:
        """Have `handle_actor_timeout` called in a while, and then every so often if asked to."""
        return timer_of(_house_of(self, "self.after()"), Timer.after, seconds, attach, every)

    def at(
        self, when: float | datetime, attach: Any = None, *, every: float | None = None
    ) -> TimerTask:
        """Have `handle_actor_timeout` called at a time, and then every so often if asked to.

        `when` is in seconds of `time.monotonic()` (`self.system.timer.time()` tells it, and in a
        `TestSystem` the virtual time), or a datetime with a time zone, which is converted at the
        call. A time that has passed means at once. With `every` the next ones are due at
        when + n * every, those that have passed already left out.
        """
        return timer_of(_house_of(self, "self.at()"), Timer.at, when, attach, every)


class _ActorLogger(logging.LoggerAdapter[logging.Logger]):
    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        assert self.extra is not None
        kwargs["extra"] = {**self.extra, **(kwargs.get("extra") or {})}
        return f"{self.extra['actor']}: {msg}", kwargs


def _house_of(actor: AbstractActor, what: str) -> House:
    """The house that runs on this thread, which has to be this actor's own."""
    house = running_house(what)
    if house.actor is not actor:
        raise OutsideActor(
            f"{what} of a {type(actor).__name__} works only while that actor runs, and here runs "
            f"{house.name}: use its address from another actor, and after_mount, not __init__"
        )
    return house


def _go_on(stack: Stack) -> StackYield:
    state = stack.state
    if isinstance(state, CoroutineState):
        return state.advance(stack)
    raise StackError(
        f"{stack.house.name} was resumed in {state!r} by its default resume method: override "
        "resume_notice / resume_ask if you suspend stacks by hand"
    )


def _one_house(address: Any) -> House:
    if not isinstance(address, ActorAddress):
        raise TypeError(f"one watches the address of one actor, not {address!r}")
    return address.house


AbstractActor.plan = Plan(AbstractActor, None)


class StateActor(AbstractActor):
    """An actor of pure business logic, without channels. Idle threads may steal its turns."""


class MainActor(StateActor):
    """An entry point: gets `MainActor.Args` as its first notice, right after the mount."""

    class Args(Notice):
        """The arguments of the program."""

        __slots__ = ("args",)

        def __init__(self, args: tuple[Any, ...]) -> None:
            self.args = args

        def __repr__(self) -> str:
            return f"Args{self.args!r}"

    def __init__(self, *args: Any) -> None:
        self._args = args

    def after_mount(self) -> None:
        """Sends the arguments; an override must call it."""
        self.notice_self_first(MainActor.Args(self._args))


class AutoCleanable:
    """Mixed into an actor that holds something to be cleaned up when the actor is gone.

    `cleaner` is called once, at the start, and returns a function, which runs on the owner's
    thread after the actor has stopped, or after its last address has gone; at the end of the system
    perhaps on another. It must not refer to the actor or its address, or that would never happen.
    """

    def cleaner(self) -> Callable[[], None]:
        """The function that cleans up. It must not hold the actor."""
        raise NotImplementedError
