"""What becomes of a child that failed: directives, budgets, pauses, escalation."""

import logging

import pytest

from otavia_ft import (
    ActorStopped,
    AskFailed,
    Directive,
    ExceptionStrategy,
    Supervisor,
    SupervisorStrategy,
    sleep,
)

STOP, RESUME, RESTART, ESCALATE = Directive


def errors(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


class TestPolicy:
    def test_the_nearest_class_of_the_error_decides(self):
        supervisor = (
            Supervisor(STOP)
            .directive(Exception, RESTART)
            .directive(KeyError, ESCALATE)
            .directive(LookupError, RESUME)
        )
        asked = [KeyError(), IndexError(), ValueError(), KeyboardInterrupt()]
        assert [supervisor.decide(e) for e in asked] == [ESCALATE, RESUME, RESTART, STOP]

    def test_without_a_directive_a_child_is_restarted(self):
        assert Supervisor().decide(ValueError()) is RESTART

    def test_pauses_grow_by_the_factor_up_to_the_maximum(self):
        supervisor = Supervisor(backoff=1, factor=3, max_backoff=10)
        assert [supervisor.pause(n) for n in (1, 2, 3, 4)] == [1, 3, 9, 10]
        assert supervisor.pause(100_000) == 10

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            ({"default": "stop"}, TypeError),
            ({"strategy": STOP}, TypeError),
            ({"max_retries": -1}, ValueError),
            ({"max_retries": True}, ValueError),
            ({"window": 0}, ValueError),
            ({"backoff": -1}, ValueError),
            ({"backoff": 2, "max_backoff": 1}, ValueError),
            ({"factor": 0.5}, ValueError),
        ],
        ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
    )
    def test_a_policy_that_makes_no_sense_is_refused(self, arguments, error):
        with pytest.raises(error, match=next(iter(arguments))):
            Supervisor(**arguments)

    def test_a_directive_is_for_exceptions(self):
        with pytest.raises(TypeError, match="class of exceptions"):
            Supervisor().directive(int, STOP)
        with pytest.raises(TypeError, match="must be one of"):
            Supervisor().directive(ValueError, "stop")


