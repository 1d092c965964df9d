"""An error that several askers get is a copy for each: nobody's traceback is anybody else's."""

import gc
import threading
import weakref

import pytest

from otavia_ft import (
    ActorStopped,
    Ask,
    AskFailed,
    AskTimeout,
    FutureState,
    OtaviaError,
    StateActor,
    Terminated,
    on,
    sleep,
)
from otavia_ft.errors import fresh


class Go:
    pass


class Silly(Ask[None]):
    pass


class Awkward(ValueError):
    """Its constructor takes other arguments than those that it hands on."""

    __slots__ = ("slot",)

    def __init__(self, code, *, why):
        super().__init__(f"code {code}")
        self.code = code
        self.why = why
        self.slot = "slot"


class Waits(StateActor):
    @on(object)
    async def wait(self, message):
        await sleep(100)


class Batch(StateActor):
    batchable = True

    def resume_batch_ask(self, stack):
        raise Awkward(7, why="as told")


class Asker(StateActor):
    """Keeps the errors that its asks raise, unless it is told to forget them."""

    def __init__(self, target, errors=None):
        self.target = target
        self.errors = errors

    @on(Go)
    async def go(self, message):
        try:
            await self.target.ask(Silly())
        except OtaviaError as error:
            if self.errors is not None:
                self.errors.append(error)


def hold(stack):
    """A state that waits for something that never comes."""
    state = FutureState()
    stack.house.attach(stack, state.future)
    return state


def depth(error):
    """How many entries its traceback has."""
    entry, entries = error.__traceback__, 0
    while entry is not None:
        entry, entries = entry.tb_next, entries + 1
    return entries


def raised_in_turn(errors, times=3):
    """Raise each so many times; the depths of the tracebacks that come of it."""
    for _ in range(times):
        for error in errors:
            try:
                raise error
            except BaseException:
                pass
    return [depth(error) for error in errors]


class TestEachAskerGetsACopy:
    def ask_and_stop_actor(self, system):
        address = system.build_actor(Waits)
        futures = [system.ask(address, n) for n in range(3)]
        system.run()
        address.stop()
        return futures

    def ask_a_stopped_actor(self, system):
        address = system.build_actor(Waits)
        address.stop()
        system.run()
        return [system.ask(address, n) for n in range(3)]

    def ask_a_batch(self, system):
        address = system.build_actor(Batch)
        return [system.ask(address, n) for n in range(3)]

    def ask_a_batch_that_stops(self, system):
        class Held(StateActor):
            batchable = True

            def resume_batch_ask(self, stack):
                return stack.suspend(hold(stack))

        address = system.build_actor(Held)
        futures = [system.ask(address, n) for n in range(3)]
        system.run()
        address.stop()
        return futures

    def ask_and_stash(self, system):
        class Stashes(StateActor):
            @on(object)
            def stash_it(self, message):
                self.stash()

        address = system.build_actor(Stashes)
        futures = [system.ask(address, n) for n in range(3)]
        system.run()
        address.stop()
        return futures

    def ask_an_actor_that_fails_to_start(self, system):
        class Fails(StateActor):
            def pre_start(self):
                raise Awkward(7, why="as told")

        address = system.build_actor(Fails)
        return [system.ask(address, n) for n in range(3)]

    @pytest.mark.parametrize(
        "way",
        [
            ask_and_stop_actor,
            ask_a_stopped_actor,
            ask_a_batch,
            ask_a_batch_that_stops,
            ask_and_stash,
            ask_an_actor_that_fails_to_start,
        ],
        ids=lambda way: way.__name__,
    )
    def test_of_the_error_and_of_its_causes(self, system, way):
        futures = way(self, system)
        system.run()
        errors = [future.exception(0) for future in futures]
        assert len({id(error) for error in errors}) == 3
        assert len({(type(error), str(error)) for error in errors}) == 1
        assert raised_in_turn(errors) == [3] * 3
        causes = [error.__cause__ for error in errors if error.__cause__ is not None]
        assert len({id(cause) for cause in causes}) == len(causes)
        before = [depth(cause) for cause in causes]
        assert raised_in_turn(causes) == [entries + 3 for entries in before]

    def test_when_the_system_stops(self, make_test_system):
        system = make_test_system()
        address = system.build_actor(Waits)
        futures = [system.ask(address, n) for n in range(3)]
        system.stop()
        errors = [future.exception(0) for future in futures]
        assert raised_in_turn(errors) == [3] * 3

    def test_of_several_asks_of_one_batch(self, system):
        errors = []

        class AsksTwice(StateActor):
            def __init__(self, target):
                self.target = target

            @on(Go)
            async def go(self, message):
                for future in [self.target.ask(1), self.target.ask(2)]:
                    try:
                        await future
                    except AskFailed as error:
                        errors.append(error)

        address = system.build_actor(AsksTwice, system.build_actor(Batch))
        address.notice(Go())
        system.run()
        assert errors[0] is not errors[1]
        assert errors[0].cause is errors[0].__cause__
        assert errors[0].cause is not errors[1].cause

    def test_of_an_error_that_a_user_throws_at_many(self, system, probe):
        errors = []
        askers = [system.build_actor(Asker, probe.address, errors) for _ in range(2)]
        error = AskTimeout("the same for all")
        for asker in askers:
            asker.notice(Go())
            system.run()
            probe.expect_ask()
            asker.throw(error, probe._next_ask.ask_id)
        system.run()
        assert [str(each) for each in errors] == ["the same for all"] * 2
        assert len({id(each) for each in [error, *errors]}) == 3

    def test_a_watcher_gets_one_too(self, system):
        reasons = []

        class Watcher(StateActor):
            def __init__(self, target):
                self.target = target

            def after_mount(self):
                self.watch(self.target)

            @on(Terminated)
            def terminated(self, message):
                reasons.append(message.reason)

        target = system.build_actor(Waits)
        watchers = [system.build_actor(Watcher, target) for _ in range(2)]
        system.run()
        target.stop()
        system.run()
        watchers.append(system.build_actor(Watcher, target))
        system.run()
        assert len({id(reason) for reason in [target.house.stop_reason, *reasons]}) == 4

    def test_a_single_asker_gets_the_original_cause(self, system):
        cause = Awkward(7, why="as told")

        class Raises(StateActor):
            @on(object)
            def raise_it(self, message):
                raise cause

        future = system.ask(system.build_actor(Raises), 1)
        system.run()
        assert future.exception(0).cause is cause


