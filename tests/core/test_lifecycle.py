"""An actor's life: hooks, failures, stops, cleaners, and what becomes of mail for the dead."""

import logging
from dataclasses import dataclass
from typing import Any

import pytest

from otavia_ft import (
    ActorStopped,
    AskFailed,
    Event,
    ExceptionStrategy,
    FutureState,
    MainActor,
    Notice,
    OutsideActor,
    PoisonPill,
    StateActor,
    SystemStopped,
    on,
    sleep,
)
from otavia_ft.atomic import HouseState, Mailbox


@dataclass(frozen=True, slots=True)
class Say(Notice):
    word: Any


class Lived(StateActor):
    """Writes down its life. `Say("raise")` raises; hooks named in `broken` raise too."""

    def __init__(self, log, broken=()):
        self.log = log
        self.broken = broken

    def _hook(self, name):
        self.log.append(name)
        if name in self.broken:
            raise ValueError(f"{name} is broken")

    def pre_start(self):
        self._hook("pre_start")

    def after_mount(self):
        self._hook("after_mount")

    def before_restart(self):
        self._hook("before_restart")

    def restart(self):
        self._hook("restart")

    def after_restart(self):
        self._hook("after_restart")

    def post_stop(self):
        self._hook("post_stop")

    def resume_notice(self, stack):
        self.log.append(stack.notice.word)
        if stack.notice.word == "raise":
            raise ValueError("as told")
        return stack.return_()

    def resume_ask(self, stack):
        if stack.ask == "raise":
            raise KeyError("as told")
        return stack.return_("alive")


class TestHooks:
    def test_a_life_is_pre_start_after_mount_messages_post_stop(self, system):
        address = system.build_actor(Lived, log := [])
        address.notice(Say(1))
        system.run()
        address.stop()
        system.run()
        assert log == ["pre_start", "after_mount", 1, "post_stop"]

    def test_address_system_and_logger_are_there_in_after_mount(self, system):
        seen = []

        class Curious(StateActor):
            def after_mount(self):
                seen.extend([self.address, self.system, self.logger])

        address = system.build_actor(Curious)
        system.run()
        assert seen[:2] == [address, system]
        assert seen[2].extra["actor"] == address.house.name

    def test_outside_a_turn_they_are_refused(self, system):
        actor = StateActor()
        for use in (
            lambda: actor.address,
            lambda: actor.system,
            lambda: actor.logger,
            actor.stop,
            lambda: actor.notice_self_first(1),
            lambda: actor.after(1),
            lambda: actor.at(1),
        ):
            with pytest.raises(OutsideActor, match="inside a running actor"):
                use()

    def test_post_stop_runs_once_however_often_the_actor_is_stopped(self, system):
        address = system.build_actor(Lived, log := [])
        for _ in range(3):
            address.stop()
        system.run()
        address.stop()
        system.run()
        system.stop()
        assert log.count("post_stop") == 1

    def test_post_stop_runs_when_the_system_stops(self, make_test_system):
        system = make_test_system()
        address = system.build_actor(Lived, log := [])
        system.run()
        system.stop()
        assert log == ["pre_start", "after_mount", "post_stop"]
        assert address.house.actor is None

    @pytest.mark.parametrize("hook", ["pre_start", "after_mount"])
    def test_an_actor_that_fails_to_start_is_stopped_and_its_mail_answered(self, system, hook):
        address = system.build_actor(Lived, log := [], (hook,))
        address.notice(Say(1))
        future = system.ask(address, "?")
        system.run()
        assert 1 not in log
        assert log[-1] == "post_stop"
        error = future.exception(0)
        assert isinstance(error, ActorStopped)
        assert f"{hook} is broken" in str(error)
        assert isinstance(error.__cause__, ValueError)
        assert [letter.message for letter in system.dead_letters.latest] == ["?", Say(1)]

    def test_a_hook_cannot_ask_because_no_stack_would_wait(self, system, probe):
        seen = []

        class Asks(StateActor):
            def after_mount(self):
                with pytest.raises(OutsideActor, match="needs a running stack"):
                    probe.address.ask("?")
                seen.append("refused")

        system.build_actor(Asks)
        system.run()
        assert seen == ["refused"]

    def test_a_restart_hook_cannot_ask_on_behalf_of_the_stack_that_failed(self, system, probe):
        seen = []

        class Asks(StateActor):
            def restart(self):
                with pytest.raises(OutsideActor, match="needs a running stack"):
                    probe.address.ask("?")
                seen.append("refused")

            def resume_notice(self, stack):
                raise ValueError("restart me")

        system.build_actor(Asks).notice(1)
        system.run()
        assert seen == ["refused"]


