"""Asks from outside end exactly once: reply, error, timeout, cancellation, stop."""

import gc
import threading
import weakref
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass
from typing import Any

import pytest

from otavia_ft import (
    ActorStopped,
    Ask,
    AskFailed,
    AskTimeout,
    OutsideActor,
    StackError,
    StateActor,
    SystemStopped,
    on,
    sleep,
)
from otavia_ft.doors import me
from otavia_ft.testkit import TestProbe


@dataclass(frozen=True, slots=True)
class Get(Ask[str]):
    wait: float = 0.0
    fail: bool = False


class Answers(StateActor):
    @on(Get)
    async def get(self, message):
        await sleep(message.wait)
        if message.fail:
            raise KeyError("no such thing")
        return "reply"


@pytest.fixture
def answers(system):
    return system.build_actor(Answers)


class TestEnds:
    def test_it_is_a_concurrent_future_that_ends_with_the_reply(self, system, answers):
        future = system.ask(answers, Get())
        assert isinstance(future, Future)
        assert not future.done()
        system.run()
        assert future.result(0) == "reply"

    def test_it_ends_with_the_error_of_the_handler(self, system, answers):
        future = system.ask(answers, Get(fail=True))
        system.run()
        with pytest.raises(AskFailed) as caught:
            future.result(0)
        assert isinstance(caught.value.cause, KeyError)

    def test_it_ends_with_the_timeout(self, system, answers):
        future = system.ask(answers, Get(wait=10), timeout=5)
        system.advance(4.9)
        assert not future.done()
        system.advance(0.2)
        with pytest.raises(AskTimeout, match="within 5 s"):
            future.result(0)

    @pytest.mark.parametrize("end", ["timeout", "cancel"])
    @pytest.mark.parametrize("fail", [False, True], ids=["reply", "error"])
    def test_a_reply_after_the_end_is_a_dead_letter(self, system, answers, end, fail):
        future = system.ask(answers, Get(wait=10, fail=fail), timeout=5)
        system.run()
        if end == "cancel":
            future.cancel()
        system.advance(20)
        assert future.cancelled() or isinstance(future.exception(0), AskTimeout)
        assert system.dead_letters.total == 1
        letter = system.dead_letters.latest[-1]
        assert isinstance(letter.message, AskFailed) if fail else letter.message == "reply"
        assert letter.receiver == "an ask from outside"
        assert "nobody waits" in letter.reason

    def test_a_reply_in_time_cancels_the_timeout(self, system, answers):
        future = system.ask(answers, Get(), timeout=5)
        system.run()
        assert len(system.timer) == 0
        system.advance(10)
        assert future.result(0) == "reply"

    def test_it_ends_with_its_cancellation(self, system, answers):
        future = system.ask(answers, Get(wait=10), timeout=50)
        system.run()
        assert future.cancel()
        assert system.statistics().open_asks == 0
        with pytest.raises(CancelledError):
            future.result(0)
        system.advance(20)
        assert future.cancelled(), "the reply that comes later changes nothing"
        assert len(system.timer) == 0

    def test_it_cannot_be_cancelled_after_its_end(self, system, answers):
        future = system.ask(answers, Get())
        system.run()
        assert not future.cancel()
        assert future.result(0) == "reply"

    def test_it_ends_when_the_asked_actor_stops_with_the_ask_queued(self, system, answers):
        future = system.ask(answers, Get())
        answers.stop()
        system.run()
        assert isinstance(future.exception(0), ActorStopped)

    def test_it_ends_when_the_asked_actor_stops_with_its_handler_waiting(self, system, answers):
        future = system.ask(answers, Get(wait=10))
        system.run()
        answers.stop()
        system.run()
        assert isinstance(future.exception(0), ActorStopped)

    def test_it_ends_when_the_asked_actor_has_stopped_before(self, system, answers):
        answers.stop()
        system.run()
        future = system.ask(answers, Get())
        system.run()
        assert isinstance(future.exception(0), ActorStopped)

    def test_it_ends_when_the_system_stops_with_its_handler_waiting(self, make_test_system):
        system = make_test_system()
        future = system.ask(system.build_actor(Answers), Get(wait=10))
        system.run()
        system.stop()
        assert isinstance(future.exception(0), SystemStopped)

    def test_it_ends_when_the_system_stops_and_nobody_would_ever_answer(self, make_test_system):
        system = make_test_system()
        probe = TestProbe(system)
        future = system.ask(probe.address, Get())
        system.run()
        assert not future.done()
        system.stop()
        assert isinstance(future.exception(0), SystemStopped)

    def test_it_ends_at_once_when_the_system_has_stopped_before(self, make_test_system):
        system = make_test_system()
        address = system.build_actor(Answers)
        system.stop()
        assert isinstance(system.ask(address, Get()).exception(0), SystemStopped)

    @pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
    def test_a_timeout_that_is_no_time_is_refused_and_leaves_no_open_ask(
        self, system, answers, timeout
    ):
        with pytest.raises(ValueError, match="timeout="):
            system.ask(answers, Get(), timeout=timeout)
        assert system.statistics().open_asks == 0

    def test_the_book_is_empty_after_all_kinds_of_ends(self, system, answers):
        system.ask(answers, Get())
        system.ask(answers, Get(fail=True))
        system.ask(answers, Get(wait=10), timeout=1)
        system.ask(answers, Get(wait=10)).cancel()
        system.ask(answers, Get(wait=2))
        assert system.statistics().open_asks == 4
        system.advance(20)
        assert system.statistics().open_asks == 0

    def test_it_may_be_asked_of_an_actor_of_another_system(self, make_test_system):
        here, there = make_test_system(name="here"), make_test_system(name="there")
        future = here.ask(there.build_actor(Answers), Get())
        there.run()
        assert future.result(0) == "reply"


