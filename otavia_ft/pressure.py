"""Back-pressure: when memory is short, notices from outside the system wait a little.

The monitor looks at the memory every `memory_interval_ms`. While it says "busy", every notice sent
by a thread that is no ActorThread sleeps `memory_sleep_ms` first. Actors are never slowed down: they
are the ones who make memory free again.

When all is well this costs a sender nothing at all, not even a look at a flag: the throttled form of
`Address.notice` is put into the class while some system is busy, and taken out afterwards.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from otavia_ft.address import Address
from otavia_ft.doors import AtomicInt, me
from otavia_ft.schedule.memory import Probe, is_busy

if TYPE_CHECKING:
    from otavia_ft.config import Config
    from otavia_ft.timer import Timer, TimerTask

__all__ = ["Pressure"]

_plain_notice = Address.notice
_busy_systems = AtomicInt()


def _throttled_notice(self: Address, message: Any) -> None:
    if me() is None:
        system = self._system()
        if system.busy:
            time.sleep(system.config.memory_sleep_ms / 1000)
    _plain_notice(self, message)


class Pressure:
    """The memory monitor of one system. `look` runs on the timer's thread only."""

    def __init__(self, config: Config, probe: Probe) -> None:
        self._config = config
        self._probe = probe
        self._task: TimerTask | None = None
        self.busy = False

    def watch(self, timer: Timer) -> None:
        if self._config.memory_monitor:
            interval = self._config.memory_interval_ms / 1000
            self._task = timer.after(interval, self.look, None, interval)

    def look(self, _: Any = None) -> None:
        memory = self._probe()
        self._set(memory is not None and is_busy(memory, self._config))

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._set(False)

    def _set(self, busy: bool) -> None:
        if busy == self.busy:
            return
        self.busy = busy
        if busy and _busy_systems.get_and_add(1) == 0:
            Address.notice = _throttled_notice  # type: ignore[method-assign]  # on purpose, see top
        elif not busy and _busy_systems.get_and_add(-1) == 1:
            Address.notice = _plain_notice  # type: ignore[method-assign]  # as above
