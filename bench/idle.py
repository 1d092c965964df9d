"""What ten thousand idle actors cost, and how fast one of them is awake."""

from __future__ import annotations

import threading
import time

from _measure import arguments, finish, median, table, verdict

from otavia_ft import ActorSystem, Notice, StateActor, on

CPU_BAR = 1.0  # percent of a core
WAKE_BAR = 1.0  # milliseconds


class Ping(Notice):
    def __init__(self) -> None:
        self.sent = time.perf_counter_ns()


class Sleeper(StateActor):
    def __init__(self, latencies: list[float], heard: threading.Event) -> None:
        self.latencies = latencies
        self.heard = heard

    @on(Ping)
    def ping(self, message: Ping) -> None:
        self.latencies.append((time.perf_counter_ns() - message.sent) / 1e6)
        self.heard.set()


def cpu_share(seconds: float) -> float:
    """The percentage of a core that this process uses while it should do nothing."""
    cpu, wall = time.process_time(), time.perf_counter()
    time.sleep(seconds)
    return 100 * (time.process_time() - cpu) / (time.perf_counter() - wall)


def main() -> None:
    options = arguments("Ten thousand idle actors.", rounds=5)
    actors = 1_000 if options.quick else 10_000
    seconds = 0.2 if options.quick else 5.0
    pings = 20 if options.quick else 200
    latencies: list[float] = []
    heard = threading.Event()
    shares: list[float] = []
    wakes: list[float] = []
    with ActorSystem() as system:
        sleepers = [system.build_actor(Sleeper, latencies, heard) for _ in range(actors)]
        threads = system.scheduler.threads
        while not all(thread.idle for thread in threads):
            time.sleep(0.001)
        for turn in range(options.rounds):
            shares.append(cpu_share(seconds))
            latencies.clear()
            for i in range(pings):
                while not all(thread.idle for thread in threads):
                    time.sleep(0.001)
                heard.clear()
                sleepers[(turn * pings + 7 * i) % actors].notice(Ping())
                heard.wait(10)
            wakes.append(median(latencies))
    figures = {"CPU share, percent": shares, "wake latency, ms": wakes}
    table(
        f"{actors:,} idle actors on {len(threads)} threads",
        ["what", "median"],
        [[name, f"{median(runs):.3f}"] for name, runs in figures.items()],
    )
    verdict(f"idle: {median(shares):.2f} % of a core (bar {CPU_BAR} %)", median(shares) < CPU_BAR)
    verdict(f"awake after {median(wakes):.3f} ms (bar {WAKE_BAR} ms)", median(wakes) < WAKE_BAR)
    finish(options, figures)


if __name__ == "__main__":
    main()
