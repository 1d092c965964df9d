"""The contenders: how each spawns an actor, and how it asks.

Each kit has `measure(program, n)`, and `extras`: the workloads that peers.py cannot say once for
all, because asking and setting timers differ too much.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import perf_counter, process_time
from typing import Any

from savina.common import (
    ACCOUNTS,
    PATIENCE,
    TELLERS,
    TIMER_ACTORS,
    Dice,
    at_the_end,
    expect,
    resident_bytes,
    result,
)
from savina.latency import half_load
from savina.peers import Tell

Run = Callable[[int], dict[str, Any]]


class Kit:
    """One contender. A kit serves one run and is then closed."""

    def spawn(self, behaviour: Any) -> Tell:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def measure(self, program: Any, n: int) -> dict[str, Any]:
        box: queue.SimpleQueue[Any] = queue.SimpleQueue()
        try:
            kick, wanted, operations = program(self.spawn, n, box.put)
            before = resident_bytes()
            began = perf_counter()
            kick()
            value = box.get(timeout=PATIENCE)
            seconds = perf_counter() - began
            grown = resident_bytes() - before
        finally:
            self.close()
        expect(at_the_end(value), wanted)
        expect(box.qsize(), 0)  # what ended once did not end twice
        return result(seconds, operations, bytes=grown / operations)

    def extras(self) -> dict[str, Run]:
        return {}


# ---- a thread with a SimpleQueue for each actor


class Threads(Kit):
    END = object()

    def __init__(self) -> None:
        self._actors: list[tuple[Tell, threading.Thread]] = []

    def spawn(self, behaviour: Any) -> Tell:
        mailbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        thread = threading.Thread(target=self._run, args=(mailbox.get, behaviour.receive))
        thread.daemon = True
        thread.start()
        self._actors.append((mailbox.put, thread))
        return mailbox.put

    def _run(self, get: Callable[[], Any], receive: Tell) -> None:
        end = self.END
        while (message := get()) is not end:
            receive(message)

    def close(self) -> None:
        """Those that were made last send to those that were made first, which end when they have
        had all of it: also what came too much."""
        for tell, thread in reversed(self._actors):
            tell(self.END)
            thread.join()

    def ask(self, tell: Tell, message: Any) -> Any:
        reply: queue.SimpleQueue[Any] = queue.SimpleQueue()
        tell((message, reply.put))
        return reply.get()

    def extras(self) -> dict[str, Run]:
        ask_reply = blocking_ask_reply(self)
        return {
            "ask-reply": ask_reply,
            "ask-reply-await": ask_reply,
            "bank": blocking_bank(self),
            "latency": self._latency,
            "timers": lambda n: timers_of_threads(self, n),
        }

    def _latency(self, n: int) -> dict[str, Any]:
        tell = self.spawn(Completer())
        try:
            return half_load(n, lambda done: tell(future_for(done)))
        finally:
            self.close()


class Bell:
    """Is told by a timer; tells how often it was when all of them have gone off."""

    def __init__(self, share: int, gone: Tell) -> None:
        self.left, self.share, self.gone = share, share, gone

    def receive(self, number: int) -> None:
        self.left -= number
        if not self.left:
            self.gone(self.share)


def timers_of_threads(kit: Kit, n: int) -> dict[str, Any]:
    """For contenders without timers of their own: those of the standard library, a thread each."""
    share = max(1, n // TIMER_ACTORS)
    gone = queue.SimpleQueue[int]()
    try:
        tells = [kit.spawn(Bell(share, gone.put)) for _ in range(TIMER_ACTORS)]
        began = process_time()
        for seed, tell in enumerate(tells):
            dice = Dice(seed + 1)
            for _ in range(share):
                threading.Timer(dice.delay(), tell, (1,)).start()
        total = sum(gone.get(timeout=PATIENCE) for _ in range(TIMER_ACTORS))
        spent = process_time() - began
    finally:
        kit.close()
    expect(total, share * TIMER_ACTORS)
    return result(spent, total)


def future_for(done: Tell) -> Future[int]:
    future: Future[int] = Future()
    future.add_done_callback(done)
    return future


class Completer:
    def receive(self, future: Future[int]) -> None:
        future.set_result(1)


class Call:
    """An actor whose messages are `(argument, reply)`; `function(argument)` makes the reply."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def receive(self, message: Any) -> None:
        argument, reply = message
        reply(self.function(argument))


def blocking_ask_reply(kit: Any) -> Run:
    """For contenders that wait for a reply by blocking the asking actor."""

    def program(spawn: Any, n: int, finish: Tell) -> Any:
        server = spawn(Call(lambda message: 1))
        asker = spawn(Call(lambda n: sum(kit.ask(server, None) for _ in range(n))))
        return lambda: asker((n, finish)), n, n

    return lambda n: kit.measure(program, n)


