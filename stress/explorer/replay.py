"""Running a schedule again, making it smaller, and writing it down in a few characters.

A token looks like `sc.3f2a1c.2-1.a12b3aC`: the memory model, six digits of the sources' hash, the
scenario's sizes, and the schedule: a letter for each action, with a number for how often in a row.
A token is refused when the sources have changed, or the bugs that are planted in them, because the
same letters would mean other steps.

A schedule is minimised by what a reader has to follow: first the number of switches between
threads, then its length. Blocks of steps of one thread are left out, or moved up or down to another
block of the same thread; what is not possible any more is skipped, and what is missing at the end
is filled in by letting one thread after the other run. Whatever still fails in the same way is
kept.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from stress.explorer.engine import MODELS, Runner
from stress.explorer.loading import Runtime, source_hash
from stress.explorer.scenario import Scenario, sources_of
from stress.explorer.world import DivergedError, World

__all__ = ["Follow", "TokenError", "minimise", "read_token", "replay", "token"]

LETTERS = string.ascii_letters
# The explorer's own files that decide what a step is.
MEANING = [str(Path(__file__).with_name(f"{name}.py")) for name in ("cells", "linear", "world")]
# Numbers of few digits: what is read here may have been typed, or cut off.
STEP = re.compile(r"(?:([a-zA-Z])|_([0-9]{1,6})_)([0-9]{0,6})")
TOKEN = re.compile(
    r"(?P<model>[a-z]+)\.(?P<hash>[0-9a-f]{6})\.(?P<sizes>(?:[0-9]{1,6}(?:-[0-9]{1,6})*)?)\."
    rf"(?P<steps>(?:{STEP.pattern})*)"
)


class TokenError(ValueError):
    """A token that is malformed, or not of these sources."""


class Follow:
    """The picker that follows a schedule; strictly, or as far as it will go."""

    def __init__(self, actions: Sequence[int], strict: bool) -> None:
        self.actions = actions
        self.strict = strict

    def begin(self) -> None:
        self.at = 0
        self.last = -1

    def pick(self, world: World, able: list[int]) -> int:
        while self.at < len(self.actions):
            action = self.actions[self.at]
            self.at += 1
            alternative, process = divmod(action, world.processes)
            if process in able and alternative in world.alternatives(process):
                self.last = process
                return action
            if self.strict:
                raise DivergedError(f"step {self.at} of the schedule is not possible")
        if self.last not in able:
            self.last = able[0]
        return world.alternatives(self.last)[0] * world.processes + self.last

    def end(self, world: World) -> bool:
        return False


def replay(runner: Runner, actions: Sequence[int], *, strict: bool = True) -> World:
    """Run one schedule, every operation a step, and keep a log."""
    picker = Follow(actions, strict)
    picker.begin()
    return runner.run(picker, logging=True)


def minimise(runner: Runner, actions: Sequence[int], tries: int = 1000) -> list[int]:
    """A schedule that fails in the same way with fewer switches, or the one given."""
    world = _run(runner, actions)
    if world.violation is None:
        raise DivergedError("the schedule to minimise does not fail")
    kind, best = world.violation.kind, world.full
    improved = True
    while improved and tries > 0:
        improved = False
        for candidate in _simpler(best, world.processes):
            tries -= 1
            world = _run(runner, candidate)
            found = world.violation
            if found is not None and found.kind == kind and _cost(world.full) < _cost(best):
                best, improved = world.full, True
                break
            if tries <= 0:
                break
    return best


def _run(runner: Runner, actions: Sequence[int]) -> World:
    picker = Follow(actions, strict=False)
    picker.begin()
    return runner.run(picker)


def _cost(actions: Sequence[int]) -> tuple[int, int]:
    return sum(1 for _ in groupby(actions)), len(actions)


def _simpler(actions: Sequence[int], processes: int) -> Iterator[list[int]]:
    blocks = [list(block) for _, block in groupby(actions, key=lambda a: a % processes)]
    whose = [block[0] % processes for block in blocks]

    def joined(order: list[list[int]]) -> list[int]:
        return [action for block in order for action in block]

    for i in range(len(blocks)):
        yield joined(blocks[:i] + blocks[i + 1 :])
    for i, process in enumerate(whose):
        earlier = [j for j in range(i) if whose[j] == process]
        if earlier:
            j = earlier[-1] + 1
            yield joined([*blocks[:j], blocks[i], *blocks[j:i], *blocks[i + 1 :]])
            yield joined([*blocks[: j - 1], *blocks[j:i], blocks[j - 1], *blocks[i:]])
    for i, block in enumerate(blocks):
        for cut in {len(block) // 2, len(block) - 1, 1} - {0, len(block)}:
            yield joined([*blocks[:i], block[:cut], *blocks[i + 1 :]])


# ---- tokens -------------------------------------------------------------------------------------


def _hash(runner: Runner) -> str:
    files = [*runner.runtime.sources, *sources_of(runner.cls), *MEANING]
    return source_hash(files, runner.runtime.planted)


def token(runner: Runner, actions: Sequence[int]) -> str:
    steps = []
    for action, run in groupby(actions):
        letter = LETTERS[action] if action < len(LETTERS) else f"_{action}_"
        count = sum(1 for _ in run)
        steps.append(letter if count == 1 else f"{letter}{count}")
    sizes = "-".join(str(runner.sizes[name]) for name in runner.cls.sizes)
    return f"{runner.model}.{_hash(runner)}.{sizes}.{''.join(steps)}"


def read_token(
    cls: type[Scenario], text: str, runtime: Runtime | None = None
) -> tuple[Runner, list[int]]:
    """The runner and the schedule that a token stands for."""
    parts = TOKEN.fullmatch(text.strip())
    if parts is None or parts["model"] not in MODELS:
        raise TokenError(f"{text[:200]!r} is no token: it has the form MODEL.HASH.SIZES.STEPS")
    values = [int(n) for n in parts["sizes"].split("-")] if parts["sizes"] else []
    if len(values) != len(cls.sizes):
        raise TokenError(f"the token has {len(values)} sizes, {cls.name} has {len(cls.sizes)}")
    sizes = dict(zip(cls.sizes, values, strict=True))
    try:
        runner = Runner(cls, model=parts["model"], sizes=sizes, runtime=runtime)
    except ValueError as error:
        raise TokenError(f"the token's sizes: {error}") from None
    if parts["hash"] != (mine := _hash(runner)):
        raise TokenError(
            f"the token was made from other sources ({parts['hash']}, these are {mine}) or with "
            f"another --mutant: search again with ./ft explore {cls.name}"
        )
    actions: list[int] = []
    longest = 21 * cls.steps  # in steps and in operations no run goes beyond that, see world.py
    for letter, number, count in STEP.findall(parts["steps"]):
        times = int(count or 1)
        if len(actions) + times > longest:
            raise TokenError(f"the token has more steps than any run of {cls.name}: {longest}")
        actions += [LETTERS.index(letter) if letter else int(number)] * times
    return runner, actions
