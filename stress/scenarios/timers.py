"""Timers: cancelling against firing. A timer fires or is cancelled, never both."""

from __future__ import annotations

from stress.explorer.scenario import Scenario, scenario


class _Wheel(Scenario):
    runtime = ("otavia_ft.timer",)
    watch = ("timer.Timer._count", "timer.Timer._buckets", "timer.Timer._ticks")

    def setup(self) -> None:
        self.timer = self.rt.timer.Timer(1.0, self.doors.now)
        self.fired = 0
        self.told: bool | None = None
        self.task = self.timer.after(1.0, self.fire, None, self.period())
        self.doors.advance(1.0)  # it is due from the beginning
        self.thread("driver", self.timer.fire_due)
        self.thread("canceller", self.cancel)

    def period(self) -> float | None:
        return None

    def fire(self, _: object) -> None:
        self.fired += 1

    def cancel(self) -> None:
        self.told = self.task.cancel()


@scenario("timer-cancel")
class TimerCancel(_Wheel):
    """A one-shot timer is cancelled while it fires: exactly one of the two happens."""

    def finish(self) -> None:
        assert self.fired == (not self.told), f"cancel says {self.told}, fired {self.fired} times"
        assert len(self.timer) == 0, f"{len(self.timer)} timers are left"


@scenario("timer-cancel-periodic")
class TimerCancelPeriodic(_Wheel):
    """A periodic timer is cancelled while it fires: it never fires again."""

    def period(self) -> float:
        return 1.0

    def finish(self) -> None:
        fired = self.fired
        assert fired <= 1, f"fired {fired} times in one period"
        assert not self.task.pending, "the timer still waits after it was cancelled"
        self.doors.advance(5.0)
        self.timer.fire_due()
        assert self.fired == fired, "the timer fired again after cancel() had returned"


@scenario("timer-close")
class TimerClose(_Wheel):
    """The wheel closes while it fires, and while a timer is added: none is left, none comes."""

    def setup(self) -> None:
        super().setup()
        self.thread("adder", self.timer.after, 0, self.fire)

    def period(self) -> float:
        return 1.0

    def cancel(self) -> None:
        self.timer.close()

    def finish(self) -> None:
        fired = self.fired
        assert len(self.timer) == 0, f"{len(self.timer)} timers are left"
        self.doors.advance(5.0)
        self.timer.fire_due()
        assert self.fired == fired, "a timer fired after close() had returned"


@scenario("timer-sleep")
class TimerSleep(Scenario):
    """The timer's thread goes to sleep while a timer is added that is due at once: it fires."""

    runtime = ("otavia_ft.timer",)

    def setup(self) -> None:
        self.timer = self.rt.timer.Timer(1.0, self.doors.now)
        driver = self.rt.timer.TimerThread(self.timer, "timer")
        driver._thread = self  # it runs here, and need not be started
        self.fired = 0
        self.thread("driver", driver._run, daemon=True)
        self.thread("adder", self.timer.after, 0, self.fire)

    def fire(self, _: object) -> None:
        self.fired += 1

    def work_left(self) -> str | None:
        return f"{len(self.timer)} timers are due, and their thread sleeps" if self.timer else None

    def finish(self) -> None:
        assert self.fired == 1, f"fired {self.fired} times"
