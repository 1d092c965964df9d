"""What it costs to have statistics: a look at them, and the counters that are always on.

All in processor time. A look is taken of a system at rest. The counters cannot be switched off, so
what a turn adds to them is done once more, by the same statements on the same kind of object, and
compared with what a turn of one message costs as a whole. That is the Python lane's share, and the
run takes that lane; in the native lane the two statements are two additions in C, to fields of a
structure that the turn has in hand anyway.
"""

from __future__ import annotations

import os
import threading
import time

os.environ["OTAVIA_FT_LANE"] = "python"  # before the runtime is imported

from _measure import alternate, arguments, finish, median, ratio, table, verdict

from otavia_ft import ActorSystem, Notice, StateActor, on
from otavia_ft.context import Context

LOOK_BAR = 1.0  # milliseconds: at ten looks a second, one percent of a core
SHARE_BAR = 0.05  # of a turn of one message


class Tick(Notice):
    pass


class Ticking(StateActor):
    """Sends itself one message after the other: a turn each, if it may handle only one in it."""

    def __init__(self, done: threading.Event) -> None:
        self.done = done
        self.left = 0

    @on(Tick)
    def tick(self, message: Tick) -> None:
        self.left -= 1
        if self.left > 0:
            self.address.notice(message)
        else:
            self.done.set()


def main() -> None:
    options = arguments("Statistics and their counters.")
    looks = 200 if options.quick else 5_000
    turns = 2_000 if options.quick else 100_000
    done = threading.Event()
    ticking = Ticking(done)
    with ActorSystem(workers=2, memory_monitor=False, throughput_budget=1) as system:
        address = system.build_actor(lambda: ticking)

        def look() -> float:
            started = time.process_time()
            for _ in range(looks):
                system.statistics()
            return 1e6 * (time.process_time() - started) / looks

        def turn() -> float:
            done.clear()
            ticking.left = turns
            started = time.process_time()
            address.notice(Tick())
            done.wait()
            return 1e6 * (time.process_time() - started) / turns

        def count() -> float:
            counted = Context(None, 1)  # this thread's own, as a worker's is the worker's
            started = time.process_time()
            for _ in range(turns):
                counted.turns += 1
                counted.messages += 1
            both = time.process_time() - started
            started = time.process_time()
            for _ in range(turns):
                pass
            return 1e6 * (both - (time.process_time() - started)) / turns

        figures = alternate({"a look": look, "a turn": turn, "its counting": count},
                            options.rounds)  # fmt: skip
        threads = len(system.scheduler.threads)
    table(
        f"microseconds, {threads} threads",
        ["what", "median"],
        [[name, f"{median(runs):.3f}"] for name, runs in figures.items()],
    )
    look_ms = median(figures["a look"]) / 1000
    share = ratio(figures["its counting"], figures["a turn"])
    verdict(f"a look at the statistics: {look_ms:.3f} ms (bar {LOOK_BAR})", look_ms <= LOOK_BAR)
    verdict(f"counting: {100 * share:.1f} % of a turn (bar {100 * SHARE_BAR:.0f} %)",
            share <= SHARE_BAR)  # fmt: skip
    finish(options, figures)


if __name__ == "__main__":
    main()
