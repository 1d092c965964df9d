"""Where new actors come to live, while several threads and actors build at once.

Conserved: how many actors each seat gets. A build of a multiple of the threads' number gives each
seat as many; all other builds take the seats in turn. So whoever came first, after `rest` seats in
turn seat k of n has rest // n, and one more if k < rest % n. IO actors have a turn of their own, in
which the same holds. Under the pool scheduler all state actors have one seat; IO actors have these.

Conserved as well: how many messages each actor behind one address gets, which is the same sum. Asks
of load-balanced actors to load-balanced ones are no part of it: they go to the neighbour.

It cannot see which of two builders at once should have had which seat: nobody promises that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from otavia_ft import ActorAddress, Ask, Notice, on
from otavia_ft.doors import me
from stress.parallel.lab import Lab
from stress.parallel.workloads.base import Watched, Workload

__all__ = ["Placement"]

THE_POOL = -1


class Hello(Notice):
    """Something for the actors behind an address."""


class Where(Ask[int]):
    """On which seat do you sit?"""


class Found(Notice):
    """Build these: of IO actors or not, and how many."""

    __slots__ = ("builds",)

    def __init__(self, builds: list[tuple[bool, int]]) -> None:
        self.builds = builds


class Survey(Notice):
    """Ask all groups."""


def seat_of(house: Any) -> int:
    thread = getattr(house.scheduler, "_thread", None)
    return THE_POOL if thread is None else thread.index


class Resident(Watched):
    """Knows its seat, and how often it was spoken to."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.seat = THE_POOL
        self.notices = 0
        self.asks = 0

    def after_mount(self) -> None:
        super().after_mount()
        self.seat = seat_of(self.address.house)
        here = me().owner.index
        if self.seat != THE_POOL:
            text = f"{self!r} of seat {self.seat} is mounted by thread {here}"
            self.lab.check(here == self.seat, "placement", text)

    @on(Hello)
    def hello(self, message: Hello) -> None:
        self.enter()
        self.notices += 1
        self.leave()

    @on(Where)
    def where(self, message: Where) -> int:
        self.enter()
        self.asks += 1
        self.leave()
        return self.seat


class ResidentIO(Resident):
    has_channels: ClassVar[bool] = True


class Group:
    """Actors behind one address; `balanced` is what the workload knows of them."""

    def __init__(self, address: Any, io: bool, balanced: bool) -> None:
        self.address = address
        self.io = io
        self.balanced = balanced
        alone = isinstance(address, ActorAddress)
        singles: Sequence[Any] = (address,) if alone else address.addresses
        self.houses = [single.house for single in singles]
        self.seats = [seat_of(house) for house in self.houses]
        self.actors: list[Resident] = [house.actor for house in self.houses]


class Asking(Resident):
    """Asks the groups in turn; whoever is load-balanced must meet its neighbours."""

    def __init__(self, placement: Placement, balanced: bool) -> None:
        super().__init__(placement.lab)
        self.placement = placement
        self.balanced = balanced
        self.done = False

    @on(Survey)
    async def survey(self, message: Survey) -> None:
        self.enter()
        self.leave()
        for _ in range(self.placement.each):
            for group in self.placement.targets:
                seat = await group.address.ask(Where())
                if self.balanced and group.balanced:
                    text = f"an asker on seat {self.seat} was answered from seat {seat}"
                    self.lab.check(seat == self.seat, "placement", text)
        self.done = True


class AskingIO(Asking):
    has_channels: ClassVar[bool] = True


class Founding(Watched):
    """Builds like the threads outside, partly as a parent."""

    def __init__(self, placement: Placement) -> None:
        super().__init__(placement.lab)
        self.placement = placement

    @on(Found)
    def found(self, message: Found) -> None:
        self.enter()
        for number, (io, num) in enumerate(message.builds):
            if num == 1 and number % 2:
                kind = ResidentIO if io else Resident
                self.placement.greet(self.build_child(kind, self.lab), io, 1)
            else:
                self.placement.construct(io, num)
        self.leave()


