"""A house between its senders and its runner: the wake-up handshake, with the real thread loop."""

from __future__ import annotations

from typing import Any, ClassVar

from stress.explorer.scenario import scenario
from stress.scenarios._stage import HouseScenario


@scenario("two-senders")
class TwoSenders(HouseScenario):
    """Two senders find a house WAITING while its worker falls asleep, runs it, sleeps again."""

    sizes: ClassVar = {"senders": 2, "messages": 1}

    def setup(self) -> None:
        self.stage()
        self.house = self.new_house()
        self.sent = [[(s, m) for m in range(self.messages)] for s in range(self.senders)]
        for number, messages in enumerate(self.sent):
            self.thread(f"sender{number}", self.send, messages)
        self.run_workers()

    def send(self, messages: list[Any]) -> None:
        for message in messages:
            self.house.notice(message)

    def finish(self) -> None:
        self.expect_once(self.sent, self.handled[0])


@scenario("complete-running")
class CompleteRunning(HouseScenario):
    """A sender against complete_running: the house has one message, and another comes late."""

    sizes: ClassVar = {"messages": 1}

    def setup(self) -> None:
        self.stage()
        self.house = self.new_house()
        self.house.notice("first")  # queued before the threads begin
        self.sent = [["first"], [f"late{m}" for m in range(self.messages)]]
        self.thread("runner", self.run, daemon=True)
        self.thread("sender", self.send)

    def run(self) -> None:
        """The manager's loop, without the sleep: what the sender makes ready, it finds."""
        manager, context = self.workers[0].manager, self.workers[0].context
        self.doors.set_me(context)
        while True:
            if not manager.run_state_actors(context, None):
                self.doors.relax()

    def send(self) -> None:
        for message in self.sent[1]:
            self.house.notice(message)

    def finish(self) -> None:
        self.expect_once(self.sent, self.handled[0])
