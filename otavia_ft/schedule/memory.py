"""The memory monitor: says when the machine is nearly full, so that senders can hold back.

Busy means: more than `memory_high_percent` of the limit in use, *or* less than `memory_low_free_mb`
free. The limit is the smaller of the machine's memory and the control group's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from otavia_ft.config import Config

__all__ = ["Memory", "is_busy", "probe"]

Probe = Callable[[], "Memory | None"]


class Memory(NamedTuple):
    """In bytes."""

    limit: int
    used: int


def probe() -> Memory | None:
    """What this machine (or container) has and uses; None where that cannot be told."""
    try:
        total, available = _meminfo()
    except (OSError, KeyError, ValueError):
        return None
    limit, used = _read("memory.max"), _read("memory.current")
    if limit is not None and used is not None and limit < total:
        return Memory(limit, used)
    return Memory(total, total - available)


def is_busy(memory: Memory, config: Config) -> bool:
    """Whether senders should hold back."""
    percent = 100 * memory.used / memory.limit
    free_mb = (memory.limit - memory.used) / (1 << 20)
    return percent > config.memory_high_percent or free_mb < config.memory_low_free_mb


def _meminfo() -> tuple[int, int]:
    lines = Path("/proc/meminfo").read_text().splitlines()
    values = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if ":" in line}
    return values["MemTotal"], values["MemAvailable"]


def _read(name: str) -> int | None:
    try:
        return int(Path("/sys/fs/cgroup", name).read_text())
    except (OSError, ValueError):
        return None  # no control group, or "max": no limit of its own
