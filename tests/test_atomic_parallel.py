"""What the atomic types promise when threads really meet on them."""

import ctypes
import itertools
import os
import queue
import sysconfig
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

import _atomics
from otavia_ft.atomic import AtomicInt, HouseCell, HouseState, InvariantError, Mailbox, SpinLock

THREADS = 4
FREE_THREADED = sysconfig.get_config_var("Py_GIL_DISABLED") == 1
# Where two words of a HouseCell lie: `HouseCell` in _atomics/house.c.
TAKER = object.__basicsize__ + 8  # after the runner
STATE = object.__basicsize__ + 16 + 7 * 16  # after the marks, and seven ends of mailboxes
LIMIT = 60.0  # seconds; a thread that is not done by then waits for something that never comes


def together(work: Callable[[int], object], threads: int = THREADS) -> list:
    """The results of work(0), work(1), ... on as many threads, which start at the same moment."""
    results: list = [None] * threads
    failed: list[BaseException] = []
    barrier = threading.Barrier(threads)

    def run(number: int) -> None:
        try:
            barrier.wait(LIMIT)
            results[number] = work(number)
        except BaseException as error:
            failed.append(error)

    started = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(threads)]
    for thread in started:
        thread.start()
    deadline = time.monotonic() + LIMIT
    for thread in started:
        thread.join(max(0.0, deadline - time.monotonic()))
    if failed:
        raise failed[0]
    assert not any(thread.is_alive() for thread in started), "a thread is stuck"
    return results