def blocking_bank(kit: Any) -> Run:
    def program(spawn: Any, n: int, finish: Tell) -> Any:
        share = max(1, n // TELLERS)
        balances = [0] * (2 * ACCOUNTS)
        moved: list[int] = []

        def credit(target: int) -> int:
            balances[target] += 1
            return 1

        def debit(message: Any) -> int:
            source, target = message
            balances[source] -= 1
            return kit.ask(targets[target], ACCOUNTS + target)

        def teller(seed: int) -> int:
            dice, total = Dice(seed), 0
            for _ in range(share):
                source = dice.below(ACCOUNTS)
                total += kit.ask(sources[source], (source, dice.below(ACCOUNTS)))
            return total

        def collect(total: int) -> None:
            moved.append(total)
            if len(moved) == TELLERS:
                finish((sum(moved), sum(balances)))

        sources = [spawn(Call(debit)) for _ in range(ACCOUNTS)]
        targets = [spawn(Call(credit)) for _ in range(ACCOUNTS)]
        tellers = [spawn(Call(teller)) for _ in range(TELLERS)]

        def kick() -> None:
            for i, tell in enumerate(tellers):
                tell((i + 1, collect))

        return kick, (share * TELLERS, 0), share * TELLERS

    return lambda n: kit.measure(program, n)


# ---- a task with an asyncio.Queue for each actor


class Asyncio(Kit):
    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._mailboxes: list[asyncio.Queue[Any]] = []

    def spawn(self, behaviour: Any) -> Tell:
        mailbox: asyncio.Queue[Any] = asyncio.Queue()
        self._mailboxes.append(mailbox)
        self._tasks.append(asyncio.create_task(self._run(mailbox.get, behaviour.receive)))
        return mailbox.put_nowait

    async def _run(self, get: Any, receive: Tell) -> None:
        while True:
            receive(await get())

    def measure(self, program: Any, n: int) -> dict[str, Any]:
        async def main() -> dict[str, Any]:
            done, values = asyncio.Event(), []

            def finish(value: Any) -> None:
                values.append(value)
                done.set()

            kick, wanted, operations = program(self.spawn, n, finish)
            before = resident_bytes()
            began = perf_counter()
            kick()
            await asyncio.wait_for(done.wait(), PATIENCE)
            seconds = perf_counter() - began
            grown = resident_bytes() - before
            while not all(mailbox.empty() for mailbox in self._mailboxes):
                await asyncio.sleep(0)  # what came too much is still on its way
            expect([at_the_end(value) for value in values], [wanted])
            return result(seconds, operations, bytes=grown / operations)

        return asyncio.run(main())

    def extras(self) -> dict[str, Run]:
        return {
            "ask-reply": self._ask_reply,
            "ask-reply-await": self._ask_reply,
            "bank": self._bank,
            "latency": self._latency,
            "timers": self._timers,
        }

    def _serve(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """An actor whose function is a coroutine; returns the way to ask it."""
        mailbox: asyncio.Queue[Any] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        async def run() -> None:
            while True:
                argument, reply = await mailbox.get()
                reply.set_result(await function(argument))

        async def ask(argument: Any) -> Any:
            reply = loop.create_future()
            mailbox.put_nowait((argument, reply))
            return await reply

        self._tasks.append(asyncio.create_task(run()))
        return ask

    def _ask_reply(self, n: int) -> dict[str, Any]:
        async def one(argument: Any) -> int:
            return 1

        async def main() -> dict[str, Any]:
            ask = self._serve(one)

            async def asker(n: int) -> int:
                total = 0
                for _ in range(n):
                    total += await ask(None)
                return total

            start = self._serve(asker)
            began = perf_counter()
            expect(await start(n), n)
            return result(perf_counter() - began, n)

        return asyncio.run(main())

    def _bank(self, n: int) -> dict[str, Any]:
        share = max(1, n // TELLERS)
        balances = [0] * (2 * ACCOUNTS)

        async def credit(target: int) -> int:
            balances[target] += 1
            return 1

        async def main() -> dict[str, Any]:
            targets = [self._serve(credit) for _ in range(ACCOUNTS)]

            async def debit(message: Any) -> int:
                source, target = message
                balances[source] -= 1
                moved: int = await targets[target](ACCOUNTS + target)
                return moved

            sources = [self._serve(debit) for _ in range(ACCOUNTS)]

            async def teller(seed: int) -> int:
                dice, total = Dice(seed), 0
                for _ in range(share):
                    source = dice.below(ACCOUNTS)
                    total += await sources[source]((source, dice.below(ACCOUNTS)))
                return total

            tellers = [self._serve(teller) for _ in range(TELLERS)]
            began = perf_counter()
            moved = await asyncio.gather(*(ask(i + 1) for i, ask in enumerate(tellers)))
            seconds = perf_counter() - began
            expect((sum(moved), sum(balances)), (share * TELLERS, 0))
            return result(seconds, share * TELLERS)

        return asyncio.run(main())

    def _latency(self, n: int) -> dict[str, Any]:
        """The asks come from a thread outside, as for all others."""

        async def main() -> dict[str, Any]:
            call = asyncio.get_running_loop().call_soon_threadsafe
            tell = self.spawn(Completer())
            return await asyncio.to_thread(half_load, n, lambda done: call(tell, future_for(done)))

        return asyncio.run(main())

    def _timers(self, n: int) -> dict[str, Any]:
        share = max(1, n // TIMER_ACTORS)

        async def main() -> dict[str, Any]:
            loop = asyncio.get_running_loop()
            gone: asyncio.Queue[int] = asyncio.Queue()
            began = process_time()
            for seed in range(TIMER_ACTORS):
                dice = Dice(seed + 1)
                for _ in range(share):
                    loop.call_later(dice.delay(), gone.put_nowait, 1)
            total = 0
            while total < share * TIMER_ACTORS:
                total += await gone.get()
            return result(process_time() - began, total)

        return asyncio.run(main())
