"""Routing: which handler of an actor class gets a message."""

from typing import Any
from unittest.mock import Mock

import pytest

from otavia_ft import StateActor, on


class Base:
    pass


class Middle(Base):
    pass


class Leaf(Middle):
    pass


class Other:
    pass


def routed(system, cls, message):
    """The name of the handler that got the message, None if there was none."""
    address = system.build_actor(cls)
    dead = system.dead_letters.total
    future = system.ask(address, message)
    system.run()
    if future.exception(0) is not None:
        assert "has no handler" in str(future.exception(0))
        assert system.dead_letters.total == dead
        return None
    return future.result(0)


class TestRouting:
    def test_a_message_goes_to_the_handler_of_its_nearest_base(self, system):
        class Router(StateActor):
            @on(Base)
            def base(self, message):
                return "base"

            @on(Middle)
            def middle(self, message):
                return "middle"

        assert routed(system, Router, Base()) == "base"
        assert routed(system, Router, Middle()) == "middle"
        assert routed(system, Router, Leaf()) == "middle"
        assert routed(system, Router, Other()) is None

    @pytest.mark.parametrize("spelling", ["union", "several", "nested", "typing"])
    def test_one_handler_may_take_several_types(self, system, spelling):
        types: tuple[Any, ...] = {
            "union": (Base | Other,),
            "several": (Base, Other),
            "nested": (Base | Other | int,),
            "typing": (Base, Other | None),
        }[spelling]

        class Router(StateActor):
            @on(*types)
            def both(self, message):
                return "both"

        assert routed(system, Router, Base()) == "both"
        assert routed(system, Router, Other()) == "both"
        assert routed(system, Router, "neither") is None

    def test_the_answer_is_worked_out_once_for_a_type(self):
        class Router(StateActor):
            @on(Base)
            def base(self, message):
                return "base"

        assert Leaf not in dict.keys(Router.plan.handlers)
        handler = Router.plan.handlers[Leaf]
        assert Leaf in dict.keys(Router.plan.handlers)
        assert Router.plan.handlers[Leaf] is handler

    def test_a_subclass_of_an_actor_adds_handlers_and_leaves_the_base_alone(self, system):
        class First(StateActor):
            @on(Base)
            def base(self, message):
                return "first"

        class Second(First):
            @on(Other)
            def other(self, message):
                return "second"

        assert routed(system, Second, Base()) == "first"
        assert routed(system, Second, Other()) == "second"
        assert routed(system, First, Other()) is None

    def test_an_override_without_a_mark_takes_the_place_of_the_marked_one(self, system):
        class First(StateActor):
            @on(Base)
            def handle(self, message):
                return "first"

        class Second(First):
            def handle(self, message):
                return "second"

        assert routed(system, Second, Base()) == "second"
        assert routed(system, First, Base()) == "first"

    def test_an_override_with_a_mark_of_its_own_handles_only_what_it_names(self, system):
        class First(StateActor):
            @on(Base)
            def handle(self, message):
                return "first"

        class Second(First):
            @on(Other)
            def handle(self, message):
                return "second"

        assert routed(system, Second, Other()) == "second"
        assert routed(system, Second, Base()) is None

    def test_a_handler_is_found_by_its_attribute_whatever_its_function_is_called(self, system):
        def shared_name(self, message):
            return "one"

        one = shared_name

        def shared_name(self, message):  # the same name on purpose
            return "two"

        two = shared_name

        class Router(StateActor):
            first = on(Base)(one)
            second = on(Other)(two)

        assert routed(system, Router, Base()) == "one"
        assert routed(system, Router, Other()) == "two"

    def test_two_handlers_for_one_type_in_one_class_are_refused(self):
        with pytest.raises(TypeError, match="both one and two handle Base"):

            class Router(StateActor):
                @on(Base)
                def one(self, message):
                    pass

                @on(Base)
                def two(self, message):
                    pass

    @pytest.mark.parametrize("wrong", [(), (1,), ("Base",), (None,)], ids=repr)
    def test_on_takes_classes_only(self, wrong):
        with pytest.raises(TypeError, match="@on"):
            on(*wrong)

    def test_a_notice_without_a_handler_is_a_dead_letter(self, system):
        class Deaf(StateActor):
            @on(Base)
            def base(self, message):
                pass

        address = system.build_actor(Deaf)
        address.notice(other := Other())
        system.run()
        letter = system.dead_letters.latest[-1]
        assert letter.message is other
        assert "has no handler for Other" in letter.reason

    def test_the_hand_written_form_cannot_be_async(self):
        with pytest.raises(TypeError, match="cannot be async"):

            class Wrong(StateActor):
                async def resume_ask(self, stack):
                    pass

    @pytest.mark.parametrize(
        "hook",
        [
            "pre_start",
            "after_mount",
            "before_restart",
            "restart",
            "after_restart",
            "post_stop",
            "handle_actor_timeout",
            "receive_event",
            "is_barrier_call",
            "batch_ask_filter",
            "batch_notice_filter",
            "cleaner",
        ],
    )
    @pytest.mark.parametrize("kind", ["async", "generator", "async generator"])
    def test_a_hook_cannot_be_async_or_a_generator(self, hook, kind):
        """A call would run nothing, and what it gives is true."""

        async def coroutine(self, *given): ...

        def generator(self, *given):
            yield

        async def async_generator(self, *given):
            yield

        body = {"async": coroutine, "generator": generator, "async generator": async_generator}
        with pytest.raises(TypeError, match=f"Wrong.{hook} cannot be async or a generator"):
            type("Wrong", (StateActor,), {hook: body[kind]})

    @pytest.mark.parametrize("kind", ["plain", "async"])
    def test_a_handler_cannot_be_a_generator(self, kind):
        @on(Base)
        def plain(self, message):
            yield message

        @on(Base)
        async def waiting(self, message):
            yield message

        handler = plain if kind == "plain" else waiting
        with pytest.raises(TypeError, match=r"Wrong.base cannot be a generator"):
            type("Wrong", (StateActor,), {"base": handler})

    def test_a_class_attribute_may_have_every_attribute_or_raise_at_each(self, system):
        class Raises:
            def __getattr__(self, name):
                raise RuntimeError(name)

        class Holder(StateActor):
            everything = Mock()
            nothing = Raises()

            @on(Base)
            def base(self, message):
                return "base"

        assert routed(system, Holder, Base()) == "base"
