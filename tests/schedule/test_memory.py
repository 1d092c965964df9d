"""The memory monitor: when it says busy, whom that slows down, and what it leaves behind."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otavia_ft import ActorAddress, ActorSystem, Notice, RobinAddress, StateActor, on, pressure
from otavia_ft.config import Config
from otavia_ft.schedule import memory
from otavia_ft.schedule.memory import Memory, is_busy

GB = 1 << 30
MB = 1 << 20
FULL = Memory(10 * GB, 10 * GB)
EMPTY = Memory(10 * GB, 0)


class Kernel:
    """What the kernel says of its memory: the files that the probe reads, in the test's hands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.meminfo(f"MemTotal: {16 * MB} kB\nMemFree: 5 kB\nMemAvailable: {10 * MB} kB\n")

    def meminfo(self, text: str | None) -> None:
        file = self.folder / "meminfo"
        if text is None:
            file.unlink()
        else:
            file.write_text(text)

    def group(self, **values: object) -> None:
        for name, value in values.items():
            (self.folder / f"memory.{name}").write_text(f"{value}\n")


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    monkeypatch.setattr(memory, "MEMINFO", f"{tmp_path}/meminfo")
    monkeypatch.setattr(memory, "GROUP", f"{tmp_path}/")
    return Kernel(tmp_path)


class Go(Notice):
    pass


class Counting(StateActor):
    def __init__(self) -> None:
        self.count = 0

    @on(Go)
    def go(self, message: Go) -> None:
        self.count += 1


@pytest.mark.parametrize(
    ("limit", "used", "busy"),
    [
        (10 * GB, 9 * GB, False),  # 90 % is not over 90 %
        (10 * GB, 9 * GB + MB, True),
        (500 * MB, 399 * MB, False),
        (500 * MB, 401 * MB, True),  # 80 %, but less than 100 MB free
        (500 * MB, 400 * MB, False),  # exactly 100 MB free
        (10 * GB, 0, False),
    ],
)
def test_busy_is_over_the_percentage_or_below_the_free_megabytes(
    limit: int, used: int, busy: bool
) -> None:
    assert is_busy(Memory(limit, used), Config()) is busy


def test_the_probe_tells_what_this_machine_has() -> None:
    found = memory.probe()
    assert found is not None
    assert 0 < found.used < found.limit


def test_the_smaller_of_the_control_group_and_the_machine_is_the_limit(
    kernel: Kernel,
) -> None:
    kernel.group(max=4 * GB, current=3 * GB)
    assert memory.probe() == Memory(4 * GB, 3 * GB)
    kernel.group(max=64 * GB)
    assert memory.probe() == Memory(16 * GB, 6 * GB)
    kernel.group(max="max")
    assert memory.probe() == Memory(16 * GB, 6 * GB)


def test_without_a_control_group_the_machine_counts(kernel: Kernel) -> None:
    assert memory.probe() == Memory(16 * GB, 6 * GB)


def test_a_group_s_page_cache_that_the_kernel_gives_back_is_no_pressure(kernel: Kernel) -> None:
    """A container that reads many files has `memory.current` at its limit, for ever."""
    kernel.group(max=4 * GB, current=4 * GB - 50 * MB)
    full = memory.probe()
    assert full is not None
    assert is_busy(full, Config())
    kernel.group(stat=f"anon {300 * MB}\nactive_file 7\ninactive_file {3 * GB}\nunevictable 0\n")
    assert memory.probe() == Memory(4 * GB, GB - 50 * MB)


