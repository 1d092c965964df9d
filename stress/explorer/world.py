"""One run of a scenario: threads that stop before each operation, and memory that they share.

A `Word` is one memory location. Everything behind the doors is made of words, and every operation
on a word goes through `World.reach` first: the thread says what it is about to do, the world's
picker chooses who goes next, and when the choice falls on this thread it performs the operation and
runs on to its next one. So between two steps exactly one operation happens.

Who can be chosen: a *process*. Process t < n is thread t; under TSO process n + t is thread t's
store buffer, whose only operation is to write its oldest entry to memory. It stays pending when its
thread has ended. A choice is an *action*, `alternative * 2n + process`: most operations have the
one alternative 0, `choose(n)` has n, and a wait that may time out has two.

Memory orders. Under sequential consistency a store is visible at once. Under TSO a lazy store goes
to the end of its thread's buffer, loads look there first, and everything else (read-modify-write,
seq-cst store, whatever enters the kernel) needs the own buffer to be empty.

Quiet words. A word that only one thread touches, or that nobody writes, needs no stops: nobody can
tell when it was touched. Each word starts out quiet; the first time that two threads meet on one
and at least one of them writes, its name is added to `shared`, and an exhaustive search starts
again from the beginning. A search that ends has therefore seen no conflict on a quiet word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otavia_ft.atomic import HouseState, InvariantError
from stress.explorer.carriers import Abandon, Carriers

__all__ = ["DivergedError", "Thread", "Violation", "Word", "World", "current"]

Alternatives = tuple[int, ...]
ONE: Alternatives = (0,)
KEEP = object()
MIXED = object()  # the value of a word that others changed between two reads


class Violation(Exception):
    """What a run did wrong: the kind in a word or two, and what exactly."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text


class DivergedError(Exception):
    """The same schedule did something else this time: the scenario is not deterministic."""


class Word:
    """One memory location. Made by a world, or at import time (then every world resets it)."""

    __slots__ = (
        "clock", "first", "home", "mask", "name", "past", "quiet", "stamp", "value", "written",
    )  # fmt: skip

    def __init__(self, value: Any, name: str, world: World | None = None) -> None:
        self.first = value
        self.home = name
        world = world or _world
        if world is None:
            _static.append(self)
        else:
            world.adopt(self)


class Thread:
    """A simulated thread, and the operation that it is about to perform."""

    __slots__ = (
        "alternative",
        "bit",
        "body",
        "buffer",
        "carrier",
        "clock",
        "daemon",
        "deadline",
        "done",
        "drains",
        "error",
        "identity",
        "kind",
        "made",
        "name",
        "options",
        "past",
        "reads",
        "ready",
        "seen",
        "tid",
        "timeouts",
        "word",
        "writes",
    )  # fmt: skip

    def __init__(self, tid: int, name: str, body: Callable[[], Any], daemon: bool) -> None:
        self.tid = tid
        self.bit = 1 << tid
        self.name = name
        self.body = body
        self.daemon = daemon
        self.done = False
        self.error: BaseException | None = None
        self.carrier: Any = None
        self.identity: Any = None  # what me() answers
        self.kind = "begin"
        self.word: Word | tuple[Word, ...] | None = None
        self.writes = False
        self.drains = False  # needs the own store buffer to be empty
        self.ready: Callable[[], bool] | None = None  # None: always
        self.options: Callable[[], Alternatives] | None = None  # None: alternative 0 only
        self.alternative = 0
        self.deadline: float | None = None
        self.timeouts = 0  # how often a wait may still time out
        # Since the last relax(): what was read first, and the stamp then or after an own write.
        self.reads: dict[Word, Any] = {}
        self.seen: dict[Word, int] = {}
        self.buffer: list[tuple[Word, Any, list[int] | None, int]] = []
        self.made = 0
        self.past = tid + 1  # hash of all that it has observed
        self.clock: list[int] | None = None


