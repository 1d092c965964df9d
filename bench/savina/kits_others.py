"""The contenders that have to be installed: Pykka and Thespian."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from time import process_time
from typing import Any

from savina.common import ACCOUNTS, PATIENCE, TELLERS, TIMER_ACTORS, Dice, expect, result
from savina.kits import (
    Completer,
    Kit,
    Run,
    blocking_ask_reply,
    blocking_bank,
    future_for,
    timers_of_threads,
)
from savina.latency import half_load
from savina.peers import Program, Spawn, Tell, ping_pong


class Pykka(Kit):
    def __init__(self) -> None:
        import pykka

        self._registry = pykka.ActorRegistry

        class Shell(pykka.ThreadingActor):
            use_daemon_thread = True

            def __init__(self, receive: Tell) -> None:
                super().__init__()
                self.on_receive = receive  # type: ignore[method-assign]

        self._shell = Shell

    def spawn(self, behaviour: Any) -> Tell:
        tell: Tell = self._shell.start(behaviour.receive).tell
        return tell

    def close(self) -> None:
        self._registry.stop_all()

    def extras(self) -> dict[str, Run]:
        return {
            "ask-reply": self._ask_reply,
            "ask-reply-await": self._ask_reply,
            "bank": self._bank,
            "latency": self._latency,
            "timers": lambda n: timers_of_threads(self, n),
        }

    def _ask_reply(self, n: int) -> dict[str, Any]:
        return blocking_ask_reply(Asking(self))(n)

    def _bank(self, n: int) -> dict[str, Any]:
        return blocking_bank(Asking(self))(n)

    def _latency(self, n: int) -> dict[str, Any]:
        tell = self.spawn(Completer())
        try:
            return half_load(n, lambda done: tell(future_for(done)))
        finally:
            self.close()


class Asking:
    """Pykka with its own ask: an actor answers with what its function returns."""

    def __init__(self, kit: Pykka) -> None:
        self._kit = kit
        self._refs: dict[Tell, Any] = {}

    def spawn(self, behaviour: Any) -> Tell:
        function: Callable[[Any], Any] = behaviour.function

        def receive(message: Any) -> Any:
            argument, reply = message
            value = function(argument)
            if reply is not None:
                reply(value)
            return value

        ref = self._kit._shell.start(receive)
        tell: Tell = ref.tell
        self._refs[tell] = ref
        return tell

    def ask(self, tell: Tell, message: Any) -> Any:
        return self._refs[tell].ask((message, None))

    def measure(self, program: Any, n: int) -> dict[str, Any]:
        return self._kit.measure(lambda spawn, n, finish: program(self.spawn, n, finish), n)


class Thespian(Kit):
    """Only `simpleSystemBase` runs in one process: all actors on the calling thread. The others
    start a process for each actor, which is another kind of system."""

    def __init__(self) -> None:
        from thespian.actors import Actor, ActorSystem

        self._system = ActorSystem("simpleSystemBase")
        self._running: list[Any] = []  # the actor whose handler runs: only it may send
        running = self._running

        class Shell(Actor):
            behaviour: Any = None

            def receiveMessage(self, message: Any, sender: Any) -> None:  # noqa: N802
                if self.behaviour is None:
                    self.behaviour = message
                    return
                running.append(self)
                try:
                    self.behaviour.receive(message)
                finally:
                    running.pop()

        self._shell = Shell

    def spawn(self, behaviour: Any) -> Tell:
        running, system = self._running, self._system
        creator = running[-1] if running else system
        address = creator.createActor(self._shell)

        def tell(message: Any) -> None:
            if running:
                running[-1].send(address, message)
            else:
                system.tell(address, message)

        tell(behaviour)
        return tell

    def close(self) -> None:
        self._system.shutdown()

    def extras(self) -> dict[str, Run]:
        """There is no waiting inside an actor: a reply is a message like any other."""
        return {
            "ask-reply": lambda n: self.measure(ping_pong, n),
            "ask-reply-await": lambda n: self.measure(ping_pong, n),
            "bank": lambda n: self.measure(bank_of_messages, n),
            "timers": self._timers,
        }

    def _timers(self, n: int) -> dict[str, Any]:
        from thespian.actors import Actor, WakeupMessage

        class Alarm(Actor):
            def receiveMessage(self, message: Any, sender: Any) -> None:  # noqa: N802
                if isinstance(message, WakeupMessage):
                    self.left -= 1
                    if not self.left:
                        self.send(self.asker, self.share)
                elif isinstance(message, tuple):
                    seed, self.share = message
                    self.left, self.asker, dice = self.share, sender, Dice(seed)
                    for _ in range(self.share):
                        self.wakeupAfter(datetime.timedelta(seconds=dice.delay()))

        share, system = max(1, n // TIMER_ACTORS), self._system
        try:
            alarms = [system.createActor(Alarm) for _ in range(TIMER_ACTORS)]
            began = process_time()
            for seed, alarm in enumerate(alarms):
                system.tell(alarm, (seed + 1, share))
            total = sum(system.listen(PATIENCE) or 0 for _ in alarms)
            spent = process_time() - began
        finally:
            self.close()
        expect(total, share * TIMER_ACTORS)
        return result(spent, total)


# ---- the bank without asks: an answer finds its way back by what the question brought along


class Account:
    def __init__(self, balances: list[int], index: int) -> None:
        self.balances, self.index = balances, index
        self.targets: list[Tell] = []
        self.me: Any = None

    def receive(self, message: Any) -> None:
        what, teller, more = message
        if what == "debit":
            self.balances[self.index] -= 1
            self.targets[more](("credit", teller, self.me))
        elif what == "credit":
            self.balances[self.index] += 1
            more(("paid", teller, 1))
        else:
            teller(more)


class Teller:
    def __init__(self, seed: int, share: int, sources: list[Tell], sink: Tell) -> None:
        self.dice, self.left, self.share, self.sources = Dice(seed), share, share, sources
        self.sink, self.moved = sink, 0
        self.me: Any = None

    def receive(self, moved: int) -> None:
        self.moved += moved
        if self.left:
            self.left -= 1
            source = self.sources[self.dice.below(ACCOUNTS)]
            source(("debit", self.me, self.dice.below(ACCOUNTS)))
        else:
            self.sink(self.moved)


class Closing:
    """Adds up what all tellers have moved, and what the accounts come to."""

    def __init__(self, balances: list[int], finish: Tell) -> None:
        self.balances, self.finish, self.moved = balances, finish, []

    def receive(self, moved: int) -> None:
        self.moved.append(moved)
        if len(self.moved) == TELLERS:
            self.finish((sum(self.moved), sum(self.balances)))


def bank_of_messages(spawn: Spawn, n: int, finish: Tell) -> Program:
    share, balances = max(1, n // TELLERS), [0] * (2 * ACCOUNTS)
    accounts = [Account(balances, i) for i in range(2 * ACCOUNTS)]
    for account in accounts:
        account.me = spawn(account)
    sink = spawn(Closing(balances, finish))
    sources = [account.me for account in accounts[:ACCOUNTS]]
    for account in accounts[:ACCOUNTS]:
        account.targets = [target.me for target in accounts[ACCOUNTS:]]
    tellers = [Teller(i + 1, share, sources, sink) for i in range(TELLERS)]
    for teller in tellers:
        teller.me = spawn(teller)

    def kick() -> None:
        for teller in tellers:
            teller.me(0)

    return kick, (share * TELLERS, 0), share * TELLERS
