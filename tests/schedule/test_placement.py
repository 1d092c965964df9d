"""Which thread a new actor lives on, and which actor an address of several picks."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from otavia_ft import ActorAddress, Ask, Notice, RobinAddress, StateActor, on
from otavia_ft.schedule.placement import TilingThreadSelector
from otavia_ft.testkit import TestSystem

MakeTestSystem = Callable[..., TestSystem]


class Where(Ask[int]):
    pass


class Go(Notice):
    pass


class Plain(StateActor):
    seen: list[int]

    def __init__(self, seen: list[int] | None = None) -> None:
        self.seen = [] if seen is None else seen

    @on(Where)
    def where(self, message: Where) -> int:
        return thread_of(self.address.house)

    @on(Go)
    def go(self, message: Go) -> None:
        self.seen.append(self.address.house.id)


class IO(Plain):
    has_channels = True


def thread_of(house: Any) -> int:
    return house.scheduler._thread.index


def threads_of(address: Any) -> list[int]:
    singles = [address] if isinstance(address, ActorAddress) else address.addresses
    return [thread_of(single.house) for single in singles]


def test_the_selector_lays_single_actors_one_after_the_other() -> None:
    selector = TilingThreadSelector("abc")  # type: ignore[arg-type]
    assert [selector.select()[0] for _ in range(7)] == list("abcabca")


@pytest.mark.parametrize("num", [1, 2, 3, 4, 6])
def test_a_look_ahead_sees_the_first_seat_of_the_next_selection(num: int) -> None:
    selector = TilingThreadSelector("abc")  # type: ignore[arg-type]
    for _ in range(4):
        assert selector.peek(num) == selector.select(num)[0]
        selector.next()


def test_a_multiple_of_the_threads_is_one_round_each_and_moves_no_cursor() -> None:
    selector = TilingThreadSelector("abc")  # type: ignore[arg-type]
    selector.select()
    assert selector.select(3) == list("abc")
    assert selector.select(6) == list("abcabc")
    assert selector.select() == ["b"]


@pytest.mark.parametrize("num", [2, 4, 5, 7])
def test_any_other_number_goes_on_where_the_last_one_ended(num: int) -> None:
    selector = TilingThreadSelector("abc")  # type: ignore[arg-type]
    laid = selector.select(num) + selector.select(num)
    assert laid == [("abc" * 10)[i] for i in range(2 * num)]


def test_selecting_from_many_threads_is_still_even(in_parallel: Callable[..., list[Any]]) -> None:
    selector = TilingThreadSelector("abcd")  # type: ignore[arg-type]
    picked = in_parallel(3, lambda _: [selector.select()[0] for _ in range(400)])
    assert Counter(name for names in picked for name in names) == dict.fromkeys("abcd", 300)


def test_one_actor_gets_an_actor_address_on_the_next_thread(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system(workers=3)
    addresses = [system.build_actor(Plain) for _ in range(6)]
    assert all(type(address) is ActorAddress for address in addresses)
    assert [threads_of(address) for address in addresses] == [[0], [1], [2], [0], [1], [2]]
    assert not any(address.house.load_balanced for address in addresses)


def test_as_many_as_threads_puts_one_on_each_and_marks_them_load_balanced(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system(workers=3)
    system.build_actor(Plain)
    address = system.build_actor(Plain, num=3)
    assert isinstance(address, RobinAddress)
    assert address.load_balanced
    assert threads_of(address) == [0, 1, 2]
    assert all(single.house.load_balanced for single in address.addresses)


@pytest.mark.parametrize("num", [2, 4, 6])
def test_any_other_number_is_spread_and_takes_plain_turns(
    make_test_system: MakeTestSystem, num: int
) -> None:
    system = make_test_system(workers=3)
    address = system.build_actor(Plain, num=num)
    assert isinstance(address, RobinAddress)
    assert not address.load_balanced
    assert len(address) == num
    assert threads_of(address) == [i % 3 for i in range(num)]


def test_io_actors_have_a_round_of_their_own(make_test_system: MakeTestSystem) -> None:
    system = make_test_system(workers=3)
    plain = [threads_of(system.build_actor(Plain))[0] for _ in range(2)]
    io = [threads_of(system.build_actor(IO))[0] for _ in range(2)]
    plain += threads_of(system.build_actor(Plain))
    assert (plain, io) == ([0, 1, 2], [0, 1])


def test_with_one_worker_one_actor_is_no_balanced_group(make_test_system: MakeTestSystem) -> None:
    system = make_test_system(workers=1)
    address = system.build_actor(Plain)
    assert isinstance(address, ActorAddress)
    assert not address.house.load_balanced


@pytest.mark.parametrize("num", [0, -1, True, 1.0, "2"])
def test_a_number_of_actors_that_is_none_is_refused(
    make_test_system: MakeTestSystem, num: Any
) -> None:
    with pytest.raises(ValueError, match="num="):
        make_test_system().build_actor(Plain, num=num)


def test_notices_take_turns(make_test_system: MakeTestSystem) -> None:
    system = make_test_system(workers=2)
    seen: list[int] = []
    address = system.build_actor(Plain, seen, num=3)
    for _ in range(9):
        address.notice(Go())
    system.run()
    assert sorted(Counter(seen).values()) == [3, 3, 3]


def test_asks_from_outside_take_turns(make_test_system: MakeTestSystem) -> None:
    system = make_test_system(workers=2)
    address = system.build_actor(Plain, num=2)
    assert [system.ask_now(address, Where()) for _ in range(4)] == [0, 1, 0, 1]


class Through(StateActor):
    """Asks on, and gives both threads back: its own and the asked one's."""

    def __init__(self, target: Any) -> None:
        self.target = target

    @on(Where)
    async def where(self, message: Where) -> tuple[int, int]:
        return thread_of(self.address.house), await self.target.ask(Where())


def test_a_load_balanced_asker_asks_the_one_on_its_own_thread(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system(workers=3)
    target = system.build_actor(Plain, num=3)
    askers = system.build_actor(Through, target, num=3)
    pairs = [system.ask_now(askers, Where()) for _ in range(9)]
    assert Counter(pairs) == {(0, 0): 3, (1, 1): 3, (2, 2): 3}


def test_a_single_asker_has_no_such_preference(make_test_system: MakeTestSystem) -> None:
    system = make_test_system(workers=3)
    target = system.build_actor(Plain, num=3)
    asker = system.build_actor(Through, target)
    assert [system.ask_now(asker, Where())[1] for _ in range(6)] == [0, 1, 2, 0, 1, 2]


def test_a_group_that_is_not_balanced_takes_turns_for_a_balanced_asker_too(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system(workers=2)
    target = system.build_actor(Plain, num=4)
    askers = system.build_actor(Through, target, num=2)
    asked = [system.ask_now(askers, Where())[1] for _ in range(4)]
    assert asked == [0, 1, 0, 1]