class Placement(Workload):
    """Actors are built by several at once: each seat gets its share, and neighbours are found."""

    name = "placement"

    @classmethod
    def settings(cls, drawn: dict[str, Any]) -> dict[str, Any]:
        return {"workers": max(2, drawn["workers"])}

    def build(self, system: Any) -> None:
        rng = self.rng
        self.system = system
        self.n = n = system.config.workers
        self.pooled = system.config.dispatcher == "pool"
        self.builds: list[tuple[bool, int]] = []  # all of them, also those that are yet to come
        self.groups: list[Group] = []
        self.each = self.burst(40, up_to=10)
        odd = (rng.random() < 0.5, n + 1)
        self.targets = [self.group(Resident, *kind, self.lab)
                        for kind in ((False, n), (True, n), odd)]  # fmt: skip
        self.askers: list[Asking] = []
        for io, num in ((False, n), (True, n), (False, 1)):
            balanced = num == n and (io or not self.pooled)
            group = self.group(Asking, io, num, self, balanced)
            self.askers += group.actors  # type: ignore[arg-type]
            for house in group.houses:
                house.notice(Survey())

        def plan() -> list[tuple[bool, int]]:
            few = rng.choice((1, 2)) if self.tiny else rng.randrange(4, 15)
            nums = (1, 1, 1, n, n, n + 1, 2 * n, rng.randrange(2, 6))
            return [(rng.random() < 0.3, rng.choice(nums)) for _ in range(few)]

        self.outside = [plan() for _ in range(rng.choice((2, 3, 4)))]
        self.inside = [plan() for _ in range(rng.choice((0, 1, 2)))]
        self.founding: list[Any] = []
        for builds in self.inside:
            self.builds.append((False, 1))
            self.founding.append(system.build_actor(Founding, self))
            self.founding[-1].notice(Found(builds))
        for builds in (*self.outside, *self.inside):
            self.builds += builds
        self.residents = sum(num for _, num in self.builds)
        built = sum(num for builds in (*self.outside, *self.inside) for _, num in builds)
        talkers = len(self.outside) + len(self.askers)
        self.sent = built + talkers * self.each * len(self.targets)

    def group(self, kind: Any, io: bool, num: int, *args: Any) -> Group:
        """A group that is there from the beginning."""
        self.builds.append((io, num))
        kinds = {Resident: ResidentIO, Asking: AskingIO}
        address = self.system.build_actor(kinds[kind] if io else kind, *args, num=num)
        return self.admit(address, io, num)

    def admit(self, address: Any, io: bool, num: int) -> Group:
        """Each seat gets as many of a group as any other, or one more if they do not go round."""
        group = Group(address, io, num == self.n and (io or not self.pooled))
        self.groups.append(group)
        if self.pooled and not io:
            right = group.seats == [THE_POOL] * num
        else:
            got = [group.seats.count(seat) for seat in range(self.n)]
            right = sum(got) == num and max(got) - min(got) == (num % self.n > 0)
        text = f"{num} actors ({io=}) on {self.n} seats have the seats {group.seats}"
        self.lab.check(right, "placement", text)
        return group

    def construct(self, io: bool, num: int) -> None:
        """Any thread."""
        kind = ResidentIO if io else Resident
        self.greet(self.system.build_actor(kind, self.lab, num=num), io, num)

    def greet(self, address: Any, io: bool, num: int) -> None:
        """One notice for each of the group, by the address that deals them out."""
        self.admit(address, io, num)
        for _ in range(num):
            address.notice(Hello())

    def bodies(self) -> list[Callable[[], Any]]:
        def construct(builds: list[tuple[bool, int]]) -> None:
            for io, num in builds:
                self.construct(io, num)
            for _ in range(self.each):
                for group in self.targets:
                    group.address.notice(Hello())

        return [lambda builds=builds: construct(builds) for builds in self.outside]

    def finished(self) -> bool:
        return (
            all(asker.done for asker in self.askers)
            and sum(len(group.houses) for group in self.groups) + len(self.inside) == self.residents
            and self.tally() >= self.sent
        )

    def tally(self) -> int:
        return sum(actor.notices + actor.asks for group in self.groups for actor in group.actors)

    def judge(self) -> None:
        lab = self.lab
        built = self.system.statistics().actors_built
        text = f"{built} actors were built of {self.residents}"
        lab.check(built == self.residents, "placement", text)
        for group in self.groups:
            for actor in group.actors:
                lab.check(actor.mounted, "hooks-once", f"{actor!r} was never mounted")
                handled = actor.notices + actor.asks + isinstance(actor, Asking)
                lab.check(actor.count == handled, "single-runner",
                          f"{actor!r} counted {actor.count} of {handled}")  # fmt: skip
            if group in self.targets:
                self.judge_dealt("notices", group, self.each * len(self.outside), Counter())
                near = Counter[int]()
                for asker in self.askers:
                    if asker.balanced and group.balanced:
                        near[asker.seat] += self.each
                far = self.each * len(self.askers) - near.total()
                self.judge_dealt("asks", group, far, near)
            elif not isinstance(group.actors[0], Asking):
                self.judge_dealt("notices", group, len(group.actors), Counter())
        for io in (True,) if self.pooled else (False, True):
            self.judge_seats(io)

    def judge_dealt(self, what: str, group: Group, far: int, near: Counter[int]) -> None:
        """`far` messages were dealt to the group in turn, `near` ones went to a seat."""
        got = [getattr(actor, what) for actor in group.actors]
        dealt = shares([far], len(got))
        right = [share + near[seat] for share, seat in zip(dealt, group.seats, strict=True)]
        text = f"{len(got)} actors behind an address got {got} {what} instead of {right}"
        self.lab.check(sum(got) >= sum(right), "no-lost-message", text)
        self.lab.check(sum(got) <= sum(right), "no-duplicate", text)
        self.lab.check(got == right, "placement", text)

    def judge_seats(self, io: bool) -> None:
        got = Counter(seat for group in self.groups if group.io is io for seat in group.seats)
        if not io:
            got.update(seat_of(address.house) for address in self.founding)
        right = shares([num for each, num in self.builds if each is io], self.n)
        text = f"the seats have {sorted(got.items())} actors ({io=}) instead of {right}"
        self.lab.check([got[seat] for seat in range(self.n)] == right, "placement", text)


def shares(nums: Sequence[int], n: int) -> list[int]:
    """What each of n gets: of a multiple of n equally much, and of the rest in turn."""
    even, rest = sum(num // n for num in nums if num % n == 0), sum(num for num in nums if num % n)
    return [even + rest // n + (index < rest % n) for index in range(n)]