def pin(number: int) -> None:
    """Keep this thread on a core of its own: a busy machine would put two threads on one core,
    where they never meet."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})


class Meeting:
    """Lets `parties` threads enter each round together, much faster than a barrier can."""

    def __init__(self, parties: int) -> None:
        self.parties = parties
        self.arrived = AtomicInt()
        self.over = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc_info: object) -> None:
        """Who leaves, be it by an exception, lets the others go."""
        self.over = True
        self.arrived.set(1 << 60)

    def wait(self, turn: int) -> None:
        """Spin until all have arrived for round `turn` (0, 1, ...)."""
        load, everybody = self.arrived.load, self.parties * (turn + 1)
        self.arrived.get_and_add(1)
        for spins in itertools.count(1):
            if load() >= everybody:
                return
            if spins % 200 == 0:
                os.sched_yield()  # the other may need this very core


def waiting_cell() -> HouseCell:
    cell = HouseCell()
    assert cell.begin_mount()
    assert cell.end_mount()
    return cell


class TestAtomicInt:
    @pytest.mark.stress
    def test_no_addition_is_lost(self):
        cell, rounds = AtomicInt(), 1_000_000

        def add(_: int) -> None:
            get_and_add = cell.get_and_add
            for _ in range(rounds):
                get_and_add(1)

        together(add)
        assert cell.load() == THREADS * rounds

    def test_every_value_before_an_addition_is_handed_out_once(self):
        cell, rounds = AtomicInt(), 20_000
        tickets = together(lambda _: [cell.get_and_add(1) for _ in range(rounds)])
        assert sorted(itertools.chain(*tickets)) == list(range(THREADS * rounds))

    def test_additions_stop_at_the_border_and_never_pass_it(self):
        """Near the border only as many succeed as there is room for; the others raise."""
        room = 1000
        cell = AtomicInt(2**63 - 1 - room)

        def add(_: int) -> int:
            done = 0
            for _ in range(room):
                try:
                    cell.get_and_add(1)
                    done += 1
                except OverflowError:
                    pass
            return done

        assert sum(together(add)) == room
        assert cell.load() == 2**63 - 1

    @pytest.mark.stress
    def test_each_round_of_compare_and_set_has_one_winner(self):
        cell, rounds, batch = AtomicInt(), 100_000, 2000
        barrier = threading.Barrier(THREADS)

        def compete(_: int) -> list[int]:
            won, compare_and_set = [], cell.compare_and_set
            for start in range(0, rounds, batch):
                barrier.wait(LIMIT)  # nobody falls far behind: losing late is no contest
                for turn in range(start, start + batch):
                    if compare_and_set(turn, turn + 1):
                        won.append(turn)
            return won

        winners = Counter(itertools.chain(*together(compete)))
        assert cell.load() == rounds
        assert winners == Counter(range(rounds))

    def test_an_exchange_hands_every_value_to_one_thread(self):
        cell, rounds = AtomicInt(-1), 20_000

        def swap(number: int) -> list[int]:
            return [cell.get_and_set(number * rounds + i) for i in range(rounds)]

        seen = Counter(itertools.chain(*together(swap), [cell.load()]))
        assert seen == Counter(range(-1, THREADS * rounds))


class TestPlainCells:
    def test_no_addition_is_lost(self):
        cell, rounds = _atomics.ffi.new("otv_cell *"), 50_000

        def add(_: int) -> None:
            get_and_add = _atomics.lib.cell_get_and_add
            for _ in range(rounds):
                get_and_add(cell, 1)

        together(add)
        assert _atomics.lib.cell_load(cell) == THREADS * rounds


class TestLitmus:
    """Small programs whose forbidden outcomes are the definition of a memory order."""

    @pytest.mark.stress
    @pytest.mark.parametrize("store", ["lazy_set", "set"])
    def test_message_passing(self, store):
        """Who sees the flag of round n sees the data of round n, or later ones."""
        rounds, flag, word, plain = 200_000, AtomicInt(), AtomicInt(), [0]

        def writer() -> int:
            write, raise_flag = getattr(word, store), getattr(flag, store)
            for turn in range(1, rounds + 1):
                plain[0] = turn
                write(turn)
                raise_flag(turn)
            return 0

        def reader() -> int:
            stale = turn = 0
            while turn < rounds:
                turn = flag.load()
                if word.load() < turn or plain[0] < turn:
                    stale += 1
            return stale

        assert together(lambda number: (writer, reader)[number](), threads=2) == [0, 0]

    @staticmethod
    def store_buffering(store: str, batch: int = 50_000) -> int:
        """Each of two threads writes its own word, then reads the other's, over and over.

        If my step t did not see your step s, then your step s came later and has to see my step t.
        Returns how often both missed each other.

        The words lie in two cache lines. Each side looks at the other's word before it writes its
        own, so that the line is at hand when it looks again, while the write still waits for its
        own line. That brings a store that is too weak to light.
        """
        cells = [AtomicInt() for _ in range(64)]
        words = cells[0], cells[-1]

        def side(number: int) -> list[int]:
            pin(number)
            write, read = getattr(words[number], store), words[1 - number].load
            seen: list[int] = []
            add = seen.append
            for turn in range(1, batch + 1):
                read()
                write(turn)
                add(read())
            return seen

        one, two = together(side, threads=2)
        return sum(1 for turn, seen in enumerate(one, 1) if seen < batch and two[seen] < turn)

    @pytest.mark.stress
    @pytest.mark.parametrize("store", ["set", "get_and_set"])
    def test_store_buffering_one_side_sees_the_other(self, store):
        """In turns with the lazy set, which says how well this machine shows a miss right now.

        That changes from second to second with where the machine puts the threads. So it goes on
        until the lazy set, in the same seconds, has missed a hundred times.
        """
        shown, deadline = 0, time.monotonic() + (10 if FREE_THREADED else 1)
        while shown < 100 and time.monotonic() < deadline:
            assert self.store_buffering(store) == 0
            shown += self.store_buffering("lazy_set")

    @pytest.mark.stress
    def test_of_a_post_and_a_runner_that_falls_asleep_one_sees_the_other(self):
        """The wake-up handshake, step by step: exactly one of the two has to enqueue the house."""
        cell, meeting, rounds = waiting_cell(), Meeting(2), 100_000
        again: list[bool] = []
        posted: list[bool] = []

        def runner() -> None:
            pin(0)
            deadline = time.monotonic() + 10
            assert cell.try_ready()
            while len(again) < rounds and time.monotonic() < deadline:
                turn = len(again)
                assert cell.try_schedule()
                assert cell.try_run()
                meeting.wait(2 * turn)
                for _ in range(turn % 7):  # meet a little later each time
                    pass
                cell.mail()  # as above: have the line at hand for the look that counts
                cell.run_to_waiting()
                again.append(cell.mail() != 0 and cell.try_ready())
                meeting.wait(2 * turn + 1)
                assert again[turn] is not posted[turn]
                assert cell.take(Mailbox.NOTICE, None) == turn

        def poster() -> None:
            pin(1)
            for turn in itertools.count():
                meeting.wait(2 * turn)
                if meeting.over:
                    break
                for _ in range(turn % 5):
                    pass
                assert cell.state in (HouseState.RUNNING, HouseState.WAITING)
                posted.append(cell.post_notice(turn))
                meeting.wait(2 * turn + 1)

        def side(number: int) -> None:
            with meeting:
                (runner, poster)[number]()

        together(side, threads=2)
        assert len(again) > 0


class TestSpinLock:
    @pytest.mark.stress
    @pytest.mark.parametrize("way", ["with", "lock", "try_lock"])
    def test_never_admits_two_and_publishes_what_was_written_under_it(self, way):
        """A plain read-modify-write under the lock loses nothing."""
        lock, rounds = SpinLock(), 40_000
        counts, box = [0], type("Box", (), {"count": 0, "inside": None})()

        def step(number: int) -> None:
            assert box.inside is None
            box.inside = number
            box.count = box.count + 1
            counts[0] = counts[0] + 1
            assert box.inside == number
            box.inside = None

        def work(number: int) -> None:
            for _ in range(rounds):
                if way == "with":
                    with lock:
                        step(number)
                    continue
                if way == "lock":
                    lock.lock()
                else:
                    while not lock.try_lock():
                        os.sched_yield()
                step(number)
                lock.unlock()

        together(work)
        assert (box.count, counts[0], lock.holder) == (THREADS * rounds,) * 2 + (None,)

    def test_a_holder_may_stop_the_world_while_others_wait(self, run_python):
        """In a child process with a watchdog, because a failure is a deadlock of everything."""
        result = run_python("""
