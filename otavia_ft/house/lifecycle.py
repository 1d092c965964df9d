"""An actor's life: start, restart, stop, and what becomes of mail for the dead.

All of it happens on the thread that holds the house (RUNNING, or MOUNTING for the start), as part
of a turn, so no hook ever overlaps a handler.

There is no seventh state for the stopped: a house whose actor has stopped goes on as before, but
its turns bury the mail instead of delivering it. A message that races with the stop is therefore
either handled, or buried (a dead letter, and an error to the asker), never forgotten.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from otavia_ft.context import borrowed_context
from otavia_ft.doors import HouseState, Mailbox
from otavia_ft.errors import ActorStopped, OtaviaError, described, fresh
from otavia_ft.house import engine
from otavia_ft.house.register import check_cleaner
from otavia_ft.message import LaterEvent, PoisonPill, SystemMessage

if TYPE_CHECKING:
    from otavia_ft.context import Context
    from otavia_ft.house.house import House
    from otavia_ft.stack.stack import Stack

__all__ = [
    "Errand",
    "ExceptionStrategy",
    "Restart",
    "Stop",
    "bury",
    "bury_for_good",
    "failed_to_start",
    "notice_failed",
    "receive_system",
    "start",
    "stop",
]


UNLIMITED = 1 << 62


class ExceptionStrategy(Enum):
    """What happens when the handler of a notice raised. (Of an ask: the asker gets the error.)"""

    RESTART = "restart"
    IGNORE = "ignore"
    SHUTDOWN = "shutdown"


class Stop(SystemMessage):
    """Stop for a reason; the pill is the reasonless one."""

    __slots__ = ("reason",)

    def __init__(self, reason: OtaviaError) -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return f"Stop({self.reason})"


class Restart(SystemMessage):
    """Run the restart hooks, as a turn; the mail is kept."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Restart()"


class Errand(SystemMessage):
    """A system message that knows itself what to do, with a dead receiver too. See family.py."""

    __slots__ = ()

    def run(self, context: Context, house: House) -> None:
        """On the receiver's turn."""
        raise NotImplementedError


def receive_system(context: Context, house: House, message: Any) -> None:
    """One control message."""
    if isinstance(message, Errand):
        message.run(context, house)
    elif house.stop_reason is not None:
        return  # it is dead already
    elif isinstance(message, PoisonPill):
        stop(context, house, ActorStopped(f"{house.name} has stopped"))
    elif isinstance(message, Stop):
        stop(context, house, message.reason)
    elif isinstance(message, Restart):
        if house.family is None or house.family.stopping is None:
            restart(house)
    else:
        house.dead_letter(message, "not a system message that an actor knows")


def start(house: House) -> None:
    """The start hooks. What they raise stops the actor: half a start is no start."""
    actor: Any = house.actor
    if house.plan.wants_stop:
        _enter_register(house)
        system = house.scheduler.system
        if system.register.closed:
            # The goodbyes have been said: nobody would tell this one, so it does not begin.
            house.stop_reason = system.stopped_error
            _leave(house, system.stopped_error)
            return
    actor.pre_start()
    actor.after_mount()


def _enter_register(house: House) -> None:
    """Let the stop of the system find this one, and its cleaner run whatever comes."""
    actor: Any = house.actor
    clean = actor.cleaner() if hasattr(actor, "cleaner") else None
    if clean is not None:
        check_cleaner(clean, actor, house)
    house.scheduler.system.register.add(house, clean)


def failed_to_start(house: House, error: BaseException) -> OtaviaError:
    house.log_failure("failed to start and is stopped", error)
    reason = ActorStopped(f"{house.name} failed to start: {described(error)}")
    reason.__cause__ = error
    return reason


def restart(house: House) -> bool:
    """The restart hooks on the same instance. False: they failed, so the actor stops."""
    actor: Any = house.actor
    try:
        actor.before_restart()
        actor.restart()
        actor.after_restart()
    except BaseException as error:  # hooks are user code
        house.log_failure("failed to restart and is stopped", error)
        reason = ActorStopped(f"{house.name} failed to restart: {described(error)}")
        reason.__cause__ = error
        house.control(Stop(reason))
        return False
    return True


def notice_failed(house: House, stack: Stack, error: BaseException) -> None:
    """A notice's handler raised, and nobody waits for an answer."""
    family = house.family
    if family is not None and family.failed(house, type(stack.message).__name__, error):
        return
    actor: Any = house.actor
    strategy = actor.notice_exception_strategy
    house.log_failure(f"failed on {type(stack.message).__name__} ({strategy.value})", error)
    if strategy is ExceptionStrategy.RESTART:
        restart(house)
    elif strategy is ExceptionStrategy.SHUTDOWN:
        house.scheduler.system.signal_stop()


