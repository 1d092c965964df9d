"""Short of memory, and not, and again, while everybody sends.

Conserved: every notice is handled once, in its sender's order, however often the brake is put on
and taken off in the middle of it. In the drills, when the memory stays as it is, each notice of a
thread outside waits exactly once, or not at all; and no notice of an actor ever does. All is as it
was at the end: nobody is busy, and the address classes have their own `notice` again.

It cannot see how long a notice waits, nor whether the kernel's figures are read rightly: the probe
is the workload's own. What the monitor makes of figures is the tests' affair.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from otavia_ft import ActorAddress, Ask, RobinAddress, on, pressure
from otavia_ft.config import Config
from otavia_ft.doors import me
from otavia_ft.schedule.memory import Memory
from stress.parallel.lab import Lab
from stress.parallel.workloads.base import Answers, Workload, account
from stress.parallel.workloads.flow import Counting, Go, Numbered, Relay

__all__ = ["Pressing"]

MB = 1 << 20
FULL = Memory(1000 * MB, 1000 * MB)
EMPTY = Memory(1000 * MB, 0)


class Figures:
    """The kernel's figures: as the workload says, or else as chance does."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.fixed: Memory | None = None
        self.fixed_looks = 0

    def probe(self) -> Memory | None:
        if self.fixed is not None:
            self.fixed_looks += 1
            return self.fixed
        self._lab.stall()
        return self._lab.coin().choice((FULL, FULL, EMPTY, EMPTY, None))