class TestDirectives:
    def test_stop_ends_the_child_and_buries_its_mail(self, family):
        parent = family.build("parent", Supervisor(STOP))
        child = family.child(parent, "child")
        family.send(child, ValueError("bad"), 1)
        assert family.of("child") == ["pre_start", "raises", "post_stop"]
        assert family.do(parent, lambda me: me.children) == ()
        with pytest.raises(ActorStopped, match="stopped by its supervisor: ValueError: bad"):
            family.system.ask_now(child, 2)
        assert [letter.message for letter in family.system.dead_letters.latest] == [1, 2]

    def test_resume_goes_on_with_the_next_message_without_hooks(self, family):
        child = family.child(parent := family.build("parent", Supervisor(RESUME)), "child")
        family.send(child, ValueError(), 1, ValueError(), 2)
        assert family.of("child") == ["pre_start", "raises", 1, "raises", 2]
        assert family.do(parent, lambda me: me.children) == (child,)

    def test_restart_runs_the_hooks_before_the_next_message_and_keeps_the_mail(self, family):
        parent = family.build("parent", Supervisor())
        child = family.child(parent, "child")
        family.send(child, 1, ValueError(), 2, 3)
        assert family.of("child") == ["pre_start", 1, "raises", "restart", 2, 3]

    def test_a_child_holds_its_user_mail_until_the_verdict_comes(self, family):
        parent = family.build("parent", Supervisor(backoff=10))
        child = family.child(parent, "child")
        family.send(child, ValueError(), 1)
        ask = family.system.ask(child, 2)
        family.system.advance(9)
        assert family.of("child") == ["pre_start", "raises"]
        assert not ask.done()
        family.system.advance(1)
        assert family.of("child") == ["pre_start", "raises", "restart", 2, 1]
        assert ask.result(0) == 2

    def test_a_restart_hook_that_raises_stops_the_child(self, family):
        def restart(me):
            raise LookupError("no way back")

        parent = family.build("parent", Supervisor())
        child = family.child(parent, "child", restart=restart)
        family.send(child, ValueError(), 1)
        assert family.of("child") == ["pre_start", "raises", "post_stop"]
        assert family.do(parent, lambda me: me.children) == ()

    def test_without_a_supervisor_the_childs_own_strategy_decides(self, family):
        parent = family.build("parent")
        child = family.child(parent, "child", notice_exception_strategy=ExceptionStrategy.IGNORE)
        family.send(child, ValueError(), 1)
        assert family.of("child") == ["pre_start", "raises", 1]

    def test_a_failed_ask_is_its_askers_matter(self, family):
        parent = family.build("parent", Supervisor(STOP))
        child = family.child(parent, "child")
        with pytest.raises(AskFailed):
            family.system.ask_now(child, ValueError())
        assert family.system.ask_now(child, 1) == 1

    def test_a_child_that_waits_for_its_verdict_can_be_stopped(self, family):
        parent = family.build("parent", Supervisor(backoff=10))
        child = family.child(parent, "child")
        family.send(child, ValueError())
        ask = family.system.ask(child, 1)
        child.stop()
        family.system.advance(20)
        assert family.of("child") == ["pre_start", "raises", "post_stop"]
        assert isinstance(ask.exception(0), ActorStopped)

    def test_a_system_that_stops_answers_the_mail_of_a_child_without_a_verdict(self, family):
        parent = family.build("parent", Supervisor(backoff=10))
        child = family.child(parent, "child")
        family.send(child, ValueError())
        ask = family.system.ask(child, 1)
        family.system.stop()
        assert ask.exception(0) is not None
        assert family.of("child")[-1] == family.of("parent")[-1] == "post_stop"

    def test_failed_batches_hold_the_message_behind_them(self, family):
        def resume_batch_notice(me, stack):
            raise ValueError("batch")

        parent = family.build("parent", Supervisor(backoff=1))
        child = family.child(
            parent,
            "child",
            batchable=True,
            batch_notice_filter=lambda me, message: isinstance(message, int),
            resume_batch_notice=resume_batch_notice,
        )
        family.send(child, 1, 2, "behind")
        assert family.of("child") == ["pre_start"]
        family.system.advance(1)
        assert family.of("child") == ["pre_start", "restart", "behind"]


class TestWaitingHandlers:
    def wait_then(self, seconds, word, raises=False):
        async def body(me):
            await sleep(seconds)
            me.write(word)
            if raises:
                raise ValueError(word)

        return body

    def test_a_waiting_handler_goes_on_while_the_user_mail_is_held(self, family, do):
        child = family.child(parent := family.build("p", Supervisor(backoff=10)), "child")
        family.send(child, do(self.wait_then(5, "woke")), ValueError(), 1)
        family.system.advance(6)
        assert family.of("child") == ["pre_start", "raises", "woke"]
        family.system.advance(4)
        assert family.of("child")[3:] == ["restart", 1]
        assert parent.house.actor is not None

    def test_each_of_two_failures_gets_a_verdict_and_the_mail_waits_for_both(self, family, do):
        parent = family.build("p", Supervisor(RESTART, backoff=10, factor=1))
        child = family.child(parent, "child")
        family.send(child, do(self.wait_then(5, "woke", raises=True)), ValueError(), 1)
        family.system.advance(12)
        assert family.of("child") == ["pre_start", "raises", "woke", "restart"]
        family.system.advance(3)
        assert family.of("child")[4:] == ["restart", 1]

    def test_a_barrier_call_that_waits_stands_again_after_the_verdict(self, family, do):
        barrier = do(self.wait_then(20, "barrier ends"))
        parent = family.build("p", Supervisor(RESUME, backoff=0))
        child = family.child(
            parent, "child", is_barrier_call=lambda me, message: message is barrier
        )
        family.send(child, do(self.wait_then(5, "fails", raises=True)), barrier, 1)
        family.system.advance(10)
        assert family.of("child") == ["pre_start", "fails"]
        family.system.advance(10)
        assert family.of("child")[2:] == ["barrier ends", 1]

    def test_a_barrier_call_that_ended_meanwhile_does_not_stand_again(self, family, do):
        barrier = do(self.wait_then(8, "barrier ends"))
        parent = family.build("p", Supervisor(RESTART, backoff=10))
        child = family.child(
            parent, "child", is_barrier_call=lambda me, message: message is barrier
        )
        family.send(child, do(self.wait_then(5, "fails", raises=True)), barrier, 1)
        family.system.advance(14)
        assert family.of("child") == ["pre_start", "fails", "barrier ends"]
        family.system.advance(1)
        assert family.of("child")[3:] == ["restart", 1]


