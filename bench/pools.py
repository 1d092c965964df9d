"""Does reusing an object pay? Each pooled type through the runtime's seam, made anew and reused.

Both sides call the very same two places of the seam, `Context.new_*` and what takes the object back
(`recycle` for stacks, `let_go` for the rest): once on a context without pools, where the first is
the type itself and the second is not called, and once on one with pools. So a figure is what one
message pays for one object of that type, from its making to its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from _measure import alternate, arguments, finish, median, ratio, table, verdict

from otavia_ft.context import Context
from otavia_ft.doors import set_me

# For each type: how the runtime makes one. All other arguments are what a message would fill in.
MAKERS: dict[str, Callable[[Context], Callable[[], Any]]] = {
    "NoticeStack": lambda context: context.new_notice_stack,
    "AskStack": lambda context: context.new_ask_stack,
    "BatchNoticeStack": lambda context: context.new_batch_notice_stack,
    "BatchAskStack": lambda context: _with_asks(context.new_batch_ask_stack),
    "MessagePromise": lambda context: context.new_promise,
    "ChannelPromise": lambda context: context.new_channel_promise,
    "Envelope": lambda context: _with(context.new_envelope, None, 1, "ask"),
    "CoroutineState": lambda context: _with(context.new_coroutine_state, None),
    "FutureState": lambda context: _with(context.new_future_state, 1),
    "FuturesState of 4": lambda context: _with(context.new_futures_state, 4, 1),
    "ChannelFutureState": lambda context: _with(context.new_channel_future_state, 1),
}


def _with(make: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: make(*arguments)


def _with_asks(make: Callable[[], Any]) -> Callable[[], Any]:
    def new() -> Any:
        stack = make()
        stack.asks = ()
        return stack

    return new


def timed(loop: Callable[[int], None], n: int) -> Callable[[], float]:
    """Nanoseconds an object, in processor time: other people's load stays out of it."""

    def run() -> float:
        started = time.process_time_ns()
        loop(n)
        return (time.process_time_ns() - started) / n

    return run


def made(name: str) -> Callable[[int], None]:
    new = MAKERS[name](Context(None, 1))

    def loop(n: int) -> None:
        for _ in range(n):
            new()

    return loop


def reused(name: str) -> Callable[[int], None]:
    context = Context(None, 1)
    context.use_pools(16, debug=False)
    new = MAKERS[name](context)
    give_back: Any = context.recycle if name.endswith("Stack") else context.let_go

    def loop(n: int) -> None:
        before = sum(map(len, context.pools))
        for _ in range(n):
            thing = new()
            give_back(thing)
        del thing
        assert before or sum(map(len, context.pools)) == 1, "what is measured is not reused"

    return loop


def main() -> None:
    options = arguments("Making the runtime's objects anew against reusing them.")
    n = 10_000 if options.quick else 100_000
    set_me(None)
    contenders: dict[str, Callable[[], float]] = {}
    for name in MAKERS:
        contenders[f"{name} made"] = timed(made(name), n)
        contenders[f"{name} reused"] = timed(reused(name), n)
    figures = alternate(contenders, options.rounds)
    rows = []
    for name in MAKERS:
        new, old = figures[f"{name} made"], figures[f"{name} reused"]
        rows.append([name, f"{median(new):.0f}", f"{median(old):.0f}", f"{ratio(old, new):.2f}"])
    table("processor nanoseconds an object", ["type", "made", "reused", "reused / made"], rows)
    for name in MAKERS:
        worse = ratio(figures[f"{name} reused"], figures[f"{name} made"]) > 1
        verdict(f"{name}: to make it anew is cheaper, so it is not pooled", worse)
    finish(options, figures)


if __name__ == "__main__":
    main()
