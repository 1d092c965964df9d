"""Misuse: a clear error at the call, or a counted dead letter; never silence, never a hang."""

import copy
import pickle
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, ClassVar

import pytest

from otavia_ft import (
    ActorSystem,
    Ask,
    AskFailed,
    Config,
    ConfigError,
    Event,
    FutureState,
    MessageFuture,
    OutsideActor,
    PoisonPill,
    StackError,
    StackState,
    StateActor,
    SystemStopped,
    on,
    sleep,
)
from otavia_ft.house.lifecycle import Restart


@dataclass(frozen=True, slots=True)
class Get(Ask[Any]):
    word: Any = None


@dataclass(frozen=True, slots=True)
class Named:
    address: Any


class Scripted(StateActor):
    """Its messages are functions that play the handler."""

    def resume_notice(self, stack):
        return stack.notice(self, stack)

    def resume_ask(self, stack):
        return stack.ask(self, stack)


@pytest.fixture
def scripted(system):
    return system.build_actor(Scripted)


@pytest.fixture
def refused(system, scripted):
    """Run a script as the handler of an ask and return the error that the asker gets."""

    def run(script):
        future = system.ask(scripted, script)
        system.run()
        error = future.exception(0)
        assert isinstance(error, AskFailed)
        return error.cause

    return run


class TestStacks:
    def test_suspending_without_a_pending_future(self, refused):
        error = refused(lambda actor, stack: stack.suspend(FutureState()))
        assert isinstance(error, StackError)
        assert "ask or sleep before you suspend" in str(error)

    def test_suspending_on_something_that_is_no_state(self, refused):
        error = refused(lambda actor, stack: stack.suspend(MessageFuture()))
        assert isinstance(error, StackError)
        assert "use FutureState()" in str(error)

    def test_suspending_after_the_end(self, system, scripted, caplog):
        def script(actor, stack):
            stack.return_("first")
            return stack.suspend(FutureState())

        assert system.ask_now(scripted, script) == "first"
        assert "a stack ends once" in caplog.text

    @pytest.mark.parametrize("kind", ["ask", "notice"])
    def test_suspending_and_then_ending_is_reported_at_once(
        self, system, probe, scripted, caplog, kind
    ):
        def script(actor, stack):
            state = FutureState()
            probe.address.ask("?", state.future)
            suspended = stack.suspend(state)
            stack.return_(*(["reply"] if kind == "ask" else []))
            return suspended

        if kind == "ask":
            assert system.ask_now(scripted, script) == "reply"
        else:
            scripted.notice(script)
            system.run()
        assert "finished its stack and then suspended it" in caplog.text
        assert scripted.house.promises.count == 0, "nothing waits for the reply any more"
        probe.expect_ask()
        probe.reply("too late")
        assert system.dead_letters.latest[-1].message == "too late"

    def test_returning_without_return(self, refused):
        error = refused(lambda actor, stack: "the reply")
        assert isinstance(error, StackError)
        assert "returned 'the reply'; it must return stack.return_" in str(error)

    def test_returning_nothing_from_the_handler_of_a_notice(self, system, scripted, caplog):
        scripted.notice(lambda actor, stack: None)
        system.run()
        assert "returned None; it must return stack.return_" in caplog.text

    @pytest.mark.parametrize("second", ["return_", "throw"])
    def test_replying_twice_keeps_the_first_reply_and_is_reported(
        self, system, scripted, caplog, second
    ):
        def script(actor, stack):
            stack.return_("first")
            return stack.return_("second") if second == "return_" else stack.throw(KeyError())

        assert system.ask_now(scripted, script) == "first"
        assert "a message is answered once" in caplog.text

    @pytest.mark.parametrize("wrong", ["a text", None, KeyError], ids=["text", "None", "class"])
    def test_throwing_something_that_is_no_exception_still_answers_the_asker(self, refused, wrong):
        error = refused(lambda actor, stack: stack.throw(wrong))
        assert isinstance(error, StackError)
        assert "wants an exception" in str(error)

    def test_a_stack_kept_after_its_end_answers_nobody(self, system, scripted):
        kept = []

        def script(actor, stack):
            kept.append(stack)
            return stack.return_("first")

        assert system.ask_now(scripted, script) == "first"
        with pytest.raises(StackError, match="finished already"):
            kept[0].return_("again")

    def test_reading_a_future_that_is_still_pending(self, probe, refused):
        error = refused(lambda actor, stack: stack.return_(probe.address.ask("?").get_now()))
        assert isinstance(error, StackError)
        assert "still pending" in str(error)


