"""The simulated doors: what `otavia_ft.doors` exports, made of the world's words.

Each class has the methods, the checks and the separate steps of its original, so that the runtime
cannot tell the difference, and a race between two steps of one method is still a race:

    AtomicInt    one word
    SpinLock     one word; `lock` is one step that waits (the spinning itself is verified once, in
                 the scenario `spin-lock`), `try_lock` a look and a compare-and-set,
                 `unlock` a lazy set
    HouseCell    a word each for state and runner, two for each mailbox (`in` and `out`). A
                 transition is a look and a compare-and-set; post is a push, then the transition;
                 has_mail looks at one word after the other. The mailbox's count is not a word of
                 its own: `size` counts what it sees in `in` and then in `out`
    Bell         one word, 0 or 1; waiting needs 1 and takes it
    Condition    one word that holds (owner, depth, waiting, notified); wait is two steps

What the doors do in the kernel is taken to be ordered like a read-modify-write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from otavia_ft import atomic
from stress.explorer.world import KEEP, Violation, Word, World, current

__all__ = ["NATIVE_LANE", "AtomicInt", "Bell", "Condition", "HouseCell", "SpinLock", "advance",
           "choose", "lane_face", "make_immortal", "me", "now", "now_ns", "relax",
           "set_me"]  # fmt: skip

NATIVE_LANE = False  # what C does in one call cannot be interleaved
lane_face: dict[str, Any] = {}

InvariantError = atomic.InvariantError
OUTSIDE = 1 << 20  # the identity of the code that sets a scenario up and checks its end


def the_world() -> World:
    world = current()
    if world is None:
        raise RuntimeError("this operation of the simulated doors needs a running scenario")
    return world


def load(word: Word, what: str = "load") -> Any:
    world = current()
    return word.first if world is None else world.load(word, what)


def update(word: Word, change: Callable[[Any], Any], what: str, **how: Any) -> Any:
    return the_world().update(word, change, what, **how)


def broken(text: str) -> NoReturn:
    """The runtime broke a rule: a finding, whoever catches the exception."""
    the_world().fail(Violation("invariant", text))
    raise InvariantError(text)


def my_number() -> int:
    t = the_world().running
    return OUTSIDE if t is None else t.tid + 1


def _int64(value: int) -> int:
    if not isinstance(value, int):
        raise TypeError(f"AtomicInt holds an int, not {value!r} ({type(value).__name__})")
    if not -(2**63) <= value < 2**63:
        raise OverflowError(f"AtomicInt holds a signed 64-bit integer, not {value!r}")
    return value


class AtomicInt:
    __slots__ = ("_word",)

    def __init__(self, value: int = 0) -> None:
        self._word = Word(_int64(value), "int")

    def load(self) -> int:
        return load(self._word)

    def lazy_set(self, value: int, /) -> None:
        the_world().lazy_store(self._word, _int64(value))

    def set(self, value: int, /) -> None:
        the_world().store(self._word, _int64(value))

    def compare_and_set(self, expected: int, desired: int, /) -> bool:
        _int64(expected), _int64(desired)
        return compare_and_set(self._word, expected, desired)

    def get_and_set(self, value: int, /) -> int:
        _int64(value)
        return update(self._word, lambda _: value, "exchange")

    def get_and_add(self, n: int, /) -> int:
        return update(self._word, lambda old: _int64(old + n), "add")


def compare_and_set(word: Word, expected: Any, desired: Any) -> bool:
    before = update(word, lambda old: desired if old == expected else KEEP, "cas")
    return before == expected


class SpinLock:
    __slots__ = ("_word",)

    def __init__(self) -> None:
        self._word = Word(0, "lock")

    @property
    def holder(self) -> int | None:
        return load(self._word) or None

    def _refuse_reentry(self, me: int) -> None:
        if self._word.value == me:
            raise RuntimeError("this thread already holds the SpinLock: it is not re-entrant")

    def lock(self) -> None:
        me, word = my_number(), self._word
        if self._seen_by_me() == me:
            self._refuse_reentry(me)
        update(word, lambda _: me, "lock", ready=lambda: word.value == 0)

    def try_lock(self) -> bool:
        me = my_number()
        if load(self._word, "look at") == 0 and compare_and_set(self._word, 0, me):
            return True
        if self._seen_by_me() == me:
            self._refuse_reentry(me)
        return False

    def unlock(self) -> None:
        holder = self._seen_by_me()
        if holder != my_number():
            raise RuntimeError(
                "unlock of a SpinLock that nobody holds" if holder == 0
                else f"unlock of a SpinLock held by another thread (ident {holder})"
            )  # fmt: skip
        the_world().lazy_store(self._word, 0, "unlock")

    def _seen_by_me(self) -> int:
        """The holder as far as it concerns this thread: no step, because nobody else makes it
        become or stop being this one."""
        t = the_world().running
        for entry in reversed(t.buffer if t is not None else ()):
            if entry[0] is self._word:
                return entry[1]
        return self._word.value

    def __enter__(self) -> SpinLock:
        self.lock()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.unlock()


BOXES = [box.name.lower() for box in atomic.Mailbox]
SYSTEM = int(atomic.Mailbox.SYSTEM)
WAITING, READY = int(atomic.HouseState.WAITING), int(atomic.HouseState.READY)
RUNNING = int(atomic.HouseState.RUNNING)
NOTHING = object()


class HouseCell:
    __slots__ = ("_in", "_out", "_runner", "_state")

    def __new__(cls, *args: Any, **kwargs: Any) -> HouseCell:
        # Complete before __init__, as the original is: a house need not call its parent's.
        self = super().__new__(cls)
        self._state = Word(int(atomic.HouseState.CREATED), "state")
        self._runner = Word(0, "runner")
        # A chain is a pair (message, the rest) or None: `in` newest first, `out` oldest first.
        self._in = [Word(None, f"{name}.in") for name in BOXES]
        self._out = [Word(None, f"{name}.out") for name in BOXES]
        return self

    @property
    def state(self) -> int:
        return load(self._state)

    @property
    def runner(self) -> int:
        return load(self._runner)

    def _move(self, source: int, target: int) -> bool:
        return load(self._state) == source and compare_and_set(self._state, source, target)

    def _enter(self) -> None:
        me = my_number()
        seen = load(self._runner)
        if seen != 0:
            broken(f"single-runner: thread {me} enters a house whose runner mark is {seen}")
        the_world().lazy_store(self._runner, me)

    def _leave(self) -> None:
        me = my_number()
        seen = load(self._runner)
        if seen != me:
            broken(f"single-runner: thread {me} leaves a house whose runner mark is {seen}")
        the_world().lazy_store(self._runner, 0)

    def _may_take(self) -> None:
        runner, me = load(self._runner), my_number()
        if runner not in (0, me):
            broken(f"single-runner: thread {me} takes mail of a house that thread {runner} runs")

    def _push(self, box: int, message: object) -> None:
        if not 0 <= box < len(BOXES):
            raise ValueError(f"no mailbox has number {box}")
        update(self._in[box], lambda chain: (message, chain), "push")

    def put(self, mailbox: int, message: object, /) -> None:
        self._push(mailbox, message)

    def _fetch(self, box: int) -> Any:
        if load(self._in[box]) is None:
            return None
        taken = update(self._in[box], lambda _: None, "exchange")
        first = None
        while taken is not None:
            first = (taken[0], first)
            taken = taken[1]
        return first

    def put_front(self, mailbox: int, message: object, /) -> None:
        self._may_take()
        first = load(self._out[mailbox])
        if first is None:
            first = self._fetch(mailbox)
        self._set_out(mailbox, (message, first))

    def _pop(self, box: int) -> Any:
        first = load(self._out[box])
        if first is None and (first := self._fetch(box)) is None:
            return NOTHING
        self._set_out(box, first[1])
        return first[0]

    def _set_out(self, box: int, chain: Any) -> None:
        # A release store, but the count's read-modify-write beside it keeps it out of the buffer.
        the_world().store(self._out[box], chain)

    def take(self, mailbox: int, empty: Any, /) -> Any:
        self._may_take()
        message = self._pop(mailbox)
        return empty if message is NOTHING else message

    def drain(self, mailbox: int, budget: int, /) -> Drain:
        return Drain(self, mailbox, budget)

    def size(self, mailbox: int, /) -> int:
        count = 0
        for word in (self._in[mailbox], self._out[mailbox]):
            chain = load(word)
            while chain is not None:
                chain, count = chain[1], count + 1
        return count

    def has_mail(self, mask: int, /) -> bool:
        return any(self._has_mail(box) for box in range(len(BOXES)) if mask & (1 << box))

    def mail(self) -> int:
        return sum(1 << box for box in range(len(BOXES)) if self._has_mail(box))

    def _has_mail(self, box: int) -> bool:
        return load(self._in[box]) is not None or load(self._out[box]) is not None


class Drain(Iterator[Any]):
    __slots__ = ("_box", "_cell", "left")

    def __init__(self, cell: HouseCell, box: int, budget: int) -> None:
        self._cell, self._box, self.left = cell, box, budget

    def __next__(self) -> Any:
        if self.left <= 0:
            raise StopIteration
        self._cell._may_take()
        if self._box != SYSTEM and self._cell._has_mail(SYSTEM):
            raise StopIteration
        message = self._cell._pop(self._box)
        if message is NOTHING:
            raise StopIteration
        self.left -= 1
        return message


def _transition(source: int, target: int) -> Callable[[HouseCell], bool]:
    def change(self: HouseCell) -> bool:
        if source == RUNNING:
            self._leave()
        if not self._move(source, target):
            if source == RUNNING:
                name = atomic.HouseState(self._state.value).name
                broken(f"a running house was found {name} instead of RUNNING")
            return False
        if target == RUNNING:
            self._enter()
        return True

    return change


def _post(box: int) -> Callable[[HouseCell, object], bool]:
    def post(self: HouseCell, message: object, /) -> bool:
        self._push(box, message)
        return self._move(WAITING, READY)

    return post


for _row in atomic.TRANSITIONS:
    setattr(HouseCell, _row.name, _transition(int(_row.source), int(_row.target)))
for _box, _name in enumerate(BOXES):
    setattr(HouseCell, "post_" + _name, _post(_box))


def _timed(timeout: float | None, ready: Callable[[], bool]) -> dict[str, Any]:
    """How a wait with a timeout may go on: see `Scenario.timeouts`."""
    world = the_world()
    t = world.running
    if timeout is None or t is None or world.timeout_rule == "never":
        return {"ready": ready}
    t.deadline = world.clock.value + timeout
    return {
        "ready": lambda: ready() or t.timeouts > 0,
        "options": lambda: (0,) if ready() else (1,),
    }


def _timed_out() -> bool:
    """Inside a wait's change: whether the time was up before anybody came."""
    t = the_world().running
    if t is None:
        return False
    t.deadline = None
    if t.alternative == 1:
        t.timeouts -= 1
    return t.alternative == 1


