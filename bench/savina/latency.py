"""How long an ask takes while others are on their way: an open loop at half the saturated rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from time import perf_counter
from typing import Any

from savina.common import PATIENCE, expect, quantile, result

WINDOW = 8  # asks on their way at once while the saturated rate is measured

Done = Callable[[Future[int]], None]
Request = Callable[[Done], object]


def half_load(n: int, request: Request) -> dict[str, Any]:
    """`request(done)` sends one ask; `done(future)` is called when its answer, a 1, is there.

    Asks are due at fixed times, and the clock of each starts when it was due: a server that stalls
    makes all the asks late that were due meanwhile, as it would for real users. The saturated rate
    is that of a sender who always has a few asks on their way.
    """
    entered = began = perf_counter()
    took: list[float] = []

    def window(i: int) -> None:
        while i - len(took) >= WINDOW:
            time.sleep(0)

    _send(n, request, window, [began] * n, took)
    saturated = n / max(took)
    gap = 2 / saturated
    began = perf_counter() + 0.001
    due = [began + i * gap for i in range(n)]

    def pace(i: int) -> None:
        while (wait := due[i] - perf_counter()) > 0:
            if wait > 0.0005:
                time.sleep(wait - 0.0003)

    took = []
    _send(n, request, pace, due, took)
    took.sort()
    p50, p99, p999 = (quantile(took, share) for share in (0.5, 0.99, 0.999))
    return result(p50, 1, p99=p99, p999=p999, rate=saturated / 2, wall=perf_counter() - entered)


def _send(
    n: int,
    request: Request,
    pace: Callable[[int], None],
    since: list[float],
    took: list[float],
) -> None:
    done, answers = threading.Event(), []

    def arrived(answer: Future[int], due: float) -> None:
        took.append(perf_counter() - due)
        try:
            answers.append(answer.result())
        except BaseException as error:
            answers.append(error)
        if len(answers) == n:
            done.set()

    for i in range(n):
        pace(i)
        request(lambda answer, due=since[i]: arrived(answer, due))
    expect(done.wait(PATIENCE), True)
    expect([answer for answer in answers if answer != 1], [])
