"""Exhaustive search by depth, without partial-order reduction.

`States` remembers every state that it has seen and turns back at a known one. It knows nothing of
dependence, so it is the yardstick for the search that does (`dpor.py`). With a bound it follows
only schedules with that many *preemptions* (a thread is made to wait although it could go on): most
bugs need one or two, and what it finds first has the fewest. Bounded, a state counts as seen only
with the same thread under way and no fewer preemptions left.

`Every` remembers nothing and tries all schedules; it is for counting.
"""

from __future__ import annotations

from stress.explorer.world import DivergedError, World

__all__ = ["Every", "States"]


class _Point:
    __slots__ = ("able", "actions", "at", "last", "spent")

    def __init__(self, able: list[int], actions: list[tuple[int, int]], last: int) -> None:
        self.able = able
        self.actions = actions  # (action, preemptions spent with it)
        self.at = 0
        self.last = last


class Every:
    """The picker that tries everything."""

    def __init__(self, bound: int | None = None) -> None:
        self.bound = bound
        self.stack: list[_Point] = []
        self.begin()

    def begin(self) -> None:
        self.depth = 0
        self.last = -1
        self.spent = 0

    def pick(self, world: World, able: list[int]) -> int:
        if self.depth < len(self.stack):
            point = self.stack[self.depth]
            if point.able != able:
                raise DivergedError(
                    f"at step {self.depth} the processes {able} could move, but {point.able} in "
                    "an earlier run with the same beginning: the scenario is not deterministic"
                )
        else:
            if self.known(world, able):
                return -1
            point = _Point(able, self._actions(world, able), self.last)
            self.stack.append(point)
        self.depth += 1
        action, self.spent = point.actions[point.at]
        process = action % world.processes
        if process < len(world.threads):
            self.last = process
        return action

    def known(self, world: World, able: list[int]) -> bool:
        return False

    def _actions(self, world: World, able: list[int]) -> list[tuple[int, int]]:
        last, spent = self.last, self.spent
        going_on = last in able and world.threads[last].kind != "relax"
        actions = []
        for process in sorted(able, key=lambda p: p != last):
            preempts = going_on and process != last and process < len(world.threads)
            if preempts and self.bound is not None and spent >= self.bound:
                continue
            for alternative in world.alternatives(process):
                actions.append((alternative * world.processes + process, spent + preempts))
        return actions

    def end(self, world: World) -> bool:
        while self.stack:
            point = self.stack[-1]
            point.at += 1
            if point.at < len(point.actions):
                return True
            self.stack.pop()
        return False


class States(Every):
    """The picker that turns back at states it has seen."""

    def __init__(self, bound: int | None = None) -> None:
        super().__init__(bound)
        self.seen: dict[int, int] = {}

    def known(self, world: World, able: list[int]) -> bool:
        key = world.key(able)
        if self.bound is not None:
            key = hash((key, self.last))
        spent = self.seen.get(key)
        if spent is not None and spent <= self.spent:
            return True
        self.seen[key] = self.spent
        return False
