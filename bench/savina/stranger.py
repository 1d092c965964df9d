"""The control of the CPU map: the same arithmetic in a process that shares nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from _measure import serve

from savina.common import crunch


def work(order: str, start: Callable[[], object]) -> None:
    start()
    for seed in range(int(order)):
        crunch(seed)


if __name__ == "__main__":
    serve(work)
