"""Houses as a report shows them: those with something waiting one by one, all others in groups.

Every house is accounted for, and a system with a thousand of them still fits on a screen.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from otavia_ft.atomic import HouseState, Mailbox

__all__ = ["describe", "house_lines", "waits"]


def waits(house: Any) -> bool:
    """Whether something waits that a barrier does not hold back."""
    mail = house.mail()
    if house.barrier is not None:
        mail &= ~(1 << Mailbox.ASK | 1 << Mailbox.NOTICE)
    return bool(mail) or house.state in (HouseState.READY, HouseState.MOUNTING)


def describe(house: Any) -> str:
    """A house in one line: name, state, runner, mail."""
    return f"{house.name} {_condition(house)}"


def house_lines(houses: Iterable[Any]) -> list[str]:
    """The state of every house, those for which something waits first."""
    alone: list[str] = []
    alike: dict[str, list[Any]] = {}
    for house in sorted(houses, key=lambda each: each.id):
        if waits(house):
            alone.append(describe(house))
        else:
            alike.setdefault(_condition(house), []).append(house)
    groups = [
        describe(group[0]) if len(group) == 1 else f"{len(group)} houses {how}: {_names(group)}"
        for how, group in alike.items()
    ]
    return alone + groups


def _condition(house: Any) -> str:
    boxes = {box.name.lower(): house.size(box) for box in Mailbox if house.size(box)}
    runner = f" run by {house.runner}" if house.runner else ""
    barrier = " in a barrier" if house.barrier is not None else ""
    stopped = " stopped" if house.stop_reason is not None else ""
    mail = f"mail {boxes}" if boxes else "without mail"
    return f"{HouseState(house.state).name}{runner}{barrier}{stopped} {mail}"


def _names(houses: list[Any]) -> str:
    """The names, by kind of actor; neighbours in number become a range."""
    kinds: dict[str, list[int]] = {}
    for house in houses:
        kinds.setdefault(house.plan.name, []).append(house.id)
    return ", ".join(f"{kind}{_ranges(numbers)}" for kind, numbers in kinds.items())


def _ranges(numbers: list[int]) -> str:
    """ "#1…#40 #43" for 1 to 40 and 43; `numbers` is sorted."""
    found = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        found.append(f"#{members[0]}" + (f"…#{members[-1]}" if len(members) > 1 else ""))
    return " ".join(found)
