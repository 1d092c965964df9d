"""What a million actors cost in memory, and whether all of it comes back when nobody needs them.

A process builds the actors, sends each a message and drops the addresses; then it does the same
once more. Three things are looked at: the resident memory for an actor, how many of the actors are
really gone when their addresses are, and how much the process has grown with the second million.
That last one is the test of reuse: an allocator keeps freed pages for later, so resident memory
hardly falls when objects are freed, but it must not rise either when as many are made again.

    ./ft bench memory --actors 10000000       ten million at once (about 10 GB)
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import finish, median, parser_for, table, verdict
from savina.common import available_bytes, resident_bytes

BAR = 1000  # bytes of resident memory for an actor that has handled one message
AGAIN = 1.1  # what the second million may bring the process to, times the first


def child(actors: int, dispatcher: str) -> None:
    """In a process of its own: prints what it saw."""
    from otavia_ft import ActorSystem, AtomicInt, Notice, StateActor, on

    class Note(Notice):
        pass

    alive = AtomicInt()

    class Small(StateActor):
        __slots__ = ("count",)

        def __init__(self) -> None:
            self.count = 0
            alive.get_and_add(1)

        @on(Note)
        def note(self, message: Note) -> None:
            self.count += 1

        def __del__(self) -> None:
            alive.get_and_add(-1)

    with ActorSystem(workers=2, dispatcher=dispatcher) as system:
        gc.collect()
        empty = resident_bytes()
        note = Note()
        handled = 0
        seen: list[dict[str, float]] = []
        for _ in range(2):
            started = time.perf_counter()
            addresses = [system.build_actor(Small) for _ in range(actors)]
            while not system.scheduler.quiet():
                time.sleep(0.001)
            spawned = time.perf_counter() - started
            for address in addresses:
                address.notice(note)
            handled += actors
            while system.statistics().messages < handled or not system.scheduler.quiet():
                time.sleep(0.001)
            full = resident_bytes() - empty
            most = alive.load()
            del address
            addresses.clear()
            gc.collect()
            left = alive.load()
            after = resident_bytes() - empty
            seen.append(
                {"full": full, "after": after, "spawn": spawned, "most": most, "left": left}
            )
    print(json.dumps(seen))


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(int(sys.argv[2]), sys.argv[3])
        return
    parser = parser_for(__doc__ or "", rounds=2)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--actors", type=int, default=1_000_000, help="default %(default)s")
    parser.add_argument("--dispatcher", choices=("pinned", "pool"), default="pinned")
    options = parser.parse_args()
    if options.smoke:
        options.quick, options.rounds = True, 1
    actors = options.actors // (100 if options.smoke else 10 if options.quick else 1)
    if actors * 1500 > available_bytes():
        parser.error(f"{actors:,} actors need about {actors * 1.5e-6:,.0f} MB of free memory")

    names = ("bytes an actor", "built a second", "left alive", "bytes kept", "second million")
    figures: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(options.rounds):
        command = [sys.executable, __file__, "--child", str(actors), options.dispatcher]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        first, second = json.loads(done.stdout)
        if not first["most"] == second["most"] == actors:
            sys.exit(f"memory: {first['most']:.0f} of {actors} actors were alive at once")
        figures["bytes an actor"].append(first["full"] / actors)
        figures["built a second"].append(actors / first["spawn"])
        figures["left alive"].append(first["left"] + second["left"])
        figures["bytes kept"].append(first["after"] / actors)
        figures["second million"].append(second["full"] / first["full"])
    rows = [
        ["resident bytes an actor", f"{median(figures['bytes an actor']):,.0f}"],
        ["actors built a second", f"{median(figures['built a second']):,.0f}"],
        ["still alive without addresses", f"{max(figures['left alive']):,.0f}"],
        [
            "bytes an actor that the allocator keeps for later",
            f"{median(figures['bytes kept']):,.0f}",
        ],
        ["resident after as many again, times before", f"{median(figures['second million']):.2f}"],
    ]
    table(f"{actors:,} actors that have handled one message", ["what", "median"], rows)
    cost = median(figures["bytes an actor"])
    verdict(f"{cost:,.0f} bytes an actor (bar {BAR})", cost <= BAR)
    left = max(figures["left alive"])
    verdict(f"{left:.0f} actors alive when their addresses are gone (bar 0)", left == 0)
    again = median(figures["second million"])
    verdict(f"as many once more: {again:.2f} times the memory (bar {AGAIN})", again <= AGAIN)
    finish(options, figures)


if __name__ == "__main__":
    main()
