"""A barrier: while a transfer waits for its answers, no other message of the bank is handled."""

from otavia_ft import ActorSystem, Address, Ask, StateActor, gather, on


class Change(Ask[int]):
    def __init__(self, amount: int) -> None:
        self.amount = amount


class Transfer(Ask[bool]):
    def __init__(self, amount: int) -> None:
        self.amount = amount


class Account(StateActor):
    def __init__(self) -> None:
        self.balance = 100

    @on(Change)
    def change(self, message: Change) -> int:
        self.balance += message.amount
        return self.balance


class Bank(StateActor):
    def __init__(self, giver: Address, taker: Address) -> None:
        self.giver, self.taker = giver, taker

    def is_barrier_call(self, message: object) -> bool:
        return isinstance(message, Transfer)

    @on(Transfer)
    async def transfer(self, message: Transfer) -> bool:
        if await self.giver.ask(Change(0)) < message.amount:
            return False  # nobody can have changed the answer meanwhile: the barrier is up
        await gather(
            self.giver.ask(Change(-message.amount)), self.taker.ask(Change(message.amount))
        )
        return True


if __name__ == "__main__":
    with ActorSystem() as system:
        giver, taker = system.build_actor(Account), system.build_actor(Account)
        bank = system.build_actor(Bank, giver, taker)
        asked = [system.ask(bank, Transfer(30), timeout=5) for _ in range(5)]
        print([each.result() for each in asked], system.ask(taker, Change(0), timeout=5).result())