def stop(context: Context, house: House, reason: OtaviaError) -> None:
    """End the actor's life, once: waiting stacks, timers, the hook, the cleaner; then the mail."""
    if house.stop_reason is not None:
        return
    family = house.family
    if family is not None and not family.may_stop(house, reason):
        return  # the children first; their last one's end calls again
    house.stop_reason = reason
    _cancel_waiting(context, house, reason)
    house.barrier = None
    house.channel_promises = house.channel_futures = None
    _end_timers(house)
    actor: Any = house.actor
    try:
        actor.post_stop()
    except BaseException as error:  # hooks are user code
        house.log_failure("failed in post_stop", error)
    _end_timers(house)  # those of the hook
    _leave(house, reason)


def _cancel_waiting(context: Context, house: House, reason: OtaviaError) -> None:
    awaited = [*house.promises, *(house.channel_promises or ())]
    waiting = {id(promise.stack): promise.stack for promise in awaited}
    for stack in waiting.values():
        if stack is not None:
            engine.cancel_stack(context, house, stack, reason)


def _end_timers(house: House) -> None:
    timers, house.timers = house.timers, None
    for task in timers or ():
        task.end()


def _leave(house: House, reason: OtaviaError) -> None:
    """The actor goes; its cleaner is sent, and those who have to know are told."""
    house.actor = None
    clean = house.scheduler.system.register.remove(house)
    if clean is not None:
        house.scheduler.call(clean)
    family = house.family
    if family is not None:
        house.family = None
        family.ended(house, reason)


def bury(house: House, left: int, context: Context | None = None) -> int:
    """A turn of a stopped house: dead letters for the mail, errors for the askers. Its later tasks
    are run, if this is a turn."""
    assert house.stop_reason is not None
    return _bury_mail(house, left, house.stop_reason, context)


def _bury_mail(house: House, left: int, reason: OtaviaError, context: Context | None = None) -> int:
    if house.family is not None:
        house.family.buried(reason)
    for mailbox in (Mailbox.REPLY, Mailbox.EXCEPTION, Mailbox.ASK, Mailbox.NOTICE, Mailbox.EVENT):
        box = house.drain(mailbox, left)
        for item in box:
            if mailbox is Mailbox.ASK:
                item.asker.answer_error(item.message_id, fresh(reason))
                house.dead_letter(item.message, str(reason))
            elif mailbox is not Mailbox.EVENT:
                house.dead_letter(item if mailbox is Mailbox.NOTICE else item[1], str(reason))
            elif context is not None and type(item) is LaterEvent:
                context.later.extend(item.tasks)
        left = box.left
    return left


def bury_for_good(house: House, reason: OtaviaError) -> None:
    """The system is gone: a house found in a queue delivers nothing any more, and its actor, if it
    has not stopped yet, says its goodbye here.

    Any thread may be here, and so may run the actor's last hooks; the transitions let one of them
    have the house.
    """
    if house.state == HouseState.MOUNTING:
        _call_off(house, reason)
        house.end_mount()
        house.try_ready()
    while house.try_schedule() and house.try_run():
        try:
            while house.stop_reason is None or house.mail():
                _say_goodbye(house, reason)
                _bury_mail(house, UNLIMITED, reason)
                if house.stop_reason is None and not house.size(Mailbox.SYSTEM):
                    break  # its children go first, and the last one's end brings it here again
        except BaseException as error:  # the others want to be buried
            house.log_failure("could not be buried", error)
        house.run_to_waiting()
        if not (house.mail() and house.try_ready()):
            break


def _call_off(house: House, reason: OtaviaError) -> None:
    """A house that was never mounted: as at a start after the goodbyes, it does not begin."""
    with borrowed_context(house):
        try:
            if house.plan.wants_stop:
                _enter_register(house)
        except BaseException as error:  # a cleaner is user code
            house.log_failure("failed to start and is stopped", error)
        house.stop_reason = reason
        _leave(house, reason)


def _say_goodbye(house: House, reason: OtaviaError) -> None:
    """The last of a house's control messages, and its stop if that was not one of them."""
    if house.stop_reason is not None and not house.size(Mailbox.SYSTEM):
        return
    with borrowed_context(house) as context:
        for message in house.drain(Mailbox.SYSTEM, UNLIMITED):
            try:
                receive_system(context, house, message)
            except BaseException as error:  # hooks are user code
                house.log_failure(f"failed on {message!r}", error)
        stop(context, house, reason)
        if house.stop_reason is None:
            # One of its children may be stuck in a handler. `post_stop` waits for that, but whoever
            # has asked this actor does not.
            _cancel_waiting(context, house, reason)
        house.run_later(context)
