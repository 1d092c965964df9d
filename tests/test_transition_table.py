"""A house changes its state along the table's arrows and along no others."""

import re
import threading

import pytest

from otavia_ft.atomic import TRANSITIONS, HouseCell, HouseState, InvariantError, Mailbox
from otavia_ft.house.house import House

# Written out once more on purpose: a change of the table has to be meant.
ARROWS = {
    "begin_mount": ("CREATED", "MOUNTING"),
    "end_mount": ("MOUNTING", "WAITING"),
    "try_ready": ("WAITING", "READY"),
    "try_schedule": ("READY", "SCHEDULED"),
    "try_run": ("SCHEDULED", "RUNNING"),
    "run_to_ready": ("RUNNING", "READY"),
    "run_to_waiting": ("RUNNING", "WAITING"),
}
LEAVES_RUNNING = {name for name, (source, _) in ARROWS.items() if source == "RUNNING"}
WAY_TO_RUNNING = ["begin_mount", "end_mount", "try_ready", "try_schedule", "try_run"]


def cell_in(state: str) -> HouseCell:
    """A cell that this thread led to `state` by the shortest way."""
    cell = HouseCell()
    for name in WAY_TO_RUNNING:
        if HouseState(cell.state).name == state:
            break
        assert getattr(cell, name)()
    assert HouseState(cell.state).name == state
    return cell


def states_and_arrows(*, fits: bool) -> list[tuple[str, str]]:
    return [
        (state, name)
        for state in HouseState.__members__
        for name, (source, _) in ARROWS.items()
        if (source == state) is fits
    ]


def test_the_table_is_the_one_that_was_agreed():
    assert {t.name: (t.source.name, t.target.name) for t in TRANSITIONS} == ARROWS


def test_states_and_mailboxes_are_numbered_in_order():
    assert [s.name for s in HouseState] == [
        "CREATED", "MOUNTING", "WAITING", "READY", "SCHEDULED", "RUNNING",
    ]  # fmt: skip
    assert [m.name for m in Mailbox] == ["SYSTEM", "REPLY", "EXCEPTION", "ASK", "NOTICE", "EVENT"]
    assert [int(s) for s in HouseState] == [int(m) for m in Mailbox] == list(range(6))


def test_every_state_can_be_reached_and_every_state_can_be_left():
    sources, targets = ({a[i] for a in ARROWS.values()} for i in (0, 1))
    assert targets | {"CREATED"} == sources == set(HouseState.__members__)


def test_a_cell_has_no_other_method_that_moves_it():
    """Whatever else a cell offers, called with fitting arguments in every state, stays put."""
    calls = {
        "put": (0, None), "put_front": (0, None), "take": (0, None), "drain": (0, 1),
        "size": (0,), "mail": (), "has_mail": (63,),
    }  # fmt: skip
    posts = {f"post_{m.name.lower()}": (None,) for m in Mailbox}
    public = {name for name in vars(HouseCell) if not name.startswith("_")}
    assert public == {"state", "runner", *ARROWS, *calls, *posts}
    for state in HouseState.__members__:
        for name, arguments in calls.items():
            cell = cell_in(state)
            getattr(cell, name)(*arguments)
            assert HouseState(cell.state).name == state


@pytest.mark.parametrize(("state", "name"), states_and_arrows(fits=True))
def test_an_arrow_succeeds_from_its_source(state, name):
    cell = cell_in(state)
    assert getattr(cell, name)() is True
    assert HouseState(cell.state).name == ARROWS[name][1]


@pytest.mark.parametrize(("state", "name"), states_and_arrows(fits=False))
def test_an_arrow_fails_from_any_other_state_and_changes_nothing(state, name):
    cell = cell_in(state)
    runner = cell.runner
    if name in LEAVES_RUNNING:
        # Only a runner asks for these, so asking in another state is a bug and no lost race.
        with pytest.raises(InvariantError, match="report"):
            getattr(cell, name)()
    else:
        assert getattr(cell, name)() is False
    assert HouseState(cell.state).name == state
    assert cell.runner == runner


@pytest.mark.parametrize("state", HouseState.__members__)
@pytest.mark.parametrize("mailbox", Mailbox)
def test_a_post_readies_a_waiting_house_only(state, mailbox):
    cell = cell_in(state)
    readied = getattr(cell, f"post_{mailbox.name.lower()}")("mail")
    assert readied is (state == "WAITING")
    assert HouseState(cell.state).name == ("READY" if readied else state)
    assert cell.mail() == 1 << mailbox


@pytest.mark.parametrize("state", HouseState.__members__)
def test_the_runner_is_marked_while_running_and_only_then(state):
    expected = threading.get_ident() if state == "RUNNING" else 0
    assert cell_in(state).runner == expected


@pytest.mark.parametrize("name", sorted(LEAVES_RUNNING))
def test_the_mark_is_given_back_on_leaving(name):
    cell = cell_in("RUNNING")
    getattr(cell, name)()
    assert cell.runner == 0


@pytest.mark.parametrize("name", sorted(LEAVES_RUNNING))
def test_a_stranger_cannot_end_a_run(name):
    cell = cell_in("RUNNING")
    seen = []

    def stranger():
        try:
            getattr(cell, name)()
        except InvariantError as error:
            seen.append(str(error))

    thread = threading.Thread(target=stranger)
    thread.start()
    thread.join()
    [text] = seen
    assert f"runner mark is {threading.get_ident()}" in text
    assert HouseState(cell.state) is HouseState.RUNNING


def test_a_house_goes_round_many_times():
    cell = cell_in("RUNNING")
    for turn in range(1000):
        assert cell.run_to_ready() if turn % 2 else cell.run_to_waiting() and cell.try_ready()
        assert cell.try_schedule()
        assert cell.try_run()


def test_transitions_take_no_arguments():
    for name in ARROWS:
        with pytest.raises(TypeError, match="takes no arguments"):
            getattr(HouseCell(), name)(1)


def test_the_house_documents_every_state():
    documented = House.__doc__ or ""
    module = __import__(House.__module__, fromlist=["_"]).__doc__ or ""
    words = set(re.findall(r"[A-Z]{5,}", documented + module))
    assert set(HouseState.__members__) <= words