class Plain(StateActor):
    @on(int)
    def echo(self, message):
        return message


class TestCallbacks:
    """A callback of the future runs inside the turn that ends the ask, but is no handler."""

    @pytest.mark.parametrize("actor", [Plain, Answers], ids=["plain", "async"])
    @pytest.mark.parametrize("act", ["ask", "sleep", "stash"])
    def test_one_that_asks_is_refused_and_no_other_ask_is_lost(self, system, probe, actor, act):
        acts = {
            "ask": lambda: probe.address.ask("?"),
            "sleep": lambda: sleep(1),
            "stash": lambda: address.house.actor.stash(),
        }
        refused = []

        def callback(future):
            try:
                acts[act]()
            except (OutsideActor, StackError) as error:
                refused.append(error)

        address = system.build_actor(actor)
        messages = [1, 2, 3] if actor is Plain else [Get(), Get(), Get()]
        futures = [system.ask(address, message) for message in messages]
        for future in futures:
            future.add_done_callback(callback)
        system.run()
        assert len(refused) == 3
        assert [future.result(0) for future in futures] == (
            messages if actor is Plain else ["reply"] * 3
        )
        assert system.manual.threads[0].context.stack is None
        assert system.ask_now(system.build_actor(Plain), 4) == 4

    def test_the_future_goes_with_its_last_holder(self, system):
        """By reference counting: nothing of the ask holds it after its end."""
        future = system.ask(system.build_actor(Plain), 1)
        system.run()
        gone = weakref.ref(future)
        gc.disable()
        try:
            del future
            assert gone() is None
        finally:
            gc.enable()

    def test_one_may_send_notices(self, system, probe):
        future = system.ask(system.build_actor(Plain), 1)
        future.add_done_callback(lambda future: probe.address.notice(future.result()))
        system.run()
        probe.expect(1)

    def test_every_ask_ends_on_real_threads_although_callbacks_ask(self, make_real_system):
        system = make_real_system(workers=1)
        asked, other = system.build_actor(Plain), system.build_actor(Plain)

        def callback(future):
            if me() is not None:  # on this thread if the answer came before the callback
                with pytest.raises(OutsideActor):
                    other.ask(1)

        futures = [system.ask(asked, n) for n in range(200)]
        for future in futures:
            future.add_done_callback(callback)
        assert [future.result(20) for future in futures] == list(range(200))


class TestRealThreads:
    def test_the_timeout_counts_real_time_when_the_handler_never_ends(self, make_real_system):
        system = make_real_system(workers=1)
        address = system.build_actor(Answers)
        future = system.ask(address, Get(wait=1000), timeout=0.05)
        assert isinstance(future.exception(20), AskTimeout)

    def test_all_asks_of_many_threads_end_while_the_system_stops(self, make_real_system):
        """Some are answered, some refused, some never handled; not one is left open."""
        system = make_real_system(workers=2)
        address = system.build_actor(Answers)
        begun = threading.Barrier(4)
        futures: list[Future[Any]] = []

        def client():
            begun.wait()
            for n in range(300):
                futures.append(system.ask(address, Get(wait=(n % 3) * 0.001)))

        clients = [threading.Thread(target=client) for _ in range(3)]
        for thread in clients:
            thread.start()
        begun.wait()
        system.stop(timeout=5)
        for thread in clients:
            thread.join()
        assert len(futures) == 900
        done, left = wait(futures, timeout=20)
        assert not left
        for future in done:
            error = future.exception()
            assert error is None or isinstance(error, (SystemStopped, ActorStopped))
        assert system.statistics().open_asks == 0
