"""Parents and children: who knows whom, who keeps whom, and in which order they end."""

import gc
import weakref

import pytest

from otavia_ft import (
    ActorStopped,
    AskFailed,
    Event,
    OutsideActor,
    StackError,
    StateActor,
    SystemStopped,
)


class TestRelatives:
    def test_parent_and_children_know_each_other(self, family):
        parent = family.build("parent")
        first, second = family.child(parent, "first"), family.child(parent, "second")
        assert family.do(parent, lambda me: me.children) == (first, second)
        assert family.do(first, lambda me: me.parent) == parent
        assert family.do(parent, lambda me: me.parent) is None
        assert family.do(second, lambda me: me.children) == ()

    def test_a_stopped_child_is_no_child_any_more(self, family):
        parent = family.build("parent")
        child = family.child(parent, "child")
        child.stop()
        family.system.run()
        assert family.do(parent, lambda me: me.children) == ()
        assert family.log == [
            ("parent", "pre_start"),
            ("child", "pre_start"),
            ("child", "post_stop"),
        ]

    def test_a_parent_keeps_its_child_alive(self, family):
        parent = family.build("parent")
        family.child(parent, "child")
        gc.collect()
        (child,) = family.do(parent, lambda me: me.children)
        assert family.system.ask_now(child, 7) == 7

    def test_a_child_does_not_keep_its_parent_alive_and_stops_with_it(self, family):
        parent = family.build("parent")
        child = family.child(parent, "child")
        gone = weakref.ref(parent.house)
        del parent
        assert gone() is None
        family.system.run()
        assert family.of("child") == ["pre_start", "post_stop"]
        with pytest.raises(ActorStopped, match="its parent is gone"):
            family.system.ask_now(child, 1)

    @pytest.mark.parametrize(
        "past",
        [
            lambda me: setattr(me, "me", me.address),
            lambda me: setattr(me, "timer", me.after(1)),
            lambda me: me.after(1) and None,
        ],
        ids=["a cycle of its own", "a timer that it keeps", "a timer that fired"],
    )
    def test_children_of_a_collected_parent_stop_in_order_at_every_level(self, family, past):
        parent = family.build("parent")
        child = family.child(parent, "child")
        family.child(child, "grandchild")
        for address in (parent, child):
            family.do(address, lambda me: past(me) and None)
        family.system.advance(5)
        gone = weakref.ref(parent.house)
        del parent, child, address
        gc.collect()
        family.system.run()
        assert gone() is None
        ends = [who for who, word in family.log if word == "post_stop"]
        assert ends == ["grandchild", "child"]

    def test_what_is_kept_of_a_child_ends_with_the_system(self, family):
        parent = family.build("parent")
        child = weakref.ref(family.child(parent, "child").house)
        family.system.stop()
        del parent
        gc.collect()
        assert child() is None

    def test_a_family_leaves_nothing_behind_when_it_has_stopped(self, family):
        parent = family.build("parent")
        houses = [weakref.ref(family.child(parent, str(n)).house) for n in range(3)]
        houses.append(weakref.ref(parent.house))
        parent.stop()
        family.system.run()
        del parent
        gc.collect()
        assert [house() for house in houses] == [None] * 4
        assert len(family.system.register) == 0

    def test_outside_a_turn_all_of_it_is_refused(self, system):
        actor = StateActor()
        for use in (
            lambda: actor.build_child(StateActor),
            lambda: actor.children,
            lambda: actor.parent,
            lambda: actor.watch(None),
            lambda: actor.unwatch(None),
            actor.stash,
            actor.unstash,
            actor.unstash_all,
        ):
            with pytest.raises(OutsideActor):
                use()

    def test_an_actor_that_uses_none_of_it_has_no_family(self, family):
        assert family.build("alone").house.family is None

    def test_what_is_no_supervisor_is_refused_when_a_child_is_built(self, family):
        parent = family.build("parent", supervisor="strict")
        with pytest.raises(AskFailed, match="must be a Supervisor or None"):
            family.child(parent, "child")


class TestStopping:
    def test_children_end_before_their_parent_at_every_level(self, family):
        top = family.build("top")
        middle = family.child(top, "middle")
        family.child(middle, "low")
        family.child(top, "other")
        top.stop()
        family.system.run()
        ends = [who for who, word in family.log if word == "post_stop"]
        assert sorted(ends) == ["low", "middle", "other", "top"]
        assert ends.index("low") < ends.index("middle") < ends.index("top") == 3

    def test_the_same_order_holds_when_the_system_stops(self, family):
        top = family.build("top")
        middle = family.child(top, "middle")
        family.child(middle, "low")
        family.system.stop()
        assert [who for who, word in family.log if word == "post_stop"] == ["low", "middle", "top"]

    def test_a_parent_that_waits_for_its_children_handles_no_user_mail(self, family):
        parent = family.build("parent")
        family.child(parent, "child")
        parent.notice(1)
        parent.stop()
        ask = family.system.ask(parent, 2)
        family.system.run()
        assert family.of("parent") == ["pre_start", "post_stop"]
        assert isinstance(ask.exception(0), ActorStopped)
        letters = [letter.message for letter in family.system.dead_letters.latest]
        assert sorted(letters) == [1, 2]

    def test_a_parent_is_stopped_once_however_often_it_is_told(self, family):
        parent = family.build("parent")
        family.child(parent, "child")
        for _ in range(3):
            parent.stop()
            parent.restart()
        family.system.run()
        assert family.of("parent").count("post_stop") == 1
        assert family.of("child").count("post_stop") == 1
        assert "restart" not in family.of("parent")

    def test_a_parent_that_stops_without_an_address_left_ends_in_order(self, family):
        parent = family.build("parent")
        family.child(parent, "child")
        parent.stop()
        del parent
        family.system.run()
        assert family.log[-2:] == [("child", "post_stop"), ("parent", "post_stop")]

    @pytest.mark.parametrize("when", ["receive_event", "post_stop"])
    def test_a_stopping_parent_has_no_more_children(self, family, when):
        refused = []

        def build(me, event=None):
            with pytest.raises(StackError, match="cannot have another child"):
                me.build_child(StateActor)
            refused.append(True)

        parent = family.build("parent", **{when: build})
        family.child(parent, "child")
        parent.stop()
        if when == "receive_event":
            parent.inform(Event())  # handled after the pill, while the child still lives
        family.system.run()
        assert refused == [True]

    def test_a_stopping_system_builds_no_children(self, family):
        refused = []

        def build(me):
            with pytest.raises((StackError, SystemStopped)):
                me.build_child(StateActor)
            refused.append(True)

        parent = family.build("parent", post_stop=build)
        family.system.stop()
        assert refused == [True]
        assert parent.house.actor is None

    def test_a_parent_that_fails_to_start_stops_the_children_it_has_built(self, family):
        def pre_start(me):
            me.child = me.build_child(family._make, "child", None, {})
            raise ValueError("no")

        parent = family.build("parent", pre_start=pre_start)
        assert family.log[-2:] == [("child", "post_stop"), ("parent", "post_stop")]
        with pytest.raises(ActorStopped, match="failed to start"):
            family.system.ask_now(parent, 1)
