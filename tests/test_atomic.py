"""What each atomic type does in one thread, and how it refuses misuse."""

import _thread
import copy
import gc
import operator
import pickle
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import _atomics
from otavia_ft.atomic import (
    AtomicInt,
    HouseCell,
    InvariantError,
    Mailbox,
    SpinLock,
    make_immortal,
    me,
    set_me,
)

LARGEST, SMALLEST = 2**63 - 1, -(2**63)
TOO_LARGE = [2**63, -(2**63) - 1, 2**64, 10**5000, -(10**5000)]
NOT_INTS = [1.0, float("nan"), "1", b"1", None, [1], 1j, object()]


def in_thread(work: Callable[[], Any]) -> Any:
    """The result of `work` on another thread, or the exception that it raised."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return result[0]


class Token:
    """Something that can be watched while it dies."""

    __slots__ = ("__weakref__", "link")


class TestAtomicInt:
    def test_starts_at_zero_or_at_the_value_given(self):
        assert AtomicInt().load() == 0
        assert AtomicInt(7).load() == 7
        assert AtomicInt(value=-7).load() == -7

    @pytest.mark.parametrize("value", [0, 1, -1, 2**31, 2**62, LARGEST, SMALLEST])
    def test_holds_the_whole_range(self, value):
        cell = AtomicInt(value)
        assert cell.load() == value
        for store in (cell.set, cell.lazy_set, cell.get_and_set):
            cell.set(5)
            store(value)
            assert cell.load() == value

    def test_stores_return_none(self):
        assert AtomicInt().set(1) is None
        assert AtomicInt().lazy_set(1) is None

    def test_compare_and_set_changes_only_the_expected_value(self):
        cell = AtomicInt(1)
        assert cell.compare_and_set(1, 2) is True
        assert cell.compare_and_set(1, 3) is False
        assert cell.load() == 2
        assert cell.compare_and_set(2, 2) is True

    def test_get_and_set_returns_the_value_before(self):
        cell = AtomicInt(3)
        assert [cell.get_and_set(4), cell.get_and_set(5), cell.load()] == [3, 4, 5]

    def test_get_and_add_returns_the_value_before(self):
        cell = AtomicInt(10)
        assert [cell.get_and_add(5), cell.get_and_add(-20), cell.get_and_add(0)] == [10, 15, -5]

    @pytest.mark.parametrize(
        ("start", "n"), [(LARGEST, 1), (SMALLEST, -1), (1, LARGEST), (SMALLEST, SMALLEST)]
    )
    def test_an_addition_that_would_wrap_raises_and_adds_nothing(self, start, n):
        cell = AtomicInt(start)
        with pytest.raises(OverflowError, match=f"adding {n} to an AtomicInt of {start}"):
            cell.get_and_add(n)
        assert cell.load() == start

    @pytest.mark.parametrize("border", [LARGEST, SMALLEST])
    def test_the_borders_can_be_reached(self, border):
        cell = AtomicInt()
        cell.get_and_add(border)
        assert cell.load() == border

    @pytest.mark.parametrize("value", TOO_LARGE, ids=lambda v: f"{v.bit_length()} bits")
    def test_a_value_beyond_64_bits_raises_and_changes_nothing(self, value):
        cell = AtomicInt(5)
        for use in (cell.set, cell.lazy_set, cell.get_and_set, cell.get_and_add, AtomicInt,
                    lambda v: cell.compare_and_set(5, v),
                    lambda v: cell.compare_and_set(v, 5),
                    cell.__init__):  # fmt: skip
            with pytest.raises(OverflowError, match="signed 64-bit") as caught:
                use(value)
            assert len(str(caught.value)) < 200
        assert cell.load() == 5

    @pytest.mark.parametrize("value", NOT_INTS, ids=lambda value: type(value).__name__)
    def test_a_value_that_is_no_int_raises_and_changes_nothing(self, value):
        cell = AtomicInt(5)
        for use in (cell.set, cell.lazy_set, cell.get_and_set, cell.get_and_add, AtomicInt,
                    lambda v: cell.compare_and_set(5, v),
                    lambda v: cell.compare_and_set(v, 5)):  # fmt: skip
            with pytest.raises(TypeError, match=f"holds an int, not .*{type(value).__name__}"):
                use(value)
        assert cell.load() == 5

    def test_an_object_with_index_is_no_int(self):
        class Indexed:
            def __index__(self) -> int:
                return 1

        with pytest.raises(TypeError):
            AtomicInt(Indexed())

    def test_a_subclass_of_int_is_an_int(self):
        cell = AtomicInt(True)
        assert cell.load() == 1
        cell.set(Mailbox.NOTICE)
        assert type(cell.load()) is int
        assert cell.load() == 4

    @pytest.mark.parametrize("arguments", [(), (1,), (1, 2, 3)])
    def test_compare_and_set_wants_two_values(self, arguments):
        with pytest.raises(TypeError, match="expected, desired"):
            AtomicInt().compare_and_set(*arguments)

    def test_the_error_shortens_a_long_value(self):
        with pytest.raises(TypeError) as caught:
            AtomicInt("x" * 10_000)
        assert len(str(caught.value)) < 200

    def test_repr_shows_the_value(self):
        assert repr(AtomicInt(SMALLEST)) == f"AtomicInt({SMALLEST})"


class TestSpinLock:
    kind: Any = SpinLock

    def test_is_free_at_first(self):
        lock = self.kind()
        assert lock.holder is None
        assert lock.try_lock() is True

    def test_records_its_holder(self):
        lock = self.kind()
        lock.lock()
        assert lock.holder == threading.get_ident()
        lock.unlock()
        assert lock.holder is None

    def test_with_holds_it_for_the_block_and_yields_the_lock(self):
        lock = self.kind()
        with lock as entered:
            assert entered is lock
            assert lock.holder == threading.get_ident()
        assert lock.holder is None

    def test_with_gives_it_up_when_the_block_raises_and_lets_the_error_through(self):
        lock = self.kind()
        with pytest.raises(ZeroDivisionError), lock:
            raise ZeroDivisionError
        assert lock.holder is None

    def test_try_lock_does_not_wait_for_another_thread(self):
        lock = self.kind()
        with lock:
            assert in_thread(lock.try_lock) is False
        assert in_thread(lock.try_lock) is True

    @pytest.mark.parametrize("way", ["lock", "try_lock", "__enter__"])
    def test_reentry_raises_and_leaves_it_held(self, way):
        lock = self.kind()
        lock.lock()
        with pytest.raises(RuntimeError, match="not re-entrant"):
            getattr(lock, way)()
        assert lock.holder == threading.get_ident()
        lock.unlock()
        assert lock.holder is None

    def test_unlock_of_a_free_lock_raises(self):
        with pytest.raises(RuntimeError, match="nobody holds"):
            self.kind().unlock()

    def test_a_second_unlock_raises(self):
        lock = self.kind()
        with pytest.raises(RuntimeError, match="nobody holds"), lock:
            lock.unlock()

    def test_unlock_by_a_stranger_raises_and_leaves_it_held(self):
        lock = self.kind()
        lock.lock()
        error = in_thread(lock.unlock)
        assert isinstance(error, RuntimeError)
        assert str(threading.get_ident()) in str(error)
        assert lock.holder == threading.get_ident()

    def test_a_thread_with_the_id_of_an_ended_holder_is_a_stranger(self):
        """The system gives a thread's id to another one once the thread has ended."""
        for _ in range(50):
            lock, idents = self.kind(), []

            def hold(lock: SpinLock = lock, idents: list[int] = idents) -> None:
                idents.append(threading.get_ident())
                lock.lock()

            def intrude(lock: SpinLock = lock, idents: list[int] = idents) -> object:
                idents.append(threading.get_ident())
                assert lock.try_lock() is False
                return lock.unlock()

            in_thread(hold)
            error = in_thread(intrude)
            assert isinstance(error, RuntimeError), error
            assert "held by another thread" in str(error)
            assert lock.holder == idents[0]
            if idents[0] == idents[1]:
                return
        pytest.skip("this system gave no thread the id of the one before")

    def test_a_waiter_gets_it_after_the_unlock(self):
        lock, waits, got = self.kind(), threading.Event(), threading.Event()

        def waiter() -> None:
            waits.set()
            with lock:
                got.set()

        thread = threading.Thread(target=waiter)
        with lock:
            thread.start()
            waits.wait()
            # Long past the spinning and the yielding; a waiter must not give up waiting.
            assert not got.wait(0.05)
        assert got.wait(10)
        thread.join()

    def test_a_waiter_does_not_hold_up_the_collector(self):
        """The holder may need a stop-the-world pause while others wait for its lock."""
        lock, waits = self.kind(), threading.Event()

        def waiter() -> None:
            waits.set()
            with lock:
                pass

        threads = [threading.Thread(target=waiter) for _ in range(4)]
        with lock:
            for thread in threads:
                thread.start()
            waits.wait()
            for _ in range(3):
                gc.collect()
        for thread in threads:
            thread.join()


