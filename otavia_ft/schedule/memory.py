"""The memory monitor: says when the machine is nearly full, so that senders can hold back.

Busy means: more than `memory_high_percent` of the limit in use, *or* less than `memory_low_free_mb`
free. The limit is the smaller of the machine's memory and the control group's. What the kernel
would give back as soon as somebody wants it (the machine's available memory, a group's inactive
files) is not in use.

The monitor looks ten times a second, in an idle system too, so a look has to be cheap: it finds the
one or two numbers it wants in what the kernel says, and reads nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from otavia_ft.config import Config

__all__ = ["Memory", "is_busy", "probe"]

MEMINFO = "/proc/meminfo"
GROUP = "/sys/fs/cgroup/"

Probe = Callable[[], "Memory | None"]


class Memory(NamedTuple):
    """In bytes."""

    limit: int
    used: int


def probe() -> Memory | None:
    """What this machine (or container) has and uses; None where that cannot be told."""
    try:
        meminfo = _read(MEMINFO)
        total = _field(meminfo, b"MemTotal:") * 1024
        available = _field(meminfo, b"MemAvailable:") * 1024
    except (OSError, ValueError):
        return None
    return _group(total) or Memory(total, total - available)


def _group(total: int) -> Memory | None:
    """The same of the control group, if it has a limit of its own below the machine's."""
    try:
        limit = int(_read(GROUP + "memory.max"))  # or "max": there is none
        if limit >= total:
            return None
        used = int(_read(GROUP + "memory.current"))
    except (OSError, ValueError):
        return None
    try:
        used -= _field(_read(GROUP + "memory.stat"), b"inactive_file ")
    except (OSError, ValueError):
        pass  # then all of it counts
    return Memory(limit, max(0, used))


def is_busy(memory: Memory, config: Config) -> bool:
    """Whether senders should hold back."""
    percent = 100 * memory.used / memory.limit
    free_mb = (memory.limit - memory.used) / (1 << 20)
    return percent > config.memory_high_percent or free_mb < config.memory_low_free_mb


def _read(path: str) -> bytes:
    """A file that the kernel makes up, in one read."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 1 << 14)
    finally:
        os.close(file)


def _field(text: bytes, name: bytes) -> int:
    """The number behind `name`, which stands at the beginning of a line."""
    start = 0 if text.startswith(name) else text.index(b"\n" + name) + 1
    start += len(name)
    return int(text[start : start + 24].split(None, 1)[0])
