"""Schedules by chance: uniformly at each step, or by PCT with its guarantee.

PCT (probabilistic concurrency testing) gives each process a random priority, always runs the
highest that can move, and at d-1 random steps drops the running one to the bottom. A bug that needs
d ordering constraints, in a program of n processes and k steps, is found by one run with
probability at least 1 / (n * k**(d-1)); runs are independent. n counts store buffers too under TSO.
Uniform choice has no such bound and is much weaker in practice.

k is learned: it is the longest run so far. A run has the promised probability if its drops were
drawn from all of k, and if the words that were quiet in it are those that are known to be quiet, so
that its steps are the ones that k counts. `stable` is the number of such runs: those since k has
last grown, or a quiet word turned out to be shared. The promise is for bugs that show within k
steps; of a longer run, which nobody has seen, nobody can say how likely it is.
"""

from __future__ import annotations

import random

from stress.explorer.world import World

__all__ = ["Pct", "Uniform"]


class Uniform:
    """The picker that throws a die at each step."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def begin(self) -> None:
        pass

    def pick(self, world: World, able: list[int]) -> int:
        process = able[0] if len(able) == 1 else self.random.choice(able)
        alternatives = world.alternatives(process)
        alternative = self.random.choice(alternatives) if len(alternatives) > 1 else alternatives[0]
        return alternative * world.processes + process

    def end(self, world: World) -> bool:
        return True


class Pct(Uniform):
    """The picker with priorities. `depth` is d above."""

    def __init__(self, seed: int, depth: int) -> None:
        super().__init__(seed)
        self.depth = depth
        self.length = 1
        self.processes = 1
        self.stable = 0

    def begin(self) -> None:
        self.step = 0
        self.priorities: list[float] = []
        draw = self.random.randrange
        self.drops = {draw(self.length): rank for rank in range(1, self.depth)}

    def pick(self, world: World, able: list[int]) -> int:
        priorities = self.priorities
        if not priorities:
            priorities = self.priorities = [1000.0 + p for p in range(world.processes)]
            self.random.shuffle(priorities)
            self.processes = world.processes if world.tso else len(world.threads)
        process = max(able, key=priorities.__getitem__)
        rank = self.drops.get(self.step)
        if rank is not None:
            priorities[process] = rank
            process = max(able, key=priorities.__getitem__)
        self.step += 1
        alternatives = world.alternatives(process)
        alternative = self.random.choice(alternatives) if len(alternatives) > 1 else alternatives[0]
        return alternative * world.processes + process

    def end(self, world: World) -> bool:
        # One that failed, or was left early, is no measure of how long a run can be.
        longer = self.step > self.length and world.violation is None and not world.cut
        if longer:
            self.length = self.step
        self.stable = 0 if longer or world.learned else self.stable + 1
        return True

    @property
    def bound(self) -> float:
        """The least probability that one of the `stable` runs finds a bug of this depth."""
        return 1.0 / (self.processes * self.length ** (self.depth - 1))