class TestSectionLock(TestSpinLock):
    """What the runtime has in a SpinLock's place from Python 3.14 on."""

    kind: Any = _atomics.face["SectionLock"]

    @pytest.mark.parametrize("way", ["lock", "__enter__"])
    def test_reentry_raises_and_leaves_it_held(self, way):
        """It does not raise: a handler of a signal may come back, and leaves it held."""
        lock = self.kind()
        with lock:
            for _ in range(3):
                getattr(lock, way)()
            for _ in range(3):
                lock.unlock()
                assert lock.holder == threading.get_ident()
                assert in_thread(lock.try_lock) is False
        assert lock.holder is None
        assert in_thread(lock.try_lock) is True

    def test_ctrl_c_that_comes_while_it_is_taken_leaves_it_free(self):
        """One that is heard after the call of `__enter__` passes by the exit, and the lock is held
        for ever. No bytecode is between these two calls, so it is heard inside of the second."""
        lock = self.kind()
        with pytest.raises(KeyboardInterrupt):
            list(map(operator.call, [_thread.interrupt_main, lock.__enter__]))
        assert lock.holder is None
        assert in_thread(lock.try_lock) is True

    def test_a_handler_that_returns_leaves_it_held(self):
        lock, heard = self.kind(), []

        def handler(*_):
            with lock:
                heard.append(lock.holder)

        before = signal.signal(signal.SIGINT, handler)
        try:
            list(map(operator.call, [_thread.interrupt_main, lock.__enter__]))
        finally:
            signal.signal(signal.SIGINT, before)
        assert heard == [lock.holder]
        assert in_thread(lock.try_lock) is False
        lock.unlock()
        assert in_thread(lock.try_lock) is True

    def test_try_lock_is_for_thieves_and_no_handler_is_one(self):
        lock = self.kind()
        with lock, pytest.raises(RuntimeError, match="not re-entrant"):
            lock.try_lock()


