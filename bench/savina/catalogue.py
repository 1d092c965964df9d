"""What there is to run. A figure is microseconds an operation unless the unit says otherwise.

`n` is how many operations a run makes; `small` is for a contender's first run, after which a slow
contender gets so many that a run lasts about as long as anybody else's (never more than `n`).
"""

from __future__ import annotations

from dataclasses import dataclass

CONTENDERS = {
    "pinned": "otavia-ft, dispatcher pinned",
    "pool": "otavia-ft, dispatcher pool",
    "threads": "a thread with a SimpleQueue for each actor",
    "asyncio": "a task with an asyncio.Queue for each actor",
    "executor": "ThreadPoolExecutor, a queue for each actor",
    "pykka": "Pykka",
    "thespian": "Thespian, simpleSystemBase (in this process, one thread)",
    "erlang": "Erlang (ceiling)",
}
OURS = ("pinned", "pool")
PEERS = ("threads", "asyncio", "executor", "pykka", "thespian")
INSTALLED = ("pykka", "thespian")  # the others need nothing but a Python
FLOOR = "floor"


GROWTH_ROUNDS = "one process, in which all sizes take nine turns; a figure is their median"
GROWTH_ALONE = "it is held against itself"


@dataclass(frozen=True)
class Workload:
    """One small program. `fixed`: its size is part of what it is, and no run is shortened."""

    title: str
    operation: str
    n: int
    small: int
    fixed: bool = False
    full: int = 0  # the size that a bar speaks of, where reaching it takes minutes: with --full
    rounds: int = 0  # so many at most,
    why_rounds: str = ""  # and why not as many as the others have
    fresh: bool = False  # a new process for every run
    memory: int = 0  # bytes that an operation may take, at most, and keeps
    ours_only: str = ""  # why there are no peers beside it
    only_full: bool = False
    about: str = ""


