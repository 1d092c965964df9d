"""What is sent to another thread is counted so that its receiver can end it: `otv_shared_ref`."""

import sys
import threading
import weakref

import pytest

from otavia_ft import ActorSystem, StateActor, on
from otavia_ft.lane import NATIVE_LANE

pytestmark = pytest.mark.skipif(
    not NATIVE_LANE or sys._is_gil_enabled(), reason="what is measured is the native lane's"
)
MANY = 200


class Thing:
    """A message, an answer; tells where it ends."""

    def __init__(self, ended):
        self.end = weakref.finalize(self, lambda: ended.append(threading.get_ident()))
        self.end.atexit = False


class Sink(StateActor):
    def __init__(self):
        self.ended = []

    @on(Thing)
    def thing(self, message):
        pass

    @on(threading.Event)
    def hold(self, event):
        event.wait(10)

    @on(str)
    def answer(self, message):
        return Thing(self.ended)

    @on(int)
    def count(self, message):
        return message


class Asker(StateActor):
    def __init__(self, sink, many):
        self.sink, self.many = sink, many

    @on(str)
    async def go(self, message):
        for _ in range(self.many):
            await self.sink.ask("answer")
            await self.sink.ask(Number())
        return self.many


class Number(int):
    """An object of its own each time, unlike small numbers."""


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
def test_a_message_ends_where_it_was_handled_without_its_maker(dispatcher):
    ended, sent = [], threading.Event()
    with ActorSystem(workers=1, dispatcher=dispatcher) as system:
        sink = system.build_actor(Sink)
        sink.notice(sent)
        for _ in range(MANY):
            sink.notice(Thing(ended))
        sent.set()  # now this thread has no reference left to any of them
        system.ask(sink, 1, timeout=10).result()
    assert len(ended) == MANY
    # With the reference in the mailbox counted as the maker's, nearly all would end here.
    here = ended.count(threading.get_ident())
    assert here == 0, f"{here} of {MANY} ended on the thread that made them"


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
def test_what_is_sent_again_and_again_keeps_its_count(dispatcher):
    kept = Thing([])
    before = sys.getrefcount(kept)
    with ActorSystem(workers=2, dispatcher=dispatcher) as system:
        sinks = [system.build_actor(Sink) for _ in range(2)]
        for _ in range(MANY):
            for sink in sinks:
                sink.notice(kept)
        for sink in sinks:
            system.ask(sink, 1, timeout=10).result()
    assert sys.getrefcount(kept) == before


@pytest.mark.parametrize("dispatcher", ["pinned", "pool"])
def test_asks_and_answers_between_threads_leave_nothing(dispatcher):
    with ActorSystem(workers=2, dispatcher=dispatcher) as system:
        sink = system.build_actor(Sink)  # on one thread, the asker on the other
        asker = system.build_actor(Asker, sink, MANY)
        actor = sink.house.actor
        system.ask(asker, "go", timeout=30).result()
        system.ask(sink, 1, timeout=10).result()
    assert len(actor.ended) == MANY
