"""Exhaustive search with partial-order reduction: source-DPOR with sleep sets.

Two steps of different processes are *dependent* if they touch the same word and one of them writes,
or if one makes the other possible. Schedules that differ only in the order of independent steps
lead to the same state, so one of each class is enough. The search runs one schedule to its end,
finds in it the *races* (dependent steps e, f with nothing between that orders them), and notes for
each, at the point before e, a process that begins the other order (`Node.wanted`). It then returns
to the deepest point where something is wanted. *Sleep sets* keep it from beginning with a step that
only commutes with what has been done already.

Blocking operations (a lock, a wait, a spin) need care: an unlock and the lock that it makes
possible are dependent but cannot be swapped, while the two locks can. So the search looks behind a
step that could not have waited, and steps that are still blocked when everything stands still count
too, as if they had been taken.

Store buffers are processes of their own; that a buffer writes after its thread stored, and that a
read-modify-write comes after its thread's buffer is empty, are the only rules added for TSO.

Guaranteed, and compared in the tests with a plain search of all states on thousands of random
programs: every final state, and every deadlock, is reached.
"""

from __future__ import annotations

from typing import Any

from stress.explorer.world import DivergedError, World

__all__ = ["Dpor"]

BLOCKING = frozenset({"lock", "wait", "acquire", "relax"})


class Node:
    """One point of the current schedule: what was possible, what was done, what is wanted."""

    __slots__ = (
        "able", "alternative", "alternatives", "clock", "done", "kind", "process", "sleep",
        "wanted", "words", "writes",
    )  # fmt: skip

    def __init__(self, able: list[int], sleep: set[int]) -> None:
        self.able = able
        self.sleep = sleep
        self.wanted: set[int] = set()
        self.done: set[int] = set()
        self.process = -1
        self.alternative = 0
        self.alternatives: tuple[int, ...] = (0,)
        self.kind = ""
        self.words: tuple[Any, ...] = ()
        self.writes = False
        self.clock: list[int] = []


