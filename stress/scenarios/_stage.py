"""The stage for scenarios with houses: real threads' loops, managers, crew and houses, no system.

What a house and a thread want of their system is little; `_System` has just that, made of the
runtime's own parts where they matter (dead letters, register, configuration). The constants are as
small as they can be, so that few messages already meet every limit.
"""

from __future__ import annotations

from typing import Any

from stress.explorer.scenario import Scenario, Violation, label
from stress.explorer.world import current

__all__ = ["HouseScenario"]


class _NoSelector:
    """For a reactor without channels, which never looks at its selector."""

    def register(self, *args: Any) -> None:
        pass

    def close(self) -> None:
        pass


class _System:
    name = "stage"

    def __init__(self, rt: Any, config: Any) -> None:
        self.config = config
        self.dead_letters = rt.deadletters.DeadLetters()
        self.register = rt.register.Register()
        self.stopped_error = rt.errors.SystemStopped("the stage has stopped")


class HouseScenario(Scenario):
    """Base of scenarios with houses. `stage()` first, then `new_house()` as often as wanted."""

    runtime = ("otavia_ft.schedule.thread", "otavia_ft.schedule.crew", "otavia_ft.actor.base",
               "otavia_ft.deadletters", "otavia_ft.config")  # fmt: skip

    def stage(self, workers: int = 1, **settings: Any) -> None:
        """Make the worker threads' objects: `self.workers`. They do not run yet."""
        rt = self.rt
        rt.reactor.Reactor.__init__.__defaults__ = (_NoSelector,)
        key = tuple(sorted(settings.items()))
        config = rt.kept.get(key)
        if config is None:
            config = rt.kept[key] = rt.config.Config(
                **{"io_ratio": 100, "steal_floor": 0, "steal_aggression": 1, "throughput_budget": 2,
                   "ageing_limit": 2, "stealing": workers > 1, **settings}
            )  # fmt: skip
        self.system = _System(rt, config)
        self.crew = rt.crew.Crew(config)
        self.workers = [rt.thread.ActorThread(i, self.system, self.crew) for i in range(workers)]
        self.crew.threads = tuple(self.workers)
        self.houses: list[Any] = []
        self.handled: list[list[Any]] = []  # by house
        _watch_queues(rt)
        rt.kept["queued"].clear()

    def enters(self, house: Any) -> None:
        """A house is about to be put into a queue, as the lists do it by themselves."""
        _enters(self.rt.kept["queued"], house)

    def leaves(self, house: Any) -> None:
        self.rt.kept["queued"].discard(house)

    def run_workers(self) -> None:
        """The workers' loops, as threads. They may be asleep when all is over."""
        for worker in self.workers:
            self.run_worker(worker)

    def run_worker(self, worker: Any, daemon: bool = True) -> None:
        """A worker's own `run`. A round that came to nothing is a spin: see `relax`."""
        run_once = worker.run_once

        def round_(context: Any, may_block: bool) -> None:
            if not run_once(context, may_block):
                self.doors.relax()

        worker.run_once = round_
        self.thread(f"worker{worker.index}", worker.run, daemon=daemon)

    def label_words(self) -> None:
        for house in self.houses:  # first: a queue would call it by its place there
            label(house, f"h{house.id}")
        for worker in self.workers:
            name, manager = f"w{worker.index}", worker.manager
            for kind in ("business", "channels", "mounting"):
                label(getattr(manager, kind), f"{name}.{kind}")
            label(worker, name)
        super().label_words()

    def new_house(self, worker: int = 0, mounted: bool = True, kind: Any = None) -> Any:
        """A house whose actor remembers what it handled, in `self.handled`; WAITING if mounted."""
        handled: list[Any] = []
        house = (kind or self.rt.house.House)(
            _recorder(self.rt)(handled), self.workers[worker].manager, len(self.houses) + 1
        )
        if mounted:
            house.begin_mount()
            house.end_mount()
        self.houses.append(house)
        self.handled.append(handled)
        return house

    def dead(self) -> list[Any]:
        """The dead letters' messages."""
        return [letter.message for letter in self.system.dead_letters.latest]

    def work_left(self) -> str | None:
        """Mail or a queued house, although nothing can move any more."""
        for house in self.houses:
            if house.mail():
                state = self.rt.doors.HouseState(house.state).name
                return f"house {house.id} is {state} with mail that nobody will handle"
        for worker in self.workers:
            if worker.manager.runnable:
                return f"worker{worker.index} sleeps although houses wait in its queues"
        return None

    def expect_once(self, sent: list[list[Any]], got: list[Any]) -> None:
        """Each message exactly once, and those of one sender in their order."""
        assert sorted(got) == sorted(m for messages in sent for m in messages), (
            f"sent {sent}, handled {got}"
        )
        for messages in sent:
            order = [m for m in got if m in messages]
            assert order == messages, f"sent in the order {messages}, handled in the order {order}"


def _enters(queued: set[Any], house: Any) -> None:
    world = current()
    if house in queued and world is not None:
        text = f"one-queue: house {house.id} is queued while a queue holds it"
        world.fail(Violation("invariant", text))
    queued.add(house)


def _watch_queues(rt: Any) -> None:
    """Let the house lists of this copy tell when a house is in two of them, or twice in one.

    The bookkeeping is no door: it takes no step, and changes nothing that the runtime sees. A house
    stays READY until the one who took it out has returned from `pop`, so nobody may queue it again
    before it is marked as gone.
    """
    if "queued" in rt.kept:
        return
    queued: set[Any] = set()
    rt.kept["queued"] = queued
    lists = rt.queues.HouseList
    append, pop, steal = lists.append, lists.pop, lists.try_steal

    def checked_append(self: Any, house: Any) -> Any:
        _enters(queued, house)
        return append(self, house)

    def checked_pop(self: Any) -> Any:
        house = pop(self)
        queued.discard(house)
        return house

    def checked_steal(self: Any) -> Any:
        house = steal(self)
        queued.discard(house)
        return house

    lists.append, lists.pop, lists.try_steal = checked_append, checked_pop, checked_steal


def _recorder(rt: Any) -> Any:
    """The actor class, made once for each private copy of the runtime."""
    made = rt.kept.get("recorder")
    if made is not None:
        return made

    class Recorder(rt.base.StateActor):  # type: ignore[name-defined,misc]
        def __init__(self, handled: list[Any]) -> None:
            self.handled = handled

        def resume_notice(self, stack: Any) -> Any:
            self.handled.append(stack.notice)
            return stack.return_()

        def resume_ask(self, stack: Any) -> Any:
            self.handled.append(stack.ask)
            return stack.return_(stack.ask)

        def restart(self) -> None:
            self.handled.append("restart")

    rt.kept["recorder"] = Recorder
    return Recorder
