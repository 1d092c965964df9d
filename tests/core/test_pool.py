"""Object pools: thread-isolated, bounded, trimmed when idle, and loud about stale handles."""

import threading

import pytest

from otavia_ft import ActorSystem, Ask, Config, FutureState, Notice, StackError, StateActor
from otavia_ft.context import Context
from otavia_ft.pool import ThreadPool
from otavia_ft.stack.stack import AskStack, NoticeStack
from otavia_ft.testkit import TestSystem


class Number(Notice):
    def __init__(self, value):
        self.value = value


class Sum(Ask[int]):
    pass


class Adder(StateActor):
    def __init__(self):
        self.total = 0
        self.seen = []

    def resume_notice(self, stack):
        self.total += stack.notice.value
        self.seen.append(stack)
        return stack.return_()

    def resume_ask(self, stack):
        return stack.return_(self.total)


class Relay(StateActor):
    def __init__(self, target):
        self.target = target

    def resume_ask(self, stack):
        if stack.state is FutureState.START:
            state = FutureState()
            self.target.ask(Sum(), state.future)
            return stack.suspend(state)
        return stack.return_(stack.state.future.get_now())


class TestThreadPool:
    def test_a_recycled_object_comes_back_clean(self):
        pool = ThreadPool(NoticeStack, 4)
        stack = pool.get()
        stack.notice = "secret"
        stack.done = True
        pool.recycle(stack)
        again = pool.get()
        assert again is stack
        assert again.notice is None
        assert not again.done

    def test_it_keeps_at_most_its_maximum(self):
        pool = ThreadPool(NoticeStack, 2)
        stacks = [pool.get() for _ in range(5)]
        for stack in stacks:
            pool.recycle(stack)
        assert len(pool) == 2

    def test_an_object_of_another_pool_is_dropped(self):
        mine, other = ThreadPool(NoticeStack, 4), ThreadPool(NoticeStack, 4)
        mine.recycle(other.get())
        assert len(mine) == len(other) == 0

    def test_an_idle_pool_is_cut_down_and_a_used_one_is_not(self):
        pool = ThreadPool(NoticeStack, 100)
        for stack in [pool.get() for _ in range(50)]:
            pool.recycle(stack)
        pool.trim(0.0, 10)  # it was used since it was made
        assert len(pool) == 50
        pool.trim(1e9, 10)  # unused, but not for long enough
        assert len(pool) == 50
        pool.trim(0.0, 10)
        assert len(pool) == 10

    @pytest.mark.parametrize("use", ["notice", "return_", "state", "house"])
    def test_in_debug_mode_a_stale_handle_fails_loudly(self, use):
        pool = ThreadPool(NoticeStack, 4, debug=True)
        stack = pool.get()
        pool.recycle(stack)
        with pytest.raises(StackError, match=f"NoticeStack was recycled.*{use}"):
            getattr(stack, use)
        assert repr(stack) == "<recycled NoticeStack>"

    def test_in_debug_mode_a_reused_object_works_again(self):
        pool = ThreadPool(AskStack, 4, debug=True)
        stack = pool.get()
        stack.asker = stack.ask = None
        pool.recycle(stack)
        assert pool.get() is stack
        assert type(stack) is AskStack
        assert not stack.done


class TestContext:
    def test_pooling_is_off_by_default(self):
        context = Context(None, 32)
        assert not Config().pooling
        assert context.pools == ()
        assert context.recycle is None
        assert context.new_notice_stack is NoticeStack


