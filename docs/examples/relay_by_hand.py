"""Asking in two steps, by hand: the stack says where to go on."""

from otavia_ft import ActorSystem, Address, Ask, AskStack, FutureState, StackYield, StateActor


class Double(Ask[int]):
    def __init__(self, n: int) -> None:
        self.n = n


class Doubler(StateActor):
    def resume_ask(self, stack: AskStack) -> StackYield:
        return stack.return_(2 * stack.ask.n)


class Quadrupler(StateActor):
    """Asks the doubler twice; between two steps it is free for other messages."""

    def __init__(self, doubler: Address) -> None:
        self.doubler = doubler

    def resume_ask(self, stack: AskStack) -> StackYield:
        state = stack.state
        if state is FutureState.START:
            return self.ask(stack, stack.ask.n, "once")
        if stack.attach == "once":
            return self.ask(stack, state.future.get_now(), "twice")
        return stack.return_(state.future.get_now())

    def ask(self, stack: AskStack, n: int, step: str) -> StackYield:
        stack.attach = step
        state = FutureState[int]()
        self.doubler.ask(Double(n), state.future)
        return stack.suspend(state)


if __name__ == "__main__":
    with ActorSystem() as system:
        quadrupler = system.build_actor(Quadrupler, system.build_actor(Doubler))
        print(system.ask(quadrupler, Double(10), timeout=5).result())
