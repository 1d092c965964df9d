"""The house and the parker as Promela models, checked by SPIN.

Why a model beside an explorer that runs the code itself? The model has no bounds but its sizes:
SPIN visits every state of several senders, runners and messages in a second, and proves liveness
("every message is handled in the end"), which no search over single runs can. What it proves is
worth as much as its likeness to the code, so the model is small enough to read beside it, its table
of transitions is compared with the C code's in the tests, and it has bugs of its own to find: each
entry of `BUGS` is compiled in by a -D, and a test fails if SPIN calls such a model right.

    table.pml     states and arrows of a house
    parker.pml    the sleeping flag and the bell
    parking.pml   a sleeper and its wakers
    house.pml     a house, its senders, its owner (who sleeps by parker.pml) and thieves

`./ft shell -m stress.model` runs everything; `check.py` is the way there.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BUGS", "LARGE", "SIZES", "Bug"]

Defines = dict[str, int]

# What is proved for every change: well under a second each.
SIZES: list[tuple[str, Defines]] = [
    ("parking", {"WAKERS": 1, "ITEMS": 1}),
    ("parking", {"WAKERS": 2, "ITEMS": 2}),
    ("parking", {"WAKERS": 3, "ITEMS": 2}),
    ("house", {"SENDERS": 1, "MESSAGES": 1, "WORKERS": 1}),
    ("house", {"SENDERS": 1, "MESSAGES": 2, "WORKERS": 2}),
    ("house", {"SENDERS": 2, "MESSAGES": 1, "WORKERS": 1}),
    ("house", {"SENDERS": 2, "MESSAGES": 1, "WORKERS": 2}),
    ("house", {"SENDERS": 2, "MESSAGES": 1, "WORKERS": 2, "BUDGET": 2}),
]

# What takes up to some minutes.
LARGE: list[tuple[str, Defines]] = [
    ("parking", {"WAKERS": 4, "ITEMS": 3}),
    ("house", {"SENDERS": 2, "MESSAGES": 2, "WORKERS": 1}),
    ("house", {"SENDERS": 2, "MESSAGES": 2, "WORKERS": 2}),
    ("house", {"SENDERS": 3, "MESSAGES": 1, "WORKERS": 1}),
]


@dataclass(frozen=True, slots=True)
class Bug:
    """A deliberate bug: the model that has it, its -D, what it does in words, who must see it."""

    model: str
    name: str
    breaks: str
    workers: int = 2
    by: tuple[str, ...] = ("safety", "liveness")

    @property
    def sizes(self) -> Defines:
        return {"WORKERS": self.workers} if self.model == "house" else {}


BUGS = (
    Bug("house", "BUG_NO_RECHECK", "the runner does not look again after it has stored WAITING"),
    Bug("house", "BUG_RECHECK_FIRST", "the runner looks again before it stores WAITING"),
    Bug(
        "house",
        "BUG_ALWAYS_ENQUEUE",
        "the runner enqueues although its compare-and-set lost",
        by=("safety",),
    ),
    Bug(
        "house",
        "BUG_PLAIN_READY",
        "the runner's second look stores READY without comparing",
        by=("safety",),
    ),
    Bug("house", "BUG_LAZY_WAITING", "WAITING is stored lazily: the look may overtake it"),
    Bug("house", "BUG_SENDER_ENQUEUES", "a sender enqueues because it reads READY", by=("safety",)),
    Bug("house", "BUG_ENQUEUE_FIRST", "a sender enqueues first and sets READY second"),
    Bug("house", "BUG_LOOK_BEFORE_PUT", "a sender looks at the state before it puts its message"),
    Bug("house", "BUG_MOUNT_NO_LOOK", "the mount does not look for mail that came meanwhile"),
    Bug(
        "house",
        "BUG_EARLY_WAITING",
        "the house leaves MOUNTING before its hooks have run",
        by=("safety",),
    ),
    # Alone with its owner: a thief that never sleeps would hide that the owner sleeps too long.
    Bug("house", "BUG_WAKE_BEFORE_ENQUEUE", "the owner is woken first, the house queued second", 1),
    # No state is wrong, but a fair run exists in which nothing is ever handled.
    Bug(
        "house",
        "BUG_IDLE_TURN",
        "a turn may handle nothing although there is mail",
        by=("liveness",),
    ),
    Bug("parking", "BUG_WAKE_BEFORE_PUT", "a waker calls first and puts its work second"),
    Bug("parking", "BUG_NO_WAKE", "nobody calls"),
    Bug("parking", "BUG_LOOK_FIRST", "the sleeper looks before it sets its flag to AWAKE"),
    Bug("parking", "BUG_SLEEP_ANYWAY", "the sleeper stores ASLEEP over whatever is there"),
    Bug("parking", "BUG_LOAD_THEN_RING", "a waker only reads the flag, and leaves no mark"),
    Bug("parking", "BUG_LAZY_AWAKE", "AWAKE is stored lazily, and wipes out a call"),
)
