"""Planted bugs are found, told, minimised and replayed; what is right is left in peace."""

import re

import pytest

KINDS = {
    "planted-lost-update": "invariant",
    "planted-deadlock": "deadlock",
    "planted-stubborn": "deadlock",
    "planted-livelock": "livelock",
    "planted-endless": "livelock",
    "planted-lost-wake-up": "lost wake-up",
}

FIND = """
import planted
name, mode = sys.argv[1:]
result = explore(scenarios()[name], mode, schedules=3000)
answer([result.violation and result.violation.kind, result.violation and result.violation.text])
"""


@pytest.mark.parametrize("mode", ["dpor", "bound", "pct", "random"])
@pytest.mark.parametrize("name", KINDS)
def test_a_planted_bug_is_found_in_every_mode(ask, name, mode):
    kind, _ = ask(FIND, name, mode)
    assert kind == KINDS[name]


@pytest.mark.parametrize("mode", ["dpor", "bound", "pct", "random"])
def test_the_same_program_without_the_bug_passes_in_every_mode(ask, mode):
    assert ask(FIND, "planted-atomic-update", mode) == [None, None]


def test_a_deadlock_is_told_with_the_locks_that_are_waited_for(ask):
    text = ask(
        """
import planted
from stress.explorer.replay import minimise, replay
result = explore(scenarios()["planted-deadlock"], "dpor")
runner = Runner(scenarios()["planted-deadlock"])
answer(replay(runner, minimise(runner, result.schedule)).violation.text)
"""
    )
    assert text == "P0 waits at lock right; P1 waits at lock left"


@pytest.mark.parametrize("name", ["complete-running", "two-senders"])
def test_a_lazily_stored_waiting_loses_a_wake_up_under_tso_only(ask, name):
    found = ask(
        """
from planted import lazy_runtime
name = sys.argv[1]
found = []
for mode, model in ("dpor", "sc"), ("pct", "sc"), ("dpor", "tso"), ("pct", "tso"):
    result = explore(
        scenarios()[name], mode, model=model, schedules=600, runtime=lazy_runtime(name)
    )
    found.append(result.violation and result.violation.kind)
answer(found)
""",
        name,
    )
    assert found[:2] == [None, None]
    assert "lost wake-up" in found[2:]
    assert set(found[2:]) <= {"lost wake-up", None}


def test_pct_finds_a_bug_at_least_as_often_as_it_promises(ask):
    # Two threads, and one constraint to violate besides the order at the start: d is 2.
    found, runs, promised = ask(
        """
import planted
from stress.explorer.sampling import Pct
runner = Runner(scenarios()["planted-lost-update"], sizes={"threads": 2})
picker = Pct(seed=7, depth=2)
found, runs = 0, 2000
for _ in range(runs):
    picker.begin()
    world = runner.run(picker)
    found += world.violation is not None
    picker.end(world)
answer([found, runs, picker.bound])
"""
    )
    assert promised == pytest.approx(1 / (2 * 4 ** (2 - 1)))
    assert found / runs >= promised


@pytest.mark.parametrize(
    ("mutant", "depth", "model"),
    [
        # One constraint besides the order at the start: the sender between the look and the store.
        pytest.param("no-recheck", 2, "sc", id="no-recheck"),
        pytest.param("no-recheck", 3, "sc", id="no-recheck-deeper-than-needed"),
        # And here the store's way to memory after that.
        pytest.param("lazy-waiting", 3, "tso", id="lazy-waiting"),
    ],
)
def test_pct_keeps_its_promise_in_a_real_scenario_for_the_runs_it_makes_it_for(
    ask, mutant, depth, model
):
    found, runs, stable, promised, used, learned = ask(
        """
from stress.explore import mutated
from stress.explorer.sampling import Pct
from stress.mutants import mutants
mutant, depth, model = sys.argv[1:]
cls = scenarios()["complete-running"]
runner = Runner(cls, model=model, runtime=mutated(cls, mutants()[mutant]))
picker, shared, runs = Pct(seed=11, depth=int(depth)), set(), []
for _ in range(2500):
    picker.begin()
    drawn_from = picker.length
    world = runner.run(picker, shared=shared)
    runs.append((drawn_from, world.learned, world.violation is not None))
    picker.end(world)
counted = runs[-picker.stable :]
before = runs[-picker.stable - 1]
answer([
    sum(failed for *_, failed in counted), len(runs), picker.stable, picker.bound,
    [before[0], sorted({drawn_from for drawn_from, *_ in counted}), picker.length],
    [before[1], any(learned for _, learned, _ in counted)],
])
""",
        mutant,
        str(depth),
        model,
    )
    assert 1000 < stable < runs
    before, of_the_counted, longest = used
    assert of_the_counted == [longest]
    assert before < longest or learned[0]  # the run before them is not one of them
    assert not learned[1]
    processes = 2 if model == "sc" else 4
    assert promised == pytest.approx(1 / (processes * longest ** (depth - 1)))
    assert found / stable >= promised


