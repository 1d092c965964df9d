"""What can go wrong, by who has to act.

Misuse of the API raises at the call. What happens to an ask (it failed, it timed out, the other
side stopped) arrives as the error of its future. `InvariantError` is our own bug.
"""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any

from otavia_ft.atomic import InvariantError

__all__ = [
    "ActorStopped",
    "AskCancelled",
    "AskFailed",
    "AskTimeout",
    "ConfigError",
    "InvariantError",
    "MailboxFull",
    "OtaviaError",
    "OutsideActor",
    "StackError",
    "SystemStopped",
    "described",
    "fresh",
]


class OtaviaError(Exception):
    """Base of all errors that this package raises on purpose."""


class ConfigError(OtaviaError, ValueError):
    """A configuration value is out of its range; the message names it."""


class OutsideActor(OtaviaError, RuntimeError):
    """Something that belongs to a running actor was used elsewhere."""


class StackError(OtaviaError, RuntimeError):
    """A handler broke the stack's contract: replied twice, suspended on nothing, and so on."""


class AskFailed(OtaviaError):
    """The asked actor raised. `cause` is what it raised; it is also `__cause__`."""

    def __init__(self, cause: BaseException, asked: str) -> None:
        super().__init__(f"{asked} raised {described(cause)}")
        self.cause = cause
        self.asked = asked
        self.__cause__ = cause


class AskTimeout(OtaviaError, TimeoutError):
    """No reply came in time. A reply that comes later is dropped."""


class AskCancelled(OtaviaError):
    """The asking stack was cancelled: its actor stops, or nobody waits any more."""


class ActorStopped(OtaviaError):
    """The asked actor has stopped, so nobody will answer."""


class SystemStopped(OtaviaError, RuntimeError):
    """The actor system is stopped or stopping and takes no more work."""


class MailboxFull(OtaviaError):
    """A bounded mailbox refused a message; its overflow policy says so."""


def described(error: BaseException) -> str:
    """An error in one line, whatever its own `__str__` does: it is user code like any other."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # a report about an error must not fail
        return f"{type(error).__name__} (which cannot be printed)"


def fresh(error: OtaviaError) -> OtaviaError:
    """A copy of an error that several receivers are to get: each needs one of its own.

    Raising an error writes the way it went into its `__traceback__`. One that many askers raise
    would keep all their frames alive, and CPython does not lock it: two threads that raise the same
    one at once can tie its traceback into a ring, in which whoever prints it runs for ever.

    The copy has the type, arguments, attributes and causes of the original, and the causes, copied
    as well, the tracebacks that say where it all began. No constructor is called, since that of a
    user's class may want anything; an error that resists is described instead.
    """
    try:
        copy: OtaviaError = _copied(error, {})
        copy.__traceback__ = None
        return copy
    except BaseException:  # user code may hide behind every attribute
        return OtaviaError(described(error))


def _copied(error: BaseException, copies: dict[int, BaseException]) -> Any:
    kind: Any = type(error)
    native: Any = next(base for base in kind.__mro__ if not base.__flags__ & _HEAP_TYPE)
    if isinstance(error, BaseExceptionGroup):  # the one kind that is not made empty
        copy = native.__new__(kind, error.message, error.exceptions)
    else:
        copy = native.__new__(kind)
    copies[id(error)] = copy
    copy.args = error.args
    for base in kind.__mro__:
        for member in vars(base).values():
            if isinstance(member, MemberDescriptorType):
                try:
                    value = member.__get__(error)
                    if value is not None:
                        member.__set__(copy, value)
                except (AttributeError, TypeError):
                    pass  # a slot that is empty, or a field that nobody may write
    copy.__dict__.update(error.__dict__)
    if hasattr(error, "__notes__"):
        copy.__notes__ = list(error.__notes__)
    cause = error.__cause__
    if cause is not None:
        its_copy = copies.get(id(cause)) or _copied(cause, copies)
        copy.__cause__ = its_copy
        for name, value in error.__dict__.items():
            if value is cause:  # AskFailed.cause
                copy.__dict__[name] = its_copy
    context = error.__context__
    copy.__context__ = copies.get(id(context), context)
    copy.__suppress_context__ = error.__suppress_context__
    copy.__traceback__ = error.__traceback__
    return copy


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class made at run time, as all Python classes are