class TestNoticeExceptions:
    def test_by_default_a_failing_notice_restarts_the_same_instance(self, system):
        assert Lived.notice_exception_strategy is ExceptionStrategy.RESTART
        address = system.build_actor(Lived, log := [])
        system.run()
        actor = address.house.actor
        log.clear()
        for word in ("raise", "next"):
            address.notice(Say(word))
        system.run()
        assert log == ["raise", "before_restart", "restart", "after_restart", "next"]
        assert address.house.actor is actor

    def test_a_restart_keeps_the_mail_and_the_waiting_stacks(self, system):
        log = []

        class Waits(Lived):
            def resume_notice(self, stack):
                if stack.notice.word != "sleep":
                    return super().resume_notice(stack)
                if stack.state.resumable():
                    state = FutureState()
                    state.future = sleep(1)
                    return stack.suspend(state)
                log.append("slept")
                return stack.return_()

        address = system.build_actor(Waits, log)
        for word in ("sleep", "raise", "next"):
            address.notice(Say(word))
        system.advance(2)
        assert log[2:] == [
            "raise",
            "before_restart",
            "restart",
            "after_restart",
            "next",
            "slept",
        ]

    def test_ignore_only_logs(self, system, caplog):
        class Ignores(Lived):
            notice_exception_strategy = ExceptionStrategy.IGNORE

        address = system.build_actor(Ignores, log := [])
        for word in ("raise", "next"):
            address.notice(Say(word))
        system.run()
        assert log[2:] == ["raise", "next"]
        assert "as told" in caplog.text

    def test_shutdown_stops_the_whole_system(self, make_test_system):
        system = make_test_system()

        class Fatal(Lived):
            notice_exception_strategy = ExceptionStrategy.SHUTDOWN

        other = system.build_actor(Lived, others := [])
        address = system.build_actor(Fatal, log := [])
        address.notice(Say("raise"))
        system.run()
        assert not system.running
        assert log[-1] == others[-1] == "post_stop"
        with pytest.raises(SystemStopped):
            system.build_actor(Lived, [])
        assert isinstance(system.ask(other, "?").exception(0), SystemStopped)

    def test_shutdown_stops_a_system_of_real_threads_too(self, make_real_system):
        system = make_real_system(workers=2)

        class Fatal(Lived):
            notice_exception_strategy = ExceptionStrategy.SHUTDOWN

        system.build_actor(Fatal, log := []).notice(Say("raise"))
        assert system.wait(20)
        assert log[-1] == "post_stop"

    @pytest.mark.parametrize("hook", ["before_restart", "restart", "after_restart"])
    def test_an_actor_whose_restart_fails_is_stopped(self, system, hook):
        address = system.build_actor(Lived, log := [], (hook,))
        for word in ("raise", "next"):
            address.notice(Say(word))
        system.run()
        assert "next" not in log
        assert log[-1] == "post_stop"
        assert system.dead_letters.latest[-1].message == Say("next")
        future = system.ask(address, "?")
        system.run()
        assert f"{hook} is broken" in str(future.exception(0))

    def test_a_restart_can_be_asked_for(self, system):
        address = system.build_actor(Lived, log := [])
        system.run()
        log.clear()
        address.restart()
        system.run()
        assert log == ["before_restart", "restart", "after_restart"]


class TestAskExceptions:
    def test_the_asker_gets_the_error_with_its_original_cause(self, system):
        address = system.build_actor(Lived, log := [])
        future = system.ask(address, "raise")
        system.run()
        error = future.exception(0)
        assert isinstance(error, AskFailed)
        assert isinstance(error.cause, KeyError)
        assert error.__cause__ is error.cause
        assert error.asked == address.house.name
        assert "restart" not in log, "a failing ask never restarts"
        assert system.ask_now(address, "?") == "alive"

    def test_an_actor_that_asked_gets_it_as_the_error_of_its_future(self, system, probe):
        address = system.build_actor(Lived, [])
        probe.ask(address, "raise")
        with pytest.raises(AskFailed, match="KeyError"):
            probe.expect_reply()