class TestSealedTypes:
    @pytest.mark.parametrize("kind", [AtomicInt, SpinLock])
    def test_cannot_be_subclassed(self, kind):
        with pytest.raises(TypeError, match="not an acceptable base type"):
            type("Child", (kind,), {})

    @pytest.mark.parametrize("kind", [AtomicInt, SpinLock, HouseCell])
    def test_cannot_be_copied_or_pickled_into_a_second_one(self, kind):
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot pickle"):
                duplicate(kind())

    @pytest.mark.parametrize("kind", [AtomicInt, SpinLock, HouseCell])
    def test_takes_no_new_attributes(self, kind):
        with pytest.raises(AttributeError):
            kind().extra = 1
        with pytest.raises(TypeError, match="immutable"):
            kind.extra = 1

    @pytest.mark.parametrize(
        "method", [AtomicInt.load, SpinLock.lock, HouseCell.try_ready, HouseCell.mail]
    )
    def test_a_method_refuses_a_foreign_self(self, method):
        for foreign in (object(), 5, SpinLock() if method is AtomicInt.load else AtomicInt()):
            with pytest.raises(TypeError, match="doesn't apply"):
                method(foreign)

    @pytest.mark.parametrize("kind", [SpinLock, HouseCell])
    def test_takes_no_arguments(self, kind):
        with pytest.raises(TypeError):
            kind(1)

    def test_a_drain_is_made_by_a_cell_only(self):
        with pytest.raises(TypeError, match="cannot create"):
            type(HouseCell().drain(0, 1))()

    def test_state_and_runner_are_read_only(self):
        for name in ("state", "runner"):
            with pytest.raises(AttributeError):
                setattr(HouseCell(), name, 5)

    def test_an_invariant_error_is_no_users_error(self):
        assert issubclass(InvariantError, SystemError)


