"""What a timer costs when a million of them wait: microseconds of processor time, and bytes.

The wheel alone, without its thread and with a clock in our hands, so that nothing fires by itself.
Every figure is taken twice, with nothing else in the wheel and with a million timers pending; the
bar is on the quotient, which a busy machine leaves alone.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

from _measure import alternate, arguments, finish, median, ratio, table, verdict

from otavia_ft.timer import Timer, TimerTask

TICK = 0.01
SPREAD = 3600.0  # the pending ones are due within an hour, in as many ticks as that has
RATIO_BAR = 2.0  # a million neighbours may cost caches, but no more than that
BYTES_BAR = 512


class Wheel:
    """A timer with `pending` far-away tasks, and a clock that stands still."""

    def __init__(self, pending: int) -> None:
        self.time = 0.0
        self.timer = Timer(TICK, lambda: self.time)
        before = resident()
        after = self.timer.after
        self.pending = [after(10.0 + i * SPREAD / pending, ignore, i) for i in range(pending)]
        self.bytes = (resident() - before) / pending if pending else 0.0

    def add_and_cancel(self, n: int) -> float:
        """What every ask with a timeout does."""
        after = self.timer.after
        started = time.process_time()
        for i in range(n):
            after(1.0, ignore, i).cancel()
        return 1e6 * (time.process_time() - started) / n

    def add_and_fire(self, n: int) -> float:
        """Short ones come and go before all that wait."""
        after = self.timer.after
        started = time.process_time()
        tasks: list[TimerTask] = [after(TICK * (i & 63), ignore, i) for i in range(n)]
        now, self.time = self.time, self.time + 64 * TICK
        self.timer.fire_due()
        passed = time.process_time() - started
        self.time = now  # or the pending ones would become due
        if any(task.pending for task in tasks):
            raise RuntimeError("a timer that was due has not fired")
        return 1e6 * passed / n

    def move(self, n: int) -> float:
        """An idle time-out that is put off with every message."""
        tasks = self.pending[:n] or [self.timer.after(10.0, ignore)]
        started = time.process_time()
        for i in range(n):
            tasks[i % len(tasks)].update(20.0)
        return 1e6 * (time.process_time() - started) / n


def ignore(_: object) -> None:
    """The action."""


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    options = arguments("A million pending timers.", rounds=5)
    pending = 20_000 if options.quick else 1_000_000
    each = 2_000 if options.quick else 50_000
    alone, crowded = Wheel(0), Wheel(pending)
    kinds = {"add and cancel": "add_and_cancel", "add and fire": "add_and_fire", "move": "move"}
    contenders: dict[str, Callable[[], float]] = {}
    for kind, method in kinds.items():
        for where, wheel in ((f"{kind}, alone", alone), (kind, crowded)):
            run = getattr(wheel, method)
            contenders[where] = lambda run=run: run(each)
    figures = alternate(contenders, options.rounds)
    table(
        f"microseconds of processor time a timer, {pending:,} pending",
        ["what", "alone", "among them", "times"],
        [
            [
                kind,
                f"{median(figures[f'{kind}, alone']):.2f}",
                f"{median(figures[kind]):.2f}",
                f"{ratio(figures[kind], figures[f'{kind}, alone']):.2f}",
            ]
            for kind in kinds
        ],
    )
    print(f"{crowded.bytes:.0f} bytes a pending timer, its handle in a list included")
    for kind in kinds:
        times = ratio(figures[kind], figures[f"{kind}, alone"])
        verdict(f"{kind}: {times:.2f} times among {pending:,} (bar {RATIO_BAR})",
                times <= RATIO_BAR)  # fmt: skip
    verdict(f"{crowded.bytes:.0f} bytes a timer (bar {BYTES_BAR})", crowded.bytes <= BYTES_BAR)
    finish(options, {**figures, "bytes a timer": [crowded.bytes]})


if __name__ == "__main__":
    main()
