"""Death watch: told once, whichever way the watched actor ended, and nobody kept alive by it."""

import gc
import weakref

import pytest

from otavia_ft import ActorStopped, AskFailed, Supervisor, Terminated
from otavia_ft.testkit import TestSystem


@pytest.fixture
def watcher(family):
    return family.build("watcher")


def told(family):
    return [word for word in family.of("watcher") if isinstance(word, Terminated)]


class TestBeingTold:
    def test_a_stop_is_told_once_with_address_and_reason(self, family, watcher):
        watched = family.build("watched")
        family.do(watcher, lambda me: me.watch(watched))
        watched.stop()
        family.system.run()
        (notice,) = told(family)
        assert notice.address == watched
        assert isinstance(notice.reason, ActorStopped)

    def test_one_that_was_dead_before_is_told_too(self, family, watcher):
        watched = family.build("watched")
        watched.stop()
        family.system.run()
        family.do(watcher, lambda me: me.watch(watched))
        assert [notice.address for notice in told(family)] == [watched]

    def test_watching_twice_is_watching_once(self, family, watcher):
        watched = family.build("watched")
        for _ in range(2):
            family.do(watcher, lambda me: me.watch(watched))
        watched.stop()
        family.system.run()
        assert len(told(family)) == 1

    def test_unwatched_is_not_told(self, family, watcher):
        watched = family.build("watched")
        family.do(watcher, lambda me: (me.watch(watched), me.unwatch(watched)))
        watched.stop()
        family.system.run()
        assert told(family) == []
        family.do(watcher, lambda me: me.unwatch(watched))

    def test_a_watch_that_was_given_up_and_taken_again_is_told_once(self, family, watcher, do):
        watched = family.build("watched")
        family.do(watcher, lambda me: me.watch(watched))
        # In this order the end finds both the old watch and the new one on its way.
        family.system.ask(watcher, do(lambda me: (me.unwatch(watched), me.watch(watched))))
        watched.stop()
        family.system.run()
        assert len(told(family)) == 1

    def test_the_end_is_told_after_the_last_words(self, family, watcher):
        watched = family.build("watched", post_stop=lambda me: watcher.notice("last words"))
        family.do(watcher, lambda me: me.watch(watched))
        watched.stop()
        family.system.run()
        words = [w if isinstance(w, str) else "told" for w in family.of("watcher")]
        assert words == ["pre_start", "last words", "told"]

    def test_all_watchers_are_told(self, family):
        watched = family.build("watched")
        watchers = [family.build(f"w{n}") for n in range(5)]
        for each in watchers:
            family.do(each, lambda me: me.watch(watched))
        watched.stop()
        family.system.run()
        assert [len(family.of(f"w{n}")) for n in range(5)] == [2] * 5

    def test_a_parent_that_is_told_has_the_child_no_longer(self, family):
        seen = []
        parent = family.build("parent", terminated=lambda me, message: seen.append(me.children))
        child = family.child(parent, "child")
        family.do(parent, lambda me: me.watch(child))
        child.stop()
        family.system.run()
        assert seen == [()]

    def test_a_restart_is_no_end(self, family, watcher):
        parent = family.build("parent", Supervisor())
        child = family.child(parent, "child")
        family.do(watcher, lambda me: me.watch(child))
        family.send(child, ValueError())
        assert told(family) == []

    def test_an_actor_of_another_system_can_be_watched(self, family, watcher, dispatcher):
        # Their first actors have the same number, so the two must not be taken for each other.
        other = TestSystem("other", dispatcher=dispatcher)
        filler, stranger = (other.build_actor(type(watcher.house.actor), "x", []) for _ in "12")
        namesake = family.build("namesake")
        assert stranger.house.id == namesake.house.id
        family.do(watcher, lambda me: (me.watch(stranger), me.watch(namesake)))
        other.run()
        stranger.stop()
        other.run()
        family.system.run()
        assert [notice.address for notice in told(family)] == [stranger]
        filler.stop()
        other.stop()

    def test_a_full_mailbox_does_not_lose_it(self, family):
        watched = family.build("watched")
        watcher = family.build("watcher", mailbox_capacity=1)
        family.do(watcher, lambda me: me.watch(watched))
        watched.stop()
        watcher.notice(1)
        family.system.run()
        assert len(told(family)) == 1

    def test_nonsense_is_refused(self, family, watcher):
        with pytest.raises(AskFailed, match="cannot watch itself"):
            family.do(watcher, lambda me: me.watch(me.address))
        with pytest.raises(AskFailed, match="address of one actor"):
            family.do(watcher, lambda me: me.watch("somebody"))


class TestNobodyIsKeptAlive:
    def test_a_watch_does_not_keep_the_watched_alive_and_its_going_is_told(self, family, watcher):
        watched = family.build("watched")
        name, number = watched.house.name, watched.house.id
        gone = weakref.ref(watched.house)
        family.do(watcher, lambda me, who=watched: me.watch(who))
        del watched
        gc.collect()
        family.system.run()
        assert gone() is None
        (notice,) = told(family)
        assert (notice.address.house.name, notice.address.house.id) == (name, number)
        assert "nobody had its address" in str(notice.reason)
        with pytest.raises(ActorStopped, match="nobody had its address"):
            family.system.ask_now(notice.address, 1)

    def test_one_that_stops_and_then_goes_is_told_once(self, family, watcher):
        watched = family.build("watched")
        family.do(watcher, lambda me, who=watched: me.watch(who))
        watched.stop()
        del watched
        gc.collect()
        family.system.run()
        assert len(told(family)) == 1

    def test_a_watch_does_not_keep_the_watcher_alive(self, family):
        watched, watcher = family.build("watched"), family.build("watcher")
        family.do(watcher, lambda me: me.watch(watched))
        gone = weakref.ref(watcher.house)
        del watcher
        gc.collect()
        assert gone() is None
        watched.stop()
        family.system.run()

    def test_watchers_that_are_gone_do_not_pile_up(self, family):
        watched = family.build("watched")
        for _ in range(100):
            family.do(family.build("watcher"), lambda me: me.watch(watched))
        gc.collect()
        family.do(family.build("watcher"), lambda me: me.watch(watched))
        assert len(watched.house.family.watches.watchers) < 40

    def test_a_watcher_that_stops_leaves_no_trace(self, family, watcher):
        watched = family.build("watched")
        family.do(watcher, lambda me: me.watch(watched))
        watcher.stop()
        family.system.run()
        assert watched.house.family.watches.watchers == {}
