"""Actors on free-threaded CPython: true parallelism, work stealing, and a tested core."""

from otavia_ft.actor.base import AbstractActor, AutoCleanable, MainActor, StateActor
from otavia_ft.actor.plan import on
from otavia_ft.address import ActorAddress, Address, RobinAddress
from otavia_ft.atomic import AtomicInt, InvariantError, SpinLock
from otavia_ft.config import Config
from otavia_ft.deadletters import DeadLetter
from otavia_ft.errors import (
    ActorStopped,
    AskCancelled,
    AskFailed,
    AskTimeout,
    ConfigError,
    MailboxFull,
    OtaviaError,
    OutsideActor,
    StackError,
    SystemStopped,
)
from otavia_ft.house.bounded import Overflow
from otavia_ft.house.deathwatch import Terminated
from otavia_ft.house.lifecycle import ExceptionStrategy
from otavia_ft.house.supervisor import Directive, Supervisor, SupervisorStrategy
from otavia_ft.message import (
    Ask,
    Call,
    Envelope,
    Event,
    Notice,
    PoisonPill,
    Reply,
    TimeoutEvent,
    TimeoutReply,
    UnitReply,
)
from otavia_ft.stack.driver import first_of, gather, sleep
from otavia_ft.stack.promise import ChannelFuture, MessageFuture
from otavia_ft.stack.stack import (
    AskStack,
    BatchAskStack,
    BatchNoticeStack,
    ChannelStack,
    NoticeStack,
    Stack,
)
from otavia_ft.stack.state import (
    ChannelFutureState,
    FuturesState,
    FutureState,
    StackState,
    StackYield,
    StartState,
)
from otavia_ft.system import ActorSystem, SystemStatistics
from otavia_ft.timer import TimerTask

__all__ = [
    "AbstractActor",
    "ActorAddress",
    "ActorStopped",
    "ActorSystem",
    "Address",
    "Ask",
    "AskCancelled",
    "AskFailed",
    "AskStack",
    "AskTimeout",
    "AtomicInt",
    "AutoCleanable",
    "BatchAskStack",
    "BatchNoticeStack",
    "Call",
    "ChannelFuture",
    "ChannelFutureState",
    "ChannelStack",
    "Config",
    "ConfigError",
    "DeadLetter",
    "Directive",
    "Envelope",
    "Event",
    "ExceptionStrategy",
    "FutureState",
    "FuturesState",
    "InvariantError",
    "MailboxFull",
    "MainActor",
    "MessageFuture",
    "Notice",
    "NoticeStack",
    "OtaviaError",
    "OutsideActor",
    "Overflow",
    "PoisonPill",
    "Reply",
    "RobinAddress",
    "SpinLock",
    "Stack",
    "StackError",
    "StackState",
    "StackYield",
    "StartState",
    "StateActor",
    "Supervisor",
    "SupervisorStrategy",
    "SystemStatistics",
    "SystemStopped",
    "Terminated",
    "TimeoutEvent",
    "TimeoutReply",
    "TimerTask",
    "UnitReply",
    "first_of",
    "gather",
    "on",
    "sleep",
]
