"""The explorer's command line: `./ft explore`, or `python -m stress.explore`.

Without a mode each scenario gets what suits its size: the exhaustive search if that ends in half of
the time, else everything with at most two preemptions, and PCT for the rest of the time. The exit
status is 0 if nothing was found, 1 for a finding, 2 for a wrong argument.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from stress.arguments import at_least, positive, positive_float
from stress.display import display
from stress.explorer.engine import Result, Runner, explore
from stress.explorer.loading import Runtime, load_runtime
from stress.explorer.replay import TokenError, minimise, read_token, replay, token
from stress.explorer.scenario import Scenario, scenarios
from stress.explorer.table import table
from stress.explorer.world import DivergedError
from stress.mutants import Mutant, mutants

__all__ = ["main", "suitable"]

Progress = Callable[[Result], None]


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./ft explore",
        description="Run the runtime's own code under a scheduler that decides, at every operation "
        "that another thread could notice, who goes next.",
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="scenarios; all of them if none is given")
    add("--list", action="store_true", help="say which scenarios there are")
    add("--mode", choices=("dfs", "random", "pct"), help="dfs: exhaustive, with partial-order "
        "reduction; pct: random priorities with a known probability of success; random: a die at "
        "each step; by default what suits the scenario")  # fmt: skip
    add("--bound", type=partial(at_least, 0), metavar="N",
        help="dfs: only schedules with at most N preemptions")  # fmt: skip
    add("--depth", type=positive, default=3, metavar="D", help="pct: ordering constraints (3)")
    add("--schedules", type=positive, metavar="N", help="end after that many (pct, random: 1000)")
    add("--seconds", type=positive_float, metavar="S", help="end after that long, for each "
        "scenario (10 if neither a mode nor a number of schedules is given)")  # fmt: skip
    add("--seed", type=int, default=0, help="of pct and random (0)")
    add(
        "--tso", action="store_true", help="lazy sets stay in a store buffer for a while, as on x86"
    )
    add("--size", action="append", default=[], metavar="NAME=N", help="change a scenario's size")
    add("--replay", metavar="TOKEN", help="run the one schedule that a finding has printed")
    add("--mutant", metavar="NAME", help="plant this bug and search the scenario that shows it: "
        "see ./ft mutants --list")  # fmt: skip
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments()
    options = parser.parse_args(argv)
    known = scenarios()
    if options.list:
        for name, cls in known.items():
            print(f"{name:24}{(cls.__doc__ or '').strip().splitlines()[0]}")
        return 0
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)}; --list says which there are")
    if options.bound is not None and options.mode not in (None, "dfs"):
        parser.error("--bound goes with --mode dfs")
    mutant = _mutant(parser, options) if options.mutant is not None else None
    if options.replay is not None:
        if len(options.names) != 1:
            parser.error("--replay wants the name of one scenario")
        return _replay(known[options.names[0]], options.replay, mutant)
    chosen = {name: known[name] for name in options.names} or known
    sizes = _sizes(parser, options.size, chosen)
    if mutant is not None:
        sizes = {**mutant.sizes, **sizes}
    found = 0
    started = time.monotonic()
    schedules = steps = 0
    with display("exploring") as show:

        def progress(result: Result) -> None:
            mode = result.mode if result.bound is None else f"{result.bound} preemptions"
            so_far, seconds = schedules + result.schedules, time.monotonic() - started
            colour = "red" if found else "green"
            show(
                f"{result.scenario} ({mode}, {result.model}): {result.schedules} schedules, "
                f"{result.steps} steps, {result.cut} cut; {so_far} schedules in all, "
                f"{so_far / seconds:.0f} a second, [{colour}]{found} findings[/]"
            )

        for cls in chosen.values():
            mine = {size: n for size, n in sizes.items() if size in cls.sizes}
            runtime = None if mutant is None else mutated(cls, mutant)
            for result in _search(cls, options, mine, progress, runtime):
                print(result)
                schedules += result.schedules
                steps += result.steps
                if result.violation is not None:
                    found += 1
                    print(explain(cls, result, runtime, options.mutant))
                    break
    seconds = time.monotonic() - started
    print(f"{len(chosen)} scenarios, {found} with a finding; {schedules} schedules, {steps} steps "
          f"in {seconds:.1f} s, {schedules / seconds:.0f} schedules a second")  # fmt: skip
    return 1 if found else 0


def _mutant(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Mutant:
    """The mutant asked for; fills in its scenario and its memory model."""
    mutant = mutants().get(options.mutant)
    if mutant is None:
        parser.error(f"no mutant {options.mutant}; ./ft mutants --list says which there are")
    if not options.names:
        if mutant.scenario is None:
            parser.error(f"no scenario shows {mutant.name}; try ./ft stress --mutant {mutant.name}")
        options.names.append(mutant.scenario)
    options.tso = options.tso or mutant.model == "tso"
    return mutant


def mutated(cls: type[Scenario], mutant: Mutant) -> Runtime:
    """A copy of the runtime with the bug in it."""
    changes = mutant.doors() if mutant.doors is not None else None
    return load_runtime(*cls.runtime, patches=mutant.patches, changes=changes)


def _sizes(
    parser: argparse.ArgumentParser, given: list[str], chosen: dict[str, type[Scenario]]
) -> dict[str, int]:
    sizes = {}
    for text in given:
        name, _, number = text.partition("=")
        if not number.isdecimal():
            parser.error(f"--size {text}: it has the form NAME=N")
        having = [cls for cls in chosen.values() if name in cls.sizes]
        if not having:
            parser.error(f"--size {text}: none of the scenarios has such a size")
        try:
            sizes[name] = int(number)
            for cls in having:
                cls.full_sizes({name: sizes[name]})
        except ValueError as error:
            parser.error(f"--size {text}: {error}")
    return sizes


def _search(
    cls: type[Scenario],
    options: argparse.Namespace,
    sizes: dict[str, int],
    progress: Progress,
    runtime: Runtime | None,
) -> Iterator[Result]:
    common = {
        "runtime": runtime,
        "model": "tso" if options.tso else "sc",
        "sizes": sizes,
        "seed": options.seed,
        "progress": progress,
    }
    if options.mode is None and options.bound is None:
        seconds = options.seconds or (10.0 if options.schedules is None else None)
        yield from suitable(
            cls, seconds=seconds, schedules=options.schedules, depth=options.depth, **common
        )
        return
    mode = {"dfs": "dpor", None: "dpor"}.get(options.mode, options.mode)
    yield explore(
        cls,
        mode if options.bound is None else "bound",
        bound=options.bound or 0,
        depth=options.depth,
        schedules=options.schedules,
        seconds=options.seconds,
        **common,
    )


def suitable(
    cls: type[Scenario],
    *,
    seconds: float | None,
    schedules: int | None = None,
    depth: int = 3,
    seed: int = 0,
    **common: object,
) -> Iterator[Result]:
    """To the end if it is near; else the scenario's bound, then PCT. A finding ends it."""
    share = None if seconds is None else seconds / 2
    result = explore(cls, "dpor", seconds=share, schedules=schedules, **common)  # type: ignore[arg-type]
    yield result
    if result.complete or result.violation is not None:
        return
    share = None if share is None else share * 0.6
    result = explore(cls, "bound", bound=cls.bound, seconds=share, schedules=schedules, **common)  # type: ignore[arg-type]
    yield result
    if result.violation is None:
        left = None if seconds is None else seconds * 0.2
        many = schedules or (10**9 if left else 1000)
        yield explore(cls, "pct", depth=depth, seed=seed, seconds=left, schedules=many, **common)  # type: ignore[arg-type]


