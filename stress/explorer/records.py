"""Log records of the runtime under exploration.

The runtime catches everything: a handler that raises, a thread that dies of our own bug. It says so
in its log, at the level ERROR or above, and there the explorer listens: such a record is a finding,
unless the scenario expects it (`Scenario.errors`). Nothing is printed.
"""

from __future__ import annotations

import logging

from stress.explorer.world import Violation, current

__all__ = ["listen", "mute"]


class _Listener(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        world = current()
        if world is None or world.errors_expected:
            return
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            text += f": {type(error).__name__}: {error}"
        world.fail(Violation("error", text))


_listener = _Listener(logging.ERROR)
_loggers: list[logging.Logger] = []


def listen() -> None:
    """Hear the runtime's log from now on, instead of printing it."""
    logger = logging.getLogger("otavia_ft")
    if _listener not in logger.handlers:
        logger.addHandler(_listener)
        logger.propagate = False
    for name, found in logging.root.manager.loggerDict.items():
        known = isinstance(found, logging.Logger) and found not in _loggers
        if known and name.startswith("otavia_ft"):
            _loggers.append(found)


def mute(off: bool = True) -> None:
    """While a world ends, threads are torn down and complain; making those records takes time."""
    for logger in _loggers:
        logger.disabled = off
