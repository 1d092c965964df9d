"""The end of a closed scheduler's mail."""

import itertools
import threading

from otavia_ft import AtomicInt, StateActor
from otavia_ft.doors import Mailbox
from otavia_ft.message import Envelope
from otavia_ft.schedule.burial import Burial
from otavia_ft.testkit import TestSystem


def test_burying_a_long_chain_of_askers_is_a_loop_and_not_a_recursion():
    """Each buried ask makes its asker's house ready, which has an ask of another one, and so on."""
    with TestSystem() as system:
        houses = [system.build_actor(StateActor).house for _ in range(5000)]
        system.run()
        for house, asker in itertools.pairwise(houses):
            house.put(Mailbox.ASK, Envelope(asker, 1, "anybody?"))
        for thread in system.scheduler.threads:
            thread.manager.close()
        houses[0].notice("the first stone")
        assert all(house.mail() == 0 for house in houses)


def test_what_is_asked_for_during_a_burial_is_done_by_the_one_at_work():
    calls = []

    def bury_all():
        calls.append("look")
        if len(calls) < 4:
            burial()

    burial = Burial(bury_all)
    burial()
    assert calls == ["look"] * 4
    burial()
    assert calls == ["look"] * 5


def test_a_burial_that_raises_does_not_end_all_burials(caplog):
    calls = []

    def bury_all():
        calls.append("look")
        if len(calls) == 1:
            raise SystemExit("in the middle")

    burial = Burial(bury_all)
    burial()
    burial()
    assert calls == ["look"] * 2
    assert "in the middle" in caplog.text


def test_nobody_leaves_before_everything_that_was_queued_is_buried():
    """Four threads queue and ask; whatever was queued before a call is buried when all are done."""
    queued, buried, alone = AtomicInt(), AtomicInt(), AtomicInt()
    overlaps = AtomicInt()

    def bury_all():
        if alone.get_and_set(1):
            overlaps.get_and_add(1)
        buried.set(queued.load())
        alone.set(0)

    burial = Burial(bury_all)

    def work():
        for _ in range(5000):
            queued.get_and_add(1)
            burial()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert buried.load() == queued.load() == 20_000
    assert overlaps.load() == 0
