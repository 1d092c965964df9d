"""The crew: all ActorThreads of a system, which of them sleep, and who steals from whom.

Stealing is a safety net. A house belongs to its thread for the sake of the caches; only a thread
that is really idle takes work, only from one that is really behind, one house at a time, and the
house goes back to its owner. The rule ties the two together:

    readies > STEAL_FLOOR  and  idle_count * readies >= STEAL_AGGRESSION

so a backlog of 128 is helped with at once, one of 33 after four idle loops, one of 32 never.

A thief that sleeps must learn of a backlog. `asleep` counts the threads that have announced to
sleep. The two orders that could go wrong, and why neither does:
 1. the victim enqueues before the thief announces itself: the thief looks at all backlogs once more
    *after* announcing, and sees it;
 2. the victim enqueues after that look: the announcement came before, so the victim sees it and
    wakes the thief.
Both sides write first and read second, so both need full fences between the two: the thief's
announcement and the victim's count of its queue are read-modify-writes, and the victim reads
`asleep` with one too (adding zero), because a plain load may still overtake what came before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otavia_ft.doors import AtomicInt, choose

if TYPE_CHECKING:
    from otavia_ft.config import Config
    from otavia_ft.house.house import House
    from otavia_ft.schedule.thread import ActorThread

__all__ = ["Crew"]


class Crew:
    """The threads of one system."""

    def __init__(self, config: Config) -> None:
        self.threads: tuple[ActorThread, ...] = ()
        self.asleep = AtomicInt()
        self._floor = config.steal_floor
        self._aggression = config.steal_aggression
        self._stealing = config.stealing

    def call_thief(self, victim: ActorThread | None = None) -> None:
        """There is work for one more (the victim's backlog is above the floor): wake one sleeper.

        One that somebody else has called in the meantime does not count: it has its own work.
        """
        if self.asleep.get_and_add(0) == 0:
            return
        for thread in self.threads:
            if thread is not victim and thread.parker.asleep and thread.wake():
                return

    def worth_staying_awake(self, thief: ActorThread) -> bool:
        """Whether some other thread's backlog is above the floor."""
        return self._stealing and any(
            len(thread.manager.business) > self._floor and thread.manager.business.stealable
            for thread in self.threads
            if thread is not thief
        )

    def steal(self, thief: ActorThread, idle_count: int) -> tuple[ActorThread, House] | None:
        """One house from an overwhelmed thread, and whose it is. Never waits for a lock."""
        n = len(self.threads)
        if n < 2 or not self._stealing:
            return None
        start = choose(n)
        for i in range(n):
            victim = self.threads[(start + i) % n]
            if victim is thief:
                continue
            readies = len(victim.manager.business)
            if readies > self._floor and idle_count * readies >= self._aggression:
                house = victim.manager.business.try_steal()
                if house is not None:
                    return victim, house
        return None
