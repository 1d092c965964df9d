"""One case, in a process of its own: `python -m stress.parallel.child CASE`.

The case is JSON, and so is the report, the last line of standard output. A mutant is planted before
the runtime is imported. A watchdog ends a case that stands still, and says where it stood.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import random
import sys
import threading
import time
from typing import Any

from stress.parallel.draw import Case

__all__ = ["main"]


def main(text: str) -> int:
    faulthandler.enable()  # for crashes only: those are a finding
    case = Case(**json.loads(text))
    # Instruments and mutants are made for the Python lane; bare cases run what users run.
    os.environ["OTAVIA_FT_LANE"] = "native" if case.bare and case.mutant is None else "python"
    if case.mutant is not None:
        from stress.mutants import plant

        plant(case.mutant)
    report = _Runner(case).run()
    _end(report, 1 if report["findings"] else 0)
    return 0


def _end(report: dict[str, Any], status: int) -> None:
    """Say it and go, whatever other threads do."""
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


class _Runner:
    def __init__(self, case: Case) -> None:
        # Only now, so that a mutant is in place.
        from otavia_ft import ActorSystem
        from stress.parallel.lab import Lab
        from stress.parallel.watch import Watch
        from stress.parallel.workloads import WORKLOADS

        self.case = case
        self.lab = Lab(case)
        self.watch = Watch(self.lab, case.bare)
        self.kind = WORKLOADS[case.workload]
        self.make_system = ActorSystem
        self.messages = self.turns = self.steals = self.rounds = 0

    def report(self) -> dict[str, Any]:
        return {
            "seed": self.case.seed,
            "workload": self.case.workload,
            "rounds": self.rounds,
            "messages": self.messages,
            "turns": self.turns,
            "steals": self.steals,
            "findings": self.lab.findings,
        }

    def run(self) -> dict[str, Any]:
        threading.Thread(target=self._watchdog, name="watchdog", daemon=True).start()
        if self.case.collects:
            threading.Thread(target=self._collect, name="collector", daemon=True).start()
        for number in range(self.case.rounds):
            self.lab.round = number
            self._round(random.Random(f"round {self.case.seed} {number}"))
            self.rounds += 1
            if self.lab.findings:
                break
        return self.report()

    def _round(self, rng: random.Random) -> None:
        lab = self.lab
        self.watch.new_round()
        threads = set(threading.enumerate())
        files = _open_files()
        settings = {**self.case.settings, **self.kind.settings(self.case.settings)}
        workload = self.kind(lab, rng)
        system = lab.system = self.make_system("stress", **settings)
        workload.build(system)
        lab.run_threads(workload.bodies())
        if system.running:
            lab.settle(workload.finished)
            if not lab.findings:
                workload.judge()
        if lab.findings:
            return  # it may not be able to stop
        system.stop()
        statistics = system.statistics()
        self.messages += statistics.messages
        self.turns += statistics.turns
        self.steals += statistics.steals
        workload.judge_stopped()
        lab.check(statistics.open_asks == 0, "nothing-left", f"{statistics.open_asks} open asks")
        lab.system = None
        if not lab.findings:
            del workload, system, statistics
            self._look_for_leftovers(threads, files)

    def _look_for_leftovers(self, threads: set[threading.Thread], files: set[str]) -> None:
        lab = self.lab
        deadline = time.monotonic() + 5.0
        while True:
            gc.collect()
            left = [t.name for t in threading.enumerate() if t not in threads]
            more = _open_files() - files
            alive = [house.name for house in lab.living_houses()]
            if not (left or more or alive) or time.monotonic() > deadline:
                break
            time.sleep(0.002)  # a thread that has said it is done still has to unwind
        lab.check(not left, "nothing-left", f"threads after the stop: {left}")
        lab.check(not more, "nothing-left", f"open files after the stop: {more}")
        lab.check(not alive, "nothing-left", f"houses after the stop: {alive[:10]}")

    def _watchdog(self) -> None:
        """No progress for a while: tell where everybody stands, then end."""
        lab, last, since = self.lab, None, time.monotonic()
        while True:
            time.sleep(0.1)
            now = (*lab.progress(), self.rounds)
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > self.case.patience_s:
                text = f"the case stands still: nothing has happened for {self.case.patience_s} s"
                lab.report("no-lost-wake-up", text)
                if lab.findings[-1]["text"] == text:
                    lab.findings[-1]["stacks"] = lab.stack_lines()
                _end(self.report(), 1)

    def _collect(self) -> None:
        coin = random.Random(self.case.seed)
        while True:
            time.sleep(coin.choice((0.0005, 0.002, 0.01)))
            gc.collect(coin.randrange(3))


def _open_files() -> set[str]:
    """Descriptors and what they stand for; the one that reads the folder is gone by then."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except OSError:
            pass
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
