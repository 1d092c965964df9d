"""What can go wrong, by who has to act.

Misuse of the API raises at the call. What happens to an ask (it failed, it timed out, the other
side stopped) arrives as the error of its future. `InvariantError` is our own bug.
"""

from __future__ import annotations

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