def test_a_look_reads_nothing_that_it_does_not_need(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    plain = memory._read

    def noting(path: str) -> bytes:
        read.append(path.rpartition("/")[2])
        return plain(path)

    monkeypatch.setattr(memory, "_read", noting)
    kernel.group(max="max", current=3 * GB, stat="inactive_file 0\n")
    memory.probe()
    assert read == ["meminfo", "memory.max"]


@pytest.mark.parametrize(
    "meminfo", [None, "MemTotal: 1 kB\n", "MemTotal: kB\nMemAvailable: 1 kB\n"]
)
def test_where_memory_cannot_be_told_there_is_no_pressure(
    kernel: Kernel, meminfo: str | None
) -> None:
    kernel.meminfo(meminfo)
    assert memory.probe() is None
    watch = pressure.Pressure(Config(), memory.probe)
    watch.look()
    assert not watch.busy


class Sleeps:
    """Counts the naps of senders instead of napping."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.naps: list[float] = []
        self.names: set[str] = set()
        monkeypatch.setattr(pressure.time, "sleep", self.nap)

    def nap(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.names.add(threading.current_thread().name)


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> Sleeps:
    class Time:
        sleep = staticmethod(lambda seconds: None)

    monkeypatch.setattr(pressure, "time", Time)
    return Sleeps(monkeypatch)


def test_a_notice_from_outside_waits_while_memory_is_short(
    make_test_system: Callable[..., Any], sleeps: Sleeps
) -> None:
    system = make_test_system(memory_sleep_ms=40)
    address = system.build_actor(Counting)
    address.notice(Go())
    assert sleeps.naps == []
    system._pressure._probe = lambda: FULL
    system._pressure.look()
    assert system.busy
    address.notice(Go())
    address.notice(Go())
    assert sleeps.naps == [0.04, 0.04]
    system._pressure._probe = lambda: EMPTY
    system._pressure.look()
    assert not system.busy
    address.notice(Go())
    assert sleeps.naps == [0.04, 0.04]
    assert "notice" not in vars(ActorAddress)
    assert "notice" not in vars(RobinAddress)


@pytest.mark.parametrize("number", [1, 2], ids=["one actor", "a round"])
def test_what_ends_an_actor_or_begins_it_anew_waits_for_no_memory(
    make_test_system: Callable[..., Any], sleeps: Sleeps, number: int
) -> None:
    """A stop is what gives memory back."""
    system = make_test_system()
    address = system.build_actor(Counting, num=number)
    system._pressure._probe = lambda: FULL
    system._pressure.look()
    address.restart()
    address.stop()
    assert sleeps.naps == []
    address.notice(Go())
    assert len(sleeps.naps) == 1
    system._pressure.end()


def test_actors_are_never_slowed_down(make_test_system: Callable[..., Any], sleeps: Sleeps) -> None:
    system = make_test_system()
    target = Counting()
    address = system.build_actor(lambda: target)

    class Sender(StateActor):
        @on(Go)
        def go(self, message: Go) -> None:
            address.notice(message)

    sender = system.build_actor(Sender)
    system._pressure._probe = lambda: FULL
    system._pressure.look()
    sender.notice(Go())
    system.run()
    assert target.count == 1
    assert len(sleeps.naps) == 1  # the test's own notice
    system._pressure.end()


def test_one_busy_system_does_not_slow_down_another(
    make_test_system: Callable[..., Any], sleeps: Sleeps
) -> None:
    short, fine = make_test_system(), make_test_system()
    address = fine.build_actor(Counting)
    short._pressure._probe = lambda: FULL
    short._pressure.look()
    address.notice(Go())
    assert sleeps.naps == []
    fine._pressure._probe = lambda: FULL
    fine._pressure.look()
    short._pressure.end()
    assert not short.busy
    address.notice(Go())
    assert len(sleeps.naps) == 1
    fine._pressure.end()
    assert "notice" not in vars(ActorAddress)
    assert "notice" not in vars(RobinAddress)


def test_systems_that_change_their_minds_at_once_leave_no_brake_on(
    in_parallel: Callable[..., list[Any]],
) -> None:
    def waver(i: int) -> None:
        full = [False]
        watch = pressure.Pressure(Config(), lambda: FULL if full[0] else EMPTY)
        for _ in range(200):
            full[0] = not full[0]
            watch.look()
        watch.end()

    in_parallel(3, waver)
    assert "notice" not in vars(ActorAddress)
    assert "notice" not in vars(RobinAddress)
    assert pressure._busy_systems == 0


def test_the_monitor_looks_by_itself_and_a_stop_takes_the_brake_off(
    make_system: Callable[..., ActorSystem], eventually: Callable[..., Any]
) -> None:
    looks: list[int] = []

    def probe() -> Memory:
        looks.append(1)
        return FULL

    system = make_system(memory_monitor=True, memory_interval_ms=10, memory_probe=probe)
    eventually(lambda: system.busy and len(looks) >= 3)
    assert system.statistics().busy
    system.stop()
    assert not system.busy
    assert "notice" not in vars(ActorAddress)
    assert "notice" not in vars(RobinAddress)


def test_a_system_without_a_monitor_never_looks(make_system: Callable[..., ActorSystem]) -> None:
    def probe() -> Memory:
        raise AssertionError("nobody asked for a look")

    system = make_system(memory_monitor=False, memory_probe=probe)
    assert len(system.timer) == 0
