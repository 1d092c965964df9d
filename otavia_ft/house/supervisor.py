"""What shall become of a child that failed: the policy, without the protocol.

    class Shop(StateActor):
        supervisor = (
            Supervisor(max_retries=3, window=60)
            .directive(ConnectionError, Directive.RESTART)
            .directive(LookupError, Directive.RESUME)
            .directive(MemoryError, Directive.ESCALATE)
        )

A supervisor belongs to the parent. A child keeps the one that its parent had when it was built, so
a parent that sets `self.supervisor` between two children gives them different ones. Several parents
may share one: it holds no state of theirs. How it is carried out stands in family.py.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, Self

__all__ = ["Directive", "Supervisor", "SupervisorStrategy"]


class Directive(Enum):
    """What shall become of a child that failed."""

    STOP = "stop"
    RESUME = "resume"
    RESTART = "restart"
    ESCALATE = "escalate"


class SupervisorStrategy(Enum):
    """Whom a STOP or a RESTART is for: the child that failed, or all children of its supervisor."""

    ONE_FOR_ONE = "one_for_one"
    ONE_FOR_ALL = "one_for_all"


class Supervisor:
    """Directives by the type of the error, a budget of restarts, and the pauses between them."""

    def __init__(
        self,
        default: Directive = Directive.RESTART,
        *,
        strategy: SupervisorStrategy = SupervisorStrategy.ONE_FOR_ONE,
        max_retries: int | None = None,
        window: float | None = None,
        backoff: float = 0.0,
        max_backoff: float = 60.0,
        factor: float = 2.0,
    ) -> None:
        """`max_retries` restarts within `window` seconds (None: ever), then the child is stopped.

        The first restart comes after `backoff` seconds, each further one within the window after
        `factor` times as many, up to `max_backoff`.
        """
        self.default = _checked(default, Directive, "default")
        self.strategy = _checked(strategy, SupervisorStrategy, "strategy")
        if not _is_count(max_retries):
            raise ValueError(f"max_retries={max_retries!r}: give a number from 0 up, or None")
        if window is not None and not 0 < window < math.inf:
            raise ValueError(f"window={window!r}: give a number of seconds above 0, or None")
        if not 0 <= backoff <= max_backoff < math.inf:
            raise ValueError(
                f"backoff={backoff!r}, max_backoff={max_backoff!r}: give seconds from 0 up, the "
                "second at least as many as the first"
            )
        if not 1 <= factor < math.inf:
            raise ValueError(f"factor={factor!r}: give a number from 1 up")
        self.max_retries = max_retries
        self.window = window
        self.backoff = backoff
        self.max_backoff = max_backoff
        self.factor = factor
        self._directives: dict[type[BaseException], Directive] = {}

    def directive(self, error: type[BaseException], directive: Directive) -> Self:
        """Answer errors of this class, and of those derived from it, with this directive."""
        if not _is_error(error):
            raise TypeError(f"a directive is for a class of exceptions, not {error!r}")
        self._directives[error] = _checked(directive, Directive, "directive")
        return self

    def decide(self, error: BaseException) -> Directive:
        """The directive of the nearest class. May be overridden; if it raises, that is STOP."""
        for kind in type(error).__mro__:
            if kind in self._directives:
                return self._directives[kind]
        return self.default

    def pause(self, restarts: int) -> float:
        """How long to wait before restart number `restarts` of the window, counted from 1."""
        try:
            return min(self.backoff * self.factor ** (restarts - 1), self.max_backoff)
        except OverflowError:
            return self.max_backoff


def _is_count(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _checked[E: Enum](value: Any, kind: type[E], name: str) -> E:
    if not isinstance(value, kind):
        allowed = ", ".join(str(known) for known in kind)
        raise TypeError(f"{name}={value!r} must be one of {allowed}")
    return value
