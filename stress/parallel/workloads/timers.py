"""Timers that fire while others cancel, move and end them; of threads, of actors, of dying actors.

What is exact although everything races: a one-shot timer is claimed by its firing or taken by its
cancellation, never both. One that was moved fires again only if it had fired before, so at most
once more for each move. Behind the return of a move, a cancel or an end one firing may still be
under way, and no other comes before the new time. A timer moved to the end of time is still there
for its cancellation, which therefore says True.

It cannot see how late a timer is, nor which of two threads that move one timer came last.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from otavia_ft import TimeoutEvent
from otavia_ft.doors import AtomicInt, me
from stress.parallel.lab import Lab
from stress.parallel.settle import one_shots
from stress.parallel.workloads.base import Watched, Workload

__all__ = ["Timers"]

NEVER_S = 3600.0
SOON_S = (0, 0.0004, 0.001, 0.003)


class Alarm:
    """One timer, how often it fired, and what its cancellation said (None: not cancelled)."""

    def __init__(self, seconds: float, period: float | None = None) -> None:
        self.due = time.monotonic() + seconds
        self.period = period
        self.fired = AtomicInt()
        self.early = False
        self.cancelled: bool | None = None
        self.fired_at_cancel = 0
        self.task: Any = None

    def fire(self, _: Any) -> None:
        if time.monotonic() < self.due:
            self.early = True
        self.fired.get_and_add(1)

    def cancel(self) -> None:
        if self.cancelled is None:
            self.cancelled = self.task.cancel()
            self.fired_at_cancel = self.fired.load()

    def judge(self, lab: Lab) -> None:
        lab.check(not self.early, "timer-once", "a timer fired early")
        # The timer's thread may still be in an action that was taken out before its cancellation;
        # it sleeps when it is through.
        deadline = time.monotonic() + 2.0
        wanted = 0 if self.cancelled and self.period is None else 1
        while self.period is None and self.fired.load() < wanted and time.monotonic() < deadline:
            time.sleep(0.001)
        fired = self.fired.load()
        if self.period is None:
            text = f"{self} fired {fired} times; cancel returned {self.cancelled}"
            lab.check(fired == wanted, "timer-once", text)
        else:
            text = f"{self} fired {fired} times, {self.fired_at_cancel} before its cancel"
            lab.check(fired <= self.fired_at_cancel + 1, "timer-once", text)

    def __repr__(self) -> str:
        kind = "one-shot" if self.period is None else "periodic"
        return f"a {kind} {type(self).__name__}"


class Reminder(Alarm):
    """A resource of a thread: its timer's news come to that thread, between two turns."""

    def __init__(self, lab: Lab, thread: Any, seconds: float) -> None:
        super().__init__(seconds)
        self._lab = lab
        self._thread = thread
        self.task = thread.resource_timeout(self, seconds)

    def handle_timeout(self, event: Any) -> None:
        context = me()
        here = context is not None and context.owner is self._thread and context.house is None
        self._lab.check(here, "timer-once", "a resource hears of its timer elsewhere")
        self._lab.check(event.resource is self, "timer-once", "a resource got another's event")
        self.fire(event)


class Moved(Alarm):
    """A timer that is moved while it fires, and how often it had fired around each move."""

    def __init__(self, timer: Any, seconds: float) -> None:
        super().__init__(seconds)
        self.times: list[float] = []
        self.moves: list[tuple[int, float]] = []  # firings behind the move; not before that time
        self.befores: list[int] = []
        self.task = timer.after(seconds, self.fire)

    def fire(self, _: Any) -> None:
        self.times.append(time.monotonic())
        self.fired.get_and_add(1)

    def move(self, seconds: float) -> None:
        self.befores.append(self.fired.load())
        due = time.monotonic() + seconds
        self.task.update(seconds)
        self.moves.append((self.fired.load(), due))

    def judge(self, lab: Lab) -> None:
        fired, moves = self.fired.load(), len(self.moves)
        most = moves + (self.cancelled is not True)
        text = f"{self} fired {fired} times; {moves} moves, and cancel returned {self.cancelled}"
        lab.check(self.cancelled or fired >= 1, "timer-once", text)
        lab.check(fired <= most, "timer-once", text)
        lab.check(not self.task.pending, "timer-once", f"{self} is still pending")
        ends = [*self.befores[1:], fired]
        for (behind, due), end in zip(self.moves, ends, strict=True):
            early = [at - due for at in self.times[behind + 1 : end] if at < due]
            lab.check(not early, "timer-once", f"{self} fired {early} s off its new time")


class Waking(Watched):
    """Has timers of its own; it notes which of them have come."""

    def __init__(self, timers: Timers, number: int) -> None:
        super().__init__(timers.lab)
        self.number = number
        self.came: list[Any] = []

    def after_mount(self) -> None:
        super().after_mount()
        for index in range(self.number):
            self.after(self.lab.coin().choice((0, 0.0005, 0.002)), index)

    def handle_actor_timeout(self, event: TimeoutEvent) -> None:
        self.enter()
        self.came.append(event.attach)
        self.leave()


class Leaving(Watched):
    """Stops with timers of every kind to come, and sets one more as its last act.

    That none comes after post_stop is what `enter` sees to.
    """

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.handles: list[Any] = []

    def after_mount(self) -> None:
        super().after_mount()
        for seconds in (*SOON_S, NEVER_S):
            self.handles.append(self.after(seconds))
        self.handles.append(self.after(0, every=0.0005))

    def handle_actor_timeout(self, event: TimeoutEvent) -> None:
        self.enter()
        coin = self.lab.coin()
        coin.choice(self.handles).update(coin.choice(SOON_S))
        self.leave()

    def post_stop(self) -> None:
        self.stops += 1
        self.handles.append(self.after(NEVER_S))