class TestAsking:
    def test_asking_outside_an_actor(self, scripted):
        with pytest.raises(OutsideActor, match=r"system\.ask"):
            scripted.ask(Get())

    def test_sleeping_outside_an_actor(self):
        with pytest.raises(OutsideActor, match="needs a running stack"):
            sleep(1)

    @pytest.mark.parametrize("kind", ["notice", "ask"])
    def test_asking_when_a_message_is_deleted_after_its_handler(self, system, kind):
        """There is no stack any more, and none that is made by mistake gets the next message."""
        refused = []

        class Sleepy:
            def __del__(self):
                try:
                    sleep(1)
                except OutsideActor:  # not kept: its traceback would keep the turn's variables
                    refused.append(True)

        class Plain(StateActor):
            @on(object)
            def echo(self, message):
                return "reply" if isinstance(message, Get) else Sleepy()

        address, other = system.build_actor(Plain), system.build_actor(Plain)
        system.run()
        for _ in range(2):  # the second message displaces the first
            if kind == "notice":
                address.notice(Sleepy())
            else:
                system.ask(address, Sleepy())
        system.run()
        assert len(refused) == 4, "messages and results"
        assert system.manual.threads[0].context.stack is None
        assert system.ask_now(other, Get()) == "reply"

    def test_asking_after_the_stack_has_ended(self, system, probe, scripted, caplog):
        def script(actor, stack):
            result = stack.return_("done")
            probe.address.ask("?")
            return result

        assert system.ask_now(scripted, script) == "done"
        assert "nobody would be there for the answer" in caplog.text
        assert scripted.house.promises.count == 0

    def test_using_one_future_for_two_asks(self, probe, refused, scripted):
        def script(actor, stack):
            future = MessageFuture()
            for _ in range(2):
                probe.address.ask("?", future)

        error = refused(script)
        assert isinstance(error, StackError)
        assert "every ask needs a future of its own" in str(error)
        assert scripted.house.promises.count == 0

    def test_giving_something_that_is_no_future(self, probe, refused):
        error = refused(lambda actor, stack: probe.address.ask("?", FutureState()))
        assert isinstance(error, TypeError)
        assert "is a MessageFuture, not" in str(error)

    @pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
    def test_a_timeout_that_is_no_time(self, probe, refused, scripted, timeout):
        error = refused(lambda actor, stack: probe.address.ask("?", timeout=timeout))
        assert isinstance(error, ValueError)
        assert f"timeout={timeout!r}" in str(error)
        assert scripted.house.promises.count == 0
        with pytest.raises(AssertionError, match="nothing came"):
            probe.expect_ask()

    @pytest.mark.parametrize("timeout", ["1", True, [1]], ids=repr)
    def test_a_timeout_that_is_no_number(self, probe, refused, timeout):
        error = refused(lambda actor, stack: probe.address.ask("?", timeout=timeout))
        assert isinstance(error, TypeError)
        assert f"timeout={timeout!r}" in str(error)

    def test_system_ask_inside_an_actor(self, system, scripted, refused):
        error = refused(lambda actor, stack: actor.system.ask(scripted, Get()))
        assert isinstance(error, OutsideActor)
        assert "await address.ask" in str(error)

    def test_system_stop_inside_an_actor(self, refused):
        error = refused(lambda actor, stack: actor.system.stop())
        assert isinstance(error, OutsideActor)
        assert "signal_stop" in str(error)


