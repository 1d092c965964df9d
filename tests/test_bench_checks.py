"""A contender that does not do the work gets no figure: the programs check their results."""

import sys
import threading
from collections import deque
from pathlib import Path

import pytest

from otavia_ft import StateActor, on

BENCH = Path(__file__).resolve().parent.parent / "bench"

sys.path.insert(0, str(BENCH))
try:
    from savina import growth, kits, kits_executor, latency, otavia, otavia_jobs, otavia_load, peers
    from savina.common import WrongResultError
finally:
    sys.path.remove(str(BENCH))

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the benchmarks read /proc"
)


@pytest.fixture(params=["pinned", "pool"])
def dispatcher(request, monkeypatch):
    monkeypatch.setattr(otavia, "dispatcher", request.param)


class Twice(peers.Wall):
    def receive(self, ball):
        self.peer(ball)
        self.peer(ball)


class OursTwice(StateActor):
    def __init__(self, peer):
        self.peer = peer

    @on(int)
    def back(self, ball):
        self.peer.notice(ball)
        self.peer.notice(ball)


class TestPingPong:
    @pytest.mark.parametrize("kit", [kits.Threads, kits_executor.Executor])
    def test_a_peer_that_doubles_each_ball_is_refused(self, kit, monkeypatch):
        monkeypatch.setattr(peers, "Wall", Twice)
        with pytest.raises(WrongResultError):
            kit().measure(peers.ping_pong, 100)

    @pytest.mark.usefixtures("dispatcher")
    def test_so_are_we(self, monkeypatch):
        monkeypatch.setattr(otavia, "Wall", OursTwice)
        with pytest.raises(WrongResultError):
            otavia.ping_pong(100)


def twice(tell):
    """What it tells, it tells a second time."""

    def both(message):
        tell(message)
        tell(message)

    return both


class Doubled:
    """An address of ours that sends each notice twice."""

    def __init__(self, address):
        self.notice = twice(address.notice)


class TestSums:
    """What came twice is found where numbers are added up, also when the right sum came first."""

    @pytest.mark.parametrize("kit", [kits.Threads, kits_executor.Executor, kits.Asyncio])
    @pytest.mark.parametrize(
        ("program", "sender"),
        [
            (peers.counting, "Producer"),
            (peers.fan_in, "Producer"),
            (peers.fork_join_create, "Worker"),
            (peers.many, "Worker"),
        ],
    )
    def test_a_peer_that_sends_everything_twice_is_refused(self, program, sender, kit, monkeypatch):
        honest = getattr(peers, sender)

        def doubling(*arguments):
            return honest(*arguments[:-1], twice(arguments[-1]))

        monkeypatch.setattr(peers, sender, doubling)
        with pytest.raises(WrongResultError):
            kit().measure(program, 64)

    @pytest.mark.parametrize("kit", [kits.Threads, kits.Asyncio])
    def test_a_peer_that_forks_everything_twice_is_refused(self, kit, monkeypatch):
        honest = peers.Fork
        monkeypatch.setattr(peers, "Fork", lambda targets: honest([twice(t) for t in targets]))
        with pytest.raises(WrongResultError):
            kit().measure(peers.fork_join, 120)

    @pytest.mark.usefixtures("dispatcher")
    @pytest.mark.parametrize("workload", ["counting", "fan-in"])
    def test_so_are_we(self, workload, monkeypatch):
        class Doubling(otavia.Producer):
            def __init__(self, target):
                super().__init__(Doubled(target))

        monkeypatch.setattr(otavia, "Producer", Doubling)
        with pytest.raises(WrongResultError):
            otavia.WORKLOADS[workload](64)

    @pytest.mark.usefixtures("dispatcher")
    def test_so_is_a_fork_of_ours(self, monkeypatch):
        class Doubling(otavia.Fork):
            def __init__(self, targets):
                super().__init__([Doubled(target) for target in targets])

        monkeypatch.setattr(otavia, "Fork", Doubling)
        with pytest.raises(WrongResultError):
            otavia.fork_join(120)

    @pytest.mark.usefixtures("dispatcher")
    def test_so_is_a_worker_of_ours(self, monkeypatch):
        class Doubling(otavia.Worker):
            def __init__(self, share, sink):
                super().__init__(share, Doubled(sink))

        monkeypatch.setattr(otavia, "Worker", Doubling)
        with pytest.raises(WrongResultError):
            otavia.fork_join_create(64)

    @pytest.mark.usefixtures("dispatcher")
    def test_so_is_a_pong_that_comes_twice(self, monkeypatch):
        class Doubling(otavia_jobs.Neighbour):
            @on(int)
            def receive(self, sender):
                if sender >= 0:
                    self.peers[sender].notice(-1)
                super().receive(sender)

        monkeypatch.setattr(otavia_jobs, "Neighbour", Doubling)
        with pytest.raises(WrongResultError):
            otavia_jobs.big(640)


class TestLatency:
    def test_an_ask_that_failed_is_no_answer(self):
        def request(done):
            future = latency.Future()
            future.add_done_callback(done)
            future.set_exception(KeyError("no such account"))

        with pytest.raises(WrongResultError, match="no such account"):
            latency.half_load(20, request)

    def test_neither_is_a_wrong_one(self):
        def request(done):
            future = latency.Future()
            future.add_done_callback(done)
            future.set_result(2)

        with pytest.raises(WrongResultError):
            latency.half_load(20, request)


