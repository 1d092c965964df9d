"""Families: parents, children, and who decides when a child fails.

Only an actor that has a parent, children, a watch or a stash has a `Family`; for all others the
house's slot is None. It belongs to the house: only the runner touches it. Relatives talk by errands
to each other's system mailboxes, so nobody waits for anybody, and every step is part of a turn.

Who keeps whom: the parent holds its children, a child knows its parent weakly. A parent that is
gone stops its children. So that they are still there to be stopped when it goes as part of a
garbage cycle, the register keeps them too.

A stop goes down the tree and comes back up. The parent holds its user mail, sends every child a
Stop and goes on running its turns; each child reports when it has ended, `post_stop` included; the
last report ends the parent.

A failure goes up and a verdict comes back:
 1. the child's handler raised: it holds its user mail and reports to its parent;
 2. the parent's supervisor decides, on the parent's turn;
 3. the verdict goes to the child (after a pause, by the timer), which resumes, restarts or stops.
An escalated failure makes the parent fail itself: step 1, one level up. The report says for whom,
and the verdict says it again on the way back: it is then also the child's. At the top, where nobody
supervises, `notice_exception_strategy` decides.

To hold user mail is to stand in a barrier: a stack that never runs takes the place of the barrier
call. Replies, errors, events and system messages go on, and waiting handlers with them. One of
those may fail too. Every failure gets a verdict of its own, and the mail flows again after the
last.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otavia_ft.doors import Mailbox
from otavia_ft.errors import ActorStopped, OtaviaError, StackError, described
from otavia_ft.house import lifecycle
from otavia_ft.house.lifecycle import Errand, ExceptionStrategy, Restart, Stop
from otavia_ft.house.supervisor import Directive, Supervisor, SupervisorStrategy
from otavia_ft.stack.stack import NoticeStack, Stack

if TYPE_CHECKING:
    from otavia_ft.context import Context
    from otavia_ft.house.deathwatch import Watches
    from otavia_ft.house.house import House
    from otavia_ft.house.stash import Stash

__all__ = ["Family", "build_child", "family_of"]

SYSTEM = int(Mailbox.SYSTEM)
HELD: Stack = NoticeStack()  # the barrier of every house that holds its mail; it never runs


class _Parent(weakref.ref["House"]):
    """A child's reference to its parent, and the alarm for when that is collected."""

    __slots__ = ("child",)

    child: weakref.ref[House]


