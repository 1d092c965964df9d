"""Object pools: thread-isolated, bounded, trimmed when idle, and loud about stale handles."""

import threading

import pytest

from otavia_ft import ActorSystem, Ask, Config, FutureState, Notice, StackError, StateActor
from otavia_ft.context import Context
from otavia_ft.message import Envelope
from otavia_ft.pool import ThreadPool, alone
from otavia_ft.stack.promise import MessageFuture
from otavia_ft.stack.stack import AskStack, NoticeStack, Stack
from otavia_ft.stack.state import ChannelFutureState, FuturesState


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


# Every pooled type: how the runtime makes one, and a field with what the maker has put there.
SEAM = {
    "NoticeStack": (lambda c: c.new_notice_stack(), "notice"),
    "AskStack": (lambda c: c.new_ask_stack(), "ask"),
    "BatchNoticeStack": (lambda c: c.new_batch_notice_stack(), "attach"),
    "BatchAskStack": (lambda c: c.new_batch_ask_stack(), "attach"),
    "MessagePromise": (lambda c: c.new_promise(), "value"),
    "ChannelPromise": (lambda c: c.new_channel_promise("channel", "ask"), "channel"),
    "Envelope": (lambda c: c.new_envelope("asker", 7, "message"), "message"),
    "CoroutineState": (lambda c: c.new_coroutine_state("coroutine"), "coroutine"),
    "FutureState": (lambda c: c.new_future_state(7), "id"),
    "FuturesState": (lambda c: c.new_futures_state(3, 7), "id"),
    "ChannelFutureState": (lambda c: c.new_channel_future_state(7), "id"),
}


@pytest.fixture(params=SEAM)
def kind(request):
    return request.param


def with_pools(max_size=4, debug=False):
    context = Context(None, 32)
    context.use_pools(max_size, debug)
    return context


def made_by(context, kind):
    make, field = SEAM[kind]
    thing = make(context)
    if field in ("notice", "ask", "attach", "value"):
        setattr(thing, field, "of this message")
    if kind == "BatchAskStack":
        thing.asks = ()
    return thing


def give_back(context, things):
    """As the runtime does it: from a variable that is the last to hold the object."""
    while things:
        thing = things.pop()
        if isinstance(thing, Stack):
            context.recycle(thing)
        else:
            context.let_go(thing)


class TestEveryPooledType:
    def test_the_seam_makes_it_with_or_without_pools(self, kind):
        for context in (Context(None, 32), with_pools()):
            thing = made_by(context, kind)
            assert type(thing).__name__ == kind
            assert getattr(thing, SEAM[kind][1]) not in (None, 0)

    def test_it_is_reused_and_nothing_is_left_of_its_last_user(self, kind):
        context = with_pools()
        things = [made_by(context, kind)]
        first = id(things[0])
        give_back(context, things)
        (pool,) = [pool for pool in context.pools if len(pool)]
        blank = pool.get()
        assert id(blank) == first
        assert getattr(blank, SEAM[kind][1]) in (None, 0)

    def test_its_pool_keeps_at_most_the_maximum(self, kind):
        context = with_pools(max_size=2)
        give_back(context, [made_by(context, kind) for _ in range(5)])
        assert sum(map(len, context.pools)) == 2

    def test_on_another_thread_than_its_makers_it_is_dropped(self, kind):
        mine, other = with_pools(), with_pools()
        give_back(mine, [made_by(other, kind)])
        assert sum(map(len, mine.pools + other.pools)) == 0

    def test_its_pool_is_cut_down_when_idle(self, kind):
        context = with_pools(max_size=100)
        give_back(context, [made_by(context, kind) for _ in range(50)])
        for pool in context.pools:
            pool.trim(0.0, 10)
            pool.trim(0.0, 10)
        assert sum(map(len, context.pools)) == 10

    def test_in_debug_mode_a_stale_handle_of_it_fails_loudly(self, kind):
        context = with_pools(debug=True)
        thing = made_by(context, kind)
        thing.pool.recycle(thing)
        field = SEAM[kind][1]
        with pytest.raises(StackError, match=f"this {kind} was recycled.*{field}"):
            getattr(thing, field)
        with pytest.raises(StackError, match=f"this {kind} was recycled.*{field}"):
            setattr(thing, field, 1)
        assert repr(thing) == f"<recycled {kind}>"

    def test_in_debug_mode_it_works_again_for_its_next_user(self, kind):
        context = with_pools(debug=True)
        give_back(context, [made_by(context, kind)])
        again = made_by(context, kind)
        assert type(again).__name__ == kind
        assert getattr(again, SEAM[kind][1]) not in (None, 0)


