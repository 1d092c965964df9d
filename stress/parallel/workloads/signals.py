"""Ctrl-C, for real: SIGINT to this process, while its main thread is in `with system:`.

Conserved: after one Ctrl-C all that was sent before it is handled, and all that was asked has its
reply, unless its handler slept; what came later is handled or a dead letter with a reason. After a
second one everything is one of the two, and what waits behind a handler that does not end is a dead
letter. Every ask is answered, and every thread has ended when the block is left.

Python hears of signals on the main thread alone, and there runs the child's `_round`. So the main
thread is the one that waits in the block (`on_main`), and all others do what there is to be done.

It cannot see what a KeyboardInterrupt breaks off on the main thread itself, which sends nothing
here; nor a second one that comes before the first has begun the stop.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from otavia_ft import ActorStopped, Notice, SystemStopped, on
from otavia_ft.atomic import Mailbox
from stress.parallel.workloads.base import Answers, Workload, account
from stress.parallel.workloads.stopping import Letter, Mortal, Query, judge_ends

__all__ = ["Signals"]

RELAYED = 1000  # what a relay adds to a sender's number, so that the original is known


class Hold(Notice):
    __slots__ = ()


class Passing(Mortal):
    """Sends on what it gets."""

    def __init__(self, signals: Signals, name: int) -> None:
        super().__init__(signals.lab, name, signals.cleaned, gaps=True)
        self.onward = signals.addresses[0]
        self.mark = RELAYED * (1 + name)

    @on(Letter)
    def letter(self, message: Letter) -> None:
        super().letter(message)
        self.onward.notice(Letter(message.sender + self.mark, message.number))


class Plug(Mortal):
    """Stays in its handler until the stop says goodbye, which takes a second Ctrl-C."""

    held = False

    @on(Hold)
    def hold(self, message: Hold) -> None:
        self.enter()
        self.held = True
        house, deadline = self.address.house, time.monotonic() + self.lab.case.patience_s
        while not house.size(Mailbox.SYSTEM):
            if time.monotonic() > deadline:
                text = "a second Ctrl-C has not put an end to the grace"
                self.lab.report("no-lost-wake-up", text)
                break
            time.sleep(0.0002)
        self.leave()


class Signals(Workload):
    """One Ctrl-C is a graceful stop, two are a forced one: nothing is forgotten in either."""

    name = "signals"

    @classmethod
    def settings(cls, drawn: dict[str, Any]) -> dict[str, Any]:
        return {"shutdown_timeout_s": 1000.0}  # the grace ends when all is handled, or never

    def build(self, system: Any) -> None:
        rng = self.rng
        self.system = system
        self.actors: list[Mortal] = []
        self.cleaned: list[int] = []
        self.addresses: list[Any] = []
        self.dead: list[tuple[int, int]] = []
        system.dead_letters.subscribe(self.died)
        self.how = rng.choice(("once", "once", "twice", "crossing"))
        for _ in range(rng.choice((1, 2, 4))):
            self.addresses.append(system.build_actor(self.made, self.mortal))
        for _ in range(rng.choice((0, 1, 2))):
            self.addresses.append(system.build_actor(self.made, self.passing))
        self.plug = system.build_actor(self.made, self.plugged) if self.how == "twice" else None
        self.each, self.senders = self.burst(150, backlog=True), rng.choice((1, 2, 3))
        self.sent_by = [0] * self.senders  # each sender writes its own
        self.when = rng.randrange(self.each * self.senders)
        self.asks = Answers()
        self.early: list[int] = []  # sent before the first Ctrl-C, by sender
        self.early_asks: list[tuple[int, Any]] = []
        self.behind = 0  # how many letters wait behind the plug
        self.armed = self.through = False
        self.raised = self.seen = 0

    def made(self, make: Callable[[int], Mortal]) -> Mortal:
        self.actors.append(make(len(self.actors)))
        return self.actors[-1]

    def mortal(self, name: int) -> Mortal:
        return Mortal(self.lab, name, self.cleaned, gaps=True)

    def passing(self, name: int) -> Mortal:
        return Passing(self, name)

    def plugged(self, name: int) -> Mortal:
        return Plug(self.lab, name, self.cleaned, gaps=True)

    def died(self, letter: Any) -> None:
        self.lab.check(letter.reason, "no-lost-message", f"{letter} has no reason")
        if isinstance(letter.message, Letter):
            self.dead.append((letter.message.sender, letter.message.number))

    # ---- the threads

    def bodies(self) -> list[Callable[[], Any]]:
        def send(sender: int) -> None:
            for number in range(1, self.each + 1):
                address = self.addresses[(sender + number) % len(self.addresses)]
                if number % (2 * self.ask_every) == 1:
                    self.asks.add(number, self.system.ask(address, Query(number)))
                address.notice(Letter(sender, number))
                self.sent_by[sender] = number

        return [*(lambda n=n: send(n) for n in range(self.senders)), self.interrupt]

    def interrupt(self) -> None:
        """Press Ctrl-C, when the time has come."""
        try:
            self.until(lambda: self.armed, "no-lost-wake-up", "the main thread does not wait")
            text = "the senders do not send"
            self.until(lambda: sum(self.sent_by) >= self.when, "no-lost-wake-up", text)
            if self.plug is not None:
                self._fill_up(self.plug)
            self.early_asks = list(self.asks.items)
            self.early = list(self.sent_by)
            self.press()
            if self.how != "once":
                text = "a first Ctrl-C does not begin to stop the system"
                self.until(lambda: not self.system.running, "no-lost-wake-up", text)
                self.lab.stall(20)
                self.press()
        finally:
            self.through = True

    def _fill_up(self, plug: Any) -> None:
        """More letters behind the plug than its turn could still handle."""
        actor: Any = self.actors[-1]
        plug.notice(Hold())
        text = "an actor gets a message, and does not begin to handle it"
        self.until(lambda: actor.held, "no-lost-wake-up", text)
        for number in range(1, self.system.config.throughput_budget + 6):
            plug.notice(Letter(self.senders, number))
            self.behind = number

    def press(self) -> None:
        self.raised += 1
        os.kill(os.getpid(), signal.SIGINT)

    # ---- the main thread

    def on_main(self) -> None:
        before = signal.signal(signal.SIGINT, self.interrupted)
        self._block()
        text = "a Ctrl-C has not come through"
        self.until(lambda: self.through and self.seen == self.raised, "no-lost-wake-up", text)
        signal.signal(signal.SIGINT, before)

    def interrupted(self, *_: Any) -> None:
        """Python's own handler, with a switch: outside the block it would hit the harness."""
        self.seen += 1
        if self.armed:
            raise KeyboardInterrupt

    def _block(self) -> None:
        try:
            try:
                with self.system:
                    self.armed = True
                    self.system.wait()
            finally:
                self.armed = False
        except KeyboardInterrupt:
            self.armed = False  # if the second one has come in the line above
        stopped = self.system.wait(0)
        self.lab.check(stopped, "nothing-left", "the block is left, but the system has not stopped")
        alive = [t.thread.name for t in self.system.scheduler.threads if t.thread.is_alive()]
        self.lab.check(not alive, "nothing-left", f"threads after the block: {alive}")

    # ---- what has become of it

    def judge_stopped(self) -> None:
        lab = self.lab
        numbers = range(1, self.each + 1)
        handled = [item for actor in self.actors for item in actor.handled]
        relayed = [(sender + actor.mark, number) for actor in self.actors
                   if isinstance(actor, Passing) for sender, number in actor.handled]  # fmt: skip
        sent = [(s, n) for s in range(self.senders) for n in numbers] + relayed
        sent += [(self.senders, n) for n in range(1, self.behind + 1)]
        account(lab, f"Ctrl-C {self.how}", sent, handled, self.dead)
        self.sent = len(sent)
        if self.how == "once":
            late = [(s, n) for s, n in self.dead if n <= self.early[s % RELAYED]]
            text = f"sent before the first Ctrl-C, and not handled: {sorted(late)[:10]}"
            lab.check(not late, "no-lost-message", text)
        if self.plug is not None:
            text = f"all {len(sent)} letters were handled behind a handler that does not end"
            lab.check(len(handled) < len(sent), "no-duplicate", text)
        self._judge_asks()
        judge_ends(lab, self.actors)

    def _judge_asks(self) -> None:
        for number, future in self.asks.items:
            error = future.exception() if future.done() else None
            right = future.done() and (error or future.result() == number)
            right = right and (error is None or isinstance(error, (SystemStopped, ActorStopped)))
            self.lab.check(right, "answered-once", f"query {number} ended with {future}")
        if self.how == "once" and not self.lab.findings:
            # One that sleeps in its handler is cancelled, the others are replied to.
            for number, future in self.early_asks:
                if number % 3:
                    text = f"query {number}, asked before the first Ctrl-C, ended with {future}"
                    self.lab.check(future.exception() is None, "answered-once", text)
