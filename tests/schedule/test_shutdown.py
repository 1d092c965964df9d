"""Stopping: graceful, then forced; from everywhere; and nothing is left behind."""

import gc
import os
import selectors
import socket
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from types import CoroutineType
from typing import Any

import pytest

from otavia_ft import (
    ActorStopped,
    ActorSystem,
    Ask,
    AutoCleanable,
    Notice,
    OtaviaError,
    OutsideActor,
    StateActor,
    SystemStopped,
    on,
    sleep,
)
from otavia_ft.context import running_context
from otavia_ft.doors import Mailbox
from otavia_ft.testkit import TestSystem

MakeSystem = Callable[..., ActorSystem]
DISPATCHERS = ("pinned", "pool")


class Go(Notice):
    pass


class Wait(Ask[int]):
    pass


class Get(Ask[int]):
    pass


counting = threading.Lock()


class Life(StateActor, AutoCleanable):
    """Counts its hooks, in a counter that the test holds."""

    def __init__(self, hooks: Counter[str]) -> None:
        self.hooks = hooks

    def note(self, hook: str) -> None:
        with counting:  # actors on several threads may share one counter
            self.hooks[hook] += 1

    def pre_start(self) -> None:
        self.note("pre_start")

    def after_mount(self) -> None:
        self.note("after_mount")

    def post_stop(self) -> None:
        self.note("post_stop")

    def cleaner(self) -> Callable[[], None]:
        hooks = self.hooks
        return lambda: hooks.update(["cleaner"])

    @on(Go)
    def go(self, message: Go) -> None:
        self.note("go")

    @on(Get)
    def get(self, message: Get) -> int:
        return self.hooks["go"]

    @on(Wait)
    async def wait(self, message: Wait) -> int:
        try:
            await sleep(3600)
        finally:
            self.note("finally")
        return 0


def descriptors() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:
            pass  # the listing's own
    return found


def workers(system: ActorSystem) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(system.name + "-")]


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_a_graceful_stop_handles_what_is_queued(make_system: MakeSystem, dispatcher: str) -> None:
    system = make_system(dispatcher=dispatcher)
    hooks: Counter[str] = Counter()
    addresses = [system.build_actor(Life, hooks) for _ in range(1)]
    for _ in range(2000):
        for address in addresses:
            address.notice(Go())
    system.stop()
    assert hooks["go"] == 2000
    assert system.dead_letters.total == 0


def test_a_graceful_stop_waits_for_messages_that_handlers_send_to_and_fro(
    make_system: MakeSystem,
) -> None:
    """A chain between threads: there is a moment for every message when no queue holds it."""
    ended: list[int] = []

    class Hop(StateActor):
        peer: Any = None

        def resume_notice(self, stack: Any) -> Any:
            if isinstance(stack.notice, int):
                if stack.notice:
                    self.peer.notice(stack.notice - 1)
                else:
                    ended.append(1)
            else:
                self.peer = stack.notice
            return stack.return_()

    for _ in range(20):
        system = make_system(workers=2)
        one, two = system.build_actor(Hop), system.build_actor(Hop)
        one.notice(two)
        two.notice(one)
        one.notice(200)
        system.stop()
    assert len(ended) == 20


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_every_hook_runs_exactly_once(make_system: MakeSystem, dispatcher: str) -> None:
    system = make_system(dispatcher=dispatcher)
    counters: list[Counter[str]] = [Counter() for _ in range(50)]
    addresses = [system.build_actor(Life, hooks) for hooks in counters]
    asks = [system.ask(address, Wait()) for address in addresses[:10]]
    addresses[-1].stop()
    system.stop()
    system.stop()
    once = {"pre_start": 1, "after_mount": 1, "post_stop": 1, "cleaner": 1}
    assert [dict(hooks) for hooks in counters[10:]] == [once] * 40
    assert [dict(hooks) for hooks in counters[:10]] == [{**once, "finally": 1}] * 10
    for ask in asks:
        assert isinstance(ask.exception(0), SystemStopped)


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_every_pending_ask_is_answered(
    make_system: MakeSystem, hold: Callable[..., Any], dispatcher: str
) -> None:
    system = make_system(dispatcher=dispatcher, workers=2)
    hooks: Counter[str] = Counter()
    sleeping = system.build_actor(Life, hooks)
    stuck = hold(system)
    futures = [system.ask(sleeping, Wait()) for _ in range(20)]
    futures += [system.ask(sleeping, Wait(), timeout=3600) for _ in range(20)]
    late = threading.Timer(0.2, stuck.release.set)
    late.start()
    system.stop(timeout=0.05)
    late.join()
    assert all(future.done() for future in futures)
    for future in futures:
        assert isinstance(future.exception(0), OtaviaError)
    assert system.statistics().open_asks == 0
    assert len(system.timer) == 0


