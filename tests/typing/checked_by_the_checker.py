"""What a type checker knows of the public face. Never run; `test_typing.py` has it checked."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, assert_type, cast

from otavia_ft import (
    ActorAddress,
    ActorSystem,
    Address,
    Ask,
    AskStack,
    FuturesState,
    FutureState,
    MainActor,
    MessageFuture,
    Notice,
    NoticeStack,
    Reply,
    StackState,
    StackYield,
    StateActor,
    on,
)
from otavia_ft.testkit import TestProbe, TestSystem


@dataclass(frozen=True, slots=True)
class Pong(Reply):
    n: int


@dataclass(frozen=True, slots=True)
class Ping(Ask[Pong]):
    n: int


class Count(Ask[int]):
    pass


class Hello(Notice):
    pass


class Everyday(StateActor):
    def __init__(self, target: ActorAddress) -> None:
        self.target = target

    @on(Hello)
    def hello(self, message: Hello) -> None:
        self.target.notice(message)

    @on(Ping)
    async def ping(self, message: Ping) -> Pong:
        assert_type(self.target.ask(Ping(1)), MessageFuture[Pong])
        assert_type(await self.target.ask(Ping(1)), Pong)
        assert_type(await self.target.ask(Count(), timeout=5), int)
        assert_type(await self.target.ask("anything"), Any)
        assert_type(self.address, ActorAddress)
        assert_type(self.system, ActorSystem)
        return Pong(message.n)


class ByHand(StateActor):
    def __init__(self, target: Address) -> None:
        self.target = target

    def resume_notice(self, stack: NoticeStack) -> StackYield:
        return stack.return_()

    def resume_ask(self, stack: AskStack) -> StackYield:
        if stack.state is StackState.START:
            first = FutureState[Pong]()
            assert_type(self.target.ask(Ping(1), first.future), MessageFuture[Pong])
            assert_type(FuturesState[int](2).futures, list[MessageFuture[int]])
            return stack.suspend(first)
        # A stack does not know the type of its state; whoever suspended it does.
        state = cast(FutureState[Pong], stack.state)
        assert_type(state.future.get_now(), Pong)
        return stack.return_(state.future.get_now())


class Main(MainActor):
    @on(MainActor.Args)
    def main(self, message: MainActor.Args) -> None:
        assert_type(message.args, tuple[Any, ...])


def outside(system: ActorSystem) -> None:
    one = system.build_actor(Main)
    assert_type(one, ActorAddress)
    assert_type(system.build_actor(ByHand, one, num=4), Address)
    assert_type(system.ask(one, Ping(1)), Future[Pong])
    assert_type(system.ask(one, Count(), timeout=1).result(), int)
    assert_type(system.ask(one, object()), Future[Any])


def testing(system: TestSystem, probe: TestProbe) -> None:
    assert_type(system.ask_now(probe.address, Ping(1)), Pong)
    assert_type(probe.expect_type(Hello), Hello)
