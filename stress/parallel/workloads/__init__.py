"""Closed workloads: each knows exactly what must have happened when all is quiet."""

from __future__ import annotations

from stress.parallel.workloads import (
    asking,
    bounded,
    calls,
    channels,
    flood,
    flow,
    life,
    parts,
    placement,
    pressing,
    scheduling,
    signals,
    stacks,
    stopping,
    timers,
)
from stress.parallel.workloads.base import Workload

__all__ = ["WORKLOADS"]

_ALL: tuple[type[Workload], ...] = (
    flow.Count,
    flow.Tokens,
    bounded.Bounded,
    asking.Asks,
    calls.Barrier,
    calls.Batch,
    life.Restart,
    life.Churn,
    life.Mount,
    stopping.Stop,
    stopping.Shutdown,
    scheduling.Stealing,
    scheduling.Priority,
    timers.Timers,
    parts.Parts,
    stacks.Stacks,
    pressing.Pressing,
    channels.Channels,
    signals.Signals,
    placement.Placement,
    flood.Flood,
)

WORKLOADS: dict[str, type[Workload]] = {kind.name: kind for kind in _ALL}
