"""The same with `async def`: the coroutine's frame remembers where to go on."""

from otavia_ft import ActorSystem, Address, Ask, StateActor, gather, on, sleep


class Double(Ask[int]):
    def __init__(self, n: int) -> None:
        self.n = n


class Doubler(StateActor):
    @on(Double)
    def double(self, message: Double) -> int:
        return 2 * message.n


class Quadrupler(StateActor):
    def __init__(self, doubler: Address) -> None:
        self.doubler = doubler

    @on(Double)
    async def quadruple(self, message: Double) -> int:
        once = await self.doubler.ask(Double(message.n))
        await sleep(0.01)  # suspends this message, not the actor and not the thread
        twice, again = await gather(
            self.doubler.ask(Double(once)), self.doubler.ask(Double(once), timeout=5)
        )
        assert twice == again
        return twice


if __name__ == "__main__":
    with ActorSystem() as system:
        quadrupler = system.build_actor(Quadrupler, system.build_actor(Doubler))
        print(system.ask(quadrupler, Double(10), timeout=5).result())
