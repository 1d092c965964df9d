"""Pipes and pairs of sockets at the threads' reactors, while state actors keep the threads busy.

Conserved: every byte that a thread outside writes is read once, in order, on the thread that the
channel belongs to, and makes one part of one event for its IO actor; so does the end of what is
written. All this happens although tokens go round among state actors on every thread, and do not
stop before it has: IO that starves under the flood never ends it. Meanwhile channels come and go:
taken from the reactor by a thread outside, by an IO actor, or by the handler of a neighbour that is
ready at the same time, and put back. The selector returns for nothing or fails now and then, so it
is replaced. No descriptor is left at the end, whether its channel was closed or still registered.

It cannot see how soon a byte is served, short of the case's patience, nor io_ratio=100, where
business has no limit and may starve IO as long as it likes. Writing goes unwatched, but for the one
wish for room that comes with a return to the reactor.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

from otavia_ft import Notice, on
from stress.parallel.lab import Lab
from stress.parallel.workloads.base import Watched, Workload
from stress.parallel.workloads.wires import READ, Channel, Flawed, part

__all__ = ["Channels"]

FLAWS = 100  # of a thread's selectors: in the end they work


class Reading(Watched):
    """An IO actor: gets what its channels' handlers have read."""

    has_channels: ClassVar[bool] = True

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.thread: int | None = None
        self.events = 0
        self.places: dict[int, int] = {}  # by channel: how many bytes have come
        self.ended: list[int] = []

    def receive_event(self, event: Any) -> None:
        self.enter()
        ident = threading.get_ident()
        self.thread = self.thread or ident
        self.lab.check(ident == self.thread, "steal-rules", "an IO actor runs on two threads")
        self.events += 1
        channel, data = event.channel, event.data
        if data:
            place = self.places.get(channel.number, 0)
            text = f"channel {channel.number}: another's bytes at {place}"
            self.lab.check(data == part(place, len(data)), "io-served", text)
            self.places[channel.number] = place + len(data)
            if self.lab.coin().random() < 0.1:
                channel.away(then=self.lab.coin().choice((READ, READ | channel.writable)))
        else:
            self.ended.append(channel.number)
        self.leave()


class Token(Notice):
    __slots__ = ()


class Flooding(Watched):
    """Never lets go of the token while there is IO to do."""

    def __init__(self, channels: Channels) -> None:
        super().__init__(channels.lab)
        self.channels = channels
        self.following: Any = None
        self.retired = 0

    @on(Token)
    def token(self, message: Token) -> None:
        self.enter()
        if self.channels.flood_is_over():
            self.retired += 1
        else:
            self.following.notice(message)
        self.leave()


