"""A bounded mailbox whose senders wait for room."""

from __future__ import annotations

from typing import Any, ClassVar

from stress.explorer.scenario import scenario
from stress.scenarios._stage import HouseScenario


@scenario("bounded-block")
class BoundedBlock(HouseScenario):
    """Senders wait for room in a mailbox of one while its actor takes: each of them gets in."""

    runtime = (*HouseScenario.runtime, "otavia_ft.house.bounded")
    sizes: ClassVar = {"senders": 1}
    bound = 1  # with two there are too many states for every day

    def setup(self) -> None:
        self.stage(mailbox_capacity=1, overflow="block")
        self.house = self.new_house(kind=self.rt.bounded.BoundedHouse)
        self.house.notice("first")  # no room from the beginning
        self.sent = [["first"], *([f"m{s}"] for s in range(self.senders))]
        for s, messages in enumerate(self.sent[1:]):
            self.thread(f"sender{s}", self.house.notice, messages[0])
        self.thread("runner", self.run, daemon=True)

    def run(self) -> None:
        """The manager's loop, without the sleep."""
        manager, context = self.workers[0].manager, self.workers[0].context
        self.doors.set_me(context)
        while True:
            if not manager.run_state_actors(context, None):
                self.doors.relax()

    def work_left(self) -> Any:
        return None  # a sender that waits for ever is a deadlock, and told as such

    def finish(self) -> None:
        self.expect_once(self.sent, self.handled[0])
