"""AutoCleanable: what an actor holds is cleaned up when the actor is gone, however it went."""

import gc
import threading
import weakref
from functools import partial

import pytest

from otavia_ft import ActorAddress, ActorStopped, AutoCleanable, StateActor


class Plain(StateActor):
    def resume_notice(self, stack):
        return stack.return_()


class Holder(AutoCleanable, StateActor):
    """Holds a resource; its cleaner writes down what it did and where."""

    def __init__(self, log):
        self.log = log

    def resume_ask(self, stack):
        return stack.return_("mounted")

    def cleaner(self):
        log = self.log
        return lambda: log.append(threading.current_thread().name)


class TestAutoCleanable:
    def test_the_cleaner_runs_after_the_last_address_is_gone(self, system):
        address = system.build_actor(Holder, log := [])
        system.run()
        another = ActorAddress(address.house)
        del address
        gc.collect()
        system.run()
        assert log == []
        del another
        gc.collect()
        system.run()
        assert len(log) == 1

    def test_a_message_on_its_way_keeps_the_actor(self, system):
        log = []

        class Counting(Holder):
            def resume_notice(self, stack):
                self.log.append("handled")
                return stack.return_()

        address = system.build_actor(Counting, log)
        system.run()
        address.notice(1)
        del address
        gc.collect()
        assert log == []
        system.run()
        gc.collect()
        system.run()
        assert log[0] == "handled"
        assert len(log) == 2

    def test_the_cleaner_runs_on_the_owners_thread(self, make_real_system, eventually):
        system = make_real_system(workers=2)
        address = system.build_actor(Holder, log := [])
        owner = address.house.scheduler._thread
        assert system.ask(address, "?").result(20) == "mounted"
        del address
        eventually(lambda: gc.collect() is not None and log)
        assert log == [owner.thread.name]

    def test_the_cleaner_runs_once_after_a_stop(self, system):
        address = system.build_actor(Holder, log := [])
        system.run()
        address.stop()
        system.run()
        assert len(log) == 1
        del address
        gc.collect()
        system.run()
        assert len(log) == 1

    def test_the_cleaner_runs_when_the_system_stops(self, make_test_system):
        system = make_test_system()
        address = system.build_actor(Holder, log := [])
        system.run()
        system.stop()
        assert len(log) == 1
        assert address.house.actor is None

    @pytest.mark.parametrize(
        "how", ["bound method", "closure", "address in a closure", "partial", "default argument"]
    )
    def test_a_cleaner_that_holds_its_actor_is_refused_and_reported(self, system, caplog, how):
        class Clings(AutoCleanable, StateActor):
            def clean(self):
                pass

            def cleaner(self):
                me, address = self, self.address
                return {
                    "bound method": self.clean,
                    "closure": lambda: me,
                    "address in a closure": lambda: address,
                    "partial": partial(print, self),
                    "default argument": lambda held=self: held,
                }[how]

        address = system.build_actor(Clings)
        future = system.ask(address, "?")
        system.run()
        error = future.exception(0)
        assert isinstance(error, ActorStopped)
        assert isinstance(error.__cause__, TypeError)
        assert "would never go away" in str(error)
        assert "would never go away" in caplog.text

    def test_a_cleaner_that_is_no_function_is_refused(self, system):
        class Wrong(AutoCleanable, StateActor):
            def cleaner(self):
                return "not a function"

        future = system.ask(system.build_actor(Wrong), "?")
        system.run()
        assert "must return a function" in str(future.exception(0))

    def test_an_actor_without_anything_to_clean_goes_with_its_address(self, system):
        address = system.build_actor(Plain)
        address.notice(1)
        system.run()
        gone = weakref.ref(address.house.actor)
        del address
        gc.collect()
        assert gone() is None