import faulthandler, gc, threading
from otavia_ft.atomic import SpinLock
faulthandler.dump_traceback_later(30, exit=True)
lock, inside = SpinLock(), threading.Semaphore(0)
def wait():
    inside.release()
    with lock:
        pass
threads = [threading.Thread(target=wait) for _ in range(4)]
with lock:
    for thread in threads:
        thread.start()
    for _ in threads:
        inside.acquire()
    for _ in range(20):
        gc.collect()
for thread in threads:
    thread.join()
faulthandler.cancel_dump_traceback_later()
print("over")
""")
        assert (result.stdout, result.returncode) == ("over\n", 0), result.stderr

    def test_many_more_threads_than_cores_all_get_it(self):
        lock, done = SpinLock(), [0]

        def work(_: int) -> None:
            for _ in range(200):
                with lock:
                    done[0] = done[0] + 1

        together(work, threads=32)
        assert done == [32 * 200]


class TestTransitions:
    @pytest.mark.stress
    @pytest.mark.parametrize(
        ("name", "way"),
        [
            ("begin_mount", []),
            ("try_ready", ["begin_mount", "end_mount"]),
            ("try_schedule", ["begin_mount", "end_mount", "try_ready"]),
            ("try_run", ["begin_mount", "end_mount", "try_ready", "try_schedule"]),
        ],
    )
    def test_has_one_winner_among_all_who_try(self, name, way):
        cells, batch = [HouseCell() for _ in range(40_000)], 200
        for cell in cells:
            for step in way:
                assert getattr(cell, step)()
        barrier = threading.Barrier(THREADS)

        def compete(_: int) -> list[int]:
            won = []
            for start in range(0, len(cells), batch):
                barrier.wait(LIMIT)
                for number in range(start, start + batch):
                    if getattr(cells[number], name)():
                        won.append(number)
            return won

        assert Counter(itertools.chain(*together(compete))) == Counter(range(len(cells)))

    def test_many_posts_to_a_sleeping_house_ready_it_once(self):
        cells = [waiting_cell() for _ in range(5000)]

        def post(_: int) -> list[bool]:
            return [cell.post_notice(None) for cell in cells]

        for cell, answers in zip(cells, zip(*together(post), strict=True), strict=True):
            assert sorted(answers) == [False] * (THREADS - 1) + [True]
            assert cell.size(Mailbox.NOTICE) == THREADS


class TestRunnerMark:
    """A second runner is our own bug; these tests commit it by hand."""

    @staticmethod
    def running_cell() -> HouseCell:
        cell = waiting_cell()
        assert cell.try_ready()
        assert cell.try_schedule()
        assert cell.try_run()
        return cell

    @staticmethod
    def outcome(call: Callable[[], object]) -> object:
        try:
            return call()
        except InvariantError as error:
            return str(error)

    def test_a_second_runner_is_caught_on_entry(self):
        cell, me = self.running_cell(), threading.get_ident()
        # No method can do this, so the state word is overwritten where it lies.
        state = ctypes.c_int64.from_address(id(cell) + STATE)
        assert state.value == HouseState.RUNNING
        state.value = HouseState.SCHEDULED
        answers = together(lambda _: self.outcome(cell.try_run))
        caught = [answer for answer in answers if answer is not False]
        assert len(caught) == 1
        assert f"enters a house whose runner mark is {me}" in caught[0]
        assert cell.run_to_waiting()  # the first runner's mark was left alone

    @pytest.mark.parametrize("name", ["run_to_ready", "run_to_waiting"])
    def test_strangers_that_end_a_run_are_caught_and_change_nothing(self, name):
        cell, me = self.running_cell(), threading.get_ident()
        for answer in together(lambda _: self.outcome(getattr(cell, name))):
            assert f"leaves a house whose runner mark is {me}" in str(answer)
        assert (cell.state, cell.runner) == (HouseState.RUNNING, me)
        assert getattr(cell, name)() is True

    @pytest.mark.stress
    def test_runners_that_follow_closely_do_not_accuse_each_other(self):
        """The mark is free before the state is, or the next runner would find it taken."""
        cell, turns = waiting_cell(), AtomicInt()
        assert cell.try_ready()

        def run(number: int) -> None:
            pin(number)
            while turns.load() < 200_000:
                cell.try_schedule()
                if cell.try_run():
                    turns.get_and_add(1)
                    cell.run_to_ready()

        together(run)
        assert (cell.state, cell.runner) == (HouseState.READY, 0)

    def test_strangers_that_take_mail_of_a_running_house_are_caught_and_take_nothing(self):
        cell, me = self.running_cell(), threading.get_ident()
        cell.put(Mailbox.ASK, "mail")
        for take in (
            lambda _: self.outcome(lambda: cell.take(Mailbox.ASK, None)),
            lambda _: self.outcome(lambda: list(cell.drain(Mailbox.ASK, 1))),
            lambda _: self.outcome(lambda: cell.put_front(Mailbox.ASK, "first")),
        ):
            for answer in together(take):
                assert f"takes mail of a house that thread {me} runs" in str(answer)
        assert list(cell.drain(Mailbox.ASK, 10)) == ["mail"]


class TestTakerMark:
    """Taking from a cell that nobody runs is one thread's business; a second one is our own bug."""

    @staticmethod
    def mark_of(cell: HouseCell) -> ctypes.c_int64:
        """The word that says who is taking right now."""
        return ctypes.c_int64.from_address(id(cell) + TAKER)

    def test_a_second_taker_is_caught_and_takes_nothing(self):
        cell = HouseCell()
        cell.put(Mailbox.ASK, "mail")
        self.mark_of(cell).value = 12345
        for take in (
            lambda: cell.take(Mailbox.ASK, None),
            lambda: list(cell.drain(Mailbox.ASK, 1)),
            lambda: cell.put_front(Mailbox.ASK, "first"),
        ):
            with pytest.raises(InvariantError, match="that thread 12345 is taking from"):
                take()
        assert self.mark_of(cell).value == 12345
        self.mark_of(cell).value = 0
        assert list(cell.drain(Mailbox.ASK, 10)) == ["mail"]

    def test_every_way_of_taking_gives_the_mark_back(self):
        cell = HouseCell()
        for mailbox in Mailbox:
            for use in (
                lambda m: cell.take(m, None),
                lambda m: list(cell.drain(m, 1)),
                lambda m: list(cell.drain(m, 0)),
                lambda m: cell.put_front(m, "mail"),
                lambda m: cell.take(m, None),
                lambda m: cell.put_front(m, "mail"),
                lambda m: list(cell.drain(m, 10)),
            ):
                use(mailbox)
                assert self.mark_of(cell).value == 0
        assert cell.mail() == 0

    def test_a_runner_that_enters_waits_until_the_step_of_a_taker_is_done(self):
        cell = waiting_cell()
        assert cell.try_ready()
        assert cell.try_schedule()
        self.mark_of(cell).value = 12345
        entered = threading.Event()

        def run() -> None:
            assert cell.try_run()
            entered.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        while cell.runner == 0:
            os.sched_yield()
        assert not entered.wait(0.05)
        self.mark_of(cell).value = 0
        assert entered.wait(LIMIT)
        thread.join()

    @pytest.mark.parametrize("other", ["taker", "runner"])
    def test_two_that_take_at_once_break_nothing(self, run_python, other):
        """In a child process, for what they would break is the heap: every message comes out once,
        or stays where it is, and whoever is not alone is told so."""
        result = run_python(
            """
import sys, threading
from otavia_ft.atomic import HouseCell, InvariantError, Mailbox

other, each, refused = sys._xoptions["other"], 2000, 0
for _ in range(150):
    cell, barrier = HouseCell(), threading.Barrier(2)
    cell.begin_mount(), cell.end_mount(), cell.try_ready(), cell.try_schedule()
    for number in range(each):
        cell.put(Mailbox.NOTICE, [number])
    taken = [], [], []

    def take(side):
        global refused
        barrier.wait()
        if side and other == "runner":
            assert cell.try_run()
        while cell.size(Mailbox.NOTICE):
            try:
                message = cell.take(Mailbox.NOTICE, None)
            except InvariantError:
                refused += 1
                continue
            if message is not None:
                taken[side].append(message[0])

    threads = [threading.Thread(target=take, args=[side]) for side in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken[0] + taken[1]) == list(range(each)), len(taken[0] + taken[1])
    assert (cell.size(Mailbox.NOTICE), cell.mail()) == (0, 0)
print("whole")
""",
            "-X",
            f"other={other}",
        )
        assert (result.returncode, result.stdout) == (0, "whole\n"), result.stderr[-2000:]


