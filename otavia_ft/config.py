"""Every constant that somebody may want to change, with its range, in one frozen record.

A value comes from, first match wins: the argument, the environment (`OTAVIA_FT_STEAL_FLOOR=8`), the
default. A bad one is refused with its name, the value and what is allowed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from otavia_ft.errors import ConfigError

__all__ = ["Config"]


def _setting(default: Any, low: float, high: float | None, doc: str) -> Any:
    return field(default=default, metadata={"low": low, "high": high, "doc": doc})


def _choice(default: str, allowed: tuple[str, ...], doc: str) -> Any:
    return field(default=default, metadata={"allowed": allowed, "doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of one actor system. Each field's `metadata["doc"]` says what it does."""

    # Threads
    workers: int = _setting(0, 0, 4096, "ActorThreads; 0 means worker_ratio times the cores")
    worker_ratio: float = _setting(1.0, 0.01, 64, "ActorThreads for each core when workers is 0")
    dispatcher: str = _choice("pinned", ("pinned", "pool"), "which scheduler runs the houses")

    # The three-phase loop
    io_ratio: int = _setting(
        50, 1, 100,
        "share of the loop's time for IO, in percent; at 100 business has no limit, "
        "and IO waits while there is any",
    )  # fmt: skip
    min_budget_us: int = _setting(500, 1, 10_000_000, "least time for business in one loop")
    deadline_stride: int = _setting(16, 1, 1_000_000, "houses run between two looks at the clock")
    selector_rebuild_threshold: int = _setting(
        512, 0, 1_000_000_000,
        "premature empty wake-ups in a row before the selector is rebuilt; 0: not for that",
    )  # fmt: skip

    # Turns and priority
    throughput_budget: int = _setting(32, 1, 1_000_000_000, "messages an actor may handle a turn")
    high_priority_replies: int = _setting(2, 0, 1_000_000, "more queued replies make a house high")
    high_priority_events: int = _setting(4, 0, 1_000_000, "more queued events make a house high")
    ageing_limit: int = _setting(
        64, 1, 1_000_000_000,
        "high houses in a row before a waiting normal one gets its turn, "
        "unless the slice of business ends before",
    )  # fmt: skip
    batch_limit: int = _setting(1024, 1, 1_000_000_000, "most messages in one batch stack")

    # Mailboxes
    mailbox_capacity: int = _setting(
        0, 0, 1_000_000_000, "most asks, and most notices, that wait for one actor; 0: no limit"
    )
    overflow: str = _choice(
        "fail",
        ("fail", "drop_oldest", "drop_newest", "block"),
        "what happens to a message for a full mailbox",
    )
    overflow_timeout_s: float = _setting(
        10.0, 0.0, 1e6, "how long a sender waits for room when overflow is block"
    )

    # Stealing
    stealing: bool = field(default=True, metadata={"doc": "whether idle threads steal"})
    steal_floor: int = _setting(32, 0, 1_000_000_000, "a backlog up to this is never stolen from")
    steal_aggression: int = _setting(
        128, 1, 1_000_000_000, "steal when idle loops times the victim's backlog reaches this"
    )

    # The pool scheduler
    local_ring_capacity: int = _setting(256, 2, 1 << 24, "slots in a worker's own ring")
    global_ring_capacity: int = _setting(64, 2, 1 << 24, "slots the global ring starts with")
    global_poll_interval: int = _setting(61, 2, 1_000_000, "every so many takes, global goes first")

    # Timers
    timer_tick_ms: float = _setting(10.0, 0.1, 60_000, "resolution of all timers")

    # Memory
    memory_monitor: bool = field(default=True, metadata={"doc": "watch the memory at all"})
    memory_interval_ms: int = _setting(100, 1, 3_600_000, "time between two looks at the memory")
    memory_high_percent: float = _setting(90.0, 1, 100, "busy above this share of the limit")
    memory_low_free_mb: int = _setting(100, 0, 1 << 30, "busy below this much free memory")
    memory_sleep_ms: int = _setting(40, 0, 60_000, "how long a notice from outside waits when busy")

    # Object pools
    pooling: bool = field(
        default=False,
        metadata={"doc": "whether threads reuse stacks, promises, envelopes and states"},
    )
    pool_max_size: int = _setting(256, 0, 1 << 24, "most idle objects a thread keeps of one type")
    pool_check_s: float = _setting(60.0, 0.01, 1e9, "time between two looks for idle pools")
    pool_idle_s: float = _setting(30.0, 0.0, 1e9, "a pool unused for this long is cut down")
    pool_keep: int = _setting(10, 0, 1 << 24, "what is left of a pool that is cut down")

    # The rest
    shutdown_timeout_s: float = _setting(10.0, 0.0, 1e9, "how long a graceful stop may take")
    debug: bool = field(default=False, metadata={"doc": "recycled objects refuse to be used"})

    def __post_init__(self) -> None:
        if self.global_poll_interval == 1:
            raise ConfigError(
                "global_poll_interval=1 must be 2 at least: with the global ring first at every "
                "take, actors that have used up their budget would starve"
            )
        for f in fields(self):
            _check(f.name, getattr(self, f.name), f.type, f.metadata)
        if self.stealing and self.steal_aggression < self.steal_floor:
            raise ConfigError(
                f"steal_aggression={self.steal_aggression} must be at least "
                f"steal_floor={self.steal_floor}: below it the floor alone would decide"
            )

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, /, **given: Any) -> Config:
        """Arguments over `OTAVIA_FT_<NAME>` variables over defaults."""
        environ = os.environ if environ is None else environ
        known = {f.name: f for f in fields(cls)}
        for name in given:
            if name not in known:
                raise ConfigError(f"unknown setting {name!r}; known are {', '.join(sorted(known))}")
        values = dict(given)
        for name, f in known.items():
            text = environ.get(f"OTAVIA_FT_{name.upper()}")
            if text is not None and name not in given:
                values[name] = _parse(name, text, f.type)
        return cls(**values)

    def worker_count(self) -> int:
        """How many threads to start on this machine. A pool of one could not go around a handler
        that blocks, so it has two at least unless told otherwise."""
        if self.workers:
            return self.workers
        least = 2 if self.dispatcher == "pool" else 1
        return max(least, round((os.process_cpu_count() or 1) * self.worker_ratio))


def _parse(name: str, text: str, kind: Any) -> Any:
    variable = f"OTAVIA_FT_{name.upper()}={text!r}"
    try:
        if kind == "bool":
            return {"1": True, "true": True, "0": False, "false": False}[text.lower()]
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(text)
    except (KeyError, ValueError):
        allowed = "1, true, 0 or false" if kind == "bool" else f"a number ({kind})"
        raise ConfigError(f"{variable}: {name} must be {allowed}") from None
    return text


def _check(name: str, value: Any, kind: Any, meta: Mapping[str, Any]) -> None:
    if kind == "bool":
        if not isinstance(value, bool):
            raise ConfigError(f"{name}={value!r} must be True or False")
        return
    if "allowed" in meta:
        if value not in meta["allowed"]:
            raise ConfigError(f"{name}={value!r} must be one of {', '.join(meta['allowed'])}")
        return
    number = int if kind == "int" else (int, float)
    if isinstance(value, bool) or not isinstance(value, number):
        raise ConfigError(f"{name}={value!r} must be {'an int' if kind == 'int' else 'a number'}")
    low, high = meta["low"], meta["high"]
    if not (low <= value and (high is None or value <= high)):
        raise ConfigError(f"{name}={value!r} must be between {low} and {high}")
