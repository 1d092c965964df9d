"""The ActorThread's loop: its three phases, its budget, its reactor, and how it sleeps."""

import errno
import os
import resource
import selectors
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from otavia_ft import ActorSystem, AutoCleanable, Notice, StateActor, on
from otavia_ft.bell import Bell
from otavia_ft.doors import me, set_me
from otavia_ft.message import ResourceTimeoutEvent
from otavia_ft.parking import Parker
from otavia_ft.schedule import manager as manager_module
from otavia_ft.schedule import thread as thread_module
from otavia_ft.schedule.reactor import Reactor
from otavia_ft.testkit import TestSystem

MakeTestSystem = Callable[..., TestSystem]


class Go(Notice):
    pass


class Noting(StateActor):
    """Notes its turns in a list that the test holds."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log = log
        self.name = name

    def after_mount(self) -> None:
        self.log.append(f"mount {self.name}")

    @on(Go)
    def go(self, message: Go) -> None:
        self.log.append(self.name)


class IO(Noting):
    has_channels = True


class FakeReactor:
    """A Phase 1 that says what the test wants. It has a channel, so a sleep is its affair."""

    channels = 1

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.served = 0
        self.io_ns = 0
        self.rebuilds = 0
        self.waits = 0

    def poll(self) -> int:
        self.log.append("io")
        return self.served

    def wait(self) -> list[Any]:
        self.waits += 1
        return []

    def serve(self, ready: list[Any]) -> int:
        return len(ready)

    def close(self) -> None:
        pass


class Nanos:
    """A clock that advances by `step` whenever somebody looks."""

    def __init__(self) -> None:
        self.time = 0
        self.step = 0
        self.looks = 0

    def __call__(self) -> int:
        self.looks += 1
        self.time += self.step
        return self.time


@pytest.fixture
def nanos(monkeypatch: pytest.MonkeyPatch) -> Nanos:
    clock = Nanos()
    monkeypatch.setattr(thread_module, "now_ns", clock)
    monkeypatch.setattr(manager_module, "now_ns", clock)
    return clock


def loop(system: TestSystem) -> Any:
    return system.manual.threads[0]


# ---- routing and the order of the phases


def test_a_house_goes_to_the_queue_of_its_actor_s_kind(make_test_system: MakeTestSystem) -> None:
    system = make_test_system()
    manager = loop(system).manager
    log: list[str] = []
    state = system.build_actor(Noting, log, "state")
    io = system.build_actor(IO, log, "io-actor")
    sizes = lambda: (len(manager.mounting), len(manager.channels), len(manager.business))  # noqa: E731
    assert sizes() == (2, 0, 0)
    system.run()
    state.notice(Go())
    assert sizes() == (0, 0, 1)
    io.notice(Go())
    assert sizes() == (0, 1, 1)
    assert manager.runnable
    system.run()
    assert not manager.runnable


def test_one_loop_is_io_then_io_actors_then_mounts_then_events_then_business(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system()
    log: list[str] = []
    thread = loop(system)
    state = system.build_actor(Noting, log, "business")
    io = system.build_actor(IO, log, "pipeline")
    system.run()
    log.clear()
    state.notice(Go())
    system.build_actor(Noting, log, "new")
    thread.call(lambda: log.append("event"))
    io.notice(Go())
    thread.reactor.close()
    thread.reactor = FakeReactor(log)
    assert system.step()
    assert log == ["io", "pipeline", "mount new", "event", "business"]


def test_an_event_that_fails_does_not_keep_others_from_running(
    make_test_system: MakeTestSystem, caplog: pytest.LogCaptureFixture
) -> None:
    system = make_test_system()
    ran: list[int] = []
    loop(system).call(lambda: 1 / 0)
    loop(system).call(lambda: ran.append(1))
    system.run()
    assert ran == [1]
    assert "ZeroDivisionError" in caplog.text


def test_a_function_that_posts_itself_again_leaves_a_loop_for_all_others(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system()
    thread = loop(system)
    log: list[str] = []
    actor = system.build_actor(Noting, log, "actor")
    system.run()
    log.clear()

    def again() -> None:
        log.append("again")
        if len(log) < 100:  # what is wrong shall fail, not hang
            thread.call(again)

    thread.call(again)
    thread.call(lambda: log.append("event"))
    actor.notice(Go())
    system.timer.after(0, lambda _: thread.call(lambda: log.append("timer")), None)
    system.step()
    assert log == ["again", "event", "actor"]
    system.timer.fire_due()
    system.step()
    assert log[3:] == ["again", "timer"]


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
def test_a_stop_comes_through_beside_a_function_that_posts_itself_again(
    make_system: Callable[..., ActorSystem], eventually: Callable[..., Any], dispatcher: str
) -> None:
    system = make_system(workers=1, dispatcher=dispatcher)
    thread = system.scheduler.threads[0]
    rounds: list[int] = []
    enough = threading.Event()

    def again() -> None:
        rounds.append(1)
        if not enough.is_set():
            thread.call(again)

    thread.call(again)
    try:
        eventually(lambda: len(rounds) > 10)
        system.stop(timeout=0)
        assert not thread.thread.is_alive()
    finally:
        enough.set()


def test_what_a_thread_s_last_functions_post_is_run_at_the_close_too(
    make_system: Callable[..., ActorSystem], hold: Callable[..., Any]
) -> None:
    """A cleaner, say, that the end of something has sent."""
    system = make_system(workers=1)
    thread = system.scheduler.threads[0]
    held = hold(system)
    ran: list[str] = []
    thread.call(lambda: thread.call(lambda: thread.call(lambda: ran.append("third"))))
    thread.signal_stop()  # before it comes to them
    held.release.set()
    system.stop()
    assert ran == ["third"]


class Buffers:
    """A resource of a thread's: notes its time-outs, and where they come."""

    def __init__(self) -> None:
        self.got: list[tuple[ResourceTimeoutEvent, Any]] = []

    def handle_timeout(self, event: ResourceTimeoutEvent) -> None:
        self.got.append((event, me().owner))


