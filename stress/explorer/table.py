"""A run as a table: one column a thread, one line a step, the verdict below.

Steps on words that one thread alone touched say nothing about the interleaving and are left out.
What a store buffer writes to memory stands in its thread's column.
"""

from __future__ import annotations

import textwrap
from typing import Any

from stress.explorer.world import Word, World

__all__ = ["table"]

MOST = 80  # lines from the beginning, and from the end


def table(world: World, width: int = 100) -> str:
    """The log of a run that was made with `logging=True`."""
    log = world.log or []
    threads = world.threads
    n = len(threads)
    touched: dict[Any, set[int]] = {}
    for process, _, word in log:
        touched.setdefault(word, set()).add(process % n)
    for t in threads:  # what somebody waits for in vain concerns him as well
        if not t.done and isinstance(t.word, Word):
            touched.setdefault(t.word, set()).add(t.tid)
    shown = [(p, text) for p, text, word in log if word is None or len(touched[word]) > 1]
    number = len(str(len(shown)))
    column = max(18, (width - number - 1) // n - 3)

    def line(first: str, cells: list[str]) -> str:
        return " │ ".join([first.rjust(number), *(c.ljust(column) for c in cells)]).rstrip()

    lines = [line("", [t.name for t in threads])]
    lines.append("─┼─".join(["─" * number] + ["─" * column] * n))
    for step, (process, text) in enumerate(shown, 1):
        if MOST < step <= len(shown) - MOST:
            if step == MOST + 1:
                lines.append(f"... {len(shown) - 2 * MOST} steps ...")
            continue
        for i, part in enumerate(textwrap.wrap(text, column) or [""]):
            cells = [""] * n
            cells[process % n] = part if i == 0 else f"  {part}"[:column]
            lines.append(line(str(step) if i == 0 else "", cells))
    hidden = len(log) - len(shown)
    if hidden:
        lines.append(f"({hidden} steps on what only one thread touched are not shown)")
    if world.violation is not None:
        lines.append(f"=> {world.violation}")
    return "\n".join(lines)