class TestBudget:
    def test_more_restarts_than_the_budget_stop_the_child(self, family):
        parent = family.build("parent", Supervisor(max_retries=2))
        child = family.child(parent, "child")
        family.send(child, ValueError(), ValueError(), ValueError(), 1)
        words = ["raises", "restart", "raises", "restart", "raises", "post_stop"]
        assert family.of("child") == ["pre_start", *words]

    def test_restarts_older_than_the_window_do_not_count(self, family):
        parent = family.build("parent", Supervisor(max_retries=1, window=10))
        child = family.child(parent, "child")
        for _ in range(4):
            family.send(child, ValueError())
            family.system.advance(10)
        assert family.of("child").count("restart") == 4
        family.send(child, ValueError(), ValueError())
        assert family.of("child")[-2:] == ["raises", "post_stop"]

    def test_a_budget_of_zero_stops_at_the_first_failure(self, family):
        child = family.child(family_parent := family.build("p", Supervisor(max_retries=0)), "c")
        family.send(child, ValueError())
        assert family.of("c") == ["pre_start", "raises", "post_stop"]
        assert family_parent.house.actor is not None

    def test_pauses_between_restarts_grow(self, family):
        parent = family.build("parent", Supervisor(backoff=1, factor=2, max_backoff=3))
        child = family.child(parent, "child")
        family.send(child, *[ValueError() for _ in range(4)])
        seen = []
        for _ in range(12):
            family.system.advance(1)
            seen.append(family.of("child").count("restart"))
        assert seen == [1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4]  # after 1, 2, 3 and 3 seconds


class TestOneForAll:
    def test_restart_is_for_all_children_of_the_supervisor(self, family):
        parent = family.build("p", Supervisor(strategy=SupervisorStrategy.ONE_FOR_ALL))
        children = [family.child(parent, name) for name in "abc"]
        family.do(parent, lambda me: setattr(me, "supervisor", Supervisor()))
        family.child(parent, "other")
        family.send(children[0], ValueError())
        assert [family.of(name).count("restart") for name in "abc"] == [1, 1, 1]
        assert "restart" not in family.of("other")

    def test_stop_is_for_all_and_so_is_the_budget(self, family):
        one_for_all = SupervisorStrategy.ONE_FOR_ALL
        parent = family.build("p", Supervisor(strategy=one_for_all, max_retries=1))
        a, b = family.child(parent, "a"), family.child(parent, "b")
        family.send(a, ValueError())
        family.send(b, ValueError())
        assert [family.of(name)[-1] for name in "ab"] == ["post_stop"] * 2
        assert family.do(parent, lambda me: me.children) == ()

    def test_one_for_one_leaves_the_siblings_alone(self, family):
        parent = family.build("p", Supervisor(STOP))
        a, b = family.child(parent, "a"), family.child(parent, "b")
        family.send(a, ValueError())
        assert family.do(parent, lambda me: me.children) == (b,)


