"""The contenders that have to be installed: Pykka and Thespian."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from savina.kits import Completer, Kit, Run, blocking_ask_reply, blocking_bank, future_for
from savina.latency import half_load
from savina.peers import Tell


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

    missing = ("cpu-map", "ping-pong-across", "ring-across")  # there is one thread, ever

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
        return {"ask-reply": self._ask_reply, "ask-reply-await": self._ask_reply}

    def _ask_reply(self, n: int) -> dict[str, Any]:
        """There is no waiting inside an actor: a reply is a message like any other."""
        from savina.peers import ping_pong

        return self.measure(ping_pong, n)
