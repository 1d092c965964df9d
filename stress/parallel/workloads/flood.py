"""Actors that flood themselves, and what their neighbours on the same thread are promised.

What is promised is counted in messages, not in time. A turn handles throughput_budget messages at
most, and whoever has more goes to the end of the queue. So from the moment that a neighbour has
mail, the flooders together handle no more than this before its turn:

 - A house of high priority has one turn of each flooder before it, since those that come back queue
   up behind it. That is flooders * budget. It is allowed twice, because a new flooder's first turn
   may be a normal house's, and once more, because a look at the count from outside may be a turn
   old: (2 * flooders + 1) * budget.
 - A house of normal priority waits for the normal ones before it, each of which is taken after
   ageing_limit high turns at the latest: ageing_limit * houses turns, and two more for the turn in
   hand and the look from outside. That normal houses may get turns besides makes it less; so does
   a new house of high priority.
 - In the pool every global_poll_interval-th take is from the global ring, where all that wake up
   wait, in their order: global_poll_interval * houses turns, and the two.

All of it holds for one thread, and nobody must help it: so the flood is on one thread, the pool has
one worker, and nobody steals. There the flooders themselves look, at each of their messages, who
has waited for longer. Timers, mounts and what belongs to the thread have to come during the flood;
it ends when they have come, or when for the case's patience nothing has.

It cannot see how long a message takes, nor a house that is served too soon.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from operator import ge
from typing import Any

from otavia_ft import Ask, Notice, TimeoutEvent, on
from stress.parallel.workloads.base import Watched, Workload

__all__ = ["Flood"]


class Drop(Notice):
    """One drop of the flood."""


class Poke(Notice):
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Echo(Ask[int]):
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Hold(Ask[bool]):
    """Is answered when the flood is over."""


class Begin(Notice):
    """Ask for that answer."""


class Release(Notice):
    """It is over."""


class Flooding(Watched):
    """Sends each message on, to itself or to the next of its kind."""

    def __init__(self, flood: Flood) -> None:
        super().__init__(flood.lab)
        self.flood = flood
        self.following: Any = None
        self.retired = 0

    @on(Drop)
    def drop(self, message: Drop) -> None:
        self.enter()
        self.flood.rise()
        if self.flood.over:
            self.retired += 1
        else:
            self.following.notice(message)
        self.leave()


class Modest(Watched):
    """Has one message at a time, and has to get its turn."""

    turns = 1  # from the message to the end of its handling
    normal = False  # whether it is of normal priority also after its first turn

    def __init__(self, flood: Flood, source: str, each: int) -> None:
        super().__init__(flood.lab)
        self.flood = flood
        self.source = source
        self.each = each
        self.sent = self.handled = 0
        self.waits: tuple[int, int] = (0, 0)  # which message, and the tide when it was there
        self.mounted_at = 0

    def after_mount(self) -> None:
        super().after_mount()
        self.mounted_at = self.flood.tide

    def due(self) -> bool:
        return self.handled == self.sent < self.each

    def done(self, number: int) -> None:
        self.lab.check(number == self.handled + 1, "fifo", f"{number} came after {self.handled}")
        self.handled = number
        self.flood.served(self)

    @on(Poke)
    def poke(self, message: Poke) -> None:
        self.enter()
        self.leave()
        self.done(message.number)


class Answering(Watched):
    @on(Echo)
    def echo(self, message: Echo) -> int:
        self.enter()
        self.leave()
        return message.number


class Asking(Modest):
    """Awaits an answer for each message: a turn to ask, the neighbour's, and one to go on."""

    turns = 3
    normal = True

    def __init__(self, flood: Flood, source: str, each: int, neighbour: Any) -> None:
        super().__init__(flood, source, each)
        self.neighbour = neighbour

    @on(Poke)
    async def poke(self, message: Poke) -> None:
        self.enter()
        self.leave()
        reply = await self.neighbour.ask(Echo(message.number))
        self.lab.check(reply == message.number, "answered-once", f"another's reply: {reply}")
        self.done(message.number)


class Holding(Watched):
    """Puts all asks aside until the end."""

    released = False

    @on(Hold)
    def hold(self, message: Hold) -> bool:
        if not self.released:
            self.stash()
        return self.released

    @on(Release)
    def release(self, message: Release) -> None:
        self.released = True
        self.unstash_all()


