"""An actor that has nothing to do goes with its last address, without the garbage collector; one
whose handler waits stays, and the collector does not touch it."""

import gc
import logging
import threading
import weakref

import pytest

from otavia_ft import ActorAddress, AutoCleanable, OtaviaError, StateActor, on, sleep


@pytest.fixture(autouse=True)
def no_log():
    """pytest keeps the errors in its log, and those the frames of their tracebacks."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def no_collector():
    """What was garbage before is none of ours; from here on only reference counts collect."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Peer(StateActor):
    @on(int)
    def number(self, message):
        return message

    @on(str)
    async def late(self, message):
        await sleep(3)

    @on(list)
    def refuse(self, message):
        raise ValueError("as told")


class Idle(StateActor):
    """Calls the functions that it is sent with itself."""

    def __init__(self, peer):
        self.peer = peer

    @on(tuple)
    def plain(self, message):
        return message[0](self)

    @on(list)
    async def waiting(self, message):
        await message[0](self)


async def ask_in_vain(me, message, **how):
    try:
        await me.peer.ask(message, **how)
    except OtaviaError:
        me.refused = True


async def keep_future(me, make):
    me.future = make(me)
    await me.future


def set_timer(me, **how):
    me.timer = me.after(1, **how)


def stash_once(me):
    if not hasattr(me, "stashed"):
        me.stashed = True
        me.stash()


def fail(me):
    raise ValueError("as told")


PASTS = {
    "nothing": [],
    "a timer that fired": [(lambda me: me.after(1) and None,)],
    "two timers that fired": [(lambda me: me.after(1) and None,)] * 2,
    "a timer that it keeps": [(set_timer,)],
    "a timer that fired again": [(set_timer,), None, (lambda me: me.timer.update(1),)],
    "a cancelled timer": [
        (lambda me: set_timer(me, every=1),),
        (lambda me: me.timer.cancel() and None,),
    ],
    "a sleep": [[lambda me: sleep(1)]],
    "a sleep whose future it keeps": [[lambda me: keep_future(me, lambda me: sleep(1))]],
    "an answer": [[lambda me: me.peer.ask(1)]],
    "an answer whose future it keeps": [
        [lambda me: keep_future(me, lambda me: me.peer.ask(1, timeout=5))]
    ],
    "an ask that timed out": [[lambda me: ask_in_vain(me, "late", timeout=1)]],
    "an ask that was refused": [[lambda me: ask_in_vain(me, [])]],
    "an ask whose refusal it passed on": [[lambda me: me.peer.ask([])]],
    "a handler that raised": [(fail,)],
    "a restart": [(lambda me: me.address.restart(),)],
    "a watch": [(lambda me: me.watch(me.peer),)],
    "a child": [(lambda me: me.build_child(Peer) and None,)],
    "a child that has ended": [(lambda me: me.build_child(Peer).stop(),)],
    "a stash": [
        (stash_once,),
        (lambda me: me.unstash_all() and None,),
    ],
}


@pytest.mark.parametrize("pooling", [False, True], ids=["", "pooling"])
@pytest.mark.parametrize("past", PASTS)
def test_an_idle_actor_goes_with_its_last_address_whatever_it_has_done(
    make_manual, dispatcher, no_collector, past, pooling
):
    system = make_manual(dispatcher=dispatcher, pooling=pooling)
    peer = system.build_actor(Peer)
    address = system.build_actor(Idle, peer)
    for message in PASTS[past]:
        if message is None:
            system.advance(5)
        else:
            address.notice(message)
            system.run()
    system.advance(5)
    house = weakref.ref(address.house)
    del address
    system.run()
    assert house() is None


def test_a_timer_that_is_to_come_keeps_its_actor(make_manual, dispatcher, no_collector):
    rung = []

    class Ringing(Idle):
        def handle_actor_timeout(self, event):
            rung.append(event.attach)

    system = make_manual(dispatcher=dispatcher)
    address = system.build_actor(Ringing, None)
    address.notice((lambda me: set_timer(me, attach="rung"),))
    system.run()
    house = weakref.ref(address.house)
    del address
    gc.collect()
    system.advance(5)
    assert rung == ["rung"]
    assert house() is None


def test_the_handle_of_an_actors_timer_tells_what_the_timer_does(make_manual, dispatcher):
    system = make_manual(dispatcher=dispatcher)
    address = system.build_actor(Idle, None)
    system.run()
    timer = system.ask_now(address, (lambda me: me.after(1, every=2),))
    assert (timer.pending, timer.period) == (True, 2)
    due = timer.due
    system.advance(1.5)
    assert timer.due > due
    assert timer.cancel()
    assert not timer.cancel()
    assert (timer.pending, timer.period) == (False, None)
    timer.update(1)
    assert timer.pending
    assert len(system.timer) == 1
    address.stop()
    system.run()
    assert not timer.pending
    assert len(system.timer) == 0


class Waits(AutoCleanable, StateActor):
    """Waits for an answer that does not come, and writes down how that ends, and where."""

    serial = True

    def __init__(self, log, peer=None):
        self.log, self.peer = log, peer

    def write(self, word):
        self.log.append((word, threading.current_thread().name))

    def cleaner(self):
        log = self.log
        return lambda: log.append(("cleaner", threading.current_thread().name))

    @on(ActorAddress)
    def meet(self, peer):
        self.peer = peer

    @on(int)
    async def go(self, number):
        try:
            await (self.peer or self.build_child(Stashes)).ask(number)
        finally:
            self.write("finally")

    def post_stop(self):
        self.write("post_stop")


class Stashes(StateActor):
    @on(int)
    def question(self, number):
        self.stash()


@pytest.mark.parametrize("company", ["its own child has stashed the ask", "they wait in a circle"])
def test_the_collector_leaves_a_waiting_actor_to_a_worker(
    make_system, eventually, dispatcher, company
):
    system, log = make_system(dispatcher=dispatcher), []
    first = system.build_actor(Waits, log)
    actors = [first]
    if company == "they wait in a circle":
        actors.append(system.build_actor(Waits, log, first))
        first.notice(actors[1])
    first.notice(1)
    eventually(lambda: all(address.house.promises.count for address in actors))
    houses = [weakref.ref(address.house) for address in actors]
    first = None
    actors.clear()
    gc.collect()
    assert all(house() is not None for house in houses)
    assert log == []
    system.stop()
    words = [word for word, _ in log]
    assert words.count("finally") >= len(houses)  # one may still come to its next message
    assert words.count("post_stop") == words.count("cleaner") == len(houses)
    assert {name.rsplit("-", 1)[0] for _, name in log} == {"otavia-worker"}
    assert all(house() is None or house().promises.count == 0 for house in houses)
