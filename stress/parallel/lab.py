"""Where a case runs: it collects findings, starts senders, knows what is there to be looked at.

Everything here is in the child process.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from otavia_ft.atomic import InvariantError, make_immortal
from stress.parallel.draw import Case
from stress.parallel.events import Events
from stress.parallel.houses import house_lines
from stress.parallel.invariants import INVARIANTS

__all__ = ["Lab", "Planned"]

MOST_FINDINGS = 5


class Planned(Exception):  # it is no error
    """What the workloads' own handlers raise; all else in the log is a finding."""


class Lab:
    """One case's findings, events and threads."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.events = Events()
        self.findings: list[dict[str, Any]] = []
        self.houses: list[Any] = []  # weak references, in watched and bare cases
        self.system: Any = None
        self.steps = 0  # outside the system: senders count here, so that the watchdog sees them
        self.round = 0
        self.settings: dict[str, Any] = {}  # what the system of this round really has
        self.warning = ""  # what the system may say in this round, because a workload makes it
        self._coins = threading.local()
        self._threads = 0
        # Every handler touches it on every thread, and a shared reference count would be what the
        # threads meet at most often. It lives as long as the process.
        make_immortal(self)
        if case.bare:
            self.stall = _go_on  # type: ignore[method-assign]
        logger = logging.getLogger("otavia_ft")
        logger.propagate = False
        logger.addHandler(_Listener(self))
        threading.excepthook = self._thread_died

    # ---- findings

    def report(
        self, invariant: str, text: str, houses: Iterable[int] = (), stacks: Sequence[str] = ()
    ) -> None:
        """A rule is broken. Any thread; it goes on, since the child ends soon anyway.

        The record is whole before it is there: the main thread ends the child as soon as it sees
        one.
        """
        assert invariant in INVARIANTS, invariant
        if len(self.findings) >= MOST_FINDINGS:
            return
        self.findings.append(
            {
                "invariant": invariant,
                "text": text,
                "round": self.round,
                "settings": self.settings,
                "events": self.events.lines(houses) or self.events.lines(),
                "houses": self.house_lines(),
                "stacks": list(stacks),
            }
        )

    def check(self, holds: Any, invariant: str, text: str, houses: Iterable[int] = ()) -> None:
        if not holds:
            self.report(invariant, text, houses)

    def _thread_died(self, hook: Any) -> None:
        text = "".join(traceback.format_exception(hook.exc_value)[-3:])
        self.report("no-error", f"thread {hook.thread.name} died: {text}")

    # ---- chance: a generator for each thread, so that nothing is shared

    def coin(self) -> random.Random:
        try:
            return self._coins.random
        except AttributeError:
            self._threads += 1  # two threads may draw the same number; that does no harm
            made = self._coins.random = random.Random(f"{self.case.seed} {self._threads}")
            return made

    def stall(self, often: int = 1) -> None:
        """Sometimes give way, spin or sleep for a moment: between two steps of a transition."""
        coin = self.coin()
        if coin.random() * 1000 < self.case.stall_permille * often:
            how = coin.random()
            if how < 0.4:
                os.sched_yield()
            elif how < 0.6:
                for _ in range(coin.randrange(400)):
                    pass
            else:
                time.sleep(coin.choice((1e-6, 2e-5, 1e-4, 5e-4)))

    # ---- threads outside the system

    def run_threads(
        self, bodies: Iterable[Callable[[], Any]], meanwhile: Callable[[], Any] = lambda: None
    ) -> None:
        """Start them all at once, do something `meanwhile` on this thread, and wait for them."""
        bodies = list(bodies)
        barrier = threading.Barrier(len(bodies) + 1)

        def run(body: Callable[[], Any]) -> None:
            barrier.wait()
            body()
            self.steps += 1

        threads = [
            threading.Thread(target=run, args=(body,), name=f"sender-{number}", daemon=True)
            for number, body in enumerate(bodies)
        ]
        for thread in threads:
            thread.start()
        barrier.wait()
        meanwhile()
        for thread in threads:
            thread.join()

    # ---- waiting

    def progress(self) -> tuple[int, ...]:
        """Something that changes while anything happens."""
        system = self.system
        made = len(self.houses)
        if system is None:
            return (self.round, self.steps, made)
        turns = sum(thread.context.turns for thread in system.scheduler.threads)
        messages = sum(thread.context.messages for thread in system.scheduler.threads)
        return (self.round, self.steps, made, turns, messages)

    # ---- looking at houses

    def living_houses(self) -> list[Any]:
        found = [reference() for reference in list(self.houses)]
        return [house for house in found if house is not None]

    def house_lines(self) -> list[str]:
        try:
            return house_lines(self.living_houses())
        except Exception as error:  # a look at a broken system must not hide why it is broken
            return [f"the houses could not be looked at: {error!r}"]

    def stack_lines(self) -> list[str]:
        """All threads' stacks. Unlike faulthandler, the interpreter stops the world for this."""
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        lines = []
        for ident, frame in sys._current_frames().items():
            lines.append(f"thread {names.get(ident, ident)}:")
            for entry in traceback.extract_stack(frame)[-8:]:
                lines.append(f"    {entry.filename}:{entry.lineno} {entry.name}: {entry.line}")
        return lines


def _go_on(often: int = 1) -> None:
    """What a stall is in a bare case."""


make_immortal(_go_on)


class _Listener(logging.Handler):
    """Errors that the runtime logs: planned ones are expected, all others are findings."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(logging.WARNING)
        self._lab = lab

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        message, planned = record.getMessage(), self._lab.warning
        if isinstance(error, Planned) or "the GIL is on" in message:
            return
        if planned and planned in message:
            return
        invariant = "single-runner" if isinstance(error, InvariantError) else "no-error"
        text = message
        if error is not None:
            text += "\n" + "".join(traceback.format_exception(error)[-4:])
        self._lab.report(invariant, text)