class Dpor:
    """The picker. `begin()` before each run, `end()` after it; False from `end`: all is done."""

    def __init__(self) -> None:
        self.stack: list[Node] = []
        self.asleep = 0  # runs that were cut because every step had been covered
        self.begin()

    def begin(self) -> None:
        self.depth = 0
        self.known = len(self.stack) - 1  # races between steps before this one are noted already
        self.clocks: list[list[int]] = []
        self.touched: dict[Any, list[int]] = {}
        self.stored: list[list[list[int]]] = []
        self.accounted = 0

    # ---- choosing ---------------------------------------------------------------------------

    def pick(self, world: World, able: list[int]) -> int:
        depth = self.depth
        if depth:
            self._account(world)
        elif not self.clocks:
            self.clocks = [[0] * world.processes for _ in range(world.processes)]
            self.stored = [[] for _ in world.threads]
        if depth < len(self.stack):
            node = self.stack[depth]
            if node.able != able:
                raise DivergedError(
                    f"at step {depth} the processes {able} could move, but {node.able} in an "
                    "earlier run with the same beginning: the scenario is not deterministic"
                )
            if not node.alternatives:
                self._choose(world, node, node.process)
        else:
            node = self._open(world, able)
            if node.process < 0:
                self.asleep += 1
                return -1
            self.stack.append(node)
        self.depth = depth + 1
        return node.alternative * world.processes + node.process

    def _open(self, world: World, able: list[int]) -> Node:
        sleep: set[int] = set()
        last = -1
        if self.stack:
            before = self.stack[-1]
            last = before.process
            for q in before.sleep:
                word, writes = world.pending(q)
                if not _meet(word, writes, before):
                    sleep.add(q)
        node = Node(able, sleep)
        awake = [p for p in able if p not in sleep]
        if awake:
            first = last if last in awake else awake[0]
            node.wanted.add(first)
            self._choose(world, node, first)
        return node

    @staticmethod
    def _choose(world: World, node: Node, process: int) -> None:
        node.process = process
        node.alternatives = world.alternatives(process)
        node.alternative = node.alternatives[0]

    # ---- after a step -----------------------------------------------------------------------

    def _account(self, world: World) -> None:
        """Order the step just taken after those that it depends on, and find its races."""
        index = self.depth - 1
        if index < self.accounted:
            return
        self.accounted = index + 1
        node = self.stack[index]
        process, kind, word, writes, order = world.event  # type: ignore[misc]
        if process != node.process:
            raise DivergedError(f"step {index} was taken by {process}, not by {node.process}")
        n = len(world.threads)
        clocks = self.clocks
        if index < self.known:  # the same step as in the run before
            node.words = word if isinstance(word, tuple) else () if word is None else (word,)
            clocks[process] = node.clock
            if process >= n:
                self.stored[process - n].pop(0)
            elif order == "buffers":
                self.stored[process].append(node.clock)
            for w in node.words:
                self.touched.setdefault(w.name, []).append(index)
            return
        words = word if isinstance(word, tuple) else () if word is None else (word,)
        own = clocks[process]
        if process >= n:  # a buffer writes after its thread has stored
            own = _join(own, self.stored[process - n].pop(0))
        elif order == "drains":  # it has waited for the own buffer
            own = _join(own, clocks[n + process])
        full = own
        names = [w.name for w in words]
        for name in names:
            for e in reversed(self.touched.setdefault(name, [])):
                earlier = self.stack[e]
                if writes or earlier.writes:
                    full = _join(full, earlier.clock)
                    if earlier.writes:
                        break
        full = full.copy()
        full[process] = index + 1
        node.kind, node.words, node.writes, node.clock = kind, words, writes, full
        clocks[process] = full
        if order == "buffers":
            self.stored[process].append(full)
        for name in names:
            self._races(index, process, kind, writes, own, full, self.touched[name])
        for name in names:
            self.touched[name].append(index)

    def _races(
        self,
        index: int,
        process: int,
        kind: str,
        writes: bool,
        own: list[int],
        full: list[int],
        earlier: list[int],
    ) -> None:
        """For steps on one word, latest first: want the other order where there is one."""
        blocking = kind in BLOCKING
        behind: list[Node] = []  # races found: what these are ordered after is no race itself
        for e in reversed(earlier):
            node = self.stack[e]
            if not (writes or node.writes) or own[node.process] > e:
                continue
            if any(later.clock[node.process] > e for later in behind):
                continue
            found = self._want(e, index, process, full)
            if found == "could" or (found and not blocking):
                behind.append(node)
                if node.writes:
                    return

    def _want(self, e: int, index: int, process: int, full: list[int]) -> str:
        """Want, before step e, a process that begins what came between without e.

        Answers whether the step could have gone first: "could", "may be", or "" for no.
        """
        stack = self.stack
        node = stack[e]
        free: list[int] = []  # steps between that do not come after e
        first: set[int] = set()  # processes that may begin them
        seen: set[int] = set()
        for k in range(e + 1, index):
            step = stack[k]
            if step.clock[node.process] <= e:
                if step.process not in seen:
                    seen.add(step.process)
                    if not any(step.clock[stack[j].process] > j for j in free):
                        first.add(step.process)
                free.append(k)
        if process not in seen and not any(full[stack[j].process] > j for j in free):
            first.add(process)
        first.intersection_update(node.able)
        if first:
            if not (first & node.wanted or first & node.sleep):
                node.wanted.add(process if process in first else min(first))
            return "could" if process in first and process not in seen else "may be"
        if free:
            node.wanted.update(node.able)
            return "may be"
        return ""

    def stand_still(self, world: World) -> None:
        """Nothing can move: what is still blocked counts as if it had been taken now."""
        if self.depth == 0:
            return
        self._account(world)
        index = self.depth
        if index - 1 < self.known:
            return
        for t in world.threads:
            if t.done:
                continue
            word, writes = world.pending(t.tid)
            for one in word if isinstance(word, tuple) else () if word is None else (word,):
                earlier = self.touched.get(one.name, [])
                own = full = self.clocks[t.tid]
                for e in earlier:
                    if writes or self.stack[e].writes:
                        full = _join(full, self.stack[e].clock)
                self._races(index, t.tid, t.kind, writes, own, full, earlier)

    def time_passed(self, world: World) -> None:
        """A timeout fires because nothing else could move: it comes after everything."""
        if self.depth == 0:
            return
        everything = self.clocks[0]
        for clock in self.clocks:
            everything = _join(everything, clock)
        self.clocks = [everything] * len(self.clocks)

    # ---- between runs -----------------------------------------------------------------------

    def end(self, world: World) -> bool:
        """Go back to the deepest point where something else is wanted."""
        if not world.cut and self.depth:
            self._account(world)
        stack = self.stack
        while stack:
            node = stack[-1]
            place = node.alternatives.index(node.alternative) + 1
            if place < len(node.alternatives):
                node.alternative = node.alternatives[place]
                return True
            node.done.add(node.process)
            node.sleep.add(node.process)
            left = node.wanted - node.sleep
            if left:
                node.process = min(left)
                node.alternatives = ()
                return True
            stack.pop()
        return False


def _meet(word: Any, writes: bool, step: Node) -> bool:
    """Whether a pending operation depends on a step."""
    if word is None or not (writes or step.writes):
        return False
    if isinstance(word, tuple):
        return any(w in step.words for w in word)
    return word in step.words


def _join(a: list[int], b: list[int]) -> list[int]:
    return [x if x > y else y for x, y in zip(a, b, strict=True)]
