"""One case, in a process of its own: `python -m stress.parallel.child CASE [SECONDS]`.

After so many seconds it begins no other round. The case is JSON, and so is every line of standard
output: first what the case really runs with, then a sign of life with the figures so far, at most
one a second and only if there was progress, and last the report. A mutant is planted before the
runtime is imported. A watchdog ends a case that stands still, and says where it stood.
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

SIGN_OF_LIFE_S = 1.0
_writing = threading.Lock()


def main(text: str, seconds: str = "inf") -> int:
    until = time.monotonic() + float(seconds)
    faulthandler.enable()  # for crashes only: those are a finding
    case = Case(**json.loads(text))
    os.environ["OTAVIA_FT_LANE"] = case.lane.removesuffix("+stalls")
    if case.lane == "native+stalls":
        from stress.parallel import stalled

        stalled.enter(case.mutant)
    if case.mutant is not None:
        from stress.mutants import plant

        plant(case.mutant)
    report = _Runner(case, until).run()
    _end(report, 1 if report["findings"] else 0)
    return 0


def _say(what: dict[str, Any]) -> None:
    with _writing:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


def _end(report: dict[str, Any], status: int) -> None:
    """Say it and go, whatever other threads do."""
    _say(report)
    sys.stderr.flush()
    os._exit(status)


class _Runner:
    def __init__(self, case: Case, until: float) -> None:
        # Only now, so that a mutant is in place.
        from otavia_ft import ActorSystem
        from stress.parallel import counters
        from stress.parallel.lab import Lab
        from stress.parallel.leftovers import Leftovers
        from stress.parallel.settle import settle
        from stress.parallel.watch import Watch
        from stress.parallel.workloads import WORKLOADS

        self.case = case
        self.until = until
        self.kind = WORKLOADS[case.workload]
        self.lab = Lab(case)
        self.lab.settings = {**case.settings, **self.kind.settings(case.settings)}
        self.watch = Watch(self.lab)
        self.settle = settle
        self.counters = counters
        self.make_system = ActorSystem
        self.make_leftovers = Leftovers
        self.messages = self.turns = self.steals = self.rounds = 0

    def report(self) -> dict[str, Any]:
        return {
            "seed": self.case.seed,
            "workload": self.case.workload,
            "settings": self.lab.settings,
            **self._so_far(),
            "findings": self.lab.findings,
        }

    def run(self) -> dict[str, Any]:
        _say({"settings": self.lab.settings})
        threading.Thread(target=self._watchdog, name="watchdog", daemon=True).start()
        if self.case.collects:
            threading.Thread(target=self._collect, name="collector", daemon=True).start()
        leftovers = self.make_leftovers(self.lab)
        for number in range(self.case.rounds):
            self.lab.round = number
            self._round(random.Random(f"round {self.case.seed} {number}"))
            self.rounds += 1
            if not self.lab.findings:
                self.watch.forget()
                leftovers.look()
            if self.lab.findings or time.monotonic() >= self.until:
                break
        return self.report()

    def _round(self, rng: random.Random) -> None:
        lab = self.lab
        self.watch.new_round()
        workload = self.kind(lab, rng)
        system = lab.system = self.make_system("stress", **workload.arguments(), **lab.settings)
        reader = self.counters.Reader(lab, system) if self.case.reads else None
        workload.build(system)
        lab.run_threads(workload.bodies(), workload.on_main)
        if system.running:
            self.settle(lab, workload.finished)
            self.watch.look()
            if not lab.findings:
                workload.judge()
        if lab.findings:
            return  # it may not be able to stop
        system.stop()
        self.watch.look()
        if reader is not None:
            reader.end()
        self.counters.judge(lab, system, workload.tally())
        statistics = system.statistics()
        self.messages += statistics.messages
        self.turns += statistics.turns
        self.steals += statistics.steals
        lab.system = None
        workload.judge_stopped()
        lab.check(statistics.open_asks == 0, "nothing-left", f"{statistics.open_asks} open asks")

    def _watchdog(self) -> None:
        """No progress for a while: tell where everybody stands, then end."""
        lab, last, since = self.lab, None, time.monotonic()
        told, told_at = None, since
        while True:
            time.sleep(0.1)
            self.watch.look()
            now = (*lab.progress(), self.rounds)
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > self.case.patience_s:
                text = f"the case stands still: nothing has happened for {self.case.patience_s} s"
                lab.report("no-lost-wake-up", text, stacks=lab.stack_lines())
                _end(self.report(), 1)
            # Turns alone are no sign of life: threads that run in circles make them too.
            so_far = self._so_far()
            signs = (lab.steps, so_far["rounds"], so_far["messages"])
            if signs != told and time.monotonic() - told_at >= SIGN_OF_LIFE_S:
                told, told_at = signs, time.monotonic()
                _say({"so_far": so_far})

    def _so_far(self) -> dict[str, int]:
        """The figures, with those of the round under way."""
        system = self.lab.system
        threads = () if system is None else system.scheduler.threads
        return {
            "rounds": self.rounds,
            "messages": self.messages + sum(thread.context.messages for thread in threads),
            "turns": self.turns + sum(thread.context.turns for thread in threads),
            "steals": self.steals + sum(thread.steals_taken for thread in threads),
        }

    def _collect(self) -> None:
        coin = random.Random(self.case.seed)
        while True:
            time.sleep(coin.choice((0.0005, 0.002, 0.01)))
            begun = time.monotonic()
            gc.collect(coin.randrange(3))
            if self.case.scale > 1:
                # Everybody waits for it, and with many objects for long: a soak is to send.
                time.sleep(20 * (time.monotonic() - begun))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
