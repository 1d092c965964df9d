"""What the runtime knows of an actor class: computed once a class, never once a message.

`@on(Type)` marks a handler. A message goes to the handler of its own type or of the nearest of its
bases; the answer is remembered for the type, so that a message costs one dictionary look-up.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from otavia_ft.context import running_stack
from otavia_ft.house.lifecycle import ExceptionStrategy
from otavia_ft.lane import PlanBase

if TYPE_CHECKING:
    from otavia_ft.actor.base import AbstractActor

__all__ = ["Plan", "on"]

_MARK = "_otavia_on"


def on[F: Callable[..., Any]](*types: Any) -> Callable[[F], F]:
    """Mark a method as the handler of these message types: `@on(Add)`, `@on(Add, Get)`,
    `@on(Add | Get)`. Plain or `async def`; what it returns answers an ask."""
    flat = _flatten(types)

    def mark(handler: F) -> F:
        setattr(handler, _MARK, flat)
        return handler

    return mark


def _flatten(types: tuple[Any, ...]) -> tuple[type, ...]:
    flat: list[type] = []
    for each in types:
        origin = get_origin(each)
        if origin is Union or isinstance(each, UnionType):
            flat.extend(_flatten(get_args(each)))
        elif isinstance(origin, type):
            flat.append(origin)  # Ask[Total] is routed as Ask
        elif isinstance(each, type):
            flat.append(each)
        else:
            raise TypeError(f"@on takes message classes or unions of them, not {each!r}")
    if not flat:
        raise TypeError("@on needs at least one message class: @on(Add)")
    return tuple(flat)


class Plan(PlanBase):
    """One actor class as the house sees it."""

    __slots__ = ("name", "wants_stop")

    def __init__(self, cls: type[AbstractActor], base: type[AbstractActor] | None) -> None:
        self.name = cls.__name__
        self.channels = cls.has_channels
        special = base is not None and (
            cls.batchable is not False
            or cls.serial is not False
            or cls.is_barrier_call is not base.is_barrier_call
        )
        self.special = special
        self.wants_stop = base is not None and (
            cls.post_stop is not base.post_stop or hasattr(cls, "cleaner")
        )
        self.handlers = Handlers(_collect(cls))
        # Whether the messages may take the short way of house/handlers.py.
        self.short_asks = self.short_notices = False
        if base is not None and not special:
            self.short_asks = cls.resume_ask is base.resume_ask
            self.short_notices = cls.resume_notice is base.resume_notice
        for name in _BY_HAND + _HOOKS:
            if _waits(getattr(cls, name, None)):
                instead = (
                    "it is the hand-written form. Write `@on(Type) async def ...` instead"
                    if name in _BY_HAND
                    else "nothing could wait in it. Send yourself a notice, and wait in its handler"
                )
                raise TypeError(f"{cls.__name__}.{name} cannot be async or a generator: {instead}")

        strategy = cls.notice_exception_strategy
        if not isinstance(strategy, (ExceptionStrategy, property)):
            raise TypeError(
                f"{cls.__name__}.notice_exception_strategy is {strategy!r}: it must be one of "
                f"{', '.join(str(known) for known in ExceptionStrategy)}"
            )


_BY_HAND = (
    "resume_notice",
    "resume_ask",
    "resume_batch_notice",
    "resume_batch_ask",
    "resume_channel",
)
_HOOKS = (
    "pre_start",
    "after_mount",
    "before_restart",
    "restart",
    "after_restart",
    "post_stop",
    "handle_actor_timeout",
    "receive_event",
    "is_barrier_call",
    "batch_ask_filter",
    "batch_notice_filter",
    "cleaner",
)


def _waits(function: Any) -> bool:
    """Whether a call of it runs nothing yet: a coroutine, or a generator of either kind."""
    return inspect.iscoroutinefunction(function) or _yields(function)


def _yields(function: Any) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


class Handlers(dict[type, Callable[..., Any]]):
    """The handler for messages of a class: its own, or that of the nearest of its bases."""

    def __missing__(self, kind: type) -> Callable[..., Any]:
        handler = next((self[base] for base in kind.__mro__[1:] if base in self), _unhandled)
        self[kind] = handler  # several threads may find the same at once
        return handler


def _unhandled(actor: AbstractActor, message: Any) -> None:
    running_stack("handling a message").unhandled()


def _collect(cls: type) -> dict[type, Callable[..., Any]]:
    """Handlers by type; a subclass's `@on` wins over its base's, an override keeps the mark."""
    routes: dict[type, str] = {}
    for klass in reversed(cls.__mro__):
        seen: dict[type, str] = {}
        for name, member in vars(klass).items():
            # Static, because a member may be an object that has every attribute or raises anything.
            kinds = inspect.getattr_static(member, _MARK, ())
            if kinds:  # with a mark of its own it no longer handles what the one it overrides did
                routes = {kind: known for kind, known in routes.items() if known != name}
            for kind in kinds:
                if kind in seen:
                    raise TypeError(
                        f"{klass.__name__}: both {seen[kind]} and {name} handle {kind.__name__}"
                    )
                seen[kind] = name
                routes[kind] = name
    # A method that overrides a marked one without a mark of its own takes its place.
    for name in routes.values():
        if _yields(getattr(cls, name)):
            raise TypeError(
                f"{cls.__name__}.{name} cannot be a generator: nobody would run it. A handler "
                "returns its reply, or waits with `await`"
            )
    return {kind: getattr(cls, name) for kind, name in routes.items()}