class TestMailboxes:
    @pytest.mark.stress
    @pytest.mark.parametrize("mailbox", Mailbox)
    def test_nothing_is_lost_doubled_or_overtaken(self, mailbox):
        """Four producers, one consumer that polls; half by `take`, half by `drain`."""
        cell, each = HouseCell(), 20_000
        total = each * THREADS

        def work(number: int) -> list[tuple[int, int]]:
            if number < THREADS:
                post = getattr(cell, f"post_{mailbox.name.lower()}")
                for i in range(each):
                    post((number, i))
                return []
            taken = []
            while len(taken) < total:
                taken.extend(cell.drain(mailbox, 100))
                message = cell.take(mailbox, None)
                if message is not None:
                    taken.append(message)
            return taken

        taken = together(work, threads=THREADS + 1)[-1]
        for producer in range(THREADS):
            assert [i for who, i in taken if who == producer] == list(range(each))
        assert (len(taken), cell.size(mailbox), cell.mail()) == (total, 0, 0)

    @pytest.mark.stress
    @pytest.mark.parametrize("burst", [1, 50])
    def test_no_wake_up_is_lost_between_posters_and_runners(self, burst):
        """The whole handshake: who readies the house enqueues it, who runs it looks once more."""
        cell, turns, each = waiting_cell(), queue.SimpleQueue(), 10_000
        handled: list[tuple[int, int, int]] = []  # one runner at a time, so no lock
        left = AtomicInt(THREADS * each)

        def post(number: int) -> None:
            posts = [getattr(cell, f"post_{mailbox.name.lower()}") for mailbox in Mailbox]
            for i in range(each):
                if posts[i % 6]((number, i % 6, i)):
                    turns.put("turn")
                if i % burst == 0:
                    os.sched_yield()  # let the house fall asleep between the bursts

        def run() -> None:
            while left.load() > 0:
                try:
                    turns.get(timeout=LIMIT / 2)
                except queue.Empty:
                    raise AssertionError(f"a wake-up was lost; mail: {cell.mail():b}") from None
                if left.load() <= 0:
                    break
                assert cell.try_schedule()
                assert cell.try_run()
                for mailbox in Mailbox:
                    for message in cell.drain(mailbox, 10):
                        handled.append(message)
                        left.get_and_add(-1)
                cell.run_to_waiting()
                if cell.has_mail(63) and cell.try_ready():
                    turns.put("turn")
            turns.put("over")  # for the other runner

        together(lambda n: post(n) if n < THREADS else run(), threads=THREADS + 2)
        assert len(handled) == THREADS * each
        assert cell.mail() == 0
        for producer, box in itertools.product(range(THREADS), range(6)):
            came = [i for who, where, i in handled if (who, where) == (producer, box)]
            assert came == list(range(box, each, 6))
