"""The testkit: nothing moves by itself, time is virtual, and the probe says what it missed."""

import threading
from dataclasses import dataclass

import pytest

from otavia_ft import AskFailed, Notice, StateActor, on, sleep
from otavia_ft.testkit import TestProbe, TestSystem, VirtualClock


@dataclass(frozen=True, slots=True)
class Ping(Notice):
    n: int


class Echo(StateActor):
    """Sends a notice back after so many seconds; doubles what it is asked."""

    def __init__(self, to=None):
        self.to = to

    @on(Ping)
    async def ping(self, message):
        await sleep(message.n)
        self.to.notice(message)

    @on(int)
    async def double(self, n):
        if n < 0:
            raise ValueError("negative")
        await sleep(n)
        return 2 * n


class TestTestSystem:
    def test_nothing_happens_until_it_is_run(self, system, probe):
        echo = system.build_actor(Echo, probe.address)
        echo.notice(Ping(0))
        assert not probe._notices
        system.run()
        assert list(probe._notices) == [Ping(0)]

    def test_it_starts_no_thread(self, make_test_system):
        before = threading.active_count()
        system = make_test_system(workers=4)
        system.build_actor(Echo, num=4)
        system.advance(1)
        assert threading.active_count() == before

    def test_time_passes_only_by_advance(self, system):
        assert isinstance(system.clock, VirtualClock)
        assert system.clock() == 0
        system.run()
        assert system.clock() == 0
        system.advance(90)
        assert system.clock() == 90

    def test_advance_fires_each_timer_at_its_own_time(self, system):
        times = []
        for seconds in (3, 1, 2, 5):
            system.timer.after(seconds, lambda _: times.append(round(system.clock(), 2)))
        system.advance(4)
        assert times == [1, 2, 3]

    def test_advance_handles_what_a_timer_causes_before_the_next_timer(self, system):
        log = []

        class Ticks(StateActor):
            def after_mount(self):
                self.after(1, every=1)

            def handle_actor_timeout(self, event):
                log.append(round(self.system.clock(), 2))

        address = system.build_actor(Ticks)
        system.advance(3.5)
        assert log == [1, 2, 3]
        assert address.house is not None

    def test_a_year_passes_in_no_time(self, system):
        future = system.ask(system.build_actor(Echo), 365 * 86400)
        system.advance(365 * 86400 + 1)
        assert future.result(0) == 2 * 365 * 86400

    def test_ask_now_returns_the_reply_or_raises(self, system):
        echo = system.build_actor(Echo)
        assert system.ask_now(echo, 0) == 0
        assert system.ask_now(echo, 3, within=4) == 6
        with pytest.raises(TimeoutError):
            system.ask_now(echo, 3, within=1)
        with pytest.raises(AskFailed):
            system.ask_now(echo, -1)

    def test_an_actor_that_keeps_itself_busy_is_reported(self, system, monkeypatch):
        monkeypatch.setattr(type(system.manual), "limit", 1000)

        class Busy(StateActor):
            def resume_notice(self, stack):
                if stack.notice == "go":
                    self.address.notice("go")
                return stack.return_()

        address = system.build_actor(Busy)
        address.notice("go")
        with pytest.raises(AssertionError, match="no rest within"):
            system.run()
        address.stop()

    def test_signal_stop_inside_a_handler_stops_it_at_the_end_of_the_run(self, make_test_system):
        system = make_test_system()

        class Last(StateActor):
            @on(str)
            def last(self, message):
                self.system.signal_stop()

        system.build_actor(Last).notice("stop")
        system.run()
        assert not system.running


class TestTestProbe:
    def test_expect_takes_the_next_notice(self, system, probe):
        for n in (1, 2):
            probe.address.notice(Ping(n))
        assert probe.expect(Ping(1)) == Ping(1)
        probe.expect(Ping(2))
        probe.expect_nothing()

    def test_expect_fails_on_another_message_and_shows_both(self, probe):
        probe.address.notice(Ping(1))
        with pytest.raises(AssertionError, match=r"expected Ping\(n=2\), got Ping\(n=1\)"):
            probe.expect(Ping(2))

    def test_expect_fails_when_nothing_comes(self, probe):
        with pytest.raises(AssertionError, match="within 0 s, but nothing came"):
            probe.expect(Ping(1))

    def test_expect_type_takes_the_next_notice_of_that_type(self, probe):
        probe.address.notice(Ping(1))
        assert probe.expect_type(Ping).n == 1
        probe.address.notice("text")
        with pytest.raises(AssertionError, match="expected a Ping, got 'text'"):
            probe.expect_type(Ping)

    def test_expect_nothing_fails_on_a_message(self, probe):
        probe.address.notice("surprise")
        with pytest.raises(AssertionError, match="expected nothing, got 'surprise'"):
            probe.expect_nothing()

    def test_expect_waits_in_virtual_time_and_no_longer_than_needed(self, system, probe):
        system.build_actor(Echo, probe.address).notice(Ping(3))
        with pytest.raises(AssertionError, match="within 2 s"):
            probe.expect(Ping(3), within=2)
        probe.expect(Ping(3), within=10)
        assert system.clock() == pytest.approx(3, abs=0.1)

    def test_expect_nothing_lets_the_time_pass(self, system, probe):
        echo = system.build_actor(Echo, probe.address)
        echo.notice(Ping(3))
        probe.expect_nothing(within=2.5)
        assert system.clock() == 2.5
        with pytest.raises(AssertionError, match="expected nothing"):
            probe.expect_nothing(within=1)

    def test_it_answers_asks_by_hand(self, system, probe):
        future = system.ask(probe.address, "question")
        assert probe.expect_ask() == "question"
        assert not future.done()
        probe.reply("answer")
        assert future.result(0) == "answer"

    def test_it_tells_and_asks_as_an_actor(self, system, probe):
        other = TestProbe(system)
        probe.tell(other.address, "notice")
        other.expect("notice")
        probe.ask(system.build_actor(Echo), 4)
        assert probe.expect_reply(within=5) == 8

    def test_expect_reply_raises_the_error_of_a_failed_ask(self, system, probe):
        probe.ask(system.build_actor(Echo), -1)
        with pytest.raises(AskFailed, match="negative"):
            probe.expect_reply()

    def test_expect_reply_fails_when_none_comes(self, system, probe):
        probe.ask(system.build_actor(Echo), 100)
        with pytest.raises(AssertionError, match="expected a reply within 1 s"):
            probe.expect_reply(within=1)

    def test_neither_class_is_taken_for_a_test_by_pytest(self):
        assert TestSystem.__test__ is False
        assert TestProbe.__test__ is False
