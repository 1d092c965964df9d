"""later(): functions at the end of the pass, and what they queue in turn."""

import threading

import pytest

from otavia_ft import StateActor, on, sleep
from otavia_ft.testkit import TestSystem


class TestLaterTasks:
    def test_they_run_on_the_same_thread_after_everything_else_of_the_pass(self):
        order = []

        class Io(StateActor):
            has_channels = True

            def resume_notice(self, stack):
                order.append(stack.notice)
                self.later(lambda: order.append(f"later {stack_name}"))
                stack_name = stack.notice
                return stack.return_()

        with TestSystem() as system:
            address = system.build_actor(Io)
            system.run()
            address.notice("a")
            address.notice("b")
            system.run()
        assert order == ["a", "b", "later a", "later b"]

    def test_one_that_raises_is_logged_and_the_others_run(self, caplog):
        ran = []

        class Io(StateActor):
            def resume_notice(self, stack):
                self.later(lambda: 1 / 0)
                self.later(lambda: ran.append("second"))
                return stack.return_()

        with TestSystem() as system:
            address = system.build_actor(Io)
            address.notice("go")
            system.run()
        assert ran == ["second"]
        assert "later task that failed" in caplog.text

    def test_a_task_queued_by_a_start_hook_runs_too(self):
        ran = []

        class Io(StateActor):
            def after_mount(self):
                self.later(lambda: ran.append("hook"))

        with TestSystem() as system:
            system.build_actor(Io)
            system.run()
        assert ran == ["hook"]

    @pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
    @pytest.mark.parametrize("where", ["a handler", "a start hook"])
    def test_what_a_later_task_queues_runs_though_no_mail_comes(self, dispatcher, where):
        ran = []

        class Io(StateActor):
            def after_mount(self):
                if where == "a start hook":
                    self.go()

            def resume_notice(self, stack):
                self.go()
                return stack.return_()

            def go(self, n=0):
                if n:
                    ran.append((n, self.address))  # as this actor, and nobody else
                if n < 100:
                    self.later(lambda: self.go(n + 1))

        with TestSystem(dispatcher=dispatcher) as system:
            address = system.build_actor(Io)
            if where == "a handler":
                address.notice("go")
            system.run()
            assert ran == [(n, address) for n in range(1, 101)]

    @pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
    def test_a_thread_that_has_such_a_task_left_does_not_sleep_on_it(
        self, make_real_system, dispatcher
    ):
        done = threading.Event()

        class Io(StateActor):
            def resume_notice(self, stack):
                self.later(lambda: self.later(lambda: self.later(done.set)))
                return stack.return_()

        system = make_real_system(dispatcher=dispatcher, workers=1)
        system.build_actor(Io).notice("go")
        assert done.wait(20)

    @pytest.mark.parametrize(("dispatcher", "turns"), [("pinned", 1), ("pool", 61)])
    def test_a_task_that_always_queues_the_next_one_leaves_turns_to_others(self, dispatcher, turns):
        """In a pool the others may wait in the global ring, which is looked at every 61st take."""
        log = []

        class Endless(StateActor):
            def resume_notice(self, stack):
                self.later(self.again)
                return stack.return_()

            def again(self):
                log.append("again")
                if len(log) < 1000:  # what is wrong shall fail, not hang
                    self.later(self.again)

        class Other(StateActor):
            def resume_notice(self, stack):
                log.append("other")
                return stack.return_()

        with TestSystem(dispatcher=dispatcher, throughput_budget=8) as system:
            endless, other = system.build_actor(Endless), system.build_actor(Other)
            system.run()
            endless.notice("go")
            other.notice("go")
            system.run()
            assert log.index("other") <= 8 * turns

    @pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
    def test_a_stop_ends_a_task_that_always_queues_the_next_one(
        self, make_real_system, eventually, dispatcher
    ):
        ran, stopped = [], []

        class Endless(StateActor):
            def resume_notice(self, stack):
                self.later(self.again)
                return stack.return_()

            def again(self):
                ran.append(1)
                self.later(self.again)

            def post_stop(self):
                stopped.append(1)

        system = make_real_system(dispatcher=dispatcher, workers=1)
        address = system.build_actor(Endless)
        address.notice("go")
        eventually(lambda: len(ran) > 10)
        address.stop()
        eventually(lambda: stopped)
        system.stop()
        assert not system.scheduler.threads[0].thread.is_alive()

    def test_a_pill_between_two_passes_keeps_no_queued_task_from_running(self):
        ran = []

        class Io(StateActor):
            def resume_notice(self, stack):
                self.later(lambda: (self.later(lambda: ran.append("second")), self.stop()))
                return stack.return_()

        with TestSystem() as system:
            system.build_actor(Io).notice("go")
            system.run()
            assert ran == ["second"]

    def test_what_a_later_task_queues_runs_inside_a_barrier_too(self):
        ran = []

        class Barred(StateActor):
            def is_barrier_call(self, message):
                return True

            @on(str)
            async def wait(self, message):
                self.later(lambda: self.later(lambda: ran.append(self.address)))
                await sleep(10)
                ran.append("end")

        with TestSystem() as system:
            address = system.build_actor(Barred)
            address.notice("go")
            system.run()
            assert ran == [address]
            system.advance(10)
        assert ran == [address, "end"]

    def test_what_is_no_function_is_refused_at_the_call(self):
        errors = []

        class Io(StateActor):
            def resume_notice(self, stack):
                try:
                    self.later("not a function")
                except TypeError as error:
                    errors.append(str(error))
                return stack.return_()

        with TestSystem() as system:
            system.build_actor(Io).notice("go")
            system.run()
        assert errors == ["later() takes a function to call, not 'not a function'"]