SHOWN = [kind for kind in SEAM if not kind.endswith("Stack")]


class TestWhatSomebodyHolds:
    """Stacks belong to the runtime. All else is pooled only when nobody can see it any more."""

    @pytest.mark.parametrize("kind", SHOWN)
    def test_it_is_not_recycled(self, kind):
        context = with_pools()
        held = made_by(context, kind)
        give_back(context, [held])
        assert sum(map(len, context.pools)) == 0
        assert getattr(held, SEAM[kind][1]) not in (None, 0)

    @pytest.mark.parametrize("kind", SHOWN)
    def test_it_cannot_be_given_back_twice(self, kind):
        context = with_pools()
        thing = made_by(context, kind)
        context.let_go(thing)
        context.let_go(thing)
        assert sum(map(len, context.pools)) == 1

    @pytest.mark.parametrize("kind", SHOWN)
    def test_another_threads_object_is_not_even_looked_into(self, kind, monkeypatch):
        """Its count of references may be just changing, so it must not decide anything."""
        touched = []
        monkeypatch.setattr(ThreadPool, "recycle", lambda pool, thing: touched.append(kind))
        mine, other = with_pools(), with_pools()
        give_back(mine, [made_by(other, kind)])
        assert touched == []
        give_back(other, [made_by(other, kind)])
        assert touched == [kind]

    @pytest.mark.parametrize("kind", ["FutureState", "FuturesState", "ChannelFutureState"])
    def test_a_future_of_a_state_that_is_recycled_stays_with_its_holder(self, kind):
        def future_of(state):
            return state.futures[0] if kind == "FuturesState" else state.future

        context = with_pools()
        state = made_by(context, kind)
        future = future_of(state)
        future.set_success("mine")
        context.let_go(state)
        assert sum(map(len, context.pools)) == 1, "the state itself is nobody's"
        again = made_by(context, kind)
        assert again is state
        assert future.get_now() == "mine"
        assert not future_of(again).is_done

    def test_a_list_of_futures_that_somebody_holds_stays_with_him(self):
        context = with_pools()
        state = context.new_futures_state(3, 1)
        futures = state.futures
        context.let_go(state)
        assert sum(map(len, context.pools)) == 1, "the state itself is nobody's"
        assert context.new_futures_state(3, 1).futures is not futures

    def test_a_reused_state_waits_for_as_many_answers_as_it_is_told(self):
        context = with_pools()
        for n in (3, 1, 5, 5, 2):
            state = context.new_futures_state(n, 0)
            assert len(state.futures) == n
            assert len(set(map(id, state.futures))) == n
            context.let_go(state)
            assert sum(map(len, context.pools)) == 1
        with pytest.raises(ValueError, match="at least one future, not n=0"):
            context.new_futures_state(0, 0)

    def test_outside_actors_a_reused_state_is_a_new_one(self):
        assert FutureState.reused(3).id == 3
        assert [f.is_done for f in FuturesState.reused(2).futures] == [False, False]
        assert ChannelFutureState.reused(4).id == 4

    def test_alone_sees_every_kind_of_holder(self):
        thing = object()
        assert alone(thing)
        holders = [[thing], (thing,), {"key": thing}, lambda kept=thing: kept]
        while holders:
            assert not alone(thing)
            holders.pop()
        assert alone(thing)


class TestContext:
    def test_pooling_is_off_by_default(self):
        context = Context(None, 32)
        assert not Config().pooling
        assert context.pools == ()
        assert context.recycle is None
        assert context.let_go is None
        assert context.new_notice_stack is NoticeStack
        assert context.new_promise is MessageFuture
        assert context.new_envelope is Envelope

    def test_without_pools_no_object_has_a_place_for_one(self):
        """What is off costs nothing, not even eight bytes."""
        context = Context(None, 32)
        for kind in SHOWN:
            assert not hasattr(made_by(context, kind), "pool")


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