class TestAskingOneselfInABarrier:
    """The ask would wait for the barrier, and the barrier for the answer."""

    def test_a_serial_actor_is_told_at_the_call(self, system):
        class Serial(StateActor):
            serial = True

            @on(Get)
            async def get(self, message):
                return await self.address.ask(Get())

        address = system.build_actor(Serial)
        future = system.ask(address, Get())
        system.run()
        error = future.exception(0).cause
        assert isinstance(error, StackError)
        assert "asks itself inside a barrier call" in str(error)
        assert address.house.barrier is None

    def test_nothing_is_left_of_the_refused_ask(self, system):
        class Serial(Scripted):
            serial = True

        address = system.build_actor(Serial)

        def script(actor, stack):
            with pytest.raises(StackError, match="barrier"):
                actor.address.ask(Get(), timeout=10)
            assert not stack.waiting
            return stack.return_("refused")

        assert system.ask_now(address, script) == "refused"
        assert address.house.promises.count == 0
        assert len(system.timer) == 0

    def test_through_a_robin_address_that_leads_to_itself(self, make_test_system):
        system = make_test_system(workers=2)

        class Serial(Scripted):
            serial = True

        robin = system.build_actor(Serial, num=2)
        future = system.ask(robin, lambda actor, stack: robin.ask(Get()))
        system.run()
        assert "asks itself inside a barrier call" in str(future.exception(0))

    def test_another_stack_of_the_actor_may_ask_it_behind_the_barrier(self, system, probe):
        log = []

        class Guarded(Scripted):
            def is_barrier_call(self, message):
                return message is barrier

        def barrier(actor, stack):
            if stack.state is StackState.START:
                state = FutureState()
                probe.address.ask("barrier", state.future)
                return stack.suspend(state)
            log.append("barrier ends")
            return stack.return_()

        def older(actor, stack):
            if stack.state.id == 0:
                state = FutureState(1)
                probe.address.ask("older", state.future)
                return stack.suspend(state)
            if stack.state.id == 1:
                state = FutureState(2)
                actor.address.ask(lambda actor, stack: stack.return_("own answer"), state.future)
                return stack.suspend(state)
            log.append(stack.state.future.get_now())
            return stack.return_()

        address = system.build_actor(Guarded)
        address.notice(older)
        address.notice(barrier)
        system.run()
        probe.expect_ask()
        probe.reply("go on")
        assert log == []
        probe.expect_ask()
        probe.reply("go on")
        assert log == ["barrier ends", "own answer"]


class TestAddresses:
    def test_a_reply_to_nobody_is_a_dead_letter(self, system, scripted):
        scripted.reply("for whom?", 999)
        system.run()
        assert system.dead_letters.total == 1
        letter = system.dead_letters.latest[-1]
        assert (letter.message, letter.receiver) == ("for whom?", scripted.house.name)

    def test_an_error_to_nobody_is_a_dead_letter(self, system, scripted):
        scripted.throw(StackError("for whom?"), 999)
        system.run()
        assert repr(system.dead_letters.latest[-1].message) == "StackError('for whom?')"

    @pytest.mark.parametrize("wrong", ["1", None, 1.0, True, (1, "2")], ids=repr)
    def test_the_number_of_an_ask_is_an_int(self, scripted, wrong):
        with pytest.raises(TypeError, match="number of an ask is an int"):
            scripted.reply("x", wrong)
        with pytest.raises(TypeError, match="number of an ask is an int"):
            scripted.throw(StackError("x"), wrong)

    @pytest.mark.parametrize("wrong", [0, -1, 1 << 63, 1 << 70, -(1 << 70)])
    def test_no_ask_has_such_a_number(self, scripted, wrong):
        with pytest.raises(ValueError, match="no ask has the number"):
            scripted.reply("x", wrong)
        with pytest.raises(ValueError, match="no ask has the number"):
            scripted.throw(StackError("x"), wrong)

    @pytest.mark.parametrize("number", [0, -1, (1 << 63) - 1, 1 << 70, -(1 << 70)])
    def test_an_answer_under_a_number_that_no_ask_has_does_not_end_the_turn(
        self, system, probe, scripted, number, caplog
    ):
        """As an asker that is no address may send one."""
        got = []

        def wait(actor, stack):
            if stack.state is StackState.START:
                state = FutureState()
                probe.address.ask("?", state.future)
                return stack.suspend(state)
            return stack.return_(got.append("resumed"))

        system.ask(scripted, wait)
        system.run()
        scripted.house.answer(number, "for whom?")
        scripted.house.answer_error(number, StackError("for whom?"))
        scripted.notice(lambda actor, stack: got.append("handled") or stack.return_())
        system.run()
        assert got == ["handled"]
        assert system.dead_letters.total == 2
        assert caplog.text == ""

    @pytest.mark.parametrize("num", [1, 2], ids=["one", "robin"])
    def test_a_copy_of_a_message_has_the_same_address(self, system, num):
        address = system.build_actor(Scripted, num=num)
        assert copy.copy(address) is address
        assert copy.deepcopy([address])[0] is address
        assert asdict(Named(address))["address"] is address
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(address)

    def test_throw_sends_errors_of_the_package_only(self, scripted):
        with pytest.raises(TypeError, match="wrap it in AskFailed"):
            scripted.throw(ValueError("x"), 1)

    @pytest.mark.parametrize("wrong", [None, "event", Event], ids=["None", "text", "class"])
    def test_inform_delivers_events_only(self, scripted, wrong):
        with pytest.raises(TypeError, match=r"use notice\(\) for messages"):
            scripted.inform(wrong)

    @pytest.mark.parametrize("wrong", [None, "address", 1], ids=repr)
    def test_system_ask_wants_an_address(self, system, wrong):
        with pytest.raises(TypeError, match="wants an address"):
            system.ask(wrong, Get())