class TestMailboxes:
    @pytest.mark.parametrize("mailbox", Mailbox)
    def test_first_in_first_out(self, mailbox):
        cell = HouseCell()
        for i in range(5):
            cell.put(mailbox, i)
        assert [cell.take(mailbox, "empty") for _ in range(6)] == [0, 1, 2, 3, 4, "empty"]

    def test_order_holds_when_puts_and_takes_mix(self):
        cell, taken = HouseCell(), []
        for i in range(100):
            cell.post_notice(2 * i)
            cell.post_notice(2 * i + 1)
            taken.append(cell.take(Mailbox.NOTICE, None))
        taken.extend(cell.drain(Mailbox.NOTICE, 1000))
        assert taken == list(range(200))

    def test_mailboxes_do_not_mix(self):
        cell = HouseCell()
        for mailbox in Mailbox:
            getattr(cell, f"post_{mailbox.name.lower()}")(mailbox.name)
        assert [cell.take(mailbox, None) for mailbox in Mailbox] == [m.name for m in Mailbox]

    def test_an_empty_mailbox_gives_back_the_very_object_for_empty(self):
        nothing = object()
        assert HouseCell().take(Mailbox.ASK, nothing) is nothing

    def test_none_is_a_message_like_any_other(self):
        cell = HouseCell()
        assert cell.put(Mailbox.ASK, None) is None
        assert cell.size(Mailbox.ASK) == 1
        assert cell.take(Mailbox.ASK, "empty") is None
        cell.post_notice(None)
        assert list(cell.drain(Mailbox.NOTICE, 10)) == [None]

    def test_put_front_goes_before_what_came_and_what_was_fetched(self):
        cell = HouseCell()
        for i in (1, 2):
            cell.put(Mailbox.ASK, i)
        cell.put_front(Mailbox.ASK, 0)  # nothing fetched yet
        cell.put(Mailbox.ASK, 3)
        assert cell.take(Mailbox.ASK, None) == 0
        cell.put_front(Mailbox.ASK, -1)  # 1 and 2 fetched, 3 not
        assert [cell.take(Mailbox.ASK, None) for _ in range(5)] == [-1, 1, 2, 3, None]
        cell.put_front(Mailbox.ASK, 9)  # into an empty one
        assert cell.take(Mailbox.ASK, None) == 9

    def test_size_counts_what_waits(self):
        cell, sizes = HouseCell(), []
        for step in ("put", "put", "front", "take", "put", "take", "take", "take", "take"):
            if step == "put":
                cell.put(Mailbox.EVENT, None)
            elif step == "front":
                cell.put_front(Mailbox.EVENT, None)
            else:
                cell.take(Mailbox.EVENT, None)
            sizes.append(cell.size(Mailbox.EVENT))
        assert sizes == [1, 2, 3, 2, 3, 2, 1, 0, 0]

    @pytest.mark.parametrize("full", range(64))
    def test_masks_name_the_mailboxes_that_hold_mail(self, full):
        cell = HouseCell()
        for mailbox in Mailbox:
            if full & (1 << mailbox):
                cell.put(mailbox, "a")
                cell.put(mailbox, "b")
        for fetched in (False, True):
            assert cell.mail() == full
            for mask in range(64):
                assert cell.has_mail(mask) is bool(mask & full)
            if not fetched:  # once more with the rest on the consumer's own side
                for mailbox in Mailbox:
                    cell.take(mailbox, None)
        for mailbox in Mailbox:
            cell.take(mailbox, None)
        assert cell.mail() == 0
        assert cell.has_mail(63) is False

    @pytest.mark.parametrize("number", [-1, 6, 2**31, 2**40])
    def test_an_unknown_mailbox_raises(self, number):
        cell = HouseCell()
        for use in (lambda: cell.put(number, 0), lambda: cell.put_front(number, 0),
                    lambda: cell.take(number, 0), lambda: cell.drain(number, 1),
                    lambda: cell.size(number)):  # fmt: skip
            with pytest.raises(ValueError, match=f"no mailbox has number {number}"):
                use()

    def test_a_mailbox_number_that_is_no_int_raises(self):
        cell = HouseCell()
        for number, error in ((1.0, TypeError), ("1", TypeError), (2**200, OverflowError)):
            for use in (lambda n: cell.put(n, 0), lambda n: cell.take(n, 0), cell.size,
                        cell.has_mail, lambda n: cell.drain(0, n)):  # fmt: skip
                with pytest.raises(error):
                    use(number)

    @pytest.mark.parametrize("name", ["put", "put_front", "take", "drain"])
    def test_two_arguments_are_wanted(self, name):
        for arguments in ((), (0,), (0, 1, 2)):
            with pytest.raises(TypeError, match=f"{name} takes .* got {len(arguments)} arguments"):
                getattr(HouseCell(), name)(*arguments)


