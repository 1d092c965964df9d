"""The lanes: what the native one must refuse, and what neither may keep."""

import gc

import pytest

from otavia_ft import ActorAddress, Ask, AskFailed, MessageFuture, StackError, StateActor, on
from otavia_ft.context import Context, running_stack
from otavia_ft.lane import NATIVE_LANE, HouseBase, HouseQueue, lane_face
from otavia_ft.message import Envelope
from otavia_ft.stack.table import FutureDispatcher
from otavia_ft.testkit import TestSystem

LocalRing = lane_face.get("LocalRing")
native = pytest.mark.skipif(not NATIVE_LANE, reason="these checks stand between Python and C")


class Get(Ask[int]):
    pass


class Run(Ask[int]):
    pass


class Server(StateActor):
    @on(Get)
    def get(self, message: Get) -> int:
        return 1


@native
class TestMisuse:
    def test_an_address_is_made_of_a_house(self):
        with pytest.raises(TypeError, match="HouseBase"):
            ActorAddress(5)

    def test_a_house_without_an_actor_has_no_address_and_takes_no_mail(self):
        house = HouseBase.__new__(HouseBase)
        for use in (
            lambda: ActorAddress(house),
            lambda: house.notice(1),
            lambda: house.answer(1, 2),
            lambda: house.ask(5),
        ):
            with pytest.raises((RuntimeError, TypeError), match=r"no actor|takes an Envelope"):
                use()

    def test_an_address_without_a_house_says_so(self):
        empty = ActorAddress.__new__(ActorAddress)
        for use in (empty.notice, empty.ask):
            with pytest.raises(RuntimeError, match="leads to no actor"):
                use(1)

    def test_an_actor_may_send_from_its_end_in_the_collector(self):
        """Of a cycle that is collected some addresses are empty before others are deleted."""
        errors = []

        class Clinging(StateActor):
            other = None

            def __del__(self):
                try:
                    self.other.notice("good-bye")
                except RuntimeError as error:
                    errors.append(error)

        with TestSystem() as system:
            first, second = Clinging(), Clinging()
            addresses = [system.build_actor(lambda one=one: one) for one in (first, second)]
            system.run()
            first.other, second.other = addresses[1], addresses[0]
            del first, second, addresses
            gc.collect()
            gc.collect()
        assert all("leads to no actor" in str(error) for error in errors)

    def test_a_turn_wants_a_context(self):
        with TestSystem() as system:
            house = system.build_actor(Server).house
            system.run()
            with pytest.raises(TypeError, match="run_turn takes a context, not 'x'"):
                house.run_turn("x")
            with pytest.raises(TypeError, match=r"work takes \(context, left\)"):
                house.work("x", 1)
            for method in (house.scheduler.run_state_actors, house.scheduler.sleep):
                with pytest.raises(TypeError, match=r"takes \(context, nanoseconds or None\)"):
                    method("x", None)
            with pytest.raises(AttributeError):
                house.scheduler = None
            with pytest.raises(AttributeError):
                house.plan = None

    def test_the_table_of_futures_holds_promises(self):
        with pytest.raises(TypeError, match="the table holds promises, not 7"):
            FutureDispatcher().push(7)

    def test_an_ask_takes_no_more_than_it_knows(self):
        asked = []

        class Asker(StateActor):
            @on(Run)
            def run(self, message: Run) -> int:
                for arguments, options in (((1, None, 3), {}), ((1,), {"until": 2})):
                    with pytest.raises(TypeError):
                        self.server.ask(*arguments, **options)
                    asked.append(arguments)
                return len(asked)

        with TestSystem() as system:
            asker = Asker()
            asker.server = system.build_actor(Server)
            assert system.ask_now(system.build_actor(lambda: asker), Run()) == 2


def test_a_handler_that_awaits_often_keeps_no_answer_of_before():
    """Its stack links what has come until it is suspended again, and no longer."""
    living = []

    class Asker(StateActor):
        def __init__(self, server):
            self.server = server

        @on(Run)
        async def run(self, message: Run) -> int:
            total = 0
            for _ in range(300):
                total += await self.server.ask(Get())
            living.append(sum(isinstance(thing, MessageFuture) for thing in gc.get_objects()))
            return total

    with TestSystem() as system:
        asker = system.build_actor(Asker, system.build_actor(Server))
        gc.collect()
        gc.disable()
        try:
            before = sum(isinstance(thing, MessageFuture) for thing in gc.get_objects())
            assert system.ask_now(asker, Run()) == 300
        finally:
            gc.enable()
    assert living[0] - before <= 2