class TestAnothersSelf:
    """What an actor reaches through `self` is its own, or refused."""

    USES: ClassVar = {
        "address": lambda actor: actor.address,
        "system": lambda actor: actor.system,
        "logger": lambda actor: actor.logger,
        "stop": lambda actor: actor.stop(),
        "build_child": lambda actor: actor.build_child(Scripted),
        "children": lambda actor: actor.children,
        "parent": lambda actor: actor.parent,
        "watch": lambda actor: actor.watch(actor.other),
        "unwatch": lambda actor: actor.unwatch(actor.other),
        "stash": lambda actor: actor.stash(),
        "unstash": lambda actor: actor.unstash(),
        "unstash_all": lambda actor: actor.unstash_all(),
        "notice_self_first": lambda actor: actor.notice_self_first(1),
        "later": lambda actor: actor.later(print),
        "after": lambda actor: actor.after(1),
        "at": lambda actor: actor.at(1),
    }

    @pytest.mark.parametrize("use", USES)
    def test_while_another_actor_runs(self, system, scripted, use):
        other = system.build_actor(Scripted)
        system.run()
        foreign = other.house.actor
        foreign.other = scripted

        def script(actor, stack):
            with pytest.raises(OutsideActor, match="of a Scripted works only while that actor"):
                self.USES[use](foreign)
            return stack.return_("refused")

        assert system.ask_now(scripted, script) == "refused"
        assert scripted.house.stop_reason is None
        assert scripted.house.family is None
        assert len(system.timer) == 0

    def test_in_the_constructor_of_an_actor_that_another_builds(self, system, scripted):
        class Early(StateActor):
            def __init__(self):
                with pytest.raises(OutsideActor, match="after_mount, not __init__"):
                    _ = self.address

        def script(actor, stack):
            actor.system.build_actor(Early)
            actor.build_child(Early)
            return stack.return_("refused")

        assert system.ask_now(scripted, script) == "refused"