class TestDrain:
    @staticmethod
    def filled(n: int, mailbox: Mailbox = Mailbox.NOTICE) -> HouseCell:
        cell = HouseCell()
        for i in range(n):
            cell.put(mailbox, i)
        return cell

    def test_takes_everything_within_the_budget(self):
        cell = self.filled(3)
        drain = cell.drain(Mailbox.NOTICE, 10)
        assert (list(drain), drain.left, cell.mail()) == ([0, 1, 2], 7, 0)

    def test_stops_at_the_budget_and_leaves_the_rest(self):
        cell = self.filled(5)
        drain = cell.drain(Mailbox.NOTICE, 2)
        assert (list(drain), drain.left) == ([0, 1], 0)
        assert list(cell.drain(Mailbox.NOTICE, 10)) == [2, 3, 4]

    @pytest.mark.parametrize("budget", [0, -1, SMALLEST])
    def test_a_budget_of_nothing_takes_nothing(self, budget):
        cell = self.filled(1)
        drain = cell.drain(Mailbox.NOTICE, budget)
        assert (list(drain), drain.left, cell.size(Mailbox.NOTICE)) == ([], budget, 1)

    def test_an_empty_mailbox_costs_no_budget(self):
        drain = HouseCell().drain(Mailbox.NOTICE, 4)
        assert (list(drain), drain.left) == ([], 4)

    def test_making_one_takes_nothing_yet(self):
        cell = self.filled(2)
        cell.drain(Mailbox.NOTICE, 10)
        assert cell.size(Mailbox.NOTICE) == 2

    def test_sees_what_arrives_during_the_loop(self):
        cell, seen = self.filled(1), []
        for message in cell.drain(Mailbox.NOTICE, 4):
            seen.append(message)
            cell.post_notice(message + 1)
        assert seen == [0, 1, 2, 3]
        assert cell.take(Mailbox.NOTICE, None) == 4

    @pytest.mark.parametrize("mailbox", [m for m in Mailbox if m is not Mailbox.SYSTEM])
    def test_system_mail_ends_the_loop_after_the_message_in_hand(self, mailbox):
        cell, seen = self.filled(5, mailbox), []
        drain = cell.drain(mailbox, 10)
        for message in drain:
            seen.append(message)
            if message == 1:
                cell.post_system("pill")
        assert (seen, drain.left, cell.size(mailbox)) == ([0, 1], 8, 3)
        assert cell.take(Mailbox.SYSTEM, None) == "pill"
        assert list(cell.drain(mailbox, 10)) == [2, 3, 4]

    def test_system_mail_that_waits_already_lets_nothing_through(self):
        cell = self.filled(3)
        cell.put(Mailbox.SYSTEM, "pill")
        assert list(cell.drain(Mailbox.NOTICE, 10)) == []

    def test_system_mail_does_not_stop_its_own_loop(self):
        assert list(self.filled(3, Mailbox.SYSTEM).drain(Mailbox.SYSTEM, 10)) == [0, 1, 2]

    def test_leaving_the_loop_leaves_the_rest_in_place(self):
        cell = self.filled(4)
        for message in cell.drain(Mailbox.NOTICE, 10):
            if message == 1:
                break
        with pytest.raises(ZeroDivisionError):
            sum(message / 0 for message in cell.drain(Mailbox.NOTICE, 10))
        assert list(cell.drain(Mailbox.NOTICE, 10)) == [3]

    def test_put_front_during_the_loop_comes_next(self):
        cell, seen = self.filled(3), []
        for message in cell.drain(Mailbox.NOTICE, 10):
            seen.append(message)
            if message == 0:
                cell.put_front(Mailbox.NOTICE, "again")
        assert seen == [0, "again", 1, 2]

    def test_keeps_its_cell_alive(self):
        drain = self.filled(2).drain(Mailbox.NOTICE, 10)
        gc.collect()
        assert list(drain) == [0, 1]