class Awaiting(Modest):
    """Awaits one answer all the time, so it is never of high priority."""

    turns = 2  # the first message may find it about to ask
    normal = True

    def __init__(self, flood: Flood, source: str, each: int) -> None:
        super().__init__(flood, source, each)
        self.ended = 0

    @on(Begin)
    async def begin(self, message: Begin) -> None:
        self.lab.check(await self.flood.holder.ask(Hold()), "answered-once", "held no longer")
        self.ended += 1


class Timed(Watched):
    """Has timers of its own, and is told nothing else."""

    def __init__(self, flood: Flood, timers: int) -> None:
        super().__init__(flood.lab)
        self.timers = timers
        self.came: list[int] = []

    def after_mount(self) -> None:
        super().after_mount()
        for index in range(self.timers):
            self.after(self.lab.coin().choice((0, 0.0005, 0.003)), index)

    def handle_actor_timeout(self, event: TimeoutEvent) -> None:
        self.enter()
        self.came.append(event.attach)
        self.leave()


class Reminded:
    """A resource of the flooded thread's."""

    def __init__(self) -> None:
        self.came = 0

    def handle_timeout(self, event: Any) -> None:
        self.came += 1


class Flood(Workload):
    """Actors flood themselves; neighbours, timers and new actors get their turns meanwhile."""

    name = "flood"

    @classmethod
    def settings(cls, drawn: dict[str, Any]) -> dict[str, Any]:
        alone = drawn["dispatcher"] == "pool"
        return {"stealing": False, "workers": 1 if alone else min(2, drawn["workers"]),
                "throughput_budget": min(8, drawn["throughput_budget"]),
                "ageing_limit": min(5, drawn["ageing_limit"]),
                "global_poll_interval": min(7, drawn["global_poll_interval"]),
                "io_ratio": min(90, drawn["io_ratio"])}  # fmt: skip

    def build(self, system: Any) -> None:
        rng, lab = self.rng, self.lab
        self.system = system
        self.thread = system.scheduler.threads[0]
        self.pooled = system.config.dispatcher == "pool"
        self.home = system.scheduler if self.pooled else self.thread.manager
        self.tide = 0  # messages of the flood that were handled
        self.over = False
        self.holder = system.build_actor(Holding, lab)
        each = 2 if self.tiny else rng.randrange(4, 12)
        self.addresses: dict[Any, Any] = {}  # by actor
        self.flooders = [self.at_home(Flooding, self) for _ in range(rng.choice((1, 1, 2, 3)))]
        self.modest: list[Modest] = []
        for source in ("outside", "flooder", "timer"):
            for kind in rng.choices((Modest, Modest, Awaiting, Asking), k=rng.choice((1, 1, 2))):
                more = []
                if kind is Asking:
                    more.append(self.addresses[self.at_home(Answering, lab)])
                self.modest.append(self.at_home(kind, self, source, each, *more))
                if kind is Awaiting:
                    self.addresses[self.modest[-1]].notice(Begin())
        self.fresh = rng.choice((1, 2, 5))  # are built while the flood is on
        self.timed = [self.at_home(Timed, self, rng.randrange(1, 5))
                      for _ in range(rng.choice((1, 2)))]  # fmt: skip
        self.reminded = [Reminded() for _ in range(3)]
        for place in self.reminded:
            self.thread.resource_timeout(place, rng.choice((0, 0.001, 0.004)))
        self.expected = sum(actor.each for actor in self.modest) + self.fresh
        houses = len(self.addresses) + 1 + self.fresh
        budget, config = system.config.throughput_budget, system.config
        self.high_bound = (2 * len(self.flooders) + 1) * budget
        self.normal_bound = (config.ageing_limit * houses + 2) * budget
        if self.pooled:  # a new actor's mount waits in the ring as well
            limit = (config.global_poll_interval * (houses + self.fresh) + 2) * budget
            self.high_bound = self.normal_bound = limit
        self.begin(rng.choice((1, budget, 3 * budget)), rng.random() < 0.5)

    def at_home(self, kind: Any, *args: Any) -> Any:
        """A new actor on the thread that is flooded."""
        while (address := self.system.build_actor(kind, *args)).house.scheduler is not self.home:
            pass  # actors are laid over the threads in turn
        actor = address.house.actor
        self.addresses[actor] = address
        return actor

    def begin(self, drops: int, round_about: bool) -> None:
        addresses = [self.addresses[actor] for actor in self.flooders]
        for index, flooder in enumerate(self.flooders):
            flooder.following = addresses[(index + round_about) % len(addresses)]
        self.drops = drops * len(addresses)
        for address in addresses * drops:
            address.notice(Drop())
        for actor in self.modest:
            self.served(actor)

    # ---- on the flooded thread

    def rise(self) -> None:
        """Another message of the flood is handled: whose turn is overdue? And who gets mail?"""
        self.tide = tide = self.tide + 1
        for actor in self.modest:
            number, since = actor.waits
            if number > actor.handled and actor.mounted:
                waited, bound = tide - max(since, actor.mounted_at), self.bound(actor)
                if waited > bound:
                    text = (
                        f"{actor!r} has mail from {actor.source} and no turn for {waited} messages "
                        f"of its neighbours'; {bound} are allowed"
                    )
                    self.lab.report("fair-turns", text)
            if actor.source == "flooder" and actor.due():
                self.send(actor)

    def bound(self, actor: Modest) -> int:
        high = actor.handled and not actor.normal
        return self.high_bound if high else self.normal_bound * actor.turns

    def served(self, actor: Modest) -> None:
        if actor.source == "timer" and actor.due():
            seconds = self.lab.coin().choice((0, 0.0005, 0.002))
            self.system.timer.after(seconds, self.send, actor)

    # ---- any thread, but one at a time for each actor

    def send(self, actor: Modest) -> None:
        """The tide is looked at last: when the house is queued for certain."""
        actor.sent = number = actor.sent + 1
        self.addresses[actor].notice(Poke(number))
        actor.waits = (number, self.tide)

    # ---- outside

    def bodies(self) -> list[Callable[[], Any]]:
        return [self.steer]

    def steer(self) -> None:
        """Keep the flood up until everybody else has had all that was his."""
        built, seen, since = 0, -1, time.monotonic()
        while not self.lab.findings and not self.all_served():
            for actor in self.modest:
                if actor.source == "outside" and actor.due():
                    self.send(actor)
            if built < self.fresh:
                built += 1
                self.modest.append(self.at_home(Modest, self, "outside", 1))
            came, now = self.served_so_far(), time.monotonic()
            if came != seen:
                seen, since = came, now
            elif now - since > self.lab.case.patience_s:
                text = f"under the flood nothing else happens, after {came}"
                self.lab.report("fair-turns", text)
            time.sleep(0.0002)
        self.over = True
        self.holder.notice(Release())

    def served_so_far(self) -> tuple[int, int, int]:
        """Messages, timers of actors, timers of the thread."""
        return (
            sum(actor.handled for actor in self.modest),
            sum(len(actor.came) for actor in self.timed),
            sum(place.came for place in self.reminded),
        )

    def all_served(self) -> bool:
        timers = sum(actor.timers for actor in self.timed)
        wanted = (self.expected, timers, len(self.reminded))
        return all(map(ge, self.served_so_far(), wanted))

    def finished(self) -> bool:
        held = [actor for actor in self.modest if isinstance(actor, Awaiting)]
        return (
            self.over
            and sum(actor.retired for actor in self.flooders) >= self.drops
            and all(actor.ended for actor in held)
        )

    def tally(self) -> int:
        return self.tide + sum(self.served_so_far()[:2])

    def judge(self) -> None:
        lab = self.lab
        retired = sum(actor.retired for actor in self.flooders)
        text = f"{retired} of {self.drops} drops are left of the flood"
        lab.check(retired >= self.drops, "no-lost-message", text)
        lab.check(retired <= self.drops, "no-duplicate", text)
        counted = sum(actor.count for actor in self.flooders)
        text = f"the flooders counted {counted} messages of {self.tide}"
        lab.check(counted == self.tide, "single-runner", text)
        for actor in self.modest:
            text = f"{actor!r} handled {actor.handled} of {actor.each} messages"
            lab.check(actor.handled >= actor.each, "no-lost-message", text)
            lab.check(actor.handled <= actor.each, "no-duplicate", text)
            if isinstance(actor, Awaiting):
                lab.check(actor.ended == 1, "answered-once", f"its ask ended {actor.ended} times")
        for timed in self.timed:
            text = f"timers {timed.came} of {timed.timers} have come"
            lab.check(sorted(timed.came) == list(range(timed.timers)), "timer-once", text)
        for place in self.reminded:
            lab.check(place.came == 1, "timer-once", f"a thread's timer came {place.came} times")

    def judge_stopped(self) -> None:
        for actor in self.flooders:  # a ring of addresses keeps itself alive
            actor.following = None