def test_mail_that_comes_after_the_end_is_buried_and_its_askers_answered(
    make_system: MakeSystem,
) -> None:
    system = make_system()
    hooks: Counter[str] = Counter()
    address = system.build_actor(Life, hooks)
    system.stop()
    address.notice(Go())
    assert system.dead_letters.latest[-1].message.__class__ is Go
    assert isinstance(system.ask(address, Wait()).exception(0), SystemStopped)
    assert hooks["go"] == 0
    with pytest.raises(SystemStopped, match="builds no more actors"):
        system.build_actor(Life, hooks)


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_senders_that_race_with_the_stop_get_every_message_handled_or_buried(
    make_system: MakeSystem, in_parallel: Callable[..., list[Any]], dispatcher: str
) -> None:
    each = 300
    for _ in range(10):
        system = make_system(dispatcher=dispatcher)
        hooks: Counter[str] = Counter()
        address = system.build_actor(Life, hooks)
        dead: Counter[type] = Counter()
        system.dead_letters.subscribe(lambda letter, dead=dead: dead.update([type(letter.message)]))
        asks: list[Any] = []

        def work(
            i: int, system: Any = system, address: Any = address, asks: list[Any] = asks
        ) -> None:
            if i == 0:
                system.stop()
            elif i == 1:
                for _ in range(each):
                    address.notice(Go())
            else:
                asks.extend(system.ask(address, Wait()) for _ in range(each))

        in_parallel(3, work)
        assert hooks["go"] + dead[Go] == each
        for ask in asks:
            assert isinstance(ask.exception(30), OtaviaError)


class Listening(StateActor):
    """Registers a channel at its thread's reactor, and never takes it out."""

    has_channels = True

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel

    @on(Get)
    def get(self, message: Get) -> int:
        thread = running_context("this test").owner
        thread.reactor.register(self.channel, selectors.EVENT_READ, print)
        return thread.index


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.parametrize("closed", [False, True])
def test_no_thread_and_no_file_descriptor_is_left(
    make_system: MakeSystem, dispatcher: str, closed: bool
) -> None:
    """Each thread has a channel, closed or not, and with it a selector and a bell to hear."""
    pairs = [socket.socketpair() for _ in range(3)]
    before = descriptors()
    system = make_system(workers=3, dispatcher=dispatcher, memory_monitor=True, name="leaving")
    address = system.build_actor(Life, Counter())
    system.ask(address, Wait(), timeout=60)
    addresses = [system.build_actor(Listening, ours) for ours, _ in pairs]
    assert {system.ask(each, Get()).result(30) for each in addresses} == {0, 1, 2}
    assert len(workers(system)) == 4  # three workers and the timer
    kinds = Counter(each.partition("anon_inode:")[2] for each in descriptors() - before)
    assert kinds == {"[eventpoll]": 3, "[eventfd]": 3}
    if closed:
        for ours, _ in pairs:
            ours.close()
    system.stop()
    assert workers(system) == []
    assert not [each for each in descriptors() - before if "anon_inode" in each]
    for pair in pairs:
        for end in pair:
            end.close()


