"""Timers of an actor's own: they end with it."""

import threading

from otavia_ft import ActorSystem, StateActor, TimeoutEvent

done = threading.Event()


class Clock(StateActor):
    def after_mount(self) -> None:
        self.ticks = 0
        self.after(0.02, "tick", every=0.02)

    def handle_actor_timeout(self, event: TimeoutEvent) -> None:
        self.ticks += 1
        print(event.attach, self.ticks)
        if self.ticks == 3:
            self.stop()  # cancels the timer as well
            done.set()


if __name__ == "__main__":
    with ActorSystem() as system:
        clock = system.build_actor(Clock)
        done.wait(10)