def test_a_resource_of_a_thread_hears_from_the_timer_on_that_thread(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system(workers=2)
    thread = system.manual.threads[1]
    buffers = Buffers()
    task = thread.resource_timeout(buffers, 5.0)
    system.advance(4.0)
    assert buffers.got == []
    system.advance(1.0)
    assert buffers.got == [(ResourceTimeoutEvent(task.id, buffers), thread)]
    task.update(2.0)
    system.advance(2.0)
    assert len(buffers.got) == 2
    system.advance(100.0)
    assert len(buffers.got) == 2


def test_a_resource_s_periodic_timeout_comes_until_it_is_cancelled(
    make_test_system: MakeTestSystem,
) -> None:
    system = make_test_system()
    buffers = Buffers()
    task = loop(system).resource_timeout(buffers, 1.0, 10.0)
    system.advance(30.0)
    assert len(buffers.got) == 3
    assert task.cancel()
    system.advance(100.0)
    assert len(buffers.got) == 3


def test_a_resource_that_fails_does_not_keep_others_from_their_timeouts(
    make_test_system: MakeTestSystem, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Buffers):
        def handle_timeout(self, event: ResourceTimeoutEvent) -> None:
            raise SystemExit("no")

    system = make_test_system()
    thread = loop(system)
    buffers = Buffers()
    thread.resource_timeout(Broken(), 1.0)
    thread.resource_timeout(buffers, 1.0)
    system.advance(1.0)
    assert len(buffers.got) == 1
    assert "SystemExit" in caplog.text


def test_idle_pools_are_trimmed_by_a_resource_timeout_of_their_thread(
    make_system: Callable[..., ActorSystem], eventually: Callable[..., Any]
) -> None:
    trimmed: list[Any] = []

    class Pool:
        def trim(self, idle_seconds: float, keep: int) -> None:
            trimmed.append((me().owner, idle_seconds, keep))

    system = make_system(workers=1, pooling=True, pool_check_s=0.01, pool_idle_s=7.0, pool_keep=3)
    thread = system.scheduler.threads[0]
    eventually(lambda: thread.context.pools)
    pools: Any = (Pool(),)
    thread.context.pools = pools
    eventually(lambda: len(trimmed) > 2)
    assert set(trimmed) == {(thread, 7.0, 3)}
    system.stop()
    assert len(system.timer) == 0


class Cleaned(AutoCleanable, StateActor):
    def cleaner(self) -> Callable[[], None]:
        return lambda: None


@pytest.mark.parametrize(
    "what", ["nothing", "a state actor", "an IO actor", "a mount", "an event", "a cleaner"]
)
def test_a_thread_blocks_only_if_nothing_is_runnable_pending_or_to_be_cleaned(
    make_test_system: MakeTestSystem, what: str
) -> None:
    system = make_test_system()
    thread = loop(system)
    log: list[str] = []
    state, io = system.build_actor(Noting, log, "state"), system.build_actor(IO, log, "io-actor")
    gone = [system.build_actor(Cleaned)]
    system.run()
    if what == "a state actor":
        state.notice(Go())
    elif what == "an IO actor":
        io.notice(Go())
    elif what == "a mount":
        system.build_actor(Noting, log, "new")
    elif what == "an event":
        thread.call(lambda: None)
    elif what == "a cleaner":
        gone.clear()  # its last address
    thread.reactor.close()
    thread.reactor = reactor = FakeReactor([])
    set_me(thread.context)
    try:
        ran = thread.run_once(thread.context, may_block=True)
    finally:
        set_me(None)
    blocked = what == "nothing"
    assert (reactor.waits == 1, len(reactor.log) == 0, not ran) == (blocked, blocked, blocked)


def test_io_actors_and_mounts_run_to_the_last_whatever_the_clock_says(
    make_test_system: MakeTestSystem, nanos: Nanos
) -> None:
    system = make_test_system(deadline_stride=1)
    log: list[str] = []
    channels = [system.build_actor(IO, log, "io-actor") for _ in range(100)]
    business = [system.build_actor(Noting, log, "business") for _ in range(100)]
    system.run()
    log.clear()
    for address in channels + business:
        address.notice(Go())
    for _ in range(100):
        system.build_actor(Noting, log, "new")
    nanos.step = 10**9  # every look finds the time over
    system.step()
    assert Counter(log) == {"io-actor": 100, "mount new": 100, "business": 1}


# ---- the budget of Phase 3


@pytest.mark.parametrize(
    ("io_ratio", "served", "io_us", "expected_us"),
    [
        (50, 0, 0, 500),  # no IO: the minimum
        (50, 0, 9000, 500),  # what an earlier loop's IO took does not count
        (50, 1, 2000, 2000),  # as long as the IO
        (80, 1, 4000, 1000),  # a quarter of it
        (20, 1, 1000, 4000),  # four times
        (50, 1, 10, 500),  # never below the minimum
        (99, 1, 1000, 500),
        (100, 1, 2000, None),  # no limit
        (100, 0, 0, None),
    ],
)
def test_business_gets_time_in_proportion_to_the_io(
    make_test_system: MakeTestSystem,
    nanos: Nanos,
    io_ratio: int,
    served: int,
    io_us: int,
    expected_us: int | None,
) -> None:
    system = make_test_system(io_ratio=io_ratio)
    thread = loop(system)
    thread.reactor.io_ns = io_us * 1000
    nanos.time = 7_000_000
    deadline = thread._deadline(served)
    assert deadline == (None if expected_us is None else 7_000_000 + expected_us * 1000)


def test_waiting_for_io_is_no_io_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long sleep before a channel is ready must not give business a huge budget."""
    clock = Nanos()
    monkeypatch.setattr("otavia_ft.schedule.reactor.now_ns", clock)

    class Slow(selectors.SelectSelector):
        def select(self, timeout: float | None = None) -> Any:
            clock.time += 10**9
            return super().select(timeout)

    reactor = Reactor(512, Slow)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reactor.register(
            ours, selectors.EVENT_READ, lambda _: setattr(clock, "time", clock.time + 5)
        )
        theirs.send(b"x")
        assert reactor.serve(reactor.wait()) == 1
        assert reactor.io_ns == 5
    reactor.close()


@pytest.mark.python_lane
@pytest.mark.parametrize(("stride", "ran"), [(16, 16), (4, 4), (1, 1)])
def test_the_deadline_is_looked_at_after_every_stride_of_houses(
    make_test_system: MakeTestSystem, nanos: Nanos, stride: int, ran: int
) -> None:
    system = make_test_system(deadline_stride=stride)
    log: list[str] = []
    actors = [system.build_actor(Noting, log, str(i)) for i in range(40)]
    system.run()
    log.clear()
    for actor in actors:
        actor.notice(Go())
    nanos.looks = 0
    nanos.step = 10**9  # every look finds the time over
    system.step()
    assert len(log) == ran
    assert nanos.looks == 2  # for the deadline itself, and once after the stride


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
@pytest.mark.parametrize(("stride", "runs"), [(16, [16, 16, 8]), (4, [4] * 10), (1, [1] * 40)])
def test_a_deadline_that_has_passed_is_noticed_after_the_stride_and_not_before(
    make_test_system: MakeTestSystem, dispatcher: str, stride: int, runs: list[int]
) -> None:
    """In both lanes: C has a clock of its own, which no test can turn."""
    system = make_test_system(dispatcher=dispatcher, deadline_stride=stride)
    log: list[str] = []
    actors = [system.build_actor(Noting, log, str(i)) for i in range(40)]
    system.run()
    for actor in actors:
        actor.notice(Go())
    thread = loop(system)
    set_me(thread.context)
    try:
        assert [thread.run_business(thread.context, 1) for _ in runs] == runs
        assert thread.run_business(thread.context, 1) == 0
    finally:
        set_me(None)


@pytest.mark.python_lane
def test_before_the_deadline_business_goes_on_and_the_clock_is_seldom_read(
    make_test_system: MakeTestSystem, nanos: Nanos
) -> None:
    system = make_test_system()
    log: list[str] = []
    actors = [system.build_actor(Noting, log, str(i)) for i in range(40)]
    system.run()
    log.clear()
    for actor in actors:
        actor.notice(Go())
    nanos.looks = 0
    system.step()
    assert len(log) == 40
    assert nanos.looks == 1 + 40 // 16


# ---- the reactor


class Dry(selectors.SelectSelector):
    """A selector that comes back empty-handed, as some kernels' do."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        Dry.made += 1
        self.dry = True

    def select(self, timeout: float | None = None) -> Any:
        return [] if self.dry else super().select(timeout)


@pytest.fixture
def dry() -> Iterator[tuple[Reactor, socket.socket]]:
    Dry.made = 0
    reactor = Reactor(512, Dry)
    ours, theirs = socket.socketpair()
    served: list[int] = []
    reactor.register(ours, selectors.EVENT_READ, lambda _: served.append(len(ours.recv(9))))
    with ours, theirs:
        yield reactor, theirs
        reactor.close()


def test_the_selector_is_rebuilt_after_512_premature_wake_ups(
    dry: tuple[Reactor, socket.socket],
) -> None:
    reactor, peer = dry
    for _ in range(511):
        reactor.wait()
    assert (reactor.rebuilds, Dry.made) == (0, 1)
    reactor.wait()
    assert (reactor.rebuilds, Dry.made) == (1, 2)
    # The new one knows the channel and the bell.
    reactor._selector.dry = False  # type: ignore[attr-defined]
    peer.send(b"x")
    assert reactor.serve(reactor.wait()) == 1
    reactor.bell.ring()
    assert reactor.serve(reactor.wait()) == 0


def test_polls_that_find_nothing_never_rebuild_the_selector(
    dry: tuple[Reactor, socket.socket],
) -> None:
    reactor, _ = dry
    for _ in range(2000):
        reactor.poll()
    assert reactor.rebuilds == 0


def test_a_wake_up_call_is_no_premature_wake_up(dry: tuple[Reactor, socket.socket]) -> None:
    reactor, _ = dry
    selector: Any = reactor._selector
    for _ in range(3):
        for _ in range(400):
            reactor.wait()
        selector.dry = False
        reactor.bell.ring()
        reactor.serve(reactor.wait())
        selector.dry = True
    assert reactor.rebuilds == 0


def test_premature_wake_ups_count_in_a_row_and_a_poll_that_serves_a_channel_ends_the_row(
    dry: tuple[Reactor, socket.socket],
) -> None:
    """A busy thread never waits: it learns by polls that its selector is in order."""
    reactor, peer = dry
    selector: Any = reactor._selector
    for _ in range(3):
        for _ in range(400):
            reactor.wait()
        assert reactor.rebuilds == 0
        selector.dry = False
        peer.send(b"x")
        assert reactor.poll() == 1
        selector.dry = True
        assert reactor.poll() == 0  # which says nothing either way


def test_a_rebuild_drops_a_channel_that_was_closed_and_keeps_the_others(
    dry: tuple[Reactor, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    reactor, peer = dry
    closed, other = socket.socketpair()
    reactor.register(closed, selectors.EVENT_READ, lambda _: None)
    closed.close()
    other.close()
    for _ in range(512):
        reactor.wait()
    assert (reactor.rebuilds, reactor.channels) == (1, 1)
    assert "was closed and still registered" in caplog.text
    reactor._selector.dry = False  # type: ignore[attr-defined]
    peer.send(b"x")
    assert reactor.serve(reactor.wait()) == 1


def test_where_no_new_selector_can_be_had_the_old_one_stays(
    dry: tuple[Reactor, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    reactor, peer = dry

    def none_left() -> selectors.BaseSelector:
        raise OSError(errno.EMFILE, "too many open files")

    reactor._make_selector = none_left
    for _ in range(512):
        reactor.wait()
    assert reactor.rebuilds == 0
    assert "the old one stays" in caplog.text
    reactor._selector.dry = False  # type: ignore[attr-defined]
    peer.send(b"x")
    assert reactor.serve(reactor.wait()) == 1


def test_a_selector_that_fails_is_replaced() -> None:
    class Failing(selectors.SelectSelector):
        made = 0

        def __init__(self) -> None:
            super().__init__()
            Failing.made += 1
            self.number = Failing.made

        def select(self, timeout: float | None = None) -> Any:
            if self.number == 1:
                raise OSError(errno.EBADF, "bad file descriptor")
            return super().select(timeout)

    reactor = Reactor(512, Failing)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reactor.register(ours, selectors.EVENT_READ, lambda _: ours.recv(9))
        assert reactor.poll() == 0
        theirs.send(b"x")
        assert reactor.serve(reactor.wait()) == 1
    assert (reactor.rebuilds, Failing.made) == (1, 2)
    reactor.close()


def test_a_threshold_of_zero_never_rebuilds() -> None:
    reactor = Reactor(0, Dry)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reactor.register(ours, selectors.EVENT_READ, lambda _: None)
        for _ in range(2000):
            reactor.wait()
        assert reactor.rebuilds == 0
    reactor.close()


def test_a_channel_s_handler_that_fails_does_not_keep_others_from_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reactor = Reactor(512)
    served: list[str] = []

    def fail(_: int) -> None:
        raise SystemExit("no")

    pairs = [socket.socketpair() for _ in range(2)]
    reactor.register(pairs[0][0], selectors.EVENT_READ, fail)
    reactor.register(pairs[1][0], selectors.EVENT_READ, lambda _: served.append("b"))
    for _, theirs in pairs:
        theirs.send(b"x")
    assert reactor.poll() == 2
    assert served == ["b"]
    assert "failed" in caplog.text
    reactor.close()
    for pair in pairs:
        for end in pair:
            end.close()


@pytest.fixture
def two_ready() -> Iterator[tuple[Reactor, list[socket.socket]]]:
    """A reactor, and two channels with something to read. None is registered yet."""
    reactor = Reactor(512)
    pairs = [socket.socketpair() for _ in range(2)]
    for _, theirs in pairs:
        theirs.send(b"x")
    yield reactor, [ours for ours, _ in pairs]
    reactor.close()
    for pair in pairs:
        for end in pair:
            end.close()


def test_a_channel_that_another_s_handler_has_unregistered_is_not_called_any_more(
    two_ready: tuple[Reactor, list[socket.socket]],
) -> None:
    """Both were ready at the same look, so one handler still has the other before it."""
    reactor, ends = two_ready
    called: list[int] = []

    def handler(i: int) -> Callable[[int], Any]:
        return lambda _: (called.append(i), reactor.unregister(ends[1 - i]))

    for i in (0, 1):
        reactor.register(ends[i], selectors.EVENT_READ, handler(i))
    assert reactor.poll() == 1
    assert len(called) == 1
    assert reactor.channels == 1


def test_a_new_channel_with_the_number_of_one_that_was_closed_is_not_called_for_it(
    two_ready: tuple[Reactor, list[socket.socket]],
) -> None:
    reactor, ends = two_ready
    called: list[str] = []
    reader, writer = os.pipe()  # with nothing to read

    def handler(i: int) -> Callable[[int], Any]:
        def replace(_: int) -> None:
            called.append("old")
            number = ends[1 - i].fileno()
            reactor.unregister(ends[1 - i])
            ends[1 - i].close()
            os.dup2(reader, number)
            numbers.append(number)
            reactor.register(number, selectors.EVENT_READ, lambda _: called.append("new"))

        return replace

    numbers: list[int] = []
    for i in (0, 1):
        reactor.register(ends[i], selectors.EVENT_READ, handler(i))
    assert reactor.poll() == 1
    assert called == ["old"]
    for number in (reader, writer, *numbers):
        os.close(number)


def test_a_bell_works_above_file_descriptor_1023(eventually: Callable[..., Any]) -> None:
    """A server has more files open than select() can name; its threads have to sleep too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2000), hard))
    taken = []
    try:
        while not taken or taken[-1] < 1024:
            taken.append(os.dup(0))
        with ActorSystem(workers=1, memory_monitor=False) as system:
            thread = system.scheduler.threads[0]
            ours, theirs = socket.socketpair()
            thread.call(lambda: thread.reactor.register(ours, selectors.EVENT_READ, print))
            eventually(lambda: thread.reactor.channels)
            assert thread.reactor.bell.fileno() >= 1024
            eventually(lambda: thread.idle)
            log: list[str] = []
            system.build_actor(Noting, log, "a").notice(Go())
            eventually(lambda: "a" in log)
            thread.call(lambda: thread.reactor.unregister(ours))
            eventually(lambda: not thread.reactor.channels)
            ours.close()
            theirs.close()
    finally:
        for number in taken:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---- sleeping and waking


class CountingBell(Bell):
    rings = 0

    def ring(self) -> None:
        self.rings += 1
        super().ring()


@pytest.fixture
def parker() -> Iterator[Parker]:
    parker = Parker(CountingBell())
    yield parker
    parker.bell.close()


def test_a_call_before_the_sleep_keeps_the_sleeper_awake(parker: Parker) -> None:
    parker.start_looking()
    assert not parker.wake()
    assert not parker.fall_asleep()
    parker.start_looking()
    assert parker.fall_asleep()


def test_of_many_calls_to_a_sleeper_one_rings_and_the_ring_waits_for_it(parker: Parker) -> None:
    parker.start_looking()
    assert parker.fall_asleep()
    assert [parker.wake() for _ in range(5)] == [True, False, False, False, False]
    assert parker.bell.rings == 1
    assert parker.bell.wait(0)  # rung before the wait began: sticky
    assert not parker.bell.wait(0)  # and over after it


def test_a_ring_ends_the_wait_of_a_selector_and_of_a_thread_alike() -> None:
    bell = Bell()
    bell.ring()  # before anybody wanted the descriptor
    with selectors.DefaultSelector() as selector:
        selector.register(bell.fileno(), selectors.EVENT_READ)
        assert selector.select(0)
        bell.silence()
        assert not selector.select(0)
        bell.ring()
        assert selector.select(0)
        assert bell.wait()  # the same ring: once is enough
        assert not selector.select(0)
    bell.close()


def test_a_ring_after_the_close_touches_nobody_else_s_descriptor() -> None:
    bell = Bell()
    number = bell.fileno()
    reader, writer = os.pipe()
    bell.close()
    stranger = os.dup2(writer, number)  # gets the number that the bell had
    bell.ring()
    os.set_blocking(reader, False)
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    for descriptor in (reader, writer, stranger):
        os.close(descriptor)
    assert bell.wait(0)


@pytest.mark.parametrize("timeout", [0, -1, 0.0, float("nan")])
def test_a_bell_s_wait_that_has_no_time_only_looks(timeout: float) -> None:
    bell = Bell()
    assert not bell.wait(timeout)
    bell.ring()
    assert bell.wait(timeout)


def test_a_system_without_channels_opens_no_descriptor() -> None:
    before = set(os.listdir("/proc/self/fd"))
    with ActorSystem(workers=2, memory_monitor=False) as system:
        system.build_actor(Noting, [], "a").notice(Go())
        assert set(os.listdir("/proc/self/fd")) <= before


def test_calls_from_many_threads_ring_once(
    parker: Parker, in_parallel: Callable[..., list[Any]]
) -> None:
    for _ in range(50):
        parker.start_looking()
        assert parker.fall_asleep()
        assert sum(in_parallel(3, lambda _: parker.wake())) == 1


def test_a_busy_thread_costs_its_senders_no_system_call(
    make_system: Callable[..., ActorSystem], hold: Callable[..., Any]
) -> None:
    system = make_system(workers=1)
    log: list[str] = []
    actor = system.build_actor(Noting, log, "a")
    held = hold(system)
    before = system.statistics().threads[0].wakeups
    for _ in range(100):
        actor.notice(Go())
    assert system.statistics().threads[0].wakeups == before
    held.release.set()
    system.stop()
    assert log.count("a") == 100


def test_every_message_to_a_sleeping_thread_wakes_it(
    make_system: Callable[..., ActorSystem], eventually: Callable[..., Any]
) -> None:
    system = make_system(workers=1)
    log: list[str] = []
    actor = system.build_actor(Noting, log, "a")
    thread = system.scheduler.threads[0]
    for n in range(1, 51):
        eventually(lambda: thread.idle)
        actor.notice(Go())
        eventually(lambda n=n: log.count("a") == n)
    statistics = system.statistics().threads[0]
    assert statistics.wakeups >= 50
    assert statistics.parks >= 50


def test_an_idle_thread_blocks_and_a_stop_wakes_it(
    make_system: Callable[..., ActorSystem], eventually: Callable[..., Any]
) -> None:
    system = make_system(workers=3)
    eventually(lambda: all(thread.idle and thread.parks for thread in system.scheduler.threads))
    before = [thread.parks for thread in system.scheduler.threads]
    threading.Event().wait(0.05)
    assert [thread.parks for thread in system.scheduler.threads] == before
    system.stop()
    assert not any(thread.thread.is_alive() for thread in system.scheduler.threads)


def test_a_ready_channel_ends_the_sleep(
    make_system: Callable[..., ActorSystem], eventually: Callable[..., Any]
) -> None:
    system = make_system(workers=1)
    thread = system.scheduler.threads[0]
    ours, theirs = socket.socketpair()
    got: list[bytes] = []
    with ours, theirs:
        thread.call(
            lambda: thread.reactor.register(
                ours, selectors.EVENT_READ, lambda _: got.append(ours.recv(9))
            )
        )
        eventually(lambda: thread.reactor.channels == 1 and thread.idle)
        theirs.send(b"hello")
        eventually(lambda: got == [b"hello"])
        thread.call(lambda: thread.reactor.unregister(ours))
        eventually(lambda: thread.reactor.channels == 0)


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
def test_a_thread_that_serves_a_channel_is_not_asleep(
    make_system: Callable[..., ActorSystem], eventually: Callable[..., Any], dispatcher: str
) -> None:
    """Or a graceful stop takes the system for quiet and buries what the channel's handler sends."""
    system = make_system(dispatcher=dispatcher)
    thread = system.scheduler.threads[1]
    log: list[str] = []
    address = system.build_actor(Noting, log, "sent by the channel")
    ours, theirs = socket.socketpair()
    inside, go_on = threading.Event(), threading.Event()

    def handler(_: int) -> None:
        ours.recv(9)
        inside.set()
        go_on.wait(30)
        address.notice(Go())

    with ours, theirs:
        thread.call(lambda: thread.reactor.register(ours, selectors.EVENT_READ, handler))
        eventually(lambda: thread.reactor.channels == 1 and thread.idle)
        theirs.send(b"x")
        assert inside.wait(30)
        seen = (thread.idle, thread.statistics().asleep, system.scheduler.crew.asleep.load())
        system.signal_stop()
        go_on.set()
        assert system.wait(30)
        assert not any(seen[:2])
        assert seen[2] <= 1  # the other one may sleep
    assert log == ["mount sent by the channel", "sent by the channel"]
    assert system.dead_letters.total == 0