class TestStop:
    def test_a_pill_overtakes_a_backlog_of_ten_thousand(self, system):
        address = system.build_actor(Lived, log := [])
        for n in range(10_000):
            address.notice(Say(n))
        address.notice(PoisonPill())
        system.run()
        assert log == ["pre_start", "after_mount", "post_stop"]
        assert system.dead_letters.total == 10_000

    def test_a_pill_that_comes_during_a_turn_ends_it_after_the_message_in_hand(self, system):
        handled = []

        class Stops(StateActor):
            def resume_notice(self, stack):
                handled.append(stack.notice)
                if stack.notice == 3:
                    self.stop()
                return stack.return_()

        address = system.build_actor(Stops)
        for n in range(20):
            address.notice(n)
        system.run()
        assert handled == [0, 1, 2, 3]
        assert system.dead_letters.total == 16

    def test_leftover_mail_becomes_dead_letters_with_the_reason(self, system):
        address = system.build_actor(Lived, [])
        system.run()
        address.notice(Say("left over"))
        future = system.ask(address, "asked too")
        address.stop()
        system.run()
        letters = {letter.message: letter for letter in system.dead_letters.latest}
        assert set(letters) == {Say("left over"), "asked too"}
        for letter in letters.values():
            assert letter.receiver == address.house.name
            assert letter.reason == f"{address.house.name} has stopped"
        assert isinstance(future.exception(0), ActorStopped)

    def test_mail_that_comes_after_the_stop_is_treated_the_same(self, system):
        address = system.build_actor(Lived, [])
        address.stop()
        system.run()
        address.notice(Say("later"))
        future = system.ask(address, "?")
        system.run()
        assert system.dead_letters.total == 2
        assert isinstance(future.exception(0), ActorStopped)
        assert address.house.state == HouseState.WAITING

    def test_a_stop_cancels_the_timers_of_the_actor(self, system):
        class Ticks(StateActor):
            def after_mount(self):
                self.after(1, every=1)
                self.after(100)

        address = system.build_actor(Ticks)
        system.run()
        assert len(system.timer) == 2
        address.stop()
        system.run()
        assert len(system.timer) == 0

    def test_a_stop_lowers_the_barrier_so_that_the_mail_behind_it_is_answered(self, system):
        class Serial(StateActor):
            serial = True

            @on(str)
            async def wait(self, message):
                await sleep(100)

        address = system.build_actor(Serial)
        futures = [system.ask(address, text) for text in ("in the barrier", "behind it")]
        system.run()
        address.stop()
        system.run()
        assert all(isinstance(f.exception(0), ActorStopped) for f in futures)

    def test_mail_of_a_stopped_house_leaves_no_message_behind(self, system):
        address = system.build_actor(Lived, [])
        address.stop()
        for n in range(100):
            address.notice(Say(n))
        system.run()
        assert [address.house.size(box) for box in Mailbox] == [0] * len(Mailbox)

    def test_the_pill_stops_each_actor_of_a_robin_address_by_stop(self, make_test_system):
        system = make_test_system()
        log: list[str] = []
        robin = system.build_actor(Lived, log, num=3)
        robin.stop()
        system.run()
        assert log.count("post_stop") == 3


class TestDeadLetters:
    def test_all_are_counted_and_the_latest_kept(self, system):
        address = system.build_actor(Lived, [])
        address.stop()
        system.run()
        for n in range(250):
            address.notice(Say(n))
        system.run()
        assert system.dead_letters.total == 250
        assert [letter.message.word for letter in system.dead_letters.latest] == list(
            range(150, 250)
        )
        assert system.statistics().dead_letters == 250

    def test_a_listener_hears_of_each_and_may_fail(self, system):
        heard = []

        def broken(letter):
            raise SystemExit("broken listener")

        system.dead_letters.subscribe(broken)
        system.dead_letters.subscribe(heard.append)
        address = system.build_actor(Lived, [])
        address.stop()
        future = system.ask(address, "?")
        address.notice(Say(1))
        system.run()
        assert [letter.message for letter in heard] == ["?", Say(1)]
        assert future.done()

    def test_an_event_that_the_actor_does_not_know_is_one(self, system):
        address = system.build_actor(Lived, [])
        address.inform(event := Event())
        system.run()
        assert system.dead_letters.latest[-1].message is event


class TestLogging:
    def test_a_failure_is_logged_under_the_name_of_its_actor(self, system, caplog):
        address = system.build_actor(Lived, [])
        address.notice(Say("raise"))
        system.run()
        [record] = [r for r in caplog.records if r.levelno == logging.ERROR]
        assert record.actor == address.house.name
        assert address.house.name in record.getMessage()
        assert "Say" in record.getMessage()
        assert record.exc_info[0] is ValueError

    def test_the_actors_own_logger_names_it_too(self, system, caplog):
        caplog.set_level(logging.INFO)

        class Talks(StateActor):
            def after_mount(self):
                self.logger.info("hello %s", "there", extra={"more": 1})

        address = system.build_actor(Talks)
        system.run()
        [record] = [r for r in caplog.records if "hello" in r.getMessage()]
        assert record.getMessage() == f"{address.house.name}: hello there"
        assert (record.actor, record.more) == (address.house.name, 1)


class TestMainActor:
    def test_it_gets_its_arguments_as_the_first_notice_after_the_mount(self, system):
        log = []

        class Main(MainActor):
            def after_mount(self):
                log.append("mounted")
                super().after_mount()

            def resume_notice(self, stack):
                message = stack.notice
                log.append(message.args if isinstance(message, MainActor.Args) else message)
                return stack.return_()

        address = system.build_actor(Main, "one", 2)
        address.notice("sent before the mount")
        system.run()
        assert log == ["mounted", ("one", 2), "sent before the mount"]

    def test_without_arguments_it_gets_none_of_them_but_the_notice(self, system):
        got = []

        class Main(MainActor):
            @on(MainActor.Args)
            def main(self, message):
                got.append(message.args)

        system.build_actor(Main)
        system.run()
        assert got == [()]