class TestEscalation:
    @pytest.mark.parametrize(
        ("directive", "middle", "low"),
        [
            (RESUME, [], [1]),
            (RESTART, ["restart"], ["restart", 1]),
            (STOP, ["post_stop"], ["post_stop"]),
        ],
        ids=["resume", "restart", "stop"],
    )
    def test_the_grandparents_verdict_is_for_the_parent_and_its_child(
        self, family, directive, middle, low
    ):
        top = family.build("top", Supervisor(directive))
        parent = family.child(top, "middle", Supervisor(ESCALATE))
        child = family.child(parent, "low")
        family.send(child, ValueError(), 1)
        assert family.of("middle")[1:] == middle
        assert family.of("low")[2:] == low

    @pytest.mark.parametrize(
        ("strategy", "parent", "child"),
        [
            (ExceptionStrategy.RESTART, ["restart"], ["restart", 1]),
            (ExceptionStrategy.IGNORE, [], [1]),
            (ExceptionStrategy.SHUTDOWN, ["post_stop"], ["post_stop"]),
        ],
        ids=["restart", "ignore", "shutdown"],
    )
    def test_at_the_top_the_actors_own_strategy_decides(self, family, strategy, parent, child):
        top = family.build("top", Supervisor(ESCALATE), notice_exception_strategy=strategy)
        low = family.child(top, "low")
        family.send(low, ValueError(), 1)
        assert family.of("top")[1:] == parent
        assert family.of("low")[2:] == child
        assert family.system.running == (strategy is not ExceptionStrategy.SHUTDOWN)

    @pytest.mark.parametrize("backoff", [0, 5])
    def test_each_child_gets_the_verdict_over_its_own_failure(self, family, backoff):
        """Both fail before the first verdict is there; with a pause the second one overtakes."""
        supervisor = Supervisor(backoff=backoff)
        supervisor.directive(KeyError, RESTART).directive(ValueError, RESUME)
        top = family.build("top", supervisor)
        middle = family.child(top, "middle", Supervisor(ESCALATE))
        first, second = family.child(middle, "first"), family.child(middle, "second")
        for child, error in ((first, KeyError()), (second, ValueError())):
            child.notice(error)
            child.notice(1)
        family.system.run()
        family.system.advance(6)
        assert family.of("middle")[1:] == ["restart"]
        assert family.of("first")[1:] == ["raises", "restart", 1]
        assert family.of("second")[1:] == ["raises", 1]

    def test_a_verdict_finds_its_way_down_through_every_level(self, family):
        top = family.build("top", Supervisor(RESTART))
        middle = family.child(top, "middle", Supervisor(ESCALATE))
        lower = family.child(middle, "lower", Supervisor(ESCALATE))
        family.send(family.child(lower, "lowest"), ValueError(), 1)
        restarts = [who for who, word in family.log if word == "restart"]
        assert restarts == ["middle", "lower", "lowest"]
        assert family.of("lowest")[-1] == 1

    def test_a_strategy_that_raises_stops_the_parent(self, family):
        def broken(me):
            raise LookupError("no strategy")

        top = family.build("top", Supervisor(ESCALATE), notice_exception_strategy=property(broken))
        family.send(family.child(top, "low"), ValueError())
        assert family.log[-2:] == [("low", "post_stop"), ("top", "post_stop")]


class TestBrokenSupervisors:
    @pytest.mark.parametrize("result", ["raises", "nonsense"])
    def test_what_a_supervisor_cannot_decide_is_logged_and_means_stop(self, family, caplog, result):
        class Broken(Supervisor):
            def decide(self, error):
                if result == "raises":
                    raise LookupError("undecided")
                return "restart"

        parent = family.build("parent", Broken())
        child = family.child(parent, "child")
        family.send(child, ValueError(), 1)
        assert family.of("child") == ["pre_start", "raises", "post_stop"]
        assert any("could not decide about Member#2" in line for line in errors(caplog))
        assert family.system.ask_now(parent, 7) == 7

    def test_a_pause_that_raises_means_stop(self, family):
        class Broken(Supervisor):
            def pause(self, restarts):
                raise LookupError("never")

        child = family.child(parent := family.build("parent", Broken()), "child")
        family.send(child, ValueError())
        assert family.of("child")[-1] == "post_stop"
        assert family.do(parent, lambda me: me.children) == ()