# ---- findings -----------------------------------------------------------------------------------


def explain(
    cls: type[Scenario],
    result: Result,
    runtime: Runtime | None = None,
    mutant: str | None = None,
) -> str:
    """The smallest form of a finding that is found quickly, as a table and as a token."""
    runner, actions = shrink(cls, result, runtime)
    planted = "" if mutant is None else f" --mutant {mutant}"
    world = replay(runner, actions)
    sizes = ", ".join(f"{name}={n}" for name, n in runner.sizes.items())
    return "\n".join(
        [
            "",
            table(world, shutil.get_terminal_size((120, 24)).columns),
            *([f"sizes: {sizes}"] if sizes else []),
            f"again: ./ft explore {cls.name}{planted} --replay {token(runner, actions)}",
            "",
        ]
    )


def shrink(
    cls: type[Scenario], result: Result, runtime: Runtime | None = None
) -> tuple[Runner, list[int]]:
    """Smaller sizes that fail in the same way, then fewer switches."""
    assert result.violation is not None
    kind, sizes, schedule = result.violation.kind, dict(result.sizes), result.schedule
    for name in cls.sizes:
        while sizes[name] > cls.least.get(name, 1):
            smaller = {**sizes, name: sizes[name] - 1}
            again = explore(cls, "bound", bound=2, model=result.model, sizes=smaller, seconds=3,
                            runtime=runtime)  # fmt: skip
            if again.violation is None or again.violation.kind != kind:
                break
            sizes, schedule = smaller, again.schedule
    runner = Runner(cls, model=result.model, sizes=sizes, runtime=runtime)
    return runner, minimise(runner, schedule)


def _replay(cls: type[Scenario], text: str, mutant: Mutant | None) -> int:
    runtime = None if mutant is None else mutated(cls, mutant)
    try:
        runner, actions = read_token(cls, text, runtime)
    except TokenError as error:
        print(f"explore: {error}", file=sys.stderr)
        return 2
    try:
        world = replay(runner, actions)
    except DivergedError as error:
        print(f"explore: {error}: the token is damaged", file=sys.stderr)
        return 2
    print(table(world, shutil.get_terminal_size((120, 24)).columns))
    if world.violation is None:
        print("=> nothing went wrong")
    return 0 if world.violation is None else 1


if __name__ == "__main__":
    sys.exit(main())