class Bell:
    __slots__ = ("_closed", "_word")

    def __init__(self) -> None:
        self._word = Word(0, "bell")
        self._closed = False

    def fileno(self) -> int:
        return -1

    def ring(self) -> None:
        if self._closed:
            raise OSError("the bell was rung after it had been closed")
        update(self._word, lambda _: 1, "ring")

    def silence(self) -> None:
        update(self._word, lambda _: 0, "silence")

    def wait(self, timeout: float | None = None) -> bool:
        word = self._word
        if timeout is not None and timeout <= 0:
            return bool(update(word, lambda _: 0, "poll"))
        how = _timed(timeout, lambda: word.value == 1)
        return bool(update(word, lambda _: KEEP if _timed_out() else 0, "wait", **how))

    def close(self) -> None:
        self._closed = True


class Condition:
    """threading.Condition with its default, re-entrant lock. Wakes in order of arrival."""

    __slots__ = ("_tickets", "_word")

    def __init__(self) -> None:
        self._word = Word((0, 0, (), ()), "condition")
        self._tickets = 0

    def _mine(self) -> bool:
        return bool(self._word.value[0] == my_number())

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me, word = my_number(), self._word

        def take(state: Any) -> Any:
            owner, depth, waiting, notified = state
            return KEEP if owner not in (0, me) else (me, depth + 1, waiting, notified)

        if blocking:
            update(word, take, "acquire", ready=lambda: word.value[0] in (0, me))
            return True
        return bool(update(word, take, "try acquire")[0] in (0, me))

    def release(self) -> None:
        if not self._mine():
            raise RuntimeError("cannot release un-acquired lock")
        update(self._word, lambda s: (s[0] * (s[1] > 1), s[1] - 1, s[2], s[3]), "release")

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self.release()

    def wait(self, timeout: float | None = None) -> bool:
        if not self._mine():
            raise RuntimeError("cannot wait on un-acquired lock")
        me, word = my_number(), self._word
        depth = word.value[1]
        ticket = self._tickets = self._tickets + 1
        update(word, lambda s: (0, 0, (*s[2], ticket), s[3]), "wait: release")

        def wake(state: Any) -> Any:
            _timed_out()
            _, _, waiting, notified = state
            return (me, depth, _without(waiting, ticket), _without(notified, ticket))

        def free() -> bool:
            return word.value[0] == 0 and ticket in word.value[3]

        how = _timed(timeout, free)
        if "options" in how:  # a late waiter needs the lock as well
            late, how["ready"] = how["ready"], lambda: word.value[0] == 0 and late()
        return ticket in update(word, wake, "wait", **how)[3]

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        while not (result := predicate()):
            if not self.wait(timeout) and timeout is not None:
                return predicate()
        return result

    def notify(self, n: int = 1) -> None:
        if not self._mine():
            raise RuntimeError("cannot notify on un-acquired lock")

        def tell(state: Any) -> Any:
            owner, depth, waiting, notified = state
            return (owner, depth, waiting[n:], notified + waiting[:n])

        update(self._word, tell, "notify")

    def notify_all(self) -> None:
        self.notify(len(self._word.value[2]))


