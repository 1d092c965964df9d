"""One contender at one workload: its child process, its size, its figures."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from savina.catalogue import FLOOR, MANY_LIMIT, WHY_NOT, WORKLOADS
from savina.common import available_bytes
from savina.host import Child, Erlang, FailedError, start


class Turn:
    """`take()` makes one run; `summary()` says what all of them came to."""

    def __init__(self, contender: str, python: str, workload: str, options: Any) -> None:
        self.contender, self._python, self._workload = contender, python, workload
        self._work, self._options = WORKLOADS[workload], options
        self.target = 0.005 if options.smoke else 0.05 if options.quick else 0.25  # seconds a run
        self.runs: list[dict[str, Any]] = []
        self.why: str | None = None
        self.n = 0
        self._child: Child | Erlang | None = None
        self._try(self._begin)

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except FailedError as error:
            self.why = str(error)
            self.close()

    def _begin(self) -> None:
        self.why = WHY_NOT.get((self.contender, self._workload))
        if self.why is not None:
            return
        child = self._child = start(self.contender, self._python)
        self.hello = child.hello
        if child.absent:
            self.why = child.absent
        elif not child.can(self._workload):
            raise FailedError(f"Error: {self.contender} has no program for {self._workload}")
        else:
            self.n = self._size(child)
            self._check_memory()

    def _size(self, child: Child | Erlang) -> int:
        """How many operations make a run; finding out warms the child up."""
        work, options = self._work, self._options
        if self.contender == FLOOR:
            child.run("floor", 2000)
            return 2000 if options.smoke else 50_000
        if work.fixed:
            n = getattr(options, self._workload.replace("-", "_"), None)  # an option of its own
            n = n or (work.small if options.smoke else work.full if options.full else work.n)
            if options.quick and not options.smoke:
                n //= 10
            return min(n, MANY_LIMIT.get(self.contender, n)) if work.memory else n
        n = work.small
        if options.smoke:
            return n
        for _ in range(2):  # a first guess from a few, a better one from more
            run = child.run(self._workload, n)
            wall = run.get("wall", run["seconds"])
            n = int(max(work.small, min(work.n, n * self.target / max(wall, 1e-6))))
        return n

    def _check_memory(self) -> None:
        needed = self.n * self._work.memory
        if self.contender != FLOOR and needed > available_bytes():
            self.why = f"{self._workload} needs {needed / 1e9:.0f} GB of free memory"

    def take(self) -> None:
        if self.why is None:
            self._try(self._take)

    def _take(self) -> None:
        workload = "floor" if self.contender == FLOOR else self._workload
        if self.runs and (self._work.fresh or self._options.full):
            # Where things lie in memory decides what falls together in CPython's caches, for as
            # long as a process lives. With --full every round draws anew.
            self.close()
            self._child = start(self.contender, self._python)
            if not self._work.fixed:
                self._child.run(workload, max(self._work.small, self.n // 10))  # warms up
        assert self._child is not None
        self.runs.append(self._child.run(workload, self.n))

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def summary(self) -> dict[str, Any]:
        if self.why is not None or not self.runs:
            return {"why": self.why or "no figure"}
        figures = [run["seconds"] / run["operations"] * 1e6 for run in self.runs]
        extras = {
            name: median([run[name] for run in self.runs])
            for name, value in self.runs[0].items()
            if isinstance(value, (int, float)) and name not in ("seconds", "operations")
        }
        if "curve" in self.runs[0]:
            extras["curve"] = {
                size: median([run["curve"][size] for run in self.runs]) * 1e6
                for size in self.runs[0]["curve"]
            }
            extras["windows"] = [run["windows"] for run in self.runs]  # nanoseconds
        return {
            "median": median(figures), "min": min(figures), "max": max(figures), "runs": figures,
            "n": self.n, "gil": self.hello["gil"], "python": self.hello["python"], **extras,
        }  # fmt: skip
