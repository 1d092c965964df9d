"""Where in memory actors lie: those of one thread together (`_atomics/plots.c`)."""

import gc
import json
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest

from otavia_ft import ActorSystem, StateActor
from otavia_ft.lane import NATIVE_LANE

native = pytest.mark.skipif(
    not NATIVE_LANE or sys._is_gil_enabled(), reason="plots are of the native lane without a GIL"
)
MANY = 256


class Slotted(StateActor):
    __slots__ = ("n",)

    def __init__(self, n=0):
        self.n = n


@pytest.fixture
def run(complaints):
    """What a program prints that has a process to itself, so fresh memory and fresh classes."""

    def in_a_child(program):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (complaints(done.stderr), done.returncode) == ("", 0)
        return json.loads(done.stdout)

    return in_a_child


@native
def test_what_belongs_to_a_thread_lies_together(run):
    neighbours = run("""
        import json
        import sys
        from otavia_ft import ActorSystem, StateActor

        class Slotted(StateActor):
            __slots__ = ("n",)

        class Plain(StateActor):
            def __init__(self):
                self.n = 1

        def strangers(seats, which, skip):
            "How many neighbours in memory are of different seats."
            line = sorted(
                (id(parts[which]), seat) for seat in seats for parts in seats[seat][skip:]
            )
            return sum(one[1] != other[1] for one, other in zip(line, line[1:]))

        report = {}
        first = 0 if sys.version_info < (3, 14) else 30
        for kind, skip in (Slotted, first), (Plain, 30):  # see plot_take in plots.c
            with ActorSystem(workers=2) as system:
                seats = {}
                for address in [system.build_actor(kind) for _ in range(256)]:
                    house = address.house
                    parts = address, house, house.actor
                    seats.setdefault(id(house.scheduler), []).append(parts)
                report[kind.__name__] = [strangers(seats, which, skip) for which in range(3)]
                report[kind.__name__, "seats"] = [len(owned) for owned in seats.values()]
                if kind is Slotted:
                    kept = seats
        print(json.dumps({str(name): value for name, value in report.items()}))
    """)
    assert neighbours["('Slotted', 'seats')"] == [128, 128]
    # Dealt in turn, nearly all of 255 neighbours are strangers. A row that fills the gaps of used
    # memory has many edges, one in fresh memory has two. Thirty of each seat that lie anywhere
    # would make sixty of them strangers.
    assert all(count < 50 for count in neighbours["Slotted"]), neighbours
    assert neighbours["Plain"][2] < 50, neighbours


def test_a_blank_costs_no_actor_its_attributes(run):
    """Attributes that come late are as cheap as without plots: no dict for each actor."""
    dicts, late = run("""
        import gc
        import json
        import time
        from otavia_ft import ActorSystem, StateActor

        class Late(StateActor):
            def __init__(self, n):
                self.n = n
            def resume_notice(self, stack):
                self.late = True
                return stack.return_()

        with ActorSystem(workers=2) as system:
            addresses = [system.build_actor(Late, n) for n in range(200)]
            for address in addresses:
                address.notice(None)
            deadline = time.monotonic() + 30
            while system.statistics().messages < 200 and time.monotonic() < deadline:
                time.sleep(0.001)
            owned = [gc.get_referents(address.house.actor) for address in addresses]
            dicts = sum(type(thing) is dict and "late" in thing for o in owned for thing in o)
            print(json.dumps([dicts, sum(thing is True for o in owned for thing in o)]))
    """)
    assert (dicts, late) == (0, 200)


def test_actors_are_made_whole():
    with ActorSystem(workers=2) as system:
        addresses = [system.build_actor(Slotted, n) for n in range(MANY)]
        assert [address.house.actor.n for address in addresses] == list(range(MANY))
        assert len({id(address.house.actor) for address in addresses}) == MANY


def test_a_factory_that_raises_leaves_the_plot_as_it_was():
    class Picky(StateActor):
        __slots__ = ("n",)

        def __init__(self, n):
            if n % 3 == 0:
                raise ValueError(n)
            self.n = n

    with ActorSystem(workers=2) as system:
        built = []
        for n in range(100):
            if n % 3:
                built.append((n, system.build_actor(Picky, n)))
            else:
                with pytest.raises(ValueError, match=str(n)):
                    system.build_actor(Picky, n)
        assert all(address.house.actor.n == n for n, address in built)


def test_blanks_are_seen_by_nobody():
    class Rare(StateActor):
        __slots__ = ()

    with ActorSystem(workers=2) as system:
        address = system.build_actor(Rare)
        found = [thing for thing in gc.get_objects() if type(thing) is Rare]
        assert found == [address.house.actor]


def test_blanks_end_without_del():
    ended = []

    class Mortal(StateActor):
        __slots__ = ("n",)

        def __init__(self, n):
            self.n = n

        def __del__(self):
            ended.append(self.n)  # AttributeError if it never was initialised

    with ActorSystem(workers=2) as system:
        keep = [system.build_actor(Mortal, n) for n in range(3)]
        del keep
    del system
    gc.collect()
    assert sorted(ended) == [0, 1, 2]


def test_a_seat_with_blanks_goes_with_its_system():
    with ActorSystem(workers=2) as system:
        seat = weakref.ref(system.build_actor(Slotted).house.scheduler)
    assert seat() is not None
    del system
    for _ in range(3):
        gc.collect()
    assert seat() is None


def test_more_classes_than_rows():
    kinds = [type(f"Kind{i}", (StateActor,), {"__slots__": ("n",)}) for i in range(40)]
    with ActorSystem(workers=2) as system:
        addresses = [system.build_actor(kind) for _ in range(10) for kind in kinds]
        assert [type(address.house.actor) for address in addresses] == kinds * 10


@pytest.mark.stress
def test_many_builders_share_a_plot():
    """No blank is given out twice, and none is lost half-way."""
    builders, each = 4, 2000
    start = threading.Barrier(builders)
    made = [[] for _ in range(builders)]

    with ActorSystem(workers=2) as system:

        def build(number):
            start.wait()
            for n in range(each):
                made[number].append(system.build_actor(Slotted, number * each + n))

        threads = [threading.Thread(target=build, args=(i,)) for i in range(builders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        numbers = [address.house.actor.n for mine in made for address in mine]
        assert numbers == list(range(builders * each))
        assert len({id(address.house) for mine in made for address in mine}) == len(numbers)


def test_actors_built_by_a_factory_of_another_get_seats_of_their_own():
    class Parent(StateActor):
        __slots__ = ("child",)

        def __init__(self, system):
            self.child = system.build_actor(Slotted, 7)

    with ActorSystem(workers=2) as system:
        parents = [system.build_actor(Parent, system) for _ in range(20)]
        assert {parent.house.actor.child.house.actor.n for parent in parents} == {7}


@native
@pytest.mark.parametrize("refused", [int, 5, None])
def test_only_classes_of_python_can_be_laid(refused):
    from otavia_ft.doors import lane_face

    with pytest.raises(TypeError, match="lay_in_plots takes a class"):
        lane_face["lay_in_plots"](refused)


@native
def test_make_wants_a_factory():
    from otavia_ft.lane import SeatBase

    with pytest.raises(TypeError, match=r"make takes \(factory"):
        SeatBase().make()
    assert SeatBase().make(dict, a=1) == {"a": 1}
