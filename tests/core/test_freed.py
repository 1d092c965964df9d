"""An actor goes with its last address: by reference counting alone, whatever it has done before."""

import gc
import logging
import weakref

import pytest

from otavia_ft import (
    AskFailed,
    FuturesState,
    FutureState,
    StackState,
    StateActor,
    first_of,
    gather,
    on,
    sleep,
)


class Echo(StateActor):
    """Gives back what it is asked; raises if that is below zero."""

    @on(int)
    def echo(self, message):
        if message < 0:
            raise ValueError(message)
        return message


class Style(StateActor):
    """Base of all styles of work: each asks the actor `echo`."""

    echo = None


class Plain(Style):
    @on(int)
    def handle(self, message):
        return message


class Raises(Style):
    @on(int)
    def handle(self, message):
        raise ValueError(message)


class DoesNotWait(Style):
    @on(int)
    def handle(self, message):
        self.echo.ask(message)


class KnowsItself(Style):
    @on(int)
    async def handle(self, message):
        address = self.address
        await sleep(1)
        return repr(address)


class Awaits(Style):
    @on(int)
    async def handle(self, message):
        return await self.echo.ask(message)


class AwaitsInTime(Style):
    @on(int)
    async def handle(self, message):
        return await self.echo.ask(message, timeout=1000)


class AwaitsTooLong(Style):
    @on(int)
    async def handle(self, message):
        return await self.address.ask("nobody answers", timeout=1)

    @on(str)
    async def never(self, message):
        await sleep(1.5)


class Sleeps(Style):
    @on(int)
    async def handle(self, message):
        await sleep(1)


class CatchesAnError(Style):
    @on(int)
    async def handle(self, message):
        try:
            await self.echo.ask(-1)
        except AskFailed:
            return message


class LetsAnErrorThrough(Style):
    @on(int)
    async def handle(self, message):
        await self.echo.ask(-1)


class Gathers(Style):
    @on(int)
    async def handle(self, message):
        return await gather(*[self.echo.ask(n) for n in range(3)])


class GathersAnError(Style):
    @on(int)
    async def handle(self, message):
        await gather(self.echo.ask(1), self.echo.ask(-1), self.echo.ask(2))


class TakesTheFirst(Style):
    @on(int)
    async def handle(self, message):
        return await first_of(sleep(1000), self.echo.ask(1))


class ByHand(Style):
    def resume_ask(self, stack):
        if stack.state is StackState.START:
            state = FutureState()
            self.echo.ask(stack.ask, state.future)
            return stack.suspend(state)
        return stack.return_(stack.state.future.get_now())


class ByHandForAll(Style):
    def resume_ask(self, stack):
        if stack.state is StackState.START:
            state = FuturesState(3)
            for future in state.futures:
                self.echo.ask(stack.ask, future)
            return stack.suspend(state)
        return stack.return_(stack.state.futures[0].get_now())


class ByHandAnError(Style):
    def resume_ask(self, stack):
        if stack.state is StackState.START:
            state = FutureState()
            self.echo.ask(-1, state.future)
            return stack.suspend(state)
        return stack.return_(stack.state.future.get_now())


class BehindABarrier(Awaits):
    serial = True


class InBatches(Style):
    batchable = True

    def resume_batch_ask(self, stack):
        return stack.return_("reply")


class Stashes(Style):
    stashed = False

    @on(int)
    def handle(self, message):
        if not self.stashed:
            self.stashed = True
            self.stash()
            self.unstash_all()
        return message


class HasAChild(Style):
    @on(int)
    def handle(self, message):
        self.build_child(Echo)


class Watches(Style):
    @on(int)
    def handle(self, message):
        self.watch(self.echo)


class StopsItself(Style):
    @on(int)
    async def handle(self, message):
        self.stop()
        await sleep(1000)


def all_styles():
    found = list(Style.__subclasses__())
    for style in found:
        found.extend(style.__subclasses__())
    return found


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
@pytest.mark.parametrize("style", all_styles(), ids=lambda style: style.__name__)
def test_it_is_freed_without_the_garbage_collector(make_test_system, caplog, style, dispatcher):
    caplog.set_level(logging.CRITICAL + 1)  # caplog keeps the errors that it sees
    system = make_test_system(dispatcher=dispatcher)
    echo = system.build_actor(Echo)
    gc.collect()
    gc.disable()
    try:
        address = system.build_actor(style)
        address.house.actor.echo = echo
        future = system.ask(address, 5)
        system.advance(2)
        assert future.done()
        gone = weakref.ref(address.house)
        del future, address
        system.run()
        assert gone() is None
    finally:
        gc.enable()