class Naps:
    """What `pressure` has for a clock: it knows how often each thread has waited."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.by: dict[int, int] = {}  # each thread writes its own

    def sleep(self, seconds: float) -> None:
        self._lab.check(me() is None, "back-pressure", "a notice of an actor waits for memory")
        ident = threading.get_ident()
        self.by[ident] = self.by.get(ident, 0) + 1
        time.sleep(seconds)


class Count(Ask[int]):
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Sharing(Counting):
    """One of several behind one address: it gets some of the numbers."""

    def __init__(self, lab: Lab, name: int) -> None:
        super().__init__(lab, name)
        self.handled: list[tuple[Any, int]] = []

    @on(Numbered)
    def numbered(self, message: Numbered) -> None:
        self.enter()
        self.ledger.came(message.sender, message.number, gaps=True)
        self.handled.append((message.sender, message.number))
        self.leave()

    @on(Count)
    def counted(self, message: Count) -> int:
        self.enter()
        self.leave()
        return message.number


class Pressing(Workload):
    """Memory is short now and then: notices from outside wait, none is lost, no brake stays on."""

    name = "pressure"

    @classmethod
    def settings(cls, drawn: dict[str, Any]) -> dict[str, Any]:
        return {"memory_monitor": True, "memory_interval_ms": drawn["workers"],
                "memory_sleep_ms": drawn["deadline_stride"] % 2}  # fmt: skip

    def arguments(self) -> dict[str, Any]:
        self.figures = Figures(self.lab)
        return {"memory_probe": self.figures.probe}

    def build(self, system: Any) -> None:
        rng, lab = self.rng, self.lab
        self.system = system
        self.naps = Naps(lab)
        self.plain = pressure.time
        pressure.time = self.naps  # type: ignore[assignment]
        self.actors: list[Counting] = []
        self.sharing: list[Sharing] = []

        def made() -> Counting:
            self.actors.append(Counting(lab, len(self.actors)))
            return self.actors[-1]

        def made_sharing() -> Sharing:
            self.sharing.append(Sharing(lab, len(self.sharing)))
            return self.sharing[-1]

        self.addresses = [system.build_actor(made) for _ in range(rng.choice((1, 2, 5)))]
        self.shared = system.build_actor(made_sharing, num=rng.choice((2, 3)))
        self.relays = [system.build_actor(Relay, lab) for _ in range(rng.choice((1, 2)))]
        # A soak's senders wait all the time; it is no test of quantity.
        self.each, self.outside = self.burst(100, up_to=20), rng.choice((1, 2, 3))
        self.drills = 1 if self.tiny else rng.choice((1, 2, 3))
        self.drilled = 0
        self.asks = Answers()
        self.ends_full = rng.random() < 0.5
        # Of each of these every plain actor gets all its numbers.
        self.senders = self.outside + len(self.relays)

    def bodies(self) -> list[Callable[[], Any]]:
        def send(name: str) -> None:
            for number in range(1, self.each + 1):
                self.pace(number, self.addresses)
                self.shared.notice(Numbered(name, number))
                for address in self.addresses:
                    address.notice(Numbered(name, number))

        for index, relay in enumerate(self.relays):
            relay.notice(Go(f"relay {index}", self.each, self.addresses))
        sending = [lambda name=f"sender {n}": send(name) for n in range(self.outside)]
        return [*sending, self.drill, self.waver]

    def drill(self) -> None:
        """The memory stays short, or free, for some notices, and chance has it again."""
        for _ in range(self.drills):
            for short in (True, False):
                self.figures.fixed = FULL if short else EMPTY
                # The second look from now on: what was there before the first may be in its hands.
                looks = self.figures.fixed_looks + 2
                text = "the monitor does not look any more"
                if not self.until(lambda n=looks: self._looks() >= n, "back-pressure", text):
                    return
                text = f"memory {short=}, and the system is {self.system.busy=}"
                self.lab.check(self.system.busy is short, "back-pressure", text)
                self._drill(5 if short else 0, short)
            self.figures.fixed = None

    def _looks(self) -> int:
        return self.figures.fixed_looks

    def _drill(self, expected: int, short: bool) -> None:
        before = self.naps.by.get(threading.get_ident(), 0)
        for _ in range(5):
            self.drilled += 1
            self.shared.notice(Numbered("drill", self.drilled))
            self.asks.add(self.drilled, self.system.ask(self.shared, Count(self.drilled)))
        naps = self.naps.by.get(threading.get_ident(), 0) - before
        text = f"5 notices from outside waited {naps} times, with memory {short=}"
        self.lab.check(naps == expected, "back-pressure", text)

    def waver(self) -> None:
        """Another system's monitor, which shares the address classes with ours."""
        other = pressure.Pressure(Config(), Figures(self.lab).probe)
        for _ in range(self.each):
            other.look()
            self.lab.stall()
        other.end()

    def finished(self) -> bool:
        self.figures.fixed = EMPTY  # the senders are through
        handled = sum(actor.ledger.total for actor in (*self.actors, *self.sharing))
        return handled >= self._expected() and self.asks.all_done() and not self.system.busy

    def _expected(self) -> int:
        plain = self.senders * self.each * len(self.actors)
        return plain + self.outside * self.each + self.drilled

    def judge(self) -> None:
        lab = self.lab
        for actor in self.actors:
            text = f"{actor!r} handled {actor.ledger.total} of {self.senders * self.each} notices"
            lab.check(actor.ledger.total >= self.senders * self.each, "no-lost-message", text)
            lab.check(actor.ledger.total <= self.senders * self.each, "no-duplicate", text)
            lab.check(actor.count == actor.ledger.total, "single-runner", f"{actor.count}; {text}")
        numbers = range(1, self.each + 1)
        sent = [(f"sender {s}", n) for s in range(self.outside) for n in numbers]
        sent += [("drill", n) for n in range(1, self.drilled + 1)]
        account(lab, "the shared address", sent, *(actor.handled for actor in self.sharing))
        for number, future in self.asks.items:
            right = future.done() and future.exception() is None and future.result() == number
            lab.check(right, "answered-once", f"ask {number} has ended with {future}")
        lab.check(not self.system.busy, "back-pressure", "busy with all memory free")
        self._brake_is_off("with all memory free")
        if self.ends_full:
            self.figures.fixed = FULL
            text = "the monitor does not look any more"
            self.until(lambda: self.system.busy, "back-pressure", text)

    def judge_stopped(self) -> None:
        pressure.time = self.plain
        self.lab.check(not self.system.busy, "back-pressure", "busy after the stop")
        self._brake_is_off("after the stop")

    def _brake_is_off(self, when: str) -> None:
        for kind in (ActorAddress, RobinAddress):
            text = f"{kind.__name__}.notice still waits {when}"
            self.lab.check("notice" not in vars(kind), "back-pressure", text)
        busy = pressure._busy_systems  # white box: the classes alone may be right by chance
        self.lab.check(busy == 0, "back-pressure", f"{busy} systems count as busy {when}")