class Timers(Workload):
    """Timers fire while others cancel or move them: each fires as often as was agreed."""

    name = "timers"

    def build(self, system: Any) -> None:
        rng = self.rng
        self.system = system
        self.alarms: list[Alarm] = []
        self.threads = rng.choice((1, 2, 3))
        self.each = rng.choice((1, 3)) if self.tiny else rng.randrange(10, 60)
        self.actors: list[Waking] = []

        def made(number: int) -> Waking:
            self.actors.append(Waking(self, number))
            return self.actors[-1]

        self.own = [
            system.build_actor(made, rng.randrange(1, 6) * self.lab.case.scale)
            for _ in range(rng.choice((1, 3)))
        ]
        self.leaving = [system.build_actor(Leaving, self.lab) for _ in range(rng.choice((1, 2)))]
        self.left = [address.house.actor for address in self.leaving]
        # One thread moves it, another ends it.
        self.contested = Moved(system.timer, rng.choice(SOON_S))
        self.fired_at_end = 0
        self.sent = self.threads * self.each

    def bodies(self) -> list[Callable[[], Any]]:
        return [self.stop_actors, self.contest, self.end, *[self.use] * self.threads]

    def use(self) -> None:
        timer, coin, mine = self.system.timer, self.lab.coin(), list[Alarm]()
        for _ in range(self.each):
            kind = coin.random()
            if kind < 0.15:
                mine.append(Reminder(self.lab, coin.choice(self.system.scheduler.threads),
                                     coin.choice(SOON_S)))  # fmt: skip
            elif kind < 0.4:
                mine.append(self.moved(coin))
                continue
            else:
                seconds = coin.choice(SOON_S)
                alarm = Alarm(seconds, coin.choice((None, None, None, 0.0005, 0.002)))
                mine.append(alarm)
                alarm.task = timer.after(seconds, alarm.fire, None, alarm.period)
            chosen = coin.choice(mine)
            if coin.random() < 0.3 and not isinstance(chosen, Moved):
                chosen.cancel()
        for alarm in mine:
            if alarm.period is not None or (coin.random() < 0.3 and not isinstance(alarm, Moved)):
                time.sleep(coin.choice((0, 0.0003)))
                if alarm.period is not None and alarm.cancelled is None:  # it would be back
                    alarm.due = 0.0  # the first time is another one now
                    alarm.task.update(coin.choice(SOON_S))
                alarm.cancel()
        self.alarms += mine

    def moved(self, coin: Any) -> Moved:
        """From the end of time to soon, from soon to the end of time, or from soon to soon."""
        soon, timer = coin.choice(SOON_S), self.system.timer
        match coin.choice(("nearer", "away", "often")):
            case "nearer":
                alarm = Moved(timer, NEVER_S)
                alarm.move(soon)
            case "away":
                alarm = Moved(timer, soon)
                alarm.move(NEVER_S)
                time.sleep(coin.choice((0, 0.001)))
                alarm.cancel()
                text = f"{alarm} was moved to the end of time, and cancel returned False"
                self.lab.check(alarm.cancelled, "timer-once", text)
            case _:
                alarm = Moved(timer, soon)
                for _ in range(coin.randrange(1, 5)):
                    self.lab.stall(5)
                    alarm.move(coin.choice(SOON_S))
        return alarm

    def contest(self) -> None:
        for _ in range(self.each):
            self.contested.move(self.lab.coin().choice((0, 0.0004)))
            self.lab.stall(5)

    def end(self) -> None:
        time.sleep(self.lab.coin().choice(SOON_S))
        self.contested.task.end()
        self.fired_at_end = self.contested.fired.load()

    def stop_actors(self) -> None:
        for address, actor in zip(self.leaving, self.left, strict=True):
            time.sleep(self.lab.coin().choice(SOON_S))
            address.stop()
            text = f"{actor!r} does not stop"
            self.until(lambda h=address.house: h.actor is None, "hooks-once", text)
            pending = sum(handle.pending for handle in actor.handles)
            text = f"{actor!r} has stopped, and {pending} of its timers are still to come"
            self.lab.check(not pending, "timer-once", text)

    def finished(self) -> bool:
        return one_shots(self.system.timer) == 0 and all(
            len(a.came) >= a.number for a in self.actors
        )

    def judge(self) -> None:
        lab = self.lab
        for alarm in self.alarms:
            alarm.judge(lab)
        for actor in self.actors:
            text = f"timers {actor.came} of {actor.number} have come"
            lab.check(sorted(actor.came) == list(range(actor.number)), "timer-once", text)
        fired = self.contested.fired.load()
        text = f"a timer that had fired {self.fired_at_end} times when it was ended has {fired}"
        lab.check(fired <= self.fired_at_end + 1, "timer-once", text)
        lab.check(not self.contested.task.pending, "timer-once", "an ended timer is pending")
        for leaving in self.left:
            leaving.handles[0].update(0)  # nothing: its actor is gone
            pending = sum(handle.pending for handle in leaving.handles)
            lab.check(not pending, "timer-once", f"{pending} timers of {leaving!r} are back")
            lab.check(leaving.stops == 1, "hooks-once", f"post_stop ran {leaving.stops} times")