def test_a_message_that_is_a_tuple_arrives_whole():
    got = []

    class Taker(StateActor):
        mailbox_capacity = 5

        @on(tuple)
        def take(self, message: tuple) -> None:
            got.append(message)

    with TestSystem() as system:
        system.build_actor(Taker).notice((1, 2))
        system.run()
    assert got == [(1, 2)]


def test_a_future_that_failed_raises_where_it_is_awaited_and_again_when_read():
    seen = []

    class Broken(StateActor):
        @on(Get)
        def get(self, message: Get) -> int:
            raise KeyError("no")

    class Asker(StateActor):
        def __init__(self, server):
            self.server = server

        @on(Run)
        async def run(self, message: Run) -> int:
            future = self.server.ask(Get())
            with pytest.raises(StackError):
                future.get_now()
            try:
                await future
            except AskFailed as error:
                seen.append(type(error.cause))
            with pytest.raises(AskFailed):
                await future
            return 5

    with TestSystem() as system:
        asker = system.build_actor(Asker, system.build_actor(Broken))
        assert system.ask_now(asker, Run()) == 5
    assert seen == [KeyError]


@native
class TestWhatCFollows:
    """Each of these once made C follow a pointer that was not what it took it for."""

    def test_what_is_no_reply_and_no_ask_is_refused_and_the_actor_lives_on(self, caplog):
        with TestSystem() as system:
            server = system.build_actor(Server)
            system.run()
            for post, what in ((server.house.post_reply, 5), (server.house.post_ask, "x")):
                if post(what):
                    server.house.scheduler.ready(server.house)
                system.run()
            refusals = [str(record.exc_info[1]) for record in caplog.records]
            assert "a reply is a pair" in refusals[0]
            assert "comes in an Envelope" in refusals[1]
            answer = system.ask(server, Get())
            system.run()
            assert answer.result() == 1
        caplog.clear()

    def test_an_envelope_from_a_house_without_an_actor_is_refused(self):
        with TestSystem() as system:
            server = system.build_actor(Server)
            system.run()
            server.house.ask(Envelope(HouseBase.__new__(HouseBase), 1, Get()))
            system.run()
            answer = system.ask(server, Get())
            system.run()
            assert answer.result() == 1

    def test_a_house_is_queued_once(self):
        with TestSystem() as system:
            queue = HouseQueue(1)
            houses = [system.build_actor(Server).house for _ in range(2)]
            system.run()
            for house in houses:
                queue.enqueue(house)
            with pytest.raises(RuntimeError, match="in a queue already"):
                queue.enqueue(houses[0])
            assert [queue.dequeue(), queue.dequeue(), queue.dequeue()] == [*houses, None]
            queue.enqueue(houses[0])
            assert len(queue) == 1
            queue.dequeue()

    def test_only_the_runner_works(self):
        with TestSystem() as system:
            server = system.build_actor(Server)
            system.run()
            with pytest.raises(RuntimeError, match="the thread that runs the house"):
                server.house.work(Context(None, 8), 8)

    def test_rings_in_rings_are_freed_without_recursion(self):
        ring = None
        for _ in range(200_000):
            outer = LocalRing(0, 1)
            outer.push(ring)
            ring = outer
        del ring, outer


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
def test_a_turn_inside_a_handler_leaves_the_handlers_own_message_alone(dispatcher):
    class Inner(StateActor):
        @on(Get)
        def get(self, message: Get) -> int:
            return 5

    class Outer(StateActor):
        @on(Run)
        def run(self, message: Run) -> int:
            del message
            inner.notice(Get())
            system.run()
            return 2

    class Caller(StateActor):
        @on(Run)
        async def run(self, message: Run) -> int:
            return await outer.ask(Run())

    with TestSystem(dispatcher=dispatcher) as system:
        inner = system.build_actor(Inner)
        outer = system.build_actor(Outer)
        caller = system.build_actor(Caller)
        system.run()
        answer = system.ask(caller, Run())
        system.run()
        assert answer.result() == 2


def test_a_coroutine_that_has_answered_by_hand_answers_once():
    class Twice(StateActor):
        @on(Run)
        async def run(self, message: Run) -> int:
            await server.ask(Get())
            running_stack("this test").return_(1)
            return 2

    class Caller(StateActor):
        @on(Run)
        async def run(self, message: Run) -> int:
            return await twice.ask(Run())

    with TestSystem() as system:
        server, twice = system.build_actor(Server), system.build_actor(Twice)
        caller = system.build_actor(Caller)
        system.run()
        answer = system.ask(caller, Run())
        system.run()
        assert answer.result() == 1
        assert system.dead_letters.total == 0