class World:
    def __init__(
        self,
        pick: Callable[[World, list[int]], int],
        *,
        carriers: Carriers,
        tso: bool = False,
        shared: set[Any] | None = None,
        keyed: str = "",
        logging: bool = False,
        step_limit: int = 2000,
        timeouts: str | int = "never",
    ) -> None:
        self.pick = pick
        self.carriers = carriers
        self.tso = tso
        self.shared = shared  # None: no word is quiet
        self.keyed = keyed  # "", "values" or "trace": whether states get keys, and of what
        self.log: list[tuple[int, str, Word | None]] | None = [] if logging else None
        self.step_limit = step_limit
        self.timeout_rule = timeouts
        self.threads: list[Thread] = []
        self.running: Thread | None = None
        self.schedule: list[int] = []
        self.full: list[int] = []  # the same with the quiet operations as steps of their own
        self.full_limit = 20 * step_limit
        self.violation: Violation | None = None
        self.cut = False  # the picker wants no more of this run
        self.learned = False  # a quiet word turned out to be shared
        self.outcome: Any = None
        self.diverged: DivergedError | None = None
        self.errors_expected = False  # whether the runtime may log errors
        self.checking = False  # whether vector clocks are kept for plain fields
        self.plain: dict[int, Any] = {}  # what the race check knows of plain fields
        # Told when nothing can move, and when a timeout fires because of that.
        self.on_stand_still: Callable[[World], None] = _ignore
        self.on_time_passed: Callable[[World], None] = _ignore
        self.on_end: Callable[[], None] = _nothing
        self.memory = 0  # hash of all words
        # The last step, for the picker: process, kind, word (a spin: words), whether it wrote,
        # and "drains", "buffers" or "".
        self.event: tuple[int, str, Any, bool, str] | None = None
        self._starting = True
        self._ending = False
        self._made = 0
        self.clock = Word(0.0, "clock", self)

    # ---- building ---------------------------------------------------------------------------

    def adopt(self, word: Word) -> None:
        t = self.running
        if t is None:
            name: Any = self._made
            self._made += 1
        else:  # named by its maker's history, which is the same in every schedule that makes it
            name = (t.tid, t.made)
            t.made += 1
        word.name = name
        word.value = word.first
        word.stamp = 0
        word.mask = 0
        word.written = False
        word.quiet = self.shared is not None and name not in self.shared
        word.clock = None
        word.past = 0

    def add(self, name: str, body: Callable[[], Any], daemon: bool) -> Thread:
        thread = Thread(len(self.threads), name, body, daemon)
        if isinstance(self.timeout_rule, int):
            thread.timeouts = self.timeout_rule
        self.threads.append(thread)
        return thread

    # ---- running ----------------------------------------------------------------------------

    def run(self) -> None:
        """Run all threads until nothing can move; leaves the verdict in `violation`."""
        self.processes = 2 * len(self.threads)
        if self.checking:
            for t in self.threads:
                t.clock = [0] * len(self.threads)
                t.clock[t.tid] = 1
        start = self.carriers.start
        try:
            for t in self.threads:
                self.running = t
                t.carrier = start(lambda t=t: self._body(t))  # type: ignore[misc]
            self._starting = False
            while (t := self._advance()) is not None:  # type: ignore[assignment]
                t.carrier.switch()
        finally:
            self._end()

    def _body(self, t: Thread) -> None:
        try:
            t.body()
        except Abandon:
            pass
        except Violation as found:
            self.fail(found)
        except (AssertionError, InvariantError) as error:
            t.error = error
            self.fail(Violation("invariant", f"{error} (in {t.name})"))
        except Exception as error:
            t.error = error
            self.fail(Violation("exception", f"{t.name} died of {type(error).__name__}: {error}"))
        # One that was abandoned is not done, and the verdict wants to know who was stuck; not even
        # if it catches everything, as the runtime's threads do, and comes to a quiet end.
        t.done = not self._ending

    def _end(self) -> None:
        self._ending = True
        self.on_end()
        for t in self.threads:
            if t.carrier is None:
                continue
            if not t.done:
                self.running = t
                t.carrier.throw(Abandon())
            self.carriers.release(t.carrier)
        self.running = None

    def fail(self, violation: Violation) -> None:
        """Record the first thing that went wrong; the run ends at the next step."""
        if self.violation is None and not self._ending:
            self.violation = violation

    def _advance(self) -> Thread | None:
        """The thread that goes next; None when the run is over."""
        while True:
            if self.violation is not None or self.cut:
                return None
            able = self.able()
            if not able:
                self.on_stand_still(self)
                if not self._let_time_pass():
                    return None
                self.on_time_passed(self)
                continue
            if len(self.schedule) >= self.step_limit:
                self.fail(Violation("livelock", f"no end after {self.step_limit} steps"))
                return None
            try:
                action = self.pick(self, able)
            except DivergedError as error:  # kept here: the runtime above catches everything
                self.diverged = error
                action = -1
            if action < 0:
                self.cut = True
                return None
            self.schedule.append(action)
            alternative, process = divmod(action, self.processes)
            if process >= len(self.threads):
                self._flush(self.threads[process - len(self.threads)])
                continue
            t = self.threads[process]
            t.alternative = alternative
            return t

    def able(self) -> list[int]:
        """The processes that could take a step now."""
        if not self.tso:
            return [t.tid for t in self.threads if not t.done and ((r := t.ready) is None or r())]
        found = []
        for t in self.threads:
            if not t.done and not (t.drains and t.buffer):
                ready = t.ready
                if ready is None or ready():
                    found.append(t.tid)
        n = len(self.threads)
        for t in self.threads:
            if t.buffer:
                found.append(n + t.tid)
        return found

    def alternatives(self, process: int) -> Alternatives:
        if process < len(self.threads):
            options = self.threads[process].options
            if options is not None:
                return options()
        return ONE

    def pending(self, process: int) -> tuple[Any, bool]:
        """Which word the process will touch next (None: its own affair), and whether to write."""
        n = len(self.threads)
        if process >= n:
            return self.threads[process - n].buffer[0][0], True
        t = self.threads[process]
        return (tuple(t.reads) if t.kind == "relax" else t.word), t.writes

    def reach(
        self,
        kind: str,
        word: Word | tuple[Word, ...] | None,
        writes: bool,
        *,
        drains: bool = False,
        ready: Callable[[], bool] | None = None,
        options: Callable[[], Alternatives] | None = None,
    ) -> int:
        """Stop before an operation until chosen; returns the alternative chosen."""
        t = self.running
        assert t is not None
        if self._ending:
            raise Abandon
        t.kind = kind
        t.word = word
        t.writes = writes
        t.drains = drains
        t.ready = ready
        t.options = options
        if self._starting:
            self.carriers.hub.switch()
        else:
            following = self._advance()
            if following is not t:
                (self.carriers.hub if following is None else following.carrier).switch()
        if self._ending:
            raise Abandon
        self.running = t
        t.ready = None
        touched = tuple(t.reads) if kind == "relax" else word
        self.event = (t.tid, kind, touched, writes, "drains" if drains else "")
        self.full.append(t.alternative * self.processes + t.tid)
        return t.alternative

    def _let_time_pass(self) -> bool:
        """Nothing can move. Let the earliest deadline come, if the scenario allows it."""
        if self.timeout_rule != "idle":
            return False
        waiting = [t for t in self.threads if not t.done and t.deadline is not None]
        if not waiting:
            return False
        t = min(waiting, key=lambda t: (t.deadline, t.tid))
        if self.clock.value < t.deadline:
            self.write(t, self.clock, t.deadline)
        t.timeouts = 1
        return True

    # ---- quiet words ------------------------------------------------------------------------

    def alone(self, word: Word, t: Thread, writes: bool, drains: bool) -> bool:
        """Whether a quiet word may be touched without a stop, now and by this thread."""
        if not self._still_quiet(word, t, writes) or (drains and t.buffer):
            return False  # shared; or a fence, whatever it fences with
        self.full.append(t.tid)
        if len(self.full) > self.full_limit:
            self._endless()
        return True

    def _endless(self) -> None:
        """A loop over quiet words takes no steps, so the step limit would never end it."""
        self.fail(Violation("livelock", f"no end after {self.full_limit} operations"))
        raise Abandon

    def _still_quiet(self, word: Word, t: Thread, writes: bool) -> bool:
        mask = word.mask = word.mask | t.bit
        if writes:
            word.written = True
        if not word.written or not mask & (mask - 1):
            return True
        word.quiet = False
        self.learned = True
        self.shared.add(word.name)  # type: ignore[union-attr]
        return False

    # ---- memory -----------------------------------------------------------------------------

    def load(self, word: Word, what: str = "load") -> Any:
        t = self.running
        if t is None:
            return word.value
        if not word.quiet:
            self.reach(what, word, False)
        else:
            mask = word.mask | t.bit
            if mask == t.bit or not word.written:  # the common case of `alone`
                word.mask = mask
                self.full.append(t.tid)
                if len(self.full) > self.full_limit:
                    self._endless()
            elif not self.alone(word, t, False, False):
                self.reach(what, word, False)
        value = word.value if not t.buffer else self.visible(t, word)
        if word not in t.reads:
            t.reads[word] = value
            t.seen[word] = word.stamp
        elif t.seen[word] != word.stamp:
            t.reads[word] = MIXED
        if self.keyed:
            self._observe(t, what, word, value)
        if self.checking:
            self.acquire(t, word)
        if self.log is not None:
            self.note(what, word, value)
        return value

    def store(self, word: Word, value: Any, what: str = "set") -> None:
        """A seq-cst store."""
        t = self.running
        if t is None:
            word.value = value
            return
        if not (word.quiet and self.alone(word, t, True, True)):
            self.reach(what, word, True, drains=True)
        if self.keyed:
            self._observe(t, what, word, None)
        self.write(t, word, value)
        if self.log is not None:
            self.note(what, word, value, arrow="=")

    def lazy_store(self, word: Word, value: Any, what: str = "lazy set") -> None:
        """A release store."""
        t = self.running
        if not self.tso or t is None:
            self.store(word, value, what)
            return
        if word.quiet:
            self._still_quiet(word, t, True)
        self.reach(what, None, False)
        self.event = (t.tid, what, None, False, "buffers")
        if self.keyed:
            self._observe(t, what, None, None)
        clock = self.release(t) if self.checking else None
        t.buffer.append((word, value, clock, t.past))
        if self.log is not None:
            self.note(what, word, value, arrow="= (buffered)")

    def update(
        self,
        word: Word,
        change: Callable[[Any], Any],
        what: str,
        ready: Callable[[], bool] | None = None,
        options: Callable[[], Alternatives] | None = None,
    ) -> Any:
        """A read-modify-write; returns the value before.

        `change` answers the word's new value, or KEEP when it writes nothing after all (a failed
        compare-and-set). With `ready` the operation blocks until that is true.
        """
        t = self.running
        if t is None:
            before = word.value
            after = change(before)
            if after is not KEEP:
                word.value = after
            return before
        still = word.quiet and self._still_quiet(word, t, True)
        if still and not t.buffer and options is None and (ready is None or ready()):
            self.full.append(t.tid)
            if len(self.full) > self.full_limit:
                self._endless()
            before = word.value
            after = change(before)
        else:
            self.reach(what, word, True, drains=True, ready=ready, options=options)
            before = word.value
            after = change(before)
            if after is KEEP:  # announced as a write, but it only read
                self.event = (t.tid, what, word, False, "drains")
        if word not in t.reads:
            t.reads[word] = before
            t.seen[word] = word.stamp
        elif t.seen[word] != word.stamp:
            t.reads[word] = MIXED
        if self.keyed:
            self._observe(t, what, word, before)
        if self.checking:
            self.acquire(t, word)
        if after is not KEEP:
            self.write(t, word, after)
        if self.log is not None:
            self.note(what, word, before, before if after is KEEP else after)
        return before

    def look(self, words: tuple[Word, ...], what: str) -> None:
        """Read several words in one step (a history's call, see linear.py)."""
        t = self.running
        assert t is not None
        self.reach(what, words, False)
        if self.keyed:
            for word in words:
                self._observe(t, what, word, word.value)
        if self.log is not None:
            self.note(what, None)

    def visible(self, t: Thread, word: Word) -> Any:
        """What a thread would read: the latest of its own buffered stores, or what is in memory."""
        for entry in reversed(t.buffer):
            if entry[0] is word:
                return entry[1]
        return word.value

    def changed(self, t: Thread) -> bool:
        """Whether a spinning thread would read anything else than in its last round."""
        for word, first in t.reads.items():
            now = self.visible(t, word)
            if first is MIXED or (now is not first and now != first):
                return True
        return False

    def write(self, t: Thread, word: Word, value: Any) -> None:
        if value is not word.value:
            word.stamp += 1
            if word in t.seen:
                t.seen[word] += 1  # its own: a change by others stays a change
        if self.keyed:
            self._remember(word, value, t.past)
        word.value = value
        if self.checking:
            word.clock = self.release(t)

    def _flush(self, t: Thread) -> None:
        word, value, clock, past = t.buffer.pop(0)
        if value is not word.value:
            word.stamp += 1
            if word in t.seen:
                t.seen[word] += 1
        if self.keyed:
            self._remember(word, value, past)
        word.value = value
        word.clock = clock
        process = len(self.threads) + t.tid
        self.event = (process, "flush", word, True, "")
        self.full.append(process)
        if self.log is not None:
            text = f"buffer writes {self._name(word)} = {told(word, value)}"
            self.log.append((process, text, word))

    # ---- states -----------------------------------------------------------------------------

    def _observe(self, t: Thread, what: str, word: Word | None, value: Any) -> None:
        name = None if word is None else word.name
        seen = value if self.keyed == "values" or word is None else word.past
        t.past = hash((t.past, what, name, seen))

    def _remember(self, word: Word, value: Any, past: int) -> None:
        if self.keyed == "values":
            past = hash((1, value))
        self.memory ^= hash((word.name, word.past)) ^ hash((word.name, past))
        word.past = past

    def key(self, able: list[int]) -> int:
        """A hash of the state: memory, and for each thread all that it has observed."""
        threads = tuple([(t.past, len(t.buffer), t.timeouts) for t in self.threads])
        return hash((self.memory, threads, tuple(able)))

    # ---- vector clocks, for the race check ---------------------------------------------------

    def acquire(self, t: Thread, word: Word) -> None:
        if word.clock is not None:
            t.clock = [max(a, b) for a, b in zip(t.clock, word.clock, strict=True)]  # type: ignore[arg-type]

    def release(self, t: Thread) -> list[int]:
        given = t.clock
        assert given is not None
        t.clock = given.copy()
        t.clock[t.tid] += 1
        return given

    # ---- the log ----------------------------------------------------------------------------

    def note(self, what: str, word: Word | None, *values: Any, arrow: str = "") -> None:
        assert self.log is not None
        assert self.running is not None
        text = what if word is None else f"{what} {self._name(word)}"
        if arrow:
            text += f" {arrow} {told(word, values[0])}"
        elif len(values) == 2 and values[0] is not values[1]:
            text += f": {told(word, values[0])} → {told(word, values[1])}"
        elif values:
            text += f": {told(word, values[0])}"
        self.log.append((self.running.tid, text, word))

    def _name(self, word: Word) -> str:
        return labels.get(word, word.home)


def _ignore(world: World) -> None:
    pass


def _nothing() -> None:
    pass


def told(word: Word | None, value: Any) -> str:
    """A value for the table, by its name where the word's values have names."""
    if word is not None and word.home == "state":
        return HouseState(value).name
    return short(value)


def short(value: Any) -> str:
    """A value for the table: a mailbox's chain as a list, oldest first."""
    if isinstance(value, tuple) and len(value) == 2:
        chain = []
        while value is not None:
            chain.append(value[0])
            value = value[1]
        return repr(chain[::-1])
    return "empty" if value is None else repr(value)


_static: list[Word] = []  # made while no world was current, by imports
_world: World | None = None
labels: dict[Word, str] = {}


def current() -> World | None:
    return _world


def enter(world: World | None, static: list[Word]) -> None:
    """Make `world` the one that new words and operations belong to."""
    global _world
    _world = world
    if world is not None:
        labels.clear()
        for word in static:
            world.adopt(word)


def collect_static(load: Callable[[], Any]) -> tuple[Any, list[Word]]:
    """Run an import; also returns the words that it made, which each world has to reset."""
    global _static, _world
    outer = _static, _world
    _static, _world = [], None
    try:
        return load(), _static
    finally:
        _static, _world = outer
