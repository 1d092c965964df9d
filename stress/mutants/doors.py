"""Mutants of the doors: what is C in the runtime, and Python in the explorer's simulation of it.

No patch of a Python file can say that a store is lazy or a test-and-set not atomic. The explorer's
doors have the same steps as the C code, so there it can be said. Each function answers what to put
in the place of which door; it imports the explorer only when it is called.
"""

from __future__ import annotations

from typing import Any

from stress.mutants import Mutant

__all__ = ["MUTANTS"]


def _lazy_waiting() -> dict[str, Any]:
    from stress.explorer.cells import WAITING, HouseCell, the_world

    class LazyWaiting(HouseCell):
        __slots__ = ()

        def run_to_waiting(self) -> bool:
            self._leave()
            the_world().lazy_store(self._state, WAITING)
            return True

    return {"HouseCell": LazyWaiting}


def _store_for_cas() -> dict[str, Any]:
    from stress.explorer.cells import HouseCell, load, the_world

    class Storing(HouseCell):
        __slots__ = ()

        def _move(self, source: int, target: int) -> bool:
            if load(self._state) != source:
                return False
            the_world().store(self._state, target)
            return True

    return {"HouseCell": Storing}


def _look_before_put() -> dict[str, Any]:
    from stress.explorer.cells import READY, WAITING, HouseCell, load

    class LooksFirst(HouseCell):
        __slots__ = ()

        def post_notice(self, message: object, /) -> bool:
            waits = load(self._state) == WAITING
            self.put(4, message)
            return waits and self._move(WAITING, READY)

    return {"HouseCell": LooksFirst}


def _put_without_cas() -> dict[str, Any]:
    from stress.explorer.cells import HouseCell, load, the_world

    class Careless(HouseCell):
        __slots__ = ()

        def _push(self, box: int, message: object) -> None:
            the_world().store(self._in[box], (message, load(self._in[box])))

    return {"HouseCell": Careless}


def _lifo() -> dict[str, Any]:
    from stress.explorer.cells import HouseCell, load, update

    class LastFirst(HouseCell):
        __slots__ = ()

        def _fetch(self, box: int) -> Any:
            if load(self._in[box]) is None:
                return None
            return update(self._in[box], lambda _: None, "exchange")

    return {"HouseCell": LastFirst}


def _one_look_for_mail() -> dict[str, Any]:
    from stress.explorer.cells import HouseCell, load

    class HalfBlind(HouseCell):
        __slots__ = ()

        def _has_mail(self, box: int) -> bool:
            return load(self._in[box]) is not None

    return {"HouseCell": HalfBlind}


def _test_then_set() -> dict[str, Any]:
    from stress.explorer.cells import SpinLock, load, my_number, relax, the_world

    class TestThenSet(SpinLock):
        __slots__ = ()

        def lock(self) -> None:
            while load(self._word) != 0:
                relax()
            the_world().store(self._word, my_number())

        def _seen_by_me(self) -> int:
            return my_number()  # so that the unlock of a lost lock goes through, as in C

    return {"SpinLock": TestThenSet}


MUTANTS = (
    Mutant(
        "lazy-waiting",
        breaks="WAITING is stored lazily, and the second look at the mail may overtake it",
        doors=_lazy_waiting,
        scenario="complete-running",
        model="tso",
    ),
    Mutant(
        "store-for-cas",
        breaks="a transition looks at the state and then stores, without comparing",
        doors=_store_for_cas,
        scenario="two-senders",
    ),
    Mutant(
        "look-before-put",
        breaks="a sender looks at the state before its message is in the mailbox",
        doors=_look_before_put,
        scenario="complete-running",
    ),
    Mutant(
        "put-without-cas",
        breaks="a sender links its message by a load and a store: two at once lose one",
        doors=_put_without_cas,
        scenario="two-senders",
    ),
    Mutant(
        "lifo-mailbox",
        breaks="the mailbox hands out the newest message first",
        doors=_lifo,
        scenario="complete-running",
        sizes={"messages": 2},
    ),
    Mutant(
        "half-a-mailbox",
        breaks="a look for mail forgets what was fetched and not yet handled",
        doors=_one_look_for_mail,
        scenario="complete-running",
        sizes={"messages": 3},
    ),
    Mutant(
        "test-then-set",
        breaks="the spin lock tests and sets in two steps",
        doors=_test_then_set,
        scenario="spin-lock-door",
    ),
)