WORKLOADS = {
    "counting": Workload(
        "counting", "message", 200_000, 2_000,
        about="One actor sends another a number, n times; the other adds them up.",
    ),
    "fan-in": Workload(
        "fan-in", "message", 200_000, 2_000,
        about="Eight actors send numbers to one, which adds them up.",
    ),
    "ping-pong": Workload(
        "ping-pong", "round trip", 40_000, 200,
        about="Two actors throw a ball to and fro. Ours run on one worker, as asyncio does.",
    ),
    "ping-pong-across": Workload(
        "ping-pong, two threads", "round trip", 20_000, 200,
        about="The same with all workers: our two actors sit on two threads.",
    ),
    "ask-reply": Workload(
        "ask-reply, by hand", "ask", 30_000, 200,
        about="One actor asks another, and asks again when the answer is there. Hand-written "
        "stacks; one worker.",
    ),
    "ask-reply-await": Workload(
        "ask-reply, await", "ask", 30_000, 200,
        about="The same with `await` in an `async def` handler. The peers have one way only, and "
        "its figure stands in both rows.",
    ),
    "ring": Workload(
        "thread ring", "hop", 100_000, 500,
        about="A hundred actors pass a token around. One worker.",
    ),
    "ring-across": Workload(
        "thread ring, all workers", "hop", 40_000, 500,
        about="The same with all workers: each hop of ours goes to another thread.",
    ),
    "fork-join": Workload(
        "fork-join throughput", "message", 120_000, 1_200,
        about="One actor sends to sixty in turn; each counts its share and reports.",
    ),
    "fork-join-create": Workload(
        "fork-join creation", "actor", 10_000, 50,
        about="Build an actor, send it one message, forget it.",
    ),
    "big": Workload(
        "big", "round trip", 32_000, 640,
        about="Sixty-four actors, each pinging a random other and waiting for the pong.",
    ),
    "chameneos": Workload(
        "chameneos", "meeting", 20_000, 200,
        about="Twenty creatures meet in pairs at one mall, which all of them need.",
    ),
    "bank": Workload(
        "bank", "transfer", 8_000, 80,
        about="Eight tellers ask accounts, which ask other accounts, before they answer.",
    ),
    "sieve": Workload(
        "sieve", "message", 3_000, 300, fixed=True, full=3_000,
        about="Candidates run through a pipeline of filters that grows as primes are found. Here "
        "n is the largest candidate.",
    ),
    "cpu-map-one": Workload(
        "CPU map, one worker", "chunk", 2_400, 8,
        about="Chunks of pure Python arithmetic, about half a millisecond each, on one worker.",
    ),
    "cpu-map": Workload(
        "CPU map, all workers", "chunk", 2_400, 8,
        about="The same on all workers.",
    ),
    "many": Workload(
        "many actors", "actor", 100_000, 100, fixed=True, full=1_000_000, fresh=True, memory=1500,
        about="Build a million actors (a quick run: fewer) and keep them, send one message to "
        "each. Also: bytes an actor, and how many were built a second.",
    ),
    "crowd": Workload(
        "ten million actors", "actor", 10_000_000, 1_000, fixed=True, full=10_000_000, rounds=1,
        why_rounds="one run, which takes minutes",
        fresh=True, memory=1500, only_full=True,
        ours_only="a size of our own; how far the others get stands in the row of many actors",
        about="The same with ten million, all alive at once.",
    ),
    "latency": Workload(
        "latency of an ask at half load", "median", 10_000, 200,
        about="Asks from outside at half of the rate that saturates: time from when one was due "
        "to its answer (median; p99 and p99.9 apart).",
    ),
    "timers": Workload(
        "timer storm", "timer (CPU time)", 20_000, 200,
        about="Ten actors set timers that go off within a tenth of a second. CPU time of the "
        "process, since the waiting is not ours.",
    ),
    "wake-up": Workload(
        "notice to a sleeper", "notice", 400, 40,
        ours_only="it is held against a bare eventfd",
        about="A notice from outside to an actor whose thread sleeps: until the handler runs.",
    ),
    "growth-actors": Workload(
        "growth with actors", "message, CPU time", 100_000, 100, fixed=True, full=1_000_000,
        rounds=1, why_rounds=GROWTH_ROUNDS, ours_only=GROWTH_ALONE,
        about="Time of a message with 10 actors that all have work, and with ever more, which "
        "take turns in an order that has nothing to do with where they lie in memory. Here n is "
        "the largest number of actors.",
    ),
    "growth-in-order": Workload(
        "growth with actors, in order", "message, CPU time", 100_000, 100, fixed=True,
        full=1_000_000, rounds=1, why_rounds=GROWTH_ROUNDS, ours_only=GROWTH_ALONE,
        about="The same, but they take turns in the order in which they were built, which "
        "processors fetch ahead. No bar speaks of it.",
    ),
    "growth-worst": Workload(
        "growth with actors, one message a turn", "message, CPU time", 100_000, 100, fixed=True,
        full=1_000_000, rounds=1, why_rounds=GROWTH_ROUNDS, ours_only=GROWTH_ALONE,
        about="The same with a budget of one message a turn, the worst case: all that belongs to "
        "an actor is fetched from memory for each message. No bar speaks of it.",
    ),
    "growth-queue": Workload(
        "growth with queued messages", "message, CPU time", 100_000, 100, fixed=True,
        full=10_000_000, rounds=1, why_rounds=GROWTH_ROUNDS, ours_only=GROWTH_ALONE,
        about="Time of a message with 1 queued at the actor, and with ever more.",
    ),
}  # fmt: skip

# The most actors that a contender is asked to keep: threads are dear, and tasks slow to make.
MANY_LIMIT = {"threads": 2_000, "pykka": 1_000, "thespian": 5_000, "asyncio": 100_000}

# Every gap in the peers' columns has a reason. (Those that only we run are in `ours_only`.)
ONE_THREAD = "it has one thread, ever"
WHY_NOT = {
    **{
        (peer, workload): ONE_THREAD
        for peer in ("asyncio", "thespian")
        for workload in ("ping-pong-across", "ring-across", "cpu-map")
    },
    ("thespian", "latency"): "its ask from outside runs the actors on the asking thread and "
    "returns with the answer, so asks cannot come while others are on their way",
}