class TestReferences:
    def test_a_taken_message_belongs_to_the_taker_alone(self):
        cell, token = HouseCell(), Token()
        watch = weakref.ref(token)
        cell.put(Mailbox.ASK, token)
        del token
        assert watch() is not None
        taken = cell.take(Mailbox.ASK, None)
        assert taken is watch()
        del taken
        assert watch() is None

    @pytest.mark.parametrize("fetched", [False, True])
    def test_a_cell_that_dies_frees_its_mail(self, fetched):
        cell, watches = HouseCell(), []
        for mailbox in Mailbox:
            for _ in range(3):
                token = Token()
                watches.append(weakref.ref(token))
                cell.put(mailbox, token)
            if fetched:
                cell.put_front(mailbox, None)
        del token, cell
        assert [watch for watch in watches if watch() is not None] == []

    def test_references_balance_over_every_way_in_and_out(self):
        token, cell = Token(), HouseCell()
        before = sys.getrefcount(token)
        for _ in range(10):
            cell.put(Mailbox.ASK, token)
            cell.put_front(Mailbox.ASK, token)
            cell.post_ask(token)
            cell.take(Mailbox.ASK, None)
            for _ in cell.drain(Mailbox.ASK, 10):
                pass
            cell.take(Mailbox.ASK, token)
            with pytest.raises(ValueError, match="no mailbox"):
                cell.put(99, token)
        del _
        assert sys.getrefcount(token) == before

    @pytest.mark.parametrize("kind", ["cell", "subclass"])
    def test_a_cycle_through_a_mailbox_is_collected(self, kind):
        class House(HouseCell):
            __slots__ = ("own",)

        cell = HouseCell() if kind == "cell" else House()
        token = Token()
        token.link = cell
        watch = weakref.ref(token)
        cell.put(Mailbox.ASK, token)
        cell.put_front(Mailbox.ASK, None)  # one on each side of the mailbox
        cell.put(Mailbox.ASK, [cell])
        del cell, token
        gc.collect()
        assert watch() is None

    def test_a_cycle_through_a_kept_loop_is_collected(self):
        """As when a house keeps the exception, and its traceback the frame with the loop."""
        cell, token = HouseCell(), Token()
        token.link = cell.drain(Mailbox.ASK, 1)
        watch = weakref.ref(token)
        cell.put(Mailbox.ASK, token)
        del cell, token
        gc.collect()
        assert watch() is None

    @pytest.mark.parametrize("kind", ["cell", "subclass"])
    def test_a_long_chain_of_cells_dies_without_deep_recursion(self, kind, run_python):
        """In a child process: what goes wrong here is the end of the C stack."""
        result = run_python(f"""
from otavia_ft.atomic import HouseCell
kind = HouseCell if {kind == "cell"} else type("House", (HouseCell,), {{"__slots__": ()}})
chain = None
for _ in range(200_000):
    cell = kind()
    cell.put(0, chain)
    chain = cell
del cell, chain
print("whole")
""")
        assert (result.stdout, result.returncode) == ("whole\n", 0), result.stderr

    def test_a_message_may_post_while_it_dies(self):
        other = HouseCell()

        class Last:
            def __del__(self) -> None:
                other.post_notice("died")

        cell = HouseCell()
        for _ in range(3):
            cell.put(Mailbox.ASK, Last())
        del cell
        assert other.size(Mailbox.NOTICE) == 3

    def test_a_subclass_holds_state_and_slots_of_its_own(self):
        class House(HouseCell):
            __slots__ = ("name",)

            def __init__(self, name: str) -> None:
                self.name = name

        house = House("a")
        assert (house.begin_mount(), house.end_mount(), house.post_ask(1)) == (True, True, True)
        assert (house.name, house.take(Mailbox.ASK, None)) == ("a", 1)

    def test_atomics_are_small(self):
        """The figures that a million actors multiply: a header, and what the docs promise."""
        header = object.__basicsize__
        assert AtomicInt.__basicsize__ == header + 8
        assert SpinLock.__basicsize__ == header + 16
        assert HouseCell.__basicsize__ == header + 32 + 6 * 32