class TestRing:
    def test_a_token_that_never_left_its_node_is_refused(self, monkeypatch):
        honest = peers.ring

        def astray(spawn, n, finish):
            tells = []

            def only_the_first(node):
                tells.append(spawn(node))
                return tells[0]

            return honest(only_the_first, n, finish)

        with pytest.raises(WrongResultError):
            kits.Threads().measure(astray, 200)

    @pytest.mark.usefixtures("dispatcher")
    def test_so_it_is_with_us(self, monkeypatch):
        class Stays(otavia.Node):
            @on(int)
            def pass_on(self, token):
                if token:
                    self.address.notice(token - 1)
                else:
                    self.box.put(self.index)

        monkeypatch.setattr(otavia, "Node", Stays)
        with pytest.raises(WrongResultError):
            otavia.ring(200)

    def test_a_result_that_comes_twice_is_refused(self):
        def program(spawn, n, finish):
            def ends_twice(message):
                finish(message)
                finish(message)

            tell = spawn(type("Behaviour", (), {"receive": staticmethod(ends_twice)}))
            return lambda: tell(1), 1, 1

        with pytest.raises(WrongResultError):
            kits.Threads().measure(program, 1)


class TestWakeUp:
    @pytest.mark.usefixtures("dispatcher")
    def test_a_sleeper_that_hears_something_else_is_refused(self, monkeypatch):
        class Deaf(StateActor):
            def __init__(self, box):
                self.box = box

            @on(float)
            def woken(self, sent):
                self.box.put((0.0, sent))

        monkeypatch.setattr(otavia_load, "Sleeper", Deaf)
        with pytest.raises(WrongResultError):
            otavia_load.wake_up(4)


@pytest.mark.usefixtures("dispatcher")
class TestGrowth:
    @pytest.mark.parametrize("workload", list(growth.WORKLOADS))
    def test_every_size_has_the_median_of_seven_windows_or_more(self, workload):
        figures = growth.WORKLOADS[workload](100)
        assert list(figures["curve"])[-2:] == ["10", "100"]
        assert all(len(costs) == growth.WINDOWS for costs in figures["windows"].values())
        assert growth.WINDOWS >= 7
        assert all(cost > 0 for cost in figures["curve"].values())

    def test_only_the_size_whose_window_is_open_runs(self):
        one, other = (growth.Size(number, 3, 1, "as built") for number in (1, 2))
        before = other._handled()
        one.window(0.0, 1000)
        assert other._handled() == before
        one.close()
        other.close()

    def test_a_message_that_is_lost_is_found_at_the_end(self, monkeypatch):
        monkeypatch.setattr(growth, "PATIENCE", 30.0)

        class Forgetful(growth.Again):
            @on(growth.Fill)
            def fill(self, fill):
                for _ in range(fill.messages - 1):
                    self.me.notice(fill.number)

        monkeypatch.setattr(growth, "Again", Forgetful)
        size = growth.Size(1, 1, 5, "as built")
        with pytest.raises(WrongResultError):
            size.close()


class TestStrand:
    """The executor's actors: in order, one message at a time, none forgotten."""

    def test_messages_of_each_sender_stay_in_order_and_never_overlap(self):
        kit, seen, inside = kits_executor.Executor(4), [], threading.Lock()
        over = threading.Event()
        senders, each = 4, 2000

        class Behaviour:
            def receive(self, message):
                if not inside.acquire(blocking=False):
                    seen.append("two at once")
                seen.append(message)
                inside.release()
                if len(seen) == senders * each:
                    over.set()

        tell = kit.spawn(Behaviour())

        def send(sender):
            for number in range(each):
                tell((sender, number))

        threads = [threading.Thread(target=send, args=(one,)) for one in range(senders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert over.wait(60)
        kit.close()
        for sender in range(senders):
            assert [n for who, n in seen if who == sender] == list(range(each))

    def test_a_message_that_comes_while_its_actor_stops_is_not_left_behind(self):
        seen, calls = [], []
        strand = kits_executor.Strand(seen.append, calls.append)

        class Mailbox(deque):
            def popleft(self):
                if not self and "late" not in seen:
                    strand.tell("late")  # finds it busy, and relies on that
                    raise IndexError
                return super().popleft()

        strand._mailbox = Mailbox()
        strand.tell("early")
        assert len(calls) == 1
        for call in calls:
            call()
        assert seen == ["early", "late"]


class AtOnce(kits.Kit):
    """Delivers the newest message first, on the sender's thread, as soon as its handler is done."""

    def __init__(self):
        self._waiting, self._running = [], False

    def spawn(self, behaviour):
        return lambda message: self._tell(behaviour.receive, message)

    def _tell(self, receive, message):
        self._waiting.append((receive, message))
        if not self._running:
            self._running = True
            while self._waiting:
                first, sent = self._waiting.pop()
                first(sent)
            self._running = False

    def close(self):
        pass


def test_creatures_that_met_nobody_do_not_end_chameneos_a_second_time():
    """Here two creatures meet all the time, and the others come too late."""
    assert AtOnce().measure(peers.chameneos, 20)["operations"] == 20