def test_an_unordered_access_to_a_plain_field_is_a_race_even_if_nothing_comes_of_it(ask):
    kinds = ask(
        """
from types import SimpleNamespace
from stress.explorer.loading import load_runtime

class Box:
    __slots__ = ("field",)
    def __init__(self):
        self.field = 0

class Plain(Scenario):
    name = "plain"
    watch = ("boxes.Box",)
    locked = False
    def setup(self):
        self.box, self.lock = self.rt.boxes.Box(), self.doors.SpinLock()
        self.thread("P0", self.write)
        self.thread("P1", self.write)
    def write(self):
        if self.locked:
            with self.lock:
                self.box.field = 1
        else:
            self.box.field = 1

class Locked(Plain):
    locked = True

kinds = []
for cls in Plain, Locked:
    runtime = load_runtime("otavia_ft.parking")
    runtime.boxes = SimpleNamespace(Box=Box)
    result = explore(cls, "dpor", runtime=runtime)
    kinds.append([result.violation and result.violation.kind, result.complete])
answer(kinds)
"""
    )
    assert kinds == [["race", False], [None, True]]


def test_what_the_runtime_logs_as_an_error_is_a_finding(ask):
    kind, text = ask(
        """
from stress.scenarios.house import TwoSenders

class Failing(TwoSenders):
    name = "failing"
    def setup(self):
        super().setup()
        def fail(stack):
            raise ValueError("planted")
        self.house.actor.resume_notice = fail

result = explore(Failing, "pct", schedules=5)
answer([result.violation.kind, result.violation.text])
"""
    )
    assert kind == "error"
    assert "ValueError: planted" in text


# ---- replay and minimisation


def test_a_minimised_schedule_fails_in_the_same_way_with_no_more_switches(ask):
    answers = ask(
        """
import planted
from itertools import groupby
from stress.explorer.replay import minimise, replay
answers = []
for name in "planted-lost-update", "planted-deadlock", "planted-lost-wake-up":
    for seed in range(5):
        result = explore(scenarios()[name], "random", schedules=3000, seed=seed)
        runner = Runner(scenarios()[name])
        small = minimise(runner, result.schedule)
        switches = [sum(1 for _ in groupby(s)) for s in (result.schedule, small)]
        answers.append([result.violation.kind, replay(runner, small).violation.kind, *switches])
answer(answers)
"""
    )
    assert len(answers) == 15
    for before, after, switches_before, switches_after in answers:
        assert before == after
        assert switches_after <= switches_before
        assert switches_after <= 5  # two threads in each other's way: no more is needed


