"""The stash: put aside, put back to the front in order, and never forgotten."""

import gc

import pytest

from otavia_ft import ActorStopped, AskFailed, StackError, StateActor, Supervisor, on, sleep


class Door(StateActor):
    """Stashes numbers until it is opened."""

    def __init__(self, log):
        self.log = log
        self.open = False

    @on(int)
    def number(self, message):
        if not self.open:
            self.stash()
            return "not the answer"
        self.log.append(message)
        return message * 10

    @on(str)
    def word(self, message):
        if message == "one":
            return self.unstash()
        self.open = message == "open"
        return self.unstash_all() if self.open else 0

    @on(float)
    async def slow(self, message):
        await sleep(message)
        if not self.open:
            self.stash()
        else:
            self.log.append(message)
        return message

    @on(list)
    def twice(self, message):
        self.stash()
        with pytest.raises(StackError, match="stashed already"):
            self.stash()
        message.append("refused")

    @on(ValueError)
    def fail(self, message):
        raise message


class HandWritten(StateActor):
    """The same in the reference style."""

    def __init__(self, log):
        self.log = log
        self.open = False

    def resume_notice(self, stack):
        if stack.notice == "open":
            self.open = True
            self.unstash_all()
        elif not self.open:
            self.stash()
        else:
            self.log.append(stack.notice)
        return stack.return_()

    def resume_ask(self, stack):
        if not self.open:
            self.stash()
            return stack.return_("not the answer")
        self.log.append(stack.ask)
        return stack.return_(stack.ask * 10)


@pytest.fixture
def log():
    return []


@pytest.fixture
def door(system, log):
    address = system.build_actor(Door, log)
    system.run()
    return address


@pytest.mark.parametrize("kind", [Door, HandWritten], ids=["routed", "hand_written"])
def test_stashed_messages_come_back_before_those_that_wait_and_in_order(system, log, kind):
    door = system.build_actor(kind, log)
    for n in (1, 2, 3):
        door.notice(n)
    system.run()
    assert log == []
    door.notice("open")
    door.notice(4)
    system.run()
    assert log == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", [Door, HandWritten], ids=["routed", "hand_written"])
def test_a_stashed_ask_is_answered_by_its_handler_later_and_once(system, log, kind):
    door = system.build_actor(kind, log)
    asks = [system.ask(door, n) for n in (1, 2)]
    system.run()
    assert not any(ask.done() for ask in asks)
    door.notice("open")
    system.run()
    assert [ask.result(0) for ask in asks] == [10, 20]
    assert log == [1, 2]


def test_unstash_puts_back_the_oldest_only(system, door, log):
    for n in (1, 2):
        door.notice(n)
    assert system.ask_now(door, "close") == 0
    assert system.ask_now(door, "one") == 1  # which is stashed again, behind the other
    assert system.ask_now(door, "open") == 2
    assert log == [2, 1]
    assert system.ask_now(door, "one") == 0


def test_a_handler_may_stash_after_it_has_waited(system, door, log):
    ask = system.ask(door, 2.0)
    system.advance(3)
    assert not ask.done()
    door.notice("open")
    system.advance(3)
    assert ask.result(0) == 2.0
    assert log == [2.0]


def test_on_stop_stashed_notices_are_dead_letters_and_stashed_asks_are_answered(system, door):
    door.notice(1)
    ask = system.ask(door, 2)
    system.run()
    door.stop()
    system.run()
    assert isinstance(ask.exception(0), ActorStopped)
    assert sorted(letter.message for letter in system.dead_letters.latest) == [1, 2]


def test_a_stopping_system_answers_stashed_asks(system, door):
    ask = system.ask(door, 2)
    system.run()
    system.stop()
    assert ask.exception(0) is not None
    assert [letter.message for letter in system.dead_letters.latest] == [2]


def test_a_stash_whose_actor_is_gone_answers_its_asks(system, log):
    ask = system.ask(system.build_actor(Door, log), 1)
    system.run()
    gc.collect()
    with pytest.raises(ActorStopped, match="nobody had its address"):
        ask.result(0)


def test_a_message_is_stashed_once(system, door):
    door.notice(seen := [])
    system.run()
    assert seen == ["refused"]
    with pytest.raises(TimeoutError):
        system.ask_now(door, again := [])
    assert again == ["refused"]


def test_a_stash_outlives_a_restart(family, log):
    parent = family.build("parent", Supervisor())
    door = family.do(parent, lambda me: me.build_child(Door, log))
    family.send(door, 1, ValueError(), 2)
    assert log == []
    family.send(door, "open")
    assert log == [1, 2]


def test_a_batch_cannot_be_stashed(system):
    class Batches(StateActor):
        batchable = True

        def resume_batch_ask(self, stack):
            self.stash()

    with pytest.raises(AskFailed, match="BatchAskStack cannot be stashed"):
        system.ask_now(system.build_actor(Batches), 1)


def test_a_bounded_mailbox_takes_everything_back(system, log):
    door = system.build_actor(type("Small", (Door,), {"mailbox_capacity": 2}), log)
    for n in range(5):
        door.notice(n)
        system.run()
    door.notice("open")
    system.run()
    assert log == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("serial", [True, False], ids=["serial", "interleaving"])
def test_new_messages_wait_for_a_waiting_handler_of_a_serial_actor_only(system, log, serial):
    class Waits(StateActor):
        @on(float)
        async def wait(self, message):
            log.append("begin")
            await sleep(message)
            log.append("end")

        @on(str)
        def word(self, message):
            log.append(message)
            return message

    actor = system.build_actor(type("Kind", (Waits,), {"serial": serial}))
    actor.notice(2.0)
    system.run()  # on its own: an ask would overtake it
    actor.notice("notice")
    ask = system.ask(actor, "ask")
    system.advance(1)
    assert ask.done() is not serial
    system.advance(1)
    assert ask.result(0) == "ask"
    between = ["ask", "notice"]
    assert log == (["begin", "end", *between] if serial else ["begin", *between, "end"])