def _orphaned(entry: Any, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
    # On whatever thread dropped the last reference: only leave word. (When the interpreter ends
    # this module's names may be gone, and nobody would read it.)
    child = None if at_exit() else entry.child()
    if child is not None:
        child.control(Stop(ActorStopped(f"{child.name} has stopped: its parent is gone")))
        # It is in a queue now, and goes when its mail is handled.
        child.scheduler.system.register.let_go(child)


type _Waiting = tuple[House, _Waiting] | None
"""A child that waits for its parent's verdict, and whom that child's own verdict is for in turn."""


class _Child:
    """A parent's record of one child."""

    __slots__ = ("_count", "_times", "house", "supervisor")

    def __init__(self, house: House, supervisor: Supervisor | None) -> None:
        self.house = house
        self.supervisor = supervisor
        self._count = 0
        self._times: deque[float] = deque()

    def count_restart(self, now: float, window: float | None) -> int:
        """One more; returns how many there were within the window."""
        if window is None:
            self._count += 1
            return self._count
        self._times.append(now)
        while now - self._times[0] >= window:
            self._times.popleft()
        return len(self._times)


class Family:
    """What an actor has of relatives, watches and stashed messages."""

    __slots__ = (
        "_covered",
        "_failures",
        "children",
        "parent",
        "stash",
        "stopping",
        "supervisor",
        "watches",
    )

    def __init__(self) -> None:
        self.parent: _Parent | None = None
        self.supervisor: Supervisor | None = None  # the one that this actor is a child under
        self.children: dict[int, _Child] = {}
        self.stopping: OtaviaError | None = None  # why, while the children are still there
        self.stash: Stash | None = None
        self.watches: Watches | None = None
        self._failures = 0  # that have no verdict yet
        self._covered: Stack | None = None  # the barrier call that stood when the mail was held

    # ---- holding the user mail

    def _hold(self, house: House) -> None:
        if house.barrier is HELD:
            return
        self._covered, house.barrier = house.barrier, HELD
        # Somebody has to hold the house while its mail waits for a message still on its way.
        house.scheduler.system.register.hold(house)
        # A system message ends the loop over the mailbox that we may be in.
        house.put(SYSTEM, _NUDGE)

    def _let_flow(self, house: House) -> None:
        covered, self._covered = self._covered, None
        awaited = [*house.promises, *(house.channel_promises or ())]
        # Compared by identity only: if it has ended meanwhile, its stack may be anybody's.
        still_there = covered is not None and any(each.stack is covered for each in awaited)
        house.barrier = covered if still_there else None
        house.scheduler.system.register.release(house)

    # ---- a failure, on the way up

    def failed(
        self, house: House, what: str, error: BaseException, waiting: _Waiting = None
    ) -> bool:
        """This actor has failed. False: nobody supervises it, its own strategy decides."""
        if self.stopping is not None:
            house.log_failure(f"failed on {what} (while it stops)", error)
            return True
        if self.supervisor is None or self.parent is None or (parent := self.parent()) is None:
            return False
        house.log_failure(f"failed on {what} (its parent decides)", error)
        self._failures += 1
        self._hold(house)
        parent.control(_Failed((house, waiting), error))
        return True

    def decide(
        self, house: House, child: _Child, error: BaseException, failed: tuple[House, _Waiting]
    ) -> None:
        """A child has failed; the parent's turn. Whatever goes wrong here, the child gets a
        verdict."""
        supervisor = child.supervisor
        assert supervisor is not None
        try:
            directive: Any = supervisor.decide(error)
            if not isinstance(directive, Directive):
                raise TypeError(f"{directive!r} is no Directive")
            if directive is Directive.RESTART:
                self._restart_after_pause(house, child, error, failed)
                return
        except BaseException as raised:  # a supervisor is user code
            house.log_failure(f"could not decide about {child.house.name}: it is stopped", raised)
            directive = Directive.STOP
        if directive is Directive.STOP:
            self._stop(self._group(child, supervisor), error)
        elif directive is Directive.RESUME:
            _tell(failed, directive)
        else:
            self._escalate(house, child, error, failed)

    def _group(self, child: _Child, supervisor: Supervisor) -> list[_Child]:
        if supervisor.strategy is SupervisorStrategy.ONE_FOR_ONE:
            return [child]
        return [each for each in self.children.values() if each.supervisor is supervisor]

    def _stop(self, group: list[_Child], error: BaseException) -> None:
        for each in group:
            name = each.house.name
            reason = ActorStopped(f"{name} was stopped by its supervisor: {described(error)}")
            reason.__cause__ = error
            each.house.control(Stop(reason))

    def _restart_after_pause(
        self, house: House, child: _Child, error: BaseException, failed: tuple[House, _Waiting]
    ) -> None:
        supervisor = child.supervisor
        assert supervisor is not None
        timer = house.scheduler.system.timer
        group = self._group(child, supervisor)
        now = timer.time()
        restarts = max(each.count_restart(now, supervisor.window) for each in group)
        if supervisor.max_retries is not None and restarts > supervisor.max_retries:
            self._stop(group, error)
            return
        pause = supervisor.pause(restarts)
        verdict = _Verdict(Directive.RESTART, failed[1])
        for each in group:
            order = verdict if each is child else Restart()
            if pause > 0:
                timer.after(pause, each.house.control, order)
            else:
                each.house.control(order)

    def _escalate(
        self, house: House, child: _Child, error: BaseException, waiting: _Waiting
    ) -> None:
        try:
            if self.failed(house, f"a failure of its child {child.house.name}", error, waiting):
                return
            actor: Any = house.actor
            strategy = actor.notice_exception_strategy
            what = f"takes over the failure of its child {child.house.name} ({strategy.value})"
            house.log_failure(what, error)
        except BaseException as raised:  # the strategy may be a property, which is user code
            house.log_failure("could not decide about an escalated failure: it is stopped", raised)
            house.control(Stop(ActorStopped(f"{house.name} has stopped: {described(error)}")))
            return
        if strategy is ExceptionStrategy.SHUTDOWN:
            house.scheduler.system.signal_stop()
        elif strategy is ExceptionStrategy.IGNORE:
            _tell(waiting, Directive.RESUME)
        elif lifecycle.restart(house):
            _tell(waiting, Directive.RESTART)

    # ---- the verdict, on the way down

    def obey(self, house: House, directive: Directive, waiting: _Waiting) -> None:
        """The verdict over a failure of this actor's own has come, or over one that it passed on
        for a child."""
        if self.stopping is not None or self._failures == 0:
            return
        if directive is Directive.RESTART and not lifecycle.restart(house):
            return  # it stops; until then nothing flows
        self._failures -= 1
        _tell(waiting, directive)
        if self._failures == 0:
            self._let_flow(house)

    # ---- the end

    def may_stop(self, house: House, reason: OtaviaError) -> bool:
        """Whether no child is left. If one is, all are told to stop, and the last one's report
        ends this actor."""
        if not self.children:
            return True
        if self.stopping is None:
            self.stopping = reason
            self._hold(house)
            for child in self.children.values():
                why = f"{child.house.name} has stopped with its parent: {reason}"
                child.house.control(Stop(ActorStopped(why)))
        return False

    def ended(self, house: House, reason: OtaviaError) -> None:
        """The actor has ended: tell everybody who has to know."""
        parent = self.parent() if self.parent is not None else None
        if parent is not None:
            parent.control(_ChildEnded(house.id))
        if self.watches is not None:
            self.watches.ended(house, reason)
        self.buried(reason)

    def buried(self, reason: OtaviaError) -> None:
        """Nobody will unstash anything any more."""
        if self.stash is not None:
            self.stash.bury(reason)


class _Nudge(Errand):
    __slots__ = ()

    def run(self, context: Context, house: House) -> None:
        """Nothing: it was sent to be there."""


_NUDGE = _Nudge()


class _Failed(Errand):
    """To the parent: a child has failed, perhaps on behalf of one of its own."""

    __slots__ = ("error", "failed")

    def __init__(self, failed: tuple[House, _Waiting], error: BaseException) -> None:
        self.failed = failed
        self.error = error

    def run(self, context: Context, house: House) -> None:
        family = house.family
        if family is None or family.stopping is not None:
            return  # the child is told to stop
        record = family.children.get(self.failed[0].id)
        if record is not None:
            family.decide(house, record, self.error, self.failed)


class _Verdict(Errand):
    """To a child that has failed: resume or restart. (To stop, there is Stop.)"""

    __slots__ = ("directive", "waiting")

    def __init__(self, directive: Directive, waiting: _Waiting) -> None:
        self.directive = directive
        self.waiting = waiting

    def run(self, context: Context, house: House) -> None:
        if house.family is not None:
            house.family.obey(house, self.directive, self.waiting)


def _tell(waiting: _Waiting, directive: Directive) -> None:
    """The verdict for the child that waits for one, if any does."""
    if waiting is not None:
        child, next_one = waiting
        child.control(_Verdict(directive, next_one))


class _ChildEnded(Errand):
    """To the parent: the child with this number has ended."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def run(self, context: Context, house: House) -> None:
        family = house.family
        if family is not None:
            family.children.pop(self.number, None)
            if family.stopping is not None and not family.children:
                lifecycle.stop(context, house, family.stopping)


def family_of(house: House) -> Family:
    """The house's family; founded now if it has none."""
    family: Family | None = house.family
    if family is None:
        family = house.family = Family()
    return family


def build_child(
    house: House, factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> House:
    """Make an actor whose parent this one is, and mount it."""
    if house.stop_reason is not None or (house.family is not None and house.family.stopping):
        raise StackError(f"{house.name} is stopping: it cannot have another child")
    parent: Any = house.actor
    supervisor = parent.supervisor
    if supervisor is not None and not isinstance(supervisor, Supervisor):
        raise TypeError(
            f"{house.name}: its supervisor is {supervisor!r}, it must be a Supervisor or None"
        )
    child = house.scheduler.system.make_house(factory, args, kwargs)
    child.family = Family()
    child.family.supervisor = supervisor
    child.family.parent = _Parent(house, _orphaned)
    child.family.parent.child = weakref.ref(child)
    family_of(house).children[child.id] = _Child(child, supervisor)
    house.scheduler.system.register.keep(child)
    child.scheduler.mount(child)
    return child