def test_a_thread_that_is_stuck_is_named_and_cleans_up_when_it_ends(
    make_system: MakeSystem,
    hold: Callable[..., Any],
    eventually: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = descriptors()
    system = make_system(workers=2, name="stuck")
    held = hold(system)
    system.stop(timeout=0.01)
    assert "stuck-worker-0 is stuck in a handler" in caplog.text
    assert [thread.name for thread in workers(system)] == ["stuck-worker-0"]
    held.release.set()
    eventually(lambda: not workers(system))
    eventually(lambda: descriptors() == before)


def test_stop_inside_a_handler_is_refused_and_signal_stop_is_not(make_system: MakeSystem) -> None:
    system = make_system()
    hooks: Counter[str] = Counter()
    bystander = system.build_actor(Life, hooks)
    errors: list[BaseException] = []

    class Stopper(StateActor):
        @on(Go)
        def go(self, message: Go) -> None:
            try:
                self.system.stop()
            except OutsideActor as error:
                errors.append(error)
            self.system.signal_stop()
            self.system.signal_stop()

    system.build_actor(Stopper).notice(Go())
    assert system.wait(30)
    assert "signal_stop" in str(errors[0])
    assert hooks["post_stop"] == 1
    assert not system.running
    assert bystander.house.stop_reason is not None


def test_stop_from_several_threads_is_one_stop_and_all_wait_for_its_end(
    make_system: MakeSystem, in_parallel: Callable[..., list[Any]]
) -> None:
    system = make_system(name="crowded")
    hooks: Counter[str] = Counter()
    addresses = [system.build_actor(Life, hooks) for _ in range(20)]

    def stop(_: int) -> list[threading.Thread]:
        system.stop()
        return [thread for thread in workers(system) if "worker" in thread.name]

    assert in_parallel(4, stop) == [[], [], [], []]
    assert hooks["post_stop"] == len(addresses)


def test_with_stops_also_when_its_block_raises() -> None:
    hooks: Counter[str] = Counter()
    kept: list[Any] = []

    def block() -> None:
        with ActorSystem(workers=1, memory_monitor=False) as system:
            kept.extend([system, system.build_actor(Life, hooks)])
            raise KeyError("from the block")

    with pytest.raises(KeyError):
        block()
    assert not kept[0].running
    assert hooks["post_stop"] == 1


def test_a_timeout_of_zero_skips_the_grace_but_not_the_goodbyes(
    make_system: MakeSystem, eventually: Callable[..., Any]
) -> None:
    class Endless(Life):
        @on(Go)
        def go(self, message: Go) -> None:
            self.address.notice(message)

    system = make_system(workers=1)
    hooks: Counter[str] = Counter()
    addresses = [system.build_actor(Endless, hooks) for _ in range(3)]
    for address in addresses:
        address.notice(Go())
    eventually(lambda: hooks["after_mount"] == 3)
    system.stop(timeout=0)
    assert hooks["post_stop"] == 3


def test_a_flood_without_a_deadline_does_not_keep_the_thread_from_stopping(
    make_system: MakeSystem,
) -> None:
    """With io_ratio 100 business has no deadline: only the stop itself can end Phase 3."""

    class Endless(StateActor):
        @on(Go)
        def go(self, message: Go) -> None:
            self.address.notice(message)

    system = make_system(workers=1, io_ratio=100, name="flooded")
    system.build_actor(Endless).notice(Go())
    system.stop(timeout=0.05)
    assert workers(system) == []


def test_force_ends_the_grace_of_a_stop_under_way(
    make_system: MakeSystem, hold: Callable[..., Any]
) -> None:
    system = make_system(workers=2, shutdown_timeout_s=1000)
    held = hold(system)
    hooks: Counter[str] = Counter()
    address = system.build_actor(Life, hooks)
    system.ask(address, Wait())
    system.signal_stop()
    assert not system.wait(0.05)
    system._shutdown.force()
    assert system.wait(30)
    assert hooks["post_stop"] == 1
    held.release.set()


class Last(StateActor):
    """Tells its system's threads to end, in the middle of its first turn."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.entered = threading.Event()
        self.release = threading.Event()

    @on(Go)
    def go(self, message: Go) -> None:
        self.entered.set()
        self.release.wait(30)
        if not self.log:
            self.system.scheduler.signal_stop()
        self.log.append("in hand")


class LastIO(Last):
    has_channels = True


class After(StateActor):
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def after_mount(self) -> None:
        self.log.append("mounted")

    @on(Go)
    def go(self, message: Go) -> None:
        self.log.append("after")


class AfterIO(After):
    has_channels = True


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.parametrize(("kind", "others"), [(Last, After), (LastIO, AfterIO)])
def test_no_turn_comes_after_the_one_in_which_a_thread_is_told_to_end(
    make_system: MakeSystem, dispatcher: str, kind: type[Last], others: type[After]
) -> None:
    system = make_system(workers=1, dispatcher=dispatcher, io_ratio=100)
    log: list[str] = []
    actor = kind(log)
    address = system.build_actor(lambda: actor)
    seen: list[str] = []
    waiting = [system.build_actor(others, seen) for _ in range(3)]
    for _ in range(1000):
        address.notice(Go())
    assert actor.entered.wait(30)
    for each in waiting:
        each.notice(Go())
    new = [system.build_actor(each, seen) for each in (After, AfterIO)]
    mounted = seen.count("mounted")
    actor.release.set()
    for thread in system.scheduler.threads:
        assert thread.thread is not None
        thread.thread.join(30)
        assert not thread.thread.is_alive()
    assert 0 < len(log) <= system.config.throughput_budget
    assert seen == ["mounted"] * mounted
    assert len(new) == 2
    system.stop(timeout=0)


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.parametrize("num", [1, 3])
def test_an_actor_whose_factory_outlasts_the_system_s_running_is_not_built(
    make_system: MakeSystem, eventually: Callable[..., Any], dispatcher: str, num: int
) -> None:
    system = make_system(dispatcher=dispatcher)
    hooks: Counter[str] = Counter()

    def slow() -> Life:
        system.signal_stop()
        eventually(lambda: not system.running)
        return Life(hooks)

    with pytest.raises(SystemStopped, match="builds no more actors"):
        system.build_actor(slow, num=num)
    assert system.wait(30)
    assert hooks == {}


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_an_actor_that_comes_after_the_goodbyes_does_not_start(
    make_test_system: Callable[..., TestSystem], dispatcher: str
) -> None:
    """Nobody would tell it of the end, and its `post_stop` would never run."""
    system = make_test_system(dispatcher=dispatcher)
    hooks: Counter[str] = Counter()

    class Parent(StateActor):
        def after_mount(self) -> None:
            self.child = self.build_child(Life, hooks)

    early = system.build_actor(Life, hooks)
    parent = system.build_actor(Parent)
    system.run()
    assert system.register.close() == [early.house, parent.house.actor.child.house]
    hooks.clear()
    late = system.build_actor(Life, hooks)
    late_parent = system.build_actor(Parent)
    ask = system.ask(late, Wait())
    late.notice(Go())
    system.run()
    assert hooks == {"cleaner": 2}  # what the actors were made with is cleaned up
    assert isinstance(ask.exception(0), SystemStopped)
    assert system.dead_letters.latest[-1].message.__class__ is Go
    assert late_parent.house.family.children == {}
    assert late.house not in system.register.houses()


def test_a_stop_closes_the_register_before_its_goodbyes(make_system: MakeSystem) -> None:
    system = make_system()
    assert not system.register.closed
    closed: list[bool] = []

    class Looking(StateActor):
        def post_stop(self) -> None:
            closed.append(self.system.register.closed)

    kept = system.build_actor(Looking)
    system.stop()
    assert kept.house.stop_reason is not None
    assert closed == [True]


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_the_goodbyes_wait_for_a_sender_that_is_about_to_queue_the_house(
    make_system: MakeSystem, eventually: Callable[..., Any], dispatcher: str
) -> None:
    """It has made the house ready, so the stop's own message queues it no second time."""
    system = make_system(dispatcher=dispatcher)
    hooks: Counter[str] = Counter()
    address = system.build_actor(Life, hooks)
    eventually(lambda: hooks["after_mount"] and all(t.idle for t in system.scheduler.threads))
    house = address.house
    assert house.post_notice(Go())  # the first half of `notice`; the sender is interrupted here
    system.signal_stop()
    eventually(lambda: system.register.closed and house.mail() & 1 << Mailbox.SYSTEM)
    assert not system.wait(0.05)
    house.scheduler.ready(house)  # and goes on
    assert system.wait(30)
    assert hooks == {"pre_start": 1, "after_mount": 1, "post_stop": 1, "cleaner": 1}


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_a_callback_that_the_stop_itself_calls_may_stop_and_wait(
    make_system: MakeSystem,
    hold: Callable[..., Any],
    holder: type[StateActor],
    eventually: Callable[..., Any],
    dispatcher: str,
) -> None:
    system = make_system(dispatcher=dispatcher)
    address = system.build_actor(holder)
    held = hold(system, address)
    returned: list[Any] = []

    def stop_again(_: Any) -> None:
        returned.append(system.wait())
        returned.append(system.stop())

    system.ask(address, Get()).add_done_callback(stop_again)
    threading.Thread(target=system.stop, args=(0.01,), daemon=True).start()
    eventually(lambda: len(returned) == 2)
    assert returned == [False, None]
    assert system.wait(30)
    held.release.set()


def test_a_stop_that_runs_into_an_error_lets_go_of_whoever_waits(make_system: MakeSystem) -> None:
    system = make_system()
    address = system.build_actor(Life, Counter())
    future = system.ask(address, Wait())
    close = system.scheduler.close

    def failing() -> None:
        close()
        raise ArithmeticError("our own bug")

    system.scheduler.close = failing  # type: ignore[method-assign]
    with pytest.raises(ArithmeticError, match="our own bug"):
        system._shutdown.stop(None)
    assert system.wait(0)
    with pytest.raises((SystemStopped, ActorStopped)):
        future.result(0)


def test_a_callback_of_the_timer_s_may_stop_a_system_that_is_stopping(
    make_system: MakeSystem, eventually: Callable[..., Any]
) -> None:
    """The stop joins the timer's thread, so that one must not wait for the stop."""
    system = make_system()
    inside = threading.Event()
    returned: list[Any] = []

    def stop_too(_: Any) -> None:
        inside.set()
        eventually(lambda: not system.running)
        returned.append(system.wait())
        returned.append(system.stop())

    system.timer.after(0.01, stop_too)
    assert inside.wait(30)
    system.signal_stop()
    assert system.wait(30)
    assert returned == [False, None]


def test_a_handler_may_use_another_system_to_its_end(make_system: MakeSystem) -> None:
    class Nesting(StateActor):
        @on(Get)
        def get(self, message: Get) -> int:
            with ActorSystem("inner", workers=1, memory_monitor=False) as inner:
                kept = inner.build_actor(Life, hooks)
            assert inner.wait()
            assert kept.house.stop_reason is not None
            return len(workers(inner))

    hooks: Counter[str] = Counter()
    system = make_system()
    assert system.ask(system.build_actor(Nesting), Get()).result(30) == 0
    assert hooks["post_stop"] == 1


def test_a_handler_may_look_but_not_wait_for_the_end_of_its_own_system(
    make_system: MakeSystem,
) -> None:
    class Waiting(StateActor):
        @on(Get)
        def get(self, message: Get) -> int:
            assert not self.system.wait(0)
            self.system.wait()
            return 1

    system = make_system()
    error = system.ask(system.build_actor(Waiting), Get()).exception(30)
    assert "a handler cannot wait" in str(error) + str(error and error.__cause__)


def test_several_systems_live_side_by_side(
    make_system: MakeSystem, eventually: Callable[..., Any]
) -> None:
    one, two = make_system(name="one"), make_system(name="two")
    hooks: Counter[str] = Counter()
    first, second = one.build_actor(Life, hooks), two.build_actor(Life, hooks)

    class Across(StateActor):
        @on(Get)
        async def get(self, message: Get) -> int:
            second.notice(Go())
            try:
                return await second.ask(Wait())
            except SystemStopped:
                return 7

    across = one.build_actor(Across)
    future = one.ask(across, Get())
    eventually(lambda: hooks["go"] == 1 and second.house.promises.count == 1)
    assert not future.done()
    two.stop()
    assert future.result(30) == 7
    first.notice(Go())
    one.stop()
    assert hooks["go"] == 2
    assert hooks["post_stop"] == 2


def test_an_actor_stopped_before_answers_with_actor_stopped(make_system: MakeSystem) -> None:
    system = make_system()
    address = system.build_actor(Life, Counter())
    address.stop()
    with pytest.raises(ActorStopped):
        system.ask(address, Wait()).result(30)


def resident_kb() -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmRSS"):
                return int(line.split()[1])
    raise AssertionError("no VmRSS in /proc/self/status")


def living_objects() -> Counter[str]:
    """What the collector knows of the runtime's and of this test's, and of work under way."""
    found: Counter[str] = Counter()
    for kind, many in Counter(map(type, gc.get_objects())).items():
        ours = kind.__module__.startswith(("otavia_ft", "_otavia_ft", __name__))
        if ours or kind in (CoroutineType, Future):
            found[kind.__name__] += many
    return found


@pytest.mark.timeout(600)  # seconds, but every one of thousands of joins waits for a busy core
def test_a_thousand_starts_and_stops_leave_nothing_behind() -> None:
    """Two systems at a time, one of each kind; every tenth pair with a channel and the monitor."""
    ours, theirs = socket.socketpair()

    def cycle(number: int) -> None:
        full = number % 10 == 0
        with (
            ActorSystem(workers=1, memory_monitor=full) as pinned,
            ActorSystem(workers=1, memory_monitor=full, dispatcher="pool") as pool,
        ):
            for system in (pinned, pool):
                address = system.build_actor(Life, Counter())
                address.notice(Go())
                system.ask(address, Wait(), timeout=60)
                assert system.ask(address, Get()).result(30) < 2
                if full:
                    listening = system.build_actor(Listening, ours)
                    assert system.ask(listening, Get()).result(30) == 0

    for number in range(50):
        cycle(number)
    gc.collect()
    threads, files, objects = threading.active_count(), descriptors(), living_objects()
    growth = []
    for _ in range(5):
        memory = resident_kb()
        for number in range(190):
            cycle(number)
        gc.collect()
        growth.append(resident_kb() - memory)
        assert living_objects() - objects == Counter()
    assert threading.active_count() == threads
    assert descriptors() == files
    ours.close()
    theirs.close()
    # A leak grows with every batch; the allocator, which takes a while to settle, does not. The
    # smallest leak there could be, a house that is kept and its system with it, takes 8 KB a cycle.
    assert min(growth) < 190, growth
