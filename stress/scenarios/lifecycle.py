"""The ends and beginnings of an actor's life, against senders that know nothing of them."""

from __future__ import annotations

from typing import Any, ClassVar

from stress.explorer.scenario import scenario
from stress.scenarios._stage import HouseScenario


@scenario("stop-send")
class StopSend(HouseScenario):
    """A poison pill against a sender: each message is handled or a dead letter, never forgotten."""

    sizes: ClassVar = {"messages": 1}

    def setup(self) -> None:
        self.stage()
        self.house = self.new_house()
        self.sent = [f"m{m}" for m in range(self.messages)]
        self.thread("sender", self.send)
        self.thread("stopper", self.stop)
        self.run_workers()

    def send(self) -> None:
        for message in self.sent:
            self.house.notice(message)

    def stop(self) -> None:
        self.house.control(self.rt.message.PoisonPill())

    def finish(self) -> None:
        assert self.house.stop_reason is not None, "the pill was swallowed without effect"
        self.expect_once([self.sent], self.handled[0] + self.dead())


@scenario("restart-send")
class RestartSend(HouseScenario):
    """A restart against a sender: the hook runs once, between messages, and no mail is lost."""

    sizes: ClassVar = {"messages": 1}

    def setup(self) -> None:
        self.stage()
        self.house = self.new_house()
        self.sent = [f"m{m}" for m in range(self.messages)]
        self.thread("sender", self.send)
        self.thread("restarter", self.restart)
        self.run_workers()

    def send(self) -> None:
        for message in self.sent:
            self.house.notice(message)

    def restart(self) -> None:
        self.house.control(self.rt.lifecycle.Restart())

    def finish(self) -> None:
        self.expect_once([self.sent, ["restart"]], self.handled[0])


@scenario("mount-send")
class MountSend(HouseScenario):
    """A new house is mounted while a message is on its way: it is handled after the start hooks."""

    sizes: ClassVar = {"messages": 1}

    def setup(self) -> None:
        self.stage()
        self.house = self.new_house(mounted=False)
        self.house.actor.after_mount = lambda: self.handled[0].append("mount")
        self.sent = [f"m{m}" for m in range(self.messages)]
        self.thread("builder", self.workers[0].manager.mount, self.house)
        self.thread("sender", self.send)
        self.run_workers()

    def send(self) -> None:
        for message in self.sent:
            self.house.notice(message)

    def finish(self) -> None:
        assert self.handled[0] == ["mount", *self.sent], f"handled {self.handled[0]}"


class _Close(HouseScenario):
    """Base: the worker has ended; its manager closes while messages are still sent. An actor's last
    hook runs where its mail is buried, once, if it has begun."""

    sizes: ClassVar = {"senders": 2}
    expected: ClassVar = ["post_stop"]

    def setup(self) -> None:
        self.stage()
        self.ends: list[str] = []
        self.prepare()
        for house in self.houses:
            house.actor.post_stop = lambda: self.ends.append("post_stop")
        self.thread("closer", self.workers[0].manager.close)
        self.sent = [[(s, h.id) for h in self.houses] for s in range(self.senders)]
        for s, messages in enumerate(self.sent):
            self.thread(f"sender{s}", self.send, messages)

    def prepare(self) -> None:
        """Make the houses."""

    def send(self, messages: list[Any]) -> None:
        for message, house in zip(messages, self.houses, strict=True):
            house.notice(message)

    def finish(self) -> None:
        sent = sorted(m for messages in self.sent for m in messages)
        got = sorted(self.dead() + [m for handled in self.handled for m in handled])
        assert got == sent, f"sent {sent}, buried {got}"
        assert self.ends == self.expected, f"post_stop ran {len(self.ends)} times"


@scenario("close-send")
class CloseSend(_Close):
    """A manager closes while two senders send: whatever comes late is buried all the same."""

    def prepare(self) -> None:
        self.house = self.new_house()


@scenario("close-mount-send")
class CloseMountSend(_Close):
    """A manager closes over a house that was never mounted, while two senders send to it."""

    bound = 1  # with two there are too many states for every day
    expected: ClassVar = []

    def prepare(self) -> None:
        self.house = self.new_house(mounted=False)
        self.workers[0].manager.mount(self.house)


@scenario("close-stuck")
class CloseStuck(HouseScenario):
    """A worker comes back from a long turn while its houses are told to stop, and its manager
    closes: each message is handled or buried, and each actor has its last hook, on either side."""

    bound = 1  # as above
    sizes: ClassVar = {"actors": 2}

    def setup(self) -> None:
        self.stage()
        self.ends: list[int] = []
        for number in range(self.actors):
            house = self.new_house()
            house.actor.post_stop = lambda number=number: self.ends.append(number)
            house.notice(f"m{number}")
        self.thread("worker", self.come_back)
        self.thread("closer", self.close)

    def come_back(self) -> None:
        worker = self.workers[0]
        self.doors.set_me(worker.context)
        worker.manager.run_state_actors(worker.context, None)
        worker.leave()

    def close(self) -> None:
        worker = self.workers[0]
        for house in self.houses:
            house.control(self.rt.lifecycle.Stop(self.system.stopped_error))
        worker.signal_stop()
        worker.close()
        worker.leave()

    def finish(self) -> None:
        sent = [f"m{number}" for number in range(self.actors)]
        got = sorted(self.dead() + [m for handled in self.handled for m in handled])
        assert got == sent, f"sent {sent}, handled and buried {got}"
        assert sorted(self.ends) == list(range(self.actors)), f"post_stop ran for {self.ends}"


@scenario("signal-stop")
class SignalStop(HouseScenario):
    """A worker is told to end while it falls asleep, and while a message comes: it ends."""

    def setup(self) -> None:
        self.stage()
        self.house = self.new_house()
        worker = self.workers[0]
        self.run_worker(worker, daemon=False)
        self.thread("stopper", worker.signal_stop)
        self.thread("sender", self.house.notice, "m")

    def work_left(self) -> str | None:
        return None  # what is left over is buried when the manager closes

    def finish(self) -> None:
        self.workers[0].manager.close()
        self.expect_once([["m"]], self.handled[0] + self.dead())