class TestSystemWithPools:
    def test_stacks_are_reused_for_the_next_message(self):
        with ActorSystem(workers=1, pooling=True) as system:
            actor = Adder()
            address = system.build_actor(lambda: actor)
            for value in range(100):
                address.notice(Number(value))
        assert actor.total == sum(range(100))
        assert len({id(stack) for stack in actor.seen}) == 1

    def test_a_suspended_stack_is_not_reused_before_it_ends(self):
        with ActorSystem(workers=2, pooling=True, debug=True) as system:
            adder = system.build_actor(Adder)
            relays = [system.build_actor(Relay, adder) for _ in range(8)]
            adder.notice(Number(7))
            answers = [system.ask(r, Sum(), timeout=30) for r in relays for _ in range(50)]
            assert {answer.result() for answer in answers} <= {0, 7}

    def test_no_pooled_object_is_ever_used_by_two_threads_at_once(self):
        """Four actors, two threads: each stack that a handler sees was made by its own thread."""
        makers = {}
        strangers = []

        class Watcher(StateActor):
            def resume_notice(self, stack):
                me = threading.get_ident()
                if makers.setdefault(id(stack.pool), me) != me:
                    strangers.append(stack)
                return stack.return_()

            def resume_ask(self, stack):
                return stack.return_(0)

        with ActorSystem(workers=2, pooling=True) as system:
            watchers = [system.build_actor(Watcher) for _ in range(4)]
            for _ in range(500):
                for watcher in watchers:
                    watcher.notice("look")
            for watcher in watchers:
                system.ask(watcher, Sum(), timeout=30).result()
        assert len(makers) == 2
        assert strangers == []

    def test_the_thread_looks_for_idle_pools_by_itself_and_cuts_them_down(
        self, make_real_system, eventually
    ):
        system = make_real_system(
            workers=1,
            pooling=True,
            pool_check_s=0.01,
            pool_idle_s=0.0,
            pool_keep=2,
            timer_tick_ms=1.0,
        )
        (thread,) = system.scheduler.threads
        eventually(lambda: thread.context.pools)
        pool = thread.context.pools[0]

        def fill():
            for stack in [pool.get() for _ in range(20)]:
                pool.recycle(stack)
            assert len(pool) == 20

        filled = threading.Event()
        thread.call(lambda: (fill(), filled.set()))
        assert filled.wait(20)
        eventually(lambda: len(pool) == 2)

    def test_a_kept_stack_fails_loudly_in_debug_mode(self):
        with ActorSystem(workers=1, pooling=True, debug=True) as system:
            actor = Adder()
            address = system.build_actor(lambda: actor)
            address.notice(Number(1))
        # After the stop: a reply is sent before its stack is recycled.
        with pytest.raises(StackError, match="recycled"):
            actor.seen[0].return_()


class TestLaterTasks:
    def test_they_run_on_the_same_thread_after_everything_else_of_the_pass(self):
        order = []

        class Io(StateActor):
            has_channels = True

            def resume_notice(self, stack):
                order.append(stack.notice)
                self.later(lambda: order.append(f"later {stack_name}"))
                stack_name = stack.notice
                return stack.return_()

        with TestSystem() as system:
            address = system.build_actor(Io)
            system.run()
            address.notice("a")
            address.notice("b")
            system.run()
        assert order == ["a", "b", "later a", "later b"]

    def test_one_that_raises_is_logged_and_the_others_run(self, caplog):
        ran = []

        class Io(StateActor):
            def resume_notice(self, stack):
                self.later(lambda: 1 / 0)
                self.later(lambda: ran.append("second"))
                return stack.return_()

        with TestSystem() as system:
            address = system.build_actor(Io)
            address.notice("go")
            system.run()
        assert ran == ["second"]
        assert "later task that failed" in caplog.text

    def test_a_task_queued_by_a_start_hook_runs_too(self):
        ran = []

        class Io(StateActor):
            def after_mount(self):
                self.later(lambda: ran.append("hook"))

        with TestSystem() as system:
            system.build_actor(Io)
            system.run()
        assert ran == ["hook"]

    def test_what_is_no_function_is_refused_at_the_call(self):
        errors = []

        class Io(StateActor):
            def resume_notice(self, stack):
                try:
                    self.later("not a function")
                except TypeError as error:
                    errors.append(str(error))
                return stack.return_()

        with TestSystem() as system:
            system.build_actor(Io).notice("go")
            system.run()
        assert errors == ["later() takes a function to call, not 'not a function'"]
