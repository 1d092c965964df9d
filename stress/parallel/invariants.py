"""What must always hold, in plain words, and what each check cannot see.

A finding names one of these. The table in docs/stress.md is made from this list (`markdown`), and a
test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["INVARIANTS", "Invariant", "markdown"]


@dataclass(frozen=True, slots=True)
class Invariant:
    """A rule of the runtime, and how far the check of it reaches."""

    name: str
    statement: str
    blind_spot: str


_ALL = (
    Invariant(
        "single-runner",
        "At most one thread at a time runs an actor: the owner mark in C raises, and a plain "
        "counter in the actor loses no update.",
        "Two runners whose visits to the actor never overlap, and never meet at the mark.",
    ),
    Invariant(
        "one-queue",
        "A house is in at most one run queue or ring at a time.",
        "Bare cases, which carry no instruments. In the Python lane, houses that are buried after "
        "the stop.",
    ),
    Invariant(
        "no-lost-message",
        "Every message that was sent is handled, or is a dead letter, or was refused at "
        "its sender.",
        "What a handler has in hand that never ends, and is left behind by a forced stop.",
    ),
    Invariant(
        "no-duplicate",
        "No message is handled twice, nor handled and also a dead letter.",
        "Control messages, which carry no number.",
    ),
    Invariant(
        "fifo",
        "Messages of one producer to one mailbox are handled in the order they were sent.",
        "The order between producers, and between mailboxes of one actor, which nobody promises.",
    ),
    Invariant(
        "no-lost-wake-up",
        "When all threads sleep, no mailbox and no queue holds anything, whatever timers are "
        "pending; and no case stands still.",
        "A wake-up that is merely late, because something else made the thread look: another "
        "message, or a periodic timer such as the pools' own.",
    ),
    Invariant(
        "answered-once",
        "Every ask ends exactly once: reply, error, timeout or stop, and with the right one.",
        "Which of two ends that are both allowed (a reply and a timeout at once) it is.",
    ),
    Invariant(
        "barrier-exclusive",
        "From the start of a barrier call to the end of its execution the actor begins "
        "no other ask "
        "or notice.",
        "Replies and events inside the barrier, which are allowed.",
    ),
    Invariant(
        "batch",
        "A batch holds consecutive messages that passed the filter, at most batch_limit "
        "of them, in "
        "order; one that did not pass comes alone and not before the batch in front of it.",
        "Whether a batch could have been larger.",
    ),
    Invariant(
        "dispatch-order",
        "One pass over the mailboxes goes in the order system, reply, exception, ask, "
        "notice, event.",
        "Bare cases. Mail that comes while the pass is under way waits for the next pass.",
    ),
    Invariant(
        "priority-order",
        "The owner takes a high-priority house before a normal one, except that after ageing_limit "
        "high ones in a row, or a slice of business, a normal one that waits is next.",
        "In the Python lane, bare cases and cases with stealing: a thief may empty the list "
        "between look and take. In the native lane, all but the workload parts.",
    ),
    Invariant(
        "mount-first",
        "No message is handled before the start hooks have ended.",
        "Hooks that fail: their actor is stopped and handles nothing.",
    ),
    Invariant(
        "hooks-once",
        "The start hooks run once a life; post_stop and the cleaner at most once, and exactly once "
        "if the actor was stopped; each restart runs its three hooks once, in order.",
        "Whether the cleaner of an actor runs that is still waiting to be mounted when the system "
        "stops by force. How late a cleaner of a dropped actor is: the check first has every "
        "worker run once more.",
    ),
    Invariant(
        "steal-rules",
        "A thief never gets an IO actor nor the last house of a list; a stolen house goes back to "
        "its owner's queue.",
        "The pool's rings, where every worker owns every house; there only IO actors are checked.",
    ),
    Invariant(
        "fair-turns",
        "Beside actors that flood themselves every other one on their thread gets its turn, within "
        "a number of their messages that follows from throughput_budget and ageing_limit (in the "
        "pool: global_poll_interval); timers, mounts and what belongs to the thread come "
        "meanwhile.",
        "Several threads, thieves: the bound is stated and checked for one thread that nobody "
        "helps. How long a message takes. A turn that comes too soon.",
    ),
    Invariant(
        "placement",
        "Builds of a multiple of the threads' number give each thread as many actors, all others "
        "take the threads in turn, IO actors in a turn of their own: so each thread has its share, "
        "whoever builds meanwhile, and an actor starts there. An address of several deals its "
        "messages out in turn; asks between load-balanced actors go to the neighbour.",
        "Which of two builders at once gets which seat: nobody promises that.",
    ),
    Invariant(
        "statistics",
        "No counter of system.statistics() ever goes down. When all threads have ended as many "
        "steals were given as taken, the system's figures are the sums of the threads', and no "
        "fewer messages are counted than the workload knows were handled.",
        "A counter that is too large, but for steals and, without thieves, wake-ups: those are no "
        "more than the sleeps. Threads that a forced stop leaves behind.",
    ),
    Invariant(
        "timer-once",
        "A one-shot timer fires exactly once if cancel was not called or returned False, "
        "and never if cancel returned True. It never fires early, and behind a move not before the "
        "new time; each move makes it fire once more at most. A periodic one never begins to fire "
        "after cancel has returned, but for the firing that was under way. A thread's timer is "
        "heard of there, between two turns. None of a stopped actor's is left.",
        "How late a timer is.",
    ),
    Invariant(
        "bounded",
        "A bounded mailbox never holds more than its capacity, and its policy accounts for every "
        "message that was not handled; an ask that found no room is answered. Only threads outside "
        "wait for room.",
        "notice_self_first, replies and events, which are not bounded.",
    ),
    Invariant(
        "lock-exclusion",
        "Between lock and unlock of a SpinLock nobody else is: a plain counter loses no update.",
        "Fairness. (Nobody promises it.)",
    ),
    Invariant(
        "pool-private",
        "An object of a ThreadPool is in the hands of one user at a time, comes from the pool of "
        "the thread that uses it, and goes back once; a stack serves one message at a time; in "
        "debug mode a stack that was recycled refuses to be used.",
        "Bare cases, but for the workloads stacks and parts. In debug mode, a kept stack that "
        "serves another message by now; without it, whatever user code keeps.",
    ),
    Invariant(
        "back-pressure",
        "While memory is short, each notice from a thread outside waits once before it is sent, "
        "and none of an actor does. While it is not, and after the stop, none waits.",
        "How long it waits; notices that are under way when the memory changes its mind.",
    ),
    Invariant(
        "io-served",
        "What comes to a registered channel is read once, in order and on its thread, its end "
        "included, whatever the state actors there do; a channel that is not registered is not "
        "called.",
        "How soon, short of the case's patience. io_ratio=100, where business has no limit.",
    ),
    Invariant(
        "nothing-left",
        "After the stop no thread, no file descriptor, no open ask and, once the last address is "
        "dropped, no object of the runtime is left: no house (that is: no cell with its "
        "mailboxes), actor, stack, promise, envelope, timer, address, drain, future or coroutine.",
        "What the collector does not list: single atomic cells and locks, which end with their "
        "owner, messages without a field, a mailbox's nodes in C. What is kept for each class of "
        "actors. What would have been left if the collector had not run: cycles.",
    ),
    Invariant(
        "no-error",
        "The runtime logs no error but those that a workload's own exceptions cause, and no thread "
        "dies.",
        "An error that is swallowed without a record.",
    ),
    Invariant(
        "no-crash",
        "The child process ends by itself, with its own report.",
        "Corruption of memory that has no effect until the child ends.",
    ),
)

INVARIANTS: dict[str, Invariant] = {each.name: each for each in _ALL}


def markdown() -> str:
    """The table for docs/stress.md."""
    rows = [f"| `{i.name}` | {i.statement} | {i.blind_spot} |" for i in _ALL]
    return "\n".join(
        ["| name | what must hold | what the check cannot see |", "|---|---|---|", *rows]
    )