class TestNothingIsKept:
    def test_the_reason_of_a_stop_is_raised_by_no_asker(self, system):
        dead = system.build_actor(Waits)
        dead.stop()
        system.run()
        asker = system.build_actor(Asker, dead)
        for _ in range(100):
            asker.notice(Go())
            system.run()
        assert dead.house.stop_reason.__traceback__ is None

    def test_an_asker_of_a_stopped_actor_is_freed(self, system):
        dead = system.build_actor(Waits)
        dead.stop()
        asker = system.build_actor(Asker, dead)
        asker.notice(Go())
        system.run()
        gone = weakref.ref(asker.house)
        del asker
        gc.collect()
        assert gone() is None

    def test_no_thread_ties_the_traceback_of_anothers_error_into_a_ring(self, make_real_system):
        """Whoever printed such an error would print for ever."""
        system = make_real_system(workers=1)
        dead = system.build_actor(Waits)
        dead.stop()
        futures = [[system.ask(dead, n) for n in range(500)] for _ in range(2)]
        begun = threading.Barrier(2)

        def reap(mine):
            begun.wait()
            for future in mine:
                with pytest.raises(ActorStopped):
                    future.result(20)

        threads = [threading.Thread(target=reap, args=(mine,)) for mine in futures]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert dead.house.stop_reason.__traceback__ is None


class TestFresh:
    @pytest.mark.parametrize(
        "error",
        [
            Awkward(7, why="as told"),
            FileNotFoundError(2, "no such file", "name"),
            OSError(1, "not permitted"),
            UnicodeDecodeError("utf-8", b"abc", 0, 1, "no reason"),
            SyntaxError("bad", ("file", 1, 2, "text", 1, 3)),
            ImportError("no module", name="name", path="path"),
            SystemExit(3),
            StopIteration(4),
            KeyError("key"),
            ExceptionGroup("several", [ValueError(1), KeyError(2)]),
            AskFailed(Awkward(7, why="as told"), "whom"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_a_copy_has_type_arguments_attributes_and_text(self, error):
        error.add_note("a note")
        copy = fresh(error)
        assert copy is not error
        assert type(copy) is type(error)
        assert (copy.args, str(copy), repr(copy)) == (error.args, str(error), repr(error))
        fields = ("code", "why", "slot", "errno", "strerror", "filename", "object", "reason")
        fields += ("lineno", "name", "path", "value", "exceptions", "asked")
        for name in fields:
            assert getattr(copy, name, None) == getattr(error, name, None), name
        copy.add_note("another")
        assert error.__notes__ == ["a note"]

    def test_the_copy_of_a_cause_says_where_it_was_raised(self):
        try:
            raise Awkward(7, why="as told")
        except Awkward as raised:
            error = AskFailed(raised, "whom")
        copy = fresh(error)
        assert copy.__traceback__ is None
        assert copy.cause.__traceback__ is error.cause.__traceback__ is not None

    def test_causes_in_a_ring_are_copied_once(self):
        first, second = OtaviaError(1), OtaviaError(2)
        first.__cause__, second.__cause__ = second, first
        copy = fresh(first)
        assert copy.__cause__.__cause__ is copy

    def test_an_error_that_resists_is_described(self):
        class Resists(OtaviaError):
            def __getattribute__(self, name):
                raise SystemExit(name)

        copy = fresh(Resists("what it says"))
        assert type(copy) is OtaviaError
        assert str(copy) == "Resists: what it says"
