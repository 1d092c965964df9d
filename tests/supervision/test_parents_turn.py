"""Who decides, and when: the supervisor works on its parent's turn, fed by the system mailbox."""

import logging
import threading
from dataclasses import dataclass

import pytest

from otavia_ft import AtomicInt, Directive, StateActor, Supervisor, on
from otavia_ft.atomic import Mailbox

STOP, RESUME, RESTART, ESCALATE = Directive


class Recording(Supervisor):
    """Calls a function with every error before it decides."""

    def __init__(self, directive, decided):
        super().__init__(directive)
        self.decided = decided

    def decide(self, error):
        self.decided(error)
        return super().decide(error)


def test_the_supervisor_decides_inside_a_turn_of_the_parent(family):
    """Whose turn it is can be seen by whose `address` works: an actor has one in its turns only."""
    seen = []

    def decided(error):
        actor = parent.house.actor
        seen.append((actor.address == parent, actor.children == (child,)))

    parent = family.build("parent", Recording(RESTART, decided))
    child = family.child(parent, "child")
    family.send(child, ValueError(), 1)
    assert seen == [(True, True)]
    assert family.of("child") == ["pre_start", "raises", "restart", 1]


def test_a_failure_reaches_the_parent_before_its_user_messages(family):
    """Ten thousand messages wait for the parent, and its turns are short: it decides before it has
    handled one more of them."""
    decided = ("parent's supervisor", "decided")
    parent = family.build("parent", Recording(RESUME, lambda error: family.log.append(decided)))
    child = family.child(parent, "child")
    for number in range(10_000):
        parent.notice(number)
    family.send(child, ValueError())
    raised = family.log.index(("child", "raises"))
    assert raised < 10_000, "the child had its turn among those of the parent"
    assert family.log[raised + 1] == decided
    assert family.of("parent")[1:] == list(range(10_000))


@dataclass(frozen=True)
class Hold:
    """Stay in the handler until the test lets go."""

    inside: threading.Event
    let_go: threading.Event


class Child(StateActor):
    def __init__(self, log):
        self.log = log

    @on(str)
    def word(self, message):
        self.log.append(message)
        if message == "raise":
            raise ValueError("as told")

    def restart(self):
        self.log.append("restart")


class Parent(StateActor):
    """Counts what overlaps; its supervisor says when it decides."""

    def __init__(self, log, directive):
        self.log = log
        self.supervisor = Recording(directive, self.decided)
        self.inside = AtomicInt()
        self.overlaps = 0
        self.decisions = 0

    def _alone(self):
        if self.inside.get_and_add(1):
            self.overlaps += 1
        for _ in range(20):  # long enough for another worker to look in
            pass
        self.inside.get_and_add(-1)

    def decided(self, error):
        self._alone()
        self.decisions += 1
        self.log.append("decided")

    @on(int)
    def build(self, count):
        return [self.build_child(Child, self.log) for _ in range(count)]

    @on(Hold)
    def hold(self, message):
        message.inside.set()
        message.let_go.wait(30)
        self.log.append("handler ends")

    @on(float)
    def work(self, message):
        self._alone()
        self.log.append("work")


@pytest.fixture
def quiet_log():
    """Thousands of expected tracebacks say nothing."""
    logger = logging.getLogger("otavia_ft.actor")
    level, logger.level = logger.level, logging.CRITICAL
    yield
    logger.setLevel(level)


@pytest.mark.usefixtures("quiet_log")
def test_a_decision_waits_for_the_handler_that_the_parent_is_in_and_for_no_other(
    real_system, eventually
):
    """The child fails on the other worker while the parent is in a handler, with mail behind it."""
    log = []
    parent = real_system.build_actor(Parent, log, RESTART)
    (child,) = real_system.ask(parent, 1).result(30)
    hold = Hold(threading.Event(), threading.Event())
    parent.notice(hold)
    assert hold.inside.wait(30)
    try:
        for _ in range(20):
            parent.notice(1.0)
        child.notice("raise")
        child.notice("next")
        eventually(lambda: parent.house.size(Mailbox.SYSTEM))
        assert log == ["raise"]
    finally:
        hold.let_go.set()
    eventually(lambda: "next" in log and log.count("work") == 20)
    assert log[:3] == ["raise", "handler ends", "decided"]
    assert [word for word in log[3:] if word != "work"] == ["restart", "next"]


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize("directive", [RESUME, RESTART], ids=lambda d: d.value)
def test_decisions_never_overlap_the_parents_handlers_or_each_other(
    real_system, eventually, directive
):
    failures, children = 150, 6
    actor = Parent([], directive)
    parent = real_system.build_actor(lambda: actor)
    addresses = real_system.ask(parent, children).result(30)
    for _ in range(failures):
        for child in addresses:
            child.notice("raise")
        parent.notice(1.0)
    eventually(lambda: actor.decisions >= failures * children)
    eventually(lambda: real_system.scheduler.quiet())
    assert actor.decisions == failures * children
    assert actor.overlaps == 0
    assert actor.log.count("restart") == (failures * children if directive is RESTART else 0)


def test_a_budget_of_retries_and_growing_pauses_work_together(family):
    """Three restarts after 1, 2 and 4 seconds; the fourth failure is the last."""
    supervisor = Supervisor(max_retries=3, backoff=1, factor=2, max_backoff=60)
    parent = family.build("parent", supervisor)
    child = family.child(parent, "child")
    family.send(child, *[ValueError() for _ in range(5)])
    seen = []
    for _ in range(8):
        seen.append(family.of("child").count("restart"))
        family.system.advance(1)
    assert seen == [0, 1, 1, 2, 2, 2, 2, 3]
    assert family.of("child")[-2:] == ["raises", "post_stop"]
    assert family.of("child").count("raises") == 4
    assert family.do(parent, lambda me: me.children) == ()