class TestBuilding:
    @pytest.mark.parametrize("num", [0, -1, True, 1.5, "2", None], ids=repr)
    def test_the_number_of_actors_is_an_int_from_one_up(self, system, num):
        with pytest.raises(ValueError, match=r"num=.*at least one"):
            system.build_actor(Scripted, num=num)

    @pytest.mark.parametrize("wrong", [None, 1, "Scripted"], ids=repr)
    def test_the_factory_can_be_called(self, system, wrong):
        with pytest.raises(TypeError, match="wants an actor class or a function"):
            system.build_actor(wrong)

    def test_an_actor_is_no_factory(self, system):
        with pytest.raises(TypeError, match="wants an actor class or a function"):
            system.build_actor(Scripted())

    @pytest.mark.parametrize("made", [None, 1, Scripted], ids=["None", "1", "class"])
    def test_the_factory_makes_actors(self, system, made):
        with pytest.raises(TypeError, match="made"):
            system.build_actor(lambda: made)

    def test_the_factory_makes_a_new_actor_for_each_seat(self, system):
        actor = Scripted()
        with pytest.raises(TypeError, match="same actor twice"):
            system.build_actor(lambda: actor, num=2)

    def test_what_the_factory_raises_reaches_the_caller(self, system):
        with pytest.raises(ZeroDivisionError):
            system.build_actor(lambda: 1 // 0)

    def test_a_stopped_system_builds_nothing(self, make_test_system):
        system = make_test_system()
        system.stop()
        with pytest.raises(SystemStopped, match="builds no more actors"):
            system.build_actor(Scripted)

    @pytest.mark.parametrize("wrong", [None, "restart", 1], ids=repr)
    def test_the_strategy_of_an_actor_class_is_a_strategy(self, wrong):
        with pytest.raises(TypeError, match="must be one of ExceptionStrategy"):

            class Wrong(StateActor):
                notice_exception_strategy = wrong


class TestNoticesToOneself:
    @pytest.mark.parametrize("message", [PoisonPill(), Restart()], ids=repr)
    def test_a_system_message_is_not_sent_as_a_notice_to_oneself(self, refused, message):
        error = refused(lambda actor, stack: actor.notice_self_first(message))
        assert isinstance(error, TypeError)
        assert "use self.stop()" in str(error)


class TestTimers:
    @pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
    def test_a_delay_is_a_finite_number_from_zero_up(self, refused, seconds):
        error = refused(lambda actor, stack: actor.after(seconds))
        assert isinstance(error, ValueError)

    @pytest.mark.parametrize("every", [0, -1, float("nan"), float("inf")])
    def test_a_period_is_a_finite_number_above_zero(self, refused, every):
        error = refused(lambda actor, stack: actor.after(1, every=every))
        assert isinstance(error, ValueError)
        error = refused(lambda actor, stack: actor.at(1, every=every))
        assert isinstance(error, ValueError)

    @pytest.mark.parametrize(
        ("when", "says"),
        [
            (1_700_000_000.0, "time.monotonic(), not of time.time()"),
            (datetime(2030, 1, 1), "has no time zone"),
            ("noon", "or a datetime with a time zone"),
        ],
    )
    def test_a_time_is_one_of_the_timers_clock_or_has_a_time_zone(self, refused, when, says):
        error = refused(lambda actor, stack: actor.at(when))
        assert isinstance(error, (ValueError, TypeError))
        assert says in str(error)


class TestConfig:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("workers", -1),
            ("workers", 1.5),
            ("workers", "2"),
            ("workers", True),
            ("throughput_budget", 0),
            ("io_ratio", 101),
            ("io_ratio", 0),
            ("batch_limit", 0),
            ("timer_tick_ms", 0),
            ("timer_tick_ms", float("nan")),
            ("dispatcher", "threads"),
            ("stealing", 1),
            ("debug", "yes"),
        ],
    )
    def test_a_bad_value_is_refused_with_its_name_and_value(self, name, value):
        with pytest.raises(ConfigError) as caught:
            Config(**{name: value})
        assert f"{name}={value!r}" in str(caught.value)

    def test_an_unknown_setting_is_refused_with_the_known_ones(self):
        with pytest.raises(ConfigError, match=r"unknown setting 'wrokers'; known are .*workers"):
            ActorSystem(wrokers=2)

    def test_a_config_and_single_settings_together_are_refused(self):
        with pytest.raises(TypeError, match="not both"):
            ActorSystem(config=Config(workers=1), workers=2)

    def test_a_bad_value_of_the_environment_is_refused_with_the_variables_name(self):
        with pytest.raises(ConfigError, match="OTAVIA_FT_WORKERS='many'"):
            Config.load({"OTAVIA_FT_WORKERS": "many"})
