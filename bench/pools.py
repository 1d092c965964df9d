"""Does reusing a stack pay? Making one anew against cleaning and reusing one, type by type."""

from __future__ import annotations

import time
from collections.abc import Callable

from _measure import alternate, arguments, finish, median, ratio, table, verdict

from otavia_ft.message import Envelope
from otavia_ft.pool import ThreadPool
from otavia_ft.stack.promise import MessageFuture
from otavia_ft.stack.stack import AskStack, BatchAskStack, BatchNoticeStack, NoticeStack, Stack

KINDS: tuple[type[Stack], ...] = (NoticeStack, AskStack, BatchNoticeStack, BatchAskStack)


def timed(loop: Callable[[int], None], n: int) -> Callable[[], float]:
    """Nanoseconds an object, in processor time: other people's load stays out of it."""

    def run() -> float:
        started = time.process_time_ns()
        loop(n)
        return (time.process_time_ns() - started) / n

    return run


def made(kind: type[Stack]) -> Callable[[int], None]:
    def loop(n: int) -> None:
        for _ in range(n):
            stack = kind()
            stack.asker = None  # type: ignore[attr-defined]  # what a message fills in

    def plain(n: int) -> None:
        for _ in range(n):
            kind()

    return loop if kind is AskStack else plain


def reused(kind: type[Stack]) -> Callable[[int], None]:
    pool = ThreadPool(kind, 16)

    def loop(n: int) -> None:
        get, recycle = pool.get, pool.recycle
        for _ in range(n):
            stack = get()
            stack.asker = None  # type: ignore[attr-defined]
            recycle(stack)

    def plain(n: int) -> None:
        get, recycle = pool.get, pool.recycle
        for _ in range(n):
            recycle(get())

    return loop if kind is AskStack else plain


def futures(n: int) -> None:
    for _ in range(n):
        MessageFuture()


def envelopes(n: int) -> None:
    for _ in range(n):
        Envelope(None, 1, None)  # type: ignore[arg-type]


def main() -> None:
    options = arguments("Making stacks anew against reusing them.")
    n = 10_000 if options.quick else 100_000
    contenders: dict[str, Callable[[], float]] = {}
    for kind in KINDS:
        contenders[f"{kind.__name__} made"] = timed(made(kind), n)
        contenders[f"{kind.__name__} reused"] = timed(reused(kind), n)
    contenders["MessageFuture made"] = timed(futures, n)
    contenders["Envelope made"] = timed(envelopes, n)
    figures = alternate(contenders, options.rounds)
    rows = []
    for kind in KINDS:
        new, old = figures[f"{kind.__name__} made"], figures[f"{kind.__name__} reused"]
        pays = ratio(old, new)
        rows.append([kind.__name__, f"{median(new):.0f}", f"{median(old):.0f}", f"{pays:.2f}"])
    for name in ("MessageFuture", "Envelope"):
        rows.append([name, f"{median(figures[f'{name} made']):.0f}", "-", "-"])
    table("processor nanoseconds an object", ["type", "made", "reused", "reused / made"], rows)
    for kind in KINDS:
        worse = ratio(figures[f"{kind.__name__} reused"], figures[f"{kind.__name__} made"]) > 1
        verdict(f"making a {kind.__name__} anew is cheaper, so it is not pooled", worse)
    finish(options, figures)


if __name__ == "__main__":
    main()