def test_a_token_replays_the_same_steps_to_the_same_finding(ask):
    first, second = ask(
        """
import planted
from stress.explorer.replay import read_token, replay, token
cls = scenarios()["planted-lost-update"]
result = explore(cls, "pct", model="tso", schedules=3000)
runner = Runner(cls, model="tso")
text = token(runner, result.schedule)
worlds = [replay(runner, result.schedule), replay(*read_token(cls, text))]
answer([[str(w.violation), [[p, t] for p, t, _ in w.log]] for w in worlds])
"""
    )
    assert first == second
    assert "counted" in first[0]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param("text.replace(text.split('.')[1], '000000')", "other sources", id="hash"),
        pytest.param("text[:-1] + '!'", "no token", id="letters"),
        pytest.param("'nonsense'", "no token", id="form"),
        pytest.param("text.replace('.3.', '.3-3.')", "2 sizes", id="sizes"),
        pytest.param("text.replace('.3.', '.x.')", "no token", id="size-no-number"),
        pytest.param("text.replace('.3.', '.0.')", "threads=0", id="size-too-small"),
        pytest.param("text.replace('.3.', '.999999.')", "threads=999999", id="size-too-large"),
        pytest.param("'xx' + text[2:]", "no token", id="model"),
        pytest.param("text + 'a99999999999'", "no token", id="count-of-many-digits"),
        pytest.param("text + 'a999999'", "more steps than any run", id="count"),
        pytest.param("text + 'a40000' * 9", "more steps than any run", id="sum-of-counts"),
        pytest.param("text + '_' + '9' * 5000 + '_'", "no token", id="action-of-many-digits"),
    ],
)
def test_a_token_that_does_not_fit_is_refused(ask, spoil, reason):
    message = ask(
        f"""
import planted
from stress.explorer.replay import TokenError, read_token, token
cls = scenarios()["planted-lost-update"]
text = token(Runner(cls), [0, 1, 0, 1])
try:
    read_token(cls, {spoil})
except TokenError as error:
    answer(str(error))
"""
    )
    assert reason in message


def test_a_token_of_one_bug_is_refused_by_the_sound_runtime_and_by_another_bug(ask):
    digests, messages = ask(
        """
from stress.explorer.replay import TokenError, read_token, token
from stress.explore import mutated
from stress.mutants import mutants

cls = scenarios()["complete-running"]
# Text patches, a door, and other doors of the same class.
names = ["no-recheck", "lazy-waiting", "look-before-put", "store-for-cas"]
runtimes = [None, *(mutated(cls, mutants()[name]) for name in names)]
tokens = [token(Runner(cls, runtime=runtime), [0, 1]) for runtime in runtimes]
messages = []
for runtime in runtimes:
    for text in tokens:
        try:
            read_token(cls, text, runtime)
        except TokenError as error:
            messages.append(str(error))
answer([[text.split(".")[1] for text in tokens], messages])
"""
    )
    assert len(set(digests)) == 5
    assert len(messages) == 20
    assert all("another --mutant" in message for message in messages)


# ---- linearizability


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        # thread, number, name, args, operations of each thread that had returned, result
        pytest.param([(0, 0, "put", [1], [0, 0], None), (1, 0, "get", [], [0, 0], 1)], True,
                     id="overlapping"),
        pytest.param([(0, 0, "put", [1], [0, 0], None), (1, 0, "get", [], [1, 0], None)], False,
                     id="put-returned-before-an-empty-get"),
        pytest.param([(0, 0, "put", [1], [0, 0], None), (0, 1, "put", [2], [1, 0], None),
                      (1, 0, "get", [], [0, 0], 2), (1, 1, "get", [], [0, 1], 1)], False,
                     id="last-in-first-out"),
        pytest.param([(0, 0, "put", [1], [0, 0], "pending"), (1, 0, "get", [], [0, 0], 1)], True,
                     id="pending-put-took-effect"),
        pytest.param([(0, 0, "put", [1], [0, 0], "pending"), (1, 0, "get", [], [0, 0], None)], True,
                     id="pending-put-did-not"),
    ],
)  # fmt: skip
def test_the_linearizability_check_tells_right_from_wrong(ask, operations, expected):
    assert (
        ask(
            f"""
from stress.explorer.linear import PENDING, Operation, linearizable

def queue(state, name, args, result):
    if name == "put":
        yield (*state, *args)
    elif result is None:
        if not state:
            yield state
    elif state and state[0] == result:
        yield state[1:]

operations = [
    Operation(t, n, name, tuple(args), tuple(after), PENDING if result == "pending" else result)
    for t, n, name, args, after, result in {operations!r}
]
answer(linearizable(operations, (), queue))
"""
        )
        is expected
    )


