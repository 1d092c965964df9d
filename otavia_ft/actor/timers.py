"""The timers of one actor: a handle that holds nothing, and the set that ends with the actor."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from otavia_ft.message import TimeoutEvent
from otavia_ft.timer import TimerTask

if TYPE_CHECKING:
    from otavia_ft.house.house import House

__all__ = ["timer_of"]


class _ActorTimer(TimerTask):
    """What an actor and its house have of a timer of the actor's.

    The timer in the wheel holds the house, so an actor lives as long as it has one to come. The
    house, and an actor that keeps this, may not hold that one in turn: they would be a cycle when
    it is over, and the actor would not go with its last address.
    """

    __slots__ = ("_house", "_task")

    def __init__(self, house: House, task: TimerTask) -> None:
        self.id = task.id
        self.argument = task.argument
        self._house = weakref.ref(house)
        self._task = weakref.ref(task)

    @property
    def pending(self) -> bool:
        task = self._task()
        return task is not None and task.pending

    @property
    def gone(self) -> bool:
        """Whether only a new timer could bring it back. One that has fired may still be moved for
        as long as the timer's thread has it in hand."""
        return self._task() is None

    @property
    def due(self) -> float:  # type: ignore[override]  # the timer's in the wheel
        task = self._task()
        return 0.0 if task is None else task.due

    @property
    def period(self) -> float | None:  # type: ignore[override]  # the timer's in the wheel
        task = self._task()
        return None if task is None else task.period

    def cancel(self) -> bool:
        task = self._task()
        return task is not None and task.cancel()

    def end(self) -> None:
        task = self._task()
        if task is not None:
            task.end()

    def update(self, seconds: float) -> None:
        task, house = self._task(), self._house()
        if task is not None:
            task.update(seconds)
        elif house is not None and house.stop_reason is None:
            timer = house.scheduler.system.timer
            task = timer.after(seconds, house.inform, self.argument, None, self.id)
            self._task = weakref.ref(task)
            _remember(house, self)


def timer_of(
    house: House,
    start: Callable[..., TimerTask],
    when: float | datetime,
    attach: Any,
    every: float | None,
) -> TimerTask:
    """A timer that belongs to an actor, and ends with it. `start`: Timer.after, or Timer.at."""
    timer = house.scheduler.system.timer
    number = timer.new_id()
    task = start(timer, when, house.inform, TimeoutEvent(number, attach), every, number)
    known = _ActorTimer(house, task)
    _remember(house, known)
    return known


def _remember(house: House, timer: _ActorTimer) -> None:
    if house.timers is None:
        house.timers = set()
    elif len(house.timers) & (len(house.timers) - 1) == 0:
        # At every power of two: forget those that are gone, at O(1) a timer.
        house.timers = {known for known in house.timers if not known.gone}
    house.timers.add(timer)