class TestPlainCells:
    """The cffi functions, the small face to learn with."""

    ffi, lib = _atomics.ffi, _atomics.lib

    def test_every_operation(self):
        cell, lib = self.ffi.new("otv_cell *"), self.lib
        assert lib.cell_load(cell) == 0
        assert lib.cell_set(cell, 1) is None
        assert lib.cell_lazy_set(cell, 2) is None
        assert lib.cell_get_and_set(cell, 3) == 2
        assert lib.cell_get_and_add(cell, 4) == 3
        assert lib.cell_compare_and_set(cell, 7, 8) is True
        assert lib.cell_compare_and_set(cell, 7, 9) is False
        assert lib.cell_load(cell) == 8

    def test_cells_of_an_array_are_apart(self):
        cells = self.ffi.new("otv_cell[3]")
        for i in range(3):
            self.lib.cell_set(cells + i, i + 1)
        assert [self.lib.cell_load(self.ffi.addressof(cells, i)) for i in range(3)] == [1, 2, 3]
        assert self.ffi.sizeof("otv_cell") == 8

    @pytest.mark.parametrize("make", ["int64_t *", "int *", "void *[2]", "otv_cell **"])
    def test_a_pointer_to_something_else_raises(self, make):
        with pytest.raises(TypeError, match="otv_cell"):
            self.lib.cell_set(self.ffi.new(make), 1)

    @pytest.mark.parametrize("thing", [1234, None, "cell", b"12345678", 1.5], ids=repr)
    def test_an_address_or_any_other_object_raises(self, thing):
        for call in (lambda: self.lib.cell_load(thing), lambda: self.lib.cell_set(thing, 1),
                     lambda: self.lib.cell_compare_and_set(thing, 0, 1)):  # fmt: skip
            with pytest.raises(TypeError, match="otv_cell"):
                call()

    def test_a_buffer_of_characters_is_no_cell(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises((TypeError, UserWarning), match="cast"):
                self.lib.cell_load(self.ffi.new("char[8]"))

    def test_values_are_checked(self):
        cell = self.ffi.new("otv_cell *")
        for value in (2**63, -(2**63) - 1):
            with pytest.raises(OverflowError):
                self.lib.cell_set(cell, value)
        with pytest.raises(TypeError):
            self.lib.cell_set(cell, 1.5)
        assert self.lib.cell_load(cell) == 0

    def test_addition_wraps_as_in_c(self):
        cell = self.ffi.new("otv_cell *")
        self.lib.cell_set(cell, LARGEST)
        self.lib.cell_get_and_add(cell, 1)
        assert self.lib.cell_load(cell) == SMALLEST


class TestImmortality:
    @pytest.mark.usefixtures("free_threaded")
    def test_an_immortal_object_is_not_counted(self, run_python):
        result = run_python("""
import sys
from otavia_ft.atomic import make_immortal
thing = object()
make_immortal(thing)
count = sys.getrefcount(thing)
more = [thing] * 1000
print(sys.getrefcount(thing) == count)
del more
make_immortal(thing)
print(sys.getrefcount(thing) == count)
""")
        assert (result.stdout, result.stderr) == ("True\nTrue\n", "")

    @pytest.mark.usefixtures("with_gil")
    def test_on_a_build_with_the_gil_it_is_counted_as_before(self, run_python):
        result = run_python("""
import sys, weakref
from otavia_ft.atomic import make_immortal
class Thing: pass
thing = Thing()
count = sys.getrefcount(thing)
make_immortal(thing)
more = [thing] * 1000
print(sys.getrefcount(thing) - count)
del more
watch = weakref.ref(thing)
del thing
print(watch())
""")
        assert (result.stdout, result.stderr) == ("1000\nNone\n", "")

    def test_what_an_immortal_object_holds_survives_the_collector(self, run_python):
        result = run_python("""
import gc, weakref
from otavia_ft.atomic import make_immortal
class Thing: pass
class Holder: pass
holder = Holder()
holder.thing, holder.me = Thing(), holder
watch = weakref.ref(holder.thing)
make_immortal(holder)
for _ in range(3):
    gc.collect()
print(watch() is holder.thing)
""")
        assert (result.stdout, result.stderr) == ("True\n", "")

    def test_returns_none_and_keeps_the_object_usable(self):
        thing = Token()
        thing.link = 1
        assert make_immortal(thing) is None
        assert thing.link == 1

    @pytest.mark.usefixtures("free_threaded")
    def test_what_all_threads_call_is_immortal(self):
        """A counted function would be one cache line that all cores fight for."""
        shared = [AtomicInt, SpinLock, HouseCell, me, set_me, make_immortal]
        shared += [HouseCell.__dict__["try_ready"], AtomicInt.__dict__["load"]]
        before = [sys.getrefcount(thing) for thing in shared]
        more = list(shared) * 10
        assert [sys.getrefcount(thing) for thing in shared] == before
        del more


class TestWhoAmI:
    @pytest.fixture(autouse=True)
    def nobody(self):
        before = me()
        yield
        set_me(before)

    def test_nobody_at_first(self):
        assert in_thread(me) is None

    def test_each_thread_has_its_own_answer(self):
        set_me("main")

        def other() -> object:
            before = me()
            set_me("other")
            try:
                return before, me()
            finally:
                set_me(None)

        assert in_thread(other) == (None, "other")
        assert me() == "main"

    def test_none_forgets_and_gives_the_reference_back(self):
        token = Token()
        watch = weakref.ref(token)
        set_me(token)
        del token
        assert me() is watch()
        set_me(None)
        assert me() is None
        assert watch() is None

    def test_a_new_answer_replaces_the_old_one(self):
        token = Token()
        watch = weakref.ref(token)
        set_me(token)
        del token
        set_me("next")
        assert (me(), watch()) == ("next", None)

    def test_wrong_arguments_raise(self):
        with pytest.raises(TypeError):
            set_me()
        with pytest.raises(TypeError):
            me(1)