def test_a_queue_that_forgets_its_order_is_not_linearizable(ask):
    kinds = ask(
        """
from stress.scenarios.queue import QueueLinear

class Backwards(QueueLinear):
    name = "backwards"
    def setup(self):
        super().setup()
        queue, pop = self.queue, self.queue.pop
        class Stack:
            append, try_steal, __len__ = queue.append, queue.try_steal, queue.__len__
            def pop(self):
                first, second = pop(), pop()
                if second is not None:
                    queue.append(first)
                return second or first
        self.queue = Stack()

kinds = []
for cls in QueueLinear, Backwards:
    result = explore(cls, "dpor", schedules=4000)
    kinds.append(result.violation and result.violation.kind)
answer(kinds)
"""
    )
    assert kinds == [None, "not linearizable"]


# ---- the command


COMMAND = """
import planted
from stress.explore import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_command_ends_with_status_1_and_prints_a_table_and_a_token_that_replays(run_child):
    child = run_child(COMMAND, "planted-lost-update", "--mode", "dfs")
    assert child.returncode == 1, child.stdout + child.stderr
    assert "sizes: threads=2" in child.stdout  # three threads were not needed
    assert re.search(r"P0 +│ P1", child.stdout)
    assert "=> invariant: counted 1" in child.stdout
    (token,) = re.findall(r"--replay (\S+)", child.stdout)
    again = run_child(COMMAND, "planted-lost-update", "--replay", token)
    assert again.returncode == 1, again.stdout + again.stderr
    assert "=> invariant: counted 1" in again.stdout


def test_the_command_ends_with_status_0_when_nothing_is_found(run_child):
    child = run_child(COMMAND, "planted-atomic-update", "park-wake", "--tso")
    assert child.returncode == 0, child.stdout + child.stderr
    assert "2 scenarios, 0 with a finding" in child.stdout
    assert "schedules a second" in child.stdout


def test_the_command_plants_a_mutant_and_replays_what_it_leads_to(run_child):
    child = run_child(COMMAND, "--mutant", "lazy-waiting")
    assert child.returncode == 1, child.stdout + child.stderr
    assert "complete-running dpor/tso" in child.stdout  # its scenario, and its memory model
    assert "lazy set h1.state = (buffered) WAITING" in child.stdout
    assert "=> lost wake-up: house 1 is WAITING with mail" in child.stdout
    ((name, token),) = re.findall(r"--mutant (\S+) --replay (\S+)", child.stdout)
    again = run_child(COMMAND, "complete-running", "--mutant", name, "--replay", token)
    assert again.returncode == 1, again.stdout + again.stderr
    assert "=> lost wake-up" in again.stdout


@pytest.mark.parametrize("steps", ["z", "aAb"], ids=["no-such-thread", "not-possible-then"])
def test_a_replay_of_steps_that_are_not_possible_ends_with_status_2(run_child, steps):
    code = """
import planted
from stress.explore import main
from stress.explorer.replay import token
text = token(Runner(scenarios()["planted-lost-update"]), [0])
sys.exit(main(["planted-lost-update", "--replay", text[:-1] + sys.argv[1]]))
"""
    child = run_child(code, steps)
    assert child.returncode == 2, child.stdout + child.stderr
    assert "is not possible" in child.stderr
    assert "Traceback" not in child.stderr


def test_the_table_of_a_deadlock_shows_who_took_what_the_other_waits_for(run_child):
    child = run_child(COMMAND, "planted-deadlock", "--mode", "dfs")
    assert re.search(r"1 │ lock left: 0 → 1 +│\n2 │ +│ lock right: 0 → 2", child.stdout)


@pytest.mark.parametrize(
    "arguments",
    [["no-such"], ["--mutant", "no-such"], ["--mutant", "lost-barrier"],
     ["--bound", "1", "--mode", "pct"], ["--replay", "x"], ["--size", "threads"],
     ["planted-lost-update", "--size", "threads=0"],
     ["planted-lost-update", "--size", "threads=101"],
     ["park-wake", "--replay", "nonsense"], ["--seconds", "-3"], ["--seconds", "0"],
     ["--seconds", "nan"]],
    ids=["name", "mutant", "mutant-without-scenario", "bound", "replay", "size", "size-of-none",
         "size-of-many", "token", "seconds-below-0", "no-seconds", "seconds-nan"],
)  # fmt: skip
def test_the_command_ends_with_status_2_for_a_wrong_argument(run_child, arguments):
    child = run_child(COMMAND, *arguments)
    assert child.returncode == 2
    assert child.stderr