def _without(tickets: tuple[int, ...], ticket: int) -> tuple[int, ...]:
    return tuple(t for t in tickets if t != ticket)


def relax() -> None:
    """At the end of a round of a spin loop that came to nothing.

    The thread goes on only when another round would read something else; a round's outcome must
    depend on what it reads. What a round itself changes, it has to put back.
    """
    world = the_world()
    t = world.running
    if t is None:
        raise RuntimeError("relax() outside a simulated thread would spin for ever")
    world.reach("relax", None, False, ready=lambda: world.changed(t))
    if world.keyed:
        world._observe(t, "relax", None, None)
    t.reads.clear()
    t.seen.clear()
    if world.log is not None:
        world.note("relax: what it read has changed", None)


def choose(n: int) -> int:
    world = current()
    if n <= 1 or world is None or world.running is None:
        return 0
    chosen = world.reach("choose", None, False, options=lambda: tuple(range(n)))
    if world.keyed:
        world._observe(world.running, "choose", None, chosen)
    if world.log is not None:
        world.note(f"choose({n})", None, chosen)
    return chosen


def me() -> Any:
    t = the_world().running
    return None if t is None else t.identity


def set_me(thread: object, /) -> None:
    t = the_world().running
    if t is not None:
        t.identity = thread


def now() -> float:
    world = current()
    return 0.0 if world is None else world.load(world.clock, "now")


def now_ns() -> int:
    return int(now() * 1e9)


def advance(seconds: float) -> None:
    """A scenario's own clockwork: let this much time pass, as a step."""
    update(the_world().clock, lambda now: now + seconds, "advance")


def make_immortal(thing: object, /) -> None:
    """Nothing: reference counts are not simulated."""
