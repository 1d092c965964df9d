"""Instruments for a child process: stalls between steps, events, and checks in passing.

The product's files know nothing of this. Its classes are given wrapped methods, in the child only,
and not at all in a bare case. What C does in one call (put a message, then look at the state) is
taken apart into the two steps that it consists of, so that a stall fits between them.

That is for the Python lane. The native lane brings its own stalls and most of its checks
(stalled.py); around it go only the instruments for what is Python in both.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from otavia_ft.address import RobinAddress
from otavia_ft.atomic import AtomicInt, HouseCell, Mailbox
from otavia_ft.house.house import House
from otavia_ft.outside import OutsideAsks
from otavia_ft.parking import Parker
from otavia_ft.pool import ThreadPool
from otavia_ft.schedule import rings
from otavia_ft.schedule.manager import HouseManager
from otavia_ft.schedule.placement import TilingThreadSelector
from otavia_ft.schedule.queues import HouseList, PriorityHouseQueue
from otavia_ft.timer import Timer
from stress.parallel import stalled
from stress.parallel.lab import Lab

__all__ = ["Watch"]


class _Cursor:
    """An AtomicInt after each operation of which its user may stall."""

    def __init__(self, cell: AtomicInt, stall: Callable[[int], None]) -> None:
        self._cell = cell
        self._stall = stall

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._cell, name)

        def step(*args: Any) -> Any:
            result = operation(*args)
            self._stall(6)  # two builders seldom meet
            return result

        return step


class Watch:
    """Puts the instruments in."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._native = lab.case.lane == "native+stalls"
        self._queued: dict[Any, AtomicInt] = {}  # item's key: how many queues hold it
        self._list_of: dict[int, Any] = {}  # house id: the list it was put into
        # What pools have given out, and who uses which pool: by id, and kept, so that ids stay.
        self._lent: dict[int, tuple[object, Any]] = {}
        self._users: dict[int, tuple[int, Any]] = {}
        self._pass = threading.local()
        self._count_houses()
        if self._native:
            stalled.stalls(lab.case.stall_permille, lab.case.seed)
        elif not lab.case.bare:
            self._stall_transitions()
            self._stall_posts()
            self._check_lists()
            self._check_rings()
        if not lab.case.bare:
            self._stall_parking()
            self._stall_cursors()
            self._check_dispatch()
            self._check_pools()

    def look(self) -> None:
        """Has C seen a rule broken? Any thread, now and then."""
        if self._native and not self.lab.findings and (broken := stalled.seen()) is not None:
            self.lab.report(*broken)

    def new_round(self) -> None:
        self.forget()
        self.lab.events.forget()
        self.lab.houses.clear()

    def forget(self) -> None:
        """Let go of what the instruments have held on to."""
        self._queued.clear()
        self._list_of.clear()
        self._lent.clear()
        self._users.clear()

    # ---- houses

    def _count_houses(self) -> None:
        """Bare cases too: the state of every house is part of a report."""
        houses, original = self.lab.houses, House.__init__

        def init(house: Any, *args: Any, **kwargs: Any) -> None:
            original(house, *args, **kwargs)
            houses.append(weakref.ref(house))

        House.__init__ = init  # type: ignore[method-assign]

    def _stall_transitions(self) -> None:
        note, stall = self.lab.events.note, self.lab.stall
        for name in ("begin_mount", "end_mount", "try_ready", "try_schedule", "try_run",
                     "run_to_ready", "run_to_waiting"):  # fmt: skip
            original = getattr(House, name)

            # The ends of a turn are where wake-ups get lost, so that is where to linger.
            often = 6 if name in ("run_to_waiting", "end_mount") else 1

            def step(house: Any, original: Any = original, name: str = name,
                     often: int = often) -> bool:  # fmt: skip
                stall(often)
                won = original(house)
                note(house.id, name if won else f"{name} refused")
                stall(often)
                return won

            setattr(House, name, step)

    def _stall_posts(self) -> None:
        note, stall = self.lab.events.note, self.lab.stall
        ready = House.try_ready  # already with its stalls
        for box in Mailbox:
            name = box.name.lower()
            native = getattr(House, f"post_{name}")

            def post(house: Any, message: Any, box: int = box, name: str = name,
                     native: Any = native) -> bool:  # fmt: skip
                if self.lab.coin().random() < 0.3:
                    note(house.id, f"post {name}")
                    return native(house, message)
                HouseCell.put(house, box, message)  # what C does: a subclass may mean more by it
                note(house.id, f"put {name}")
                stall()
                return ready(house)

            setattr(House, f"post_{name}", post)

    def _stall_parking(self) -> None:
        for owner, names in (
            (Parker, ("start_looking", "fall_asleep", "wake")),
            (Timer, ("_take_due", "cancel", "_add")),
            (OutsideAsks, ("take",)),
        ):
            for name in names:
                setattr(owner, name, self._stalled(getattr(owner, name)))

    def _stall_cursors(self) -> None:
        """Whose turn it is: of the seats for new actors, of those behind one address."""
        stall = self.lab.stall
        for owner, names in (
            (TilingThreadSelector, ("_cursor",)),
            (RobinAddress, ("_ask_cursor", "_notice_cursor")),
        ):

            def init(self: Any, *args: Any, original: Any = owner.__init__,
                     names: tuple[str, ...] = names) -> None:  # fmt: skip
                original(self, *args)
                for name in names:
                    setattr(self, name, _Cursor(getattr(self, name), stall))

            owner.__init__ = init  # type: ignore[method-assign]

    def _stalled(self, original: Callable[..., Any]) -> Callable[..., Any]:
        stall = self.lab.stall

        def step(*args: Any, **kwargs: Any) -> Any:
            stall()
            result = original(*args, **kwargs)
            stall()
            return result

        return step

    # ---- queues

    def _enter(self, key: Any, name: str, number: int) -> None:
        before = self._queued.setdefault(key, AtomicInt()).get_and_add(1)
        if before:
            self.lab.report("one-queue", f"{name} is queued while a queue holds it", [number])

    def _leave(self, key: Any) -> None:
        cell = self._queued.get(key)
        if cell is not None:
            cell.get_and_add(-1)

    def _check_lists(self) -> None:
        lab, note, stall, watch = self.lab, self.lab.events.note, self.lab.stall, self
        append, pop, steal = HouseList.append, HouseList.pop, HouseList.try_steal

        def checked_append(self: Any, house: Any) -> int:
            watch._enter(house.id, house.name, house.id)
            watch._list_of[house.id] = self
            stall()
            count = append(self, house)
            note(house.id, "enqueued")
            stall()
            return count

        def checked_pop(self: Any) -> Any:
            house = pop(self)
            if house is not None:
                watch._leave(house.id)
                note(house.id, "dequeued")
                stall()
            return house

        def checked_steal(self: Any) -> Any:
            stall()
            house = steal(self)
            if house is not None:
                watch._leave(house.id)
                note(house.id, "stolen")
                if house.plan.channels:
                    lab.report(
                        "steal-rules", f"{house.name} is an IO actor, and stolen", [house.id]
                    )
                stall()
            return house

        HouseList.append = checked_append  # type: ignore[method-assign]
        HouseList.pop = checked_pop  # type: ignore[method-assign]
        HouseList.try_steal = checked_steal  # type: ignore[method-assign]
        self._check_priority()
        self._check_owner()

    def _check_priority(self) -> None:
        lab, watch, dequeue = self.lab, self, PriorityHouseQueue.dequeue

        def checked(self: Any) -> Any:
            system = lab.system
            if system is None or system.config.stealing or not system.running:
                return dequeue(self)  # a thief, or whoever buries, may be at it at the same time
            # The size: a sender that has yet to raise it is not seen by the owner. The count: the
            # workload parts has thieves of its own, and one may have yet to lower the size.
            high = min(len(self._high), self._high._count)
            normal = min(len(self._normal), self._normal._count)
            aged = self._high_in_a_row >= self._ageing_limit
            house = dequeue(self)
            came_from = None if house is None else watch._list_of.get(house.id)
            if high and not aged and came_from is not self._high:
                lab.report("priority-order", f"{high} high houses wait, but got {house}")
            if aged and normal and came_from is not self._normal:
                lab.report("priority-order", f"a normal house has waited long, but got {house}")
            return house

        PriorityHouseQueue.dequeue = checked  # type: ignore[method-assign]

    def _check_owner(self) -> None:
        lab, ready, turn = self.lab, HouseManager.ready, House.run_turn

        def checked_ready(self: Any, house: Any) -> None:
            if house.scheduler is not self:
                lab.report("steal-rules", f"{house.name} is queued with a stranger", [house.id])
            ready(self, house)

        def checked_turn(house: Any, context: Any) -> None:
            owner = getattr(house.scheduler, "_thread", None)
            if house.plan.channels and context.owner is not owner:
                lab.report("steal-rules", f"{house.name} (IO) runs on a stranger", [house.id])
            turn(house, context)

        HouseManager.ready = checked_ready  # type: ignore[method-assign]
        House.run_turn = checked_turn  # type: ignore[method-assign]

    def _check_rings(self) -> None:
        watch, stall = self, self.lab.stall

        def key(item: Any) -> Any:
            house = getattr(item, "_house", item)
            return (type(item).__name__, getattr(house, "id", id(item)))

        def wrap(ring: Any) -> None:
            push, pop = ring.push, ring.pop

            def checked_push(self: Any, item: Any) -> Any:
                name = key(item)
                watch._enter(name, f"{name[0]} {name[1]}", name[1])
                stall()
                done = push(self, item)
                if done == 0:  # a full local ring has refused it
                    watch._leave(name)
                stall()
                return done

            def checked_pop(self: Any) -> Any:
                item = pop(self)
                if item is not None:
                    watch._leave(key(item))
                    stall()
                return item

            ring.push, ring.pop = checked_push, checked_pop

        wrap(rings.LocalRing)
        wrap(rings.GlobalRing)
        steal = rings.steal_half

        def checked_steal(victim: Any, thief: Any) -> Any:
            stall()
            item = steal(victim, thief)
            if item is not None:
                watch._leave(key(item))
                stall()
            return item

        rings.steal_half = checked_steal

    # ---- pools

    def _check_pools(self) -> None:
        """What a pool gives out is its own, and comes back before it is given out again; and only
        the thread that was the first to use a pool ever uses it."""
        lab, lent, users = self.lab, self._lent, self._users
        get, recycle = ThreadPool.get, ThreadPool.recycle

        def mine(pool: Any) -> None:
            ident = threading.get_ident()
            if users.setdefault(id(pool), (ident, pool))[0] != ident:
                lab.report("pool-private", "a thread uses another thread's pool")

        def checked_get(self: Any) -> Any:
            mine(self)
            thing, token = get(self), object()
            if thing.pool is not self:
                lab.report("pool-private", "a pool gives out what another one has made")
            if lent.setdefault(id(thing), (token, thing))[0] is not token:
                lab.report("pool-private", f"a pool gives out a {type(thing).__name__} twice")
            return thing

        def checked_recycle(self: Any, used: Any) -> None:
            mine(self)
            if lent.pop(id(used), None) is None:
                lab.report("pool-private", "a pool gets back what nobody has")
            recycle(self, used)

        ThreadPool.get = checked_get  # type: ignore[method-assign]
        ThreadPool.recycle = checked_recycle  # type: ignore[method-assign]

    # ---- turns

    def _check_dispatch(self) -> None:
        lab, mine = self.lab, self._pass
        dispatch, drain = House._dispatch, House.drain

        def checked_dispatch(house: Any, context: Any, mail: int, left: int) -> int:
            # A pass within a pass: a handler has sent something to a house that it then buries.
            before = getattr(mine, "house", None), getattr(mine, "last", -1)
            mine.house, mine.last = house, -1
            left = dispatch(house, context, mail, left)
            mine.house, mine.last = before
            return left

        def checked_drain(house: Any, mailbox: int, budget: int) -> Any:
            if getattr(mine, "house", None) is house:
                last = mine.last
                if mailbox < last:
                    names = Mailbox(last).name.lower(), Mailbox(mailbox).name.lower()
                    text = f"{house.name} turns to its {names[1]} mailbox after {names[0]}"
                    lab.report("dispatch-order", text, [house.id])
                mine.last = int(mailbox)
            return drain(house, mailbox, budget)

        House._dispatch = checked_dispatch  # type: ignore[method-assign]
        House.drain = checked_drain  # type: ignore[method-assign]
