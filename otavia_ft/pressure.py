"""Back-pressure: when memory is short, notices from outside the system wait a little.

The monitor looks at the memory every `memory_interval_ms`. While it says "busy", every notice sent
by a thread that is no ActorThread sleeps `memory_sleep_ms` first. Actors are never slowed down:
they are the ones who make memory free again. Nor are system messages: to stop an actor, or to
restart it, makes memory free as well.

When all is well this costs a sender nothing at all, not even a look at a flag: the throttled form
of `notice` is put into the address classes while some system is busy, and taken out afterwards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otavia_ft.address import ActorAddress, Address, RobinAddress
from otavia_ft.doors import me
from otavia_ft.message import SystemMessage
from otavia_ft.schedule.memory import Probe, is_busy

if TYPE_CHECKING:
    from otavia_ft.config import Config
    from otavia_ft.timer import Timer, TimerTask

__all__ = ["Pressure"]

_toggle = threading.Lock()  # two systems may change their minds at once
_busy_systems = 0


def _throttled(plain: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def notice(self: Address, message: Any) -> None:
        if me() is None:
            system = self._system()
            if system.busy and not isinstance(message, SystemMessage):
                time.sleep(system.config.memory_sleep_ms / 1000)
        plain(self, message)

    return notice


_throttled_notice = {cls: _throttled(cls.notice) for cls in (ActorAddress, RobinAddress)}


class Pressure:
    """The memory monitor of one system. `look` runs on the timer's thread."""

    def __init__(self, config: Config, probe: Probe) -> None:
        self._config = config
        self._probe = probe
        self._task: TimerTask | None = None
        self._ended = False
        self.busy = False

    def watch(self, timer: Timer) -> None:
        if self._config.memory_monitor:
            interval = self._config.memory_interval_ms / 1000
            self._task = timer.after(interval, self.look, None, interval)

    def look(self, _: Any = None) -> None:
        memory = self._probe()
        self._set(memory is not None and is_busy(memory, self._config))

    def end(self) -> None:
        """Take the brake off for good, also if a probe is still looking."""
        with _toggle:
            self._ended = True
        if self._task is not None:
            self._task.cancel()
        self._set(False)

    def _set(self, busy: bool) -> None:
        global _busy_systems
        with _toggle:
            if busy == self.busy or (busy and self._ended):
                return
            self.busy = busy
            _busy_systems += 1 if busy else -1
            for cls, throttled in _throttled_notice.items():
                if _busy_systems:
                    setattr(cls, "notice", throttled)  # noqa: B010  # on purpose, see top
                elif "notice" in vars(cls):
                    del cls.notice