class Channels(Workload):
    """Bytes from outside come to channels that come and go, under a flood: each is served once."""

    name = "channels"

    @classmethod
    def settings(cls, drawn: dict[str, Any]) -> dict[str, Any]:
        return {"io_ratio": min(90, drawn["io_ratio"]),
                "selector_rebuild_threshold": drawn["deadline_stride"]}  # fmt: skip

    def build(self, system: Any) -> None:
        rng, lab = self.rng, self.lab
        self.readers: list[Reading] = []
        self.flooding: list[Flooding] = []

        def made() -> Reading:
            self.readers.append(Reading(lab))
            return self.readers[-1]

        def made_flooding() -> Flooding:
            self.flooding.append(Flooding(self))
            return self.flooding[-1]

        if rng.random() < 0.5:
            for thread in system.scheduler.threads:
                left = [FLAWS]
                thread.reactor._make_selector = lambda left=left: Flawed(lab, left)
        self.addresses = [system.build_actor(made) for _ in range(rng.choice((1, 2, 4)))]
        self.channels = [
            Channel(lab, number, rng.choice(self.addresses),
                    pair=rng.random() < 0.6, ends=rng.random() < 0.6)
            for number in range(rng.choice((1, 2, 6)))
        ]  # fmt: skip
        for channel in self.channels:
            channel.neighbours = [
                each for each in self.channels
                if each is not channel and each.thread is channel.thread
            ]  # fmt: skip
            channel.thread.call(lambda c=channel: c.back(READ))
        many = rng.choice((0, 1, 2)) * system.config.workers
        self.ring = [system.build_actor(made_flooding) for _ in range(many)]
        for index, actor in enumerate(self.flooding):
            actor.following = self.ring[(index + 1) % many]
        self.each = self.burst(100, backlog=True)
        self.turns = self.rng.choice((0, 3, 20))
        self.seen_last, self.seen_at = -1, time.monotonic()
        self.writing = len(self.channels)
        self.done = [False] * self.writing  # each writer's own
        self.sent = 0

    def bodies(self) -> list[Callable[[], Any]]:
        def write(index: int) -> None:
            channel, coin = self.channels[index], self.lab.coin()
            for _ in range(self.each):
                channel.write(coin.choice((1, 2, 30, 200)))
            if channel.ends:
                os.close(channel.outlet)
                channel.outlet = -1
            self.done[index] = True

        def interfere() -> None:
            coin = self.lab.coin()
            for _ in range(self.turns):
                channel = coin.choice(self.channels)
                channel.thread.call(channel.away)
                time.sleep(coin.choice((0, 1e-4, 1e-3)))

        for address in self.ring:
            address.notice(Token())
        return [*(lambda n=n: write(n) for n in range(len(self.channels))), interfere]

    def all_served(self) -> bool:
        """All that is written has come to the actors."""
        ends = sum(channel.ends for channel in self.channels)
        return (
            all(self.done)
            and self._came() >= sum(channel.written for channel in self.channels)
            and sum(len(reader.ended) for reader in self.readers) >= ends
        )

    def _came(self) -> int:
        return sum(sum(list(reader.places.values())) for reader in self.readers)

    def flood_is_over(self) -> bool:
        """The flood is a sign of life in itself, so it looks after the patience, too."""
        if self.lab.findings or self.all_served():
            return True
        came, now = self._came() + sum(self.done), time.monotonic()
        if came != self.seen_last:
            self.seen_last, self.seen_at = came, now
        elif now - self.seen_at > self.lab.case.patience_s:
            self.lab.report("io-served", f"no IO is served under the flood, after {came} bytes")
        return False

    def finished(self) -> bool:
        retired = sum(actor.retired for actor in self.flooding)
        return self.all_served() and retired >= len(self.ring)

    def judge(self) -> None:
        lab = self.lab
        places = {number: place for reader in self.readers
                  for number, place in reader.places.items()}  # fmt: skip
        for channel in self.channels:
            came = places.get(channel.number, 0)
            text = f"channel {channel.number}: {came} of {channel.written} bytes have come"
            lab.check(came == channel.written, "io-served", text)
            ends = sum(reader.ended.count(channel.number) for reader in self.readers)
            text = f"channel {channel.number}: {ends} ends have come"
            lab.check(ends == channel.ends, "io-served", text)
            text = f"channel {channel.number}: {channel.wishes} wishes, {channel.granted} granted"
            granted = channel.granted <= channel.wishes
            lab.check(granted, "io-served", text)
        informed = sum(channel.informed for channel in self.channels)
        events = sum(reader.events for reader in self.readers)
        text = f"{informed} events were made, {events} were handled"
        lab.check(events >= informed, "no-lost-message", text)
        lab.check(events <= informed, "no-duplicate", text)
        counted = sum(reader.count for reader in self.readers)
        lab.check(counted == events, "single-runner", f"{counted} counted; {text}")
        retired = sum(actor.retired for actor in self.flooding)
        text = f"{retired} of {len(self.ring)} tokens are left"
        lab.check(retired >= len(self.ring), "no-lost-message", text)
        lab.check(retired <= len(self.ring), "no-duplicate", text)

    def judge_stopped(self) -> None:
        for channel in self.channels:
            channel.close()
        for actor in self.flooding:  # a ring of addresses keeps itself alive
            actor.following = None
