"""What a million actors cost in memory, and what is left of it when their addresses are gone."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from pathlib import Path

from _measure import arguments, finish, median, table, verdict

BAR = 1000  # bytes of resident memory for an actor that has handled one message


def resident() -> int:
    """This process's resident memory in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmRSS in /proc/self/status: this benchmark needs Linux")


def child(actors: int) -> None:
    """In a process of its own: three figures in bytes, and the seconds it took."""
    from otavia_ft import ActorSystem, Notice, StateActor, on

    class Note(Notice):
        pass

    class Small(StateActor):
        __slots__ = ("count",)

        def __init__(self) -> None:
            self.count = 0

        @on(Note)
        def note(self, message: Note) -> None:
            self.count += 1

    with ActorSystem(workers=2) as system:
        gc.collect()
        empty = resident()
        started = time.perf_counter()
        note = Note()
        addresses = []
        for _ in range(actors):
            address = system.build_actor(Small)
            address.notice(note)
            addresses.append(address)
        while system.statistics().messages < actors:
            time.sleep(0.01)
        seconds = time.perf_counter() - started
        gc.collect()
        full = resident()
        del address
        addresses.clear()
        gc.collect()
        after = resident()
    print(full - empty, after - empty, seconds)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(int(sys.argv[2]))
        return
    options = arguments("Memory for an actor.", rounds=2)
    actors = 100_000 if options.quick else 1_000_000
    figures: dict[str, list[float]] = {
        "bytes an actor": [],
        "bytes an actor afterwards": [],
        "actors a second": [],
    }
    for _ in range(options.rounds):
        command = [sys.executable, __file__, "--child", str(actors)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        full, after, seconds = (float(word) for word in done.stdout.split())
        figures["bytes an actor"].append(full / actors)
        figures["bytes an actor afterwards"].append(after / actors)
        figures["actors a second"].append(actors / seconds)
    table(
        f"{actors:,} actors that have handled one message",
        ["what", "median"],
        [[name, f"{median(runs):,.0f}"] for name, runs in figures.items()],
    )
    cost = median(figures["bytes an actor"])
    left = median(figures["bytes an actor afterwards"])
    verdict(f"{cost:,.0f} bytes an actor (bar {BAR})", cost < BAR)
    verdict(
        f"{100 * left / cost:.0f} % of it left when the addresses are gone (bar 20 %)",
        left < cost / 5,
    )
    finish(options, figures)


if __name__ == "__main__":
    main()
