"""When a round is over: whatever timers are pending, and nothing of it is left behind."""

import pytest

# A system in which `lost` has mail that nobody was told of.
STAGE = """
import json, os, time
os.environ["OTAVIA_FT_LANE"] = {lane!r}
from otavia_ft import ActorSystem, Notice, StateActor, on
from otavia_ft.atomic import HouseCell, Mailbox
from stress.parallel.draw import draw
from stress.parallel.lab import Lab
from stress.parallel.leftovers import Leftovers
from stress.parallel.settle import one_shots, settle

class Resting(StateActor):
    __module__ = "stress.parallel.workloads"  # where the harness has its actors

    @on(object)
    def anything(self, message): pass

lab = Lab(draw(1, ["count"], patience_s=3.0))

def stage(**settings):
    settings |= dict(workers=2, memory_monitor=False, timer_tick_ms=0.5)
    system = lab.system = ActorSystem(**settings)
    addresses = [system.build_actor(Resting) for _ in range(3)]
    for address in addresses:
        system.ask(address, "ping")
        lab.houses.append(lambda house=address.house: house)
    return system, addresses
"""
TIMERS = {
    "none": "",
    "a quiet periodic one": "system.timer.after(1000, print, None, 1000)",
    "those of the pools": "settings = dict(pooling=True)",
    "one that keeps an actor busy": "system.timer.after(0, addresses[0].notice, Notice(), 0.01)",
    "one that fires once, much later": "system.timer.after(1000, print)",
}


@pytest.fixture
def on_stage(evaluate):
    def run(code, lane="native"):
        return evaluate(STAGE.format(lane=lane) + code)

    return run


@pytest.mark.usefixtures("free_threaded")
@pytest.mark.parametrize("timers", TIMERS)
def test_mail_that_nobody_was_told_of_is_found_whatever_timers_are_pending(on_stage, timers):
    before, after = TIMERS[timers], ""
    if not before.startswith("settings"):
        before, after = "settings = {}", before
    findings = on_stage(f"""
{before}
system, addresses = stage(**settings)
settle(lab, lambda: len(system.outside) == 0 and one_shots(system.timer) == 0)
assert not lab.findings
{after}
HouseCell.put(addresses[2].house, Mailbox.NOTICE, "lost")
settle(lab, lambda: False)
print(json.dumps(lab.findings))
""")
    assert [finding["invariant"] for finding in findings] == ["no-lost-wake-up"]
    assert "Resting#3 WAITING mail {'notice': 1}" in findings[0]["text"]


@pytest.mark.usefixtures("free_threaded")
@pytest.mark.parametrize("period", ["1000", "0.01"])
def test_a_periodic_timer_does_not_keep_a_round_from_ending(on_stage, period):
    findings = on_stage(f"""
system, addresses = stage()
system.timer.after({period}, addresses[0].notice, Notice(), {period})
settle(lab, lambda: True)
settle(lab, lambda: False)
print(json.dumps(lab.findings))
""")
    assert findings == []


def test_only_timers_that_fire_once_are_waited_for(on_stage):
    counts = on_stage("""
from otavia_ft.timer import Timer
timer = Timer(0.01)
counts = [one_shots(timer)]
periodic = timer.after(100, print, None, 100)
counts.append(one_shots(timer))
once = timer.after(100, print)
counts.append(one_shots(timer))
once.cancel()
counts.append(one_shots(timer))
print(json.dumps(counts))
""")
    assert counts == [0, 0, 1, 0]


LEFT = {
    "NoticeStack": "from otavia_ft import NoticeStack; kept = NoticeStack()",
    "AskStack": "from otavia_ft import AskStack; kept = AskStack()",
    "MessagePromise": "from otavia_ft.stack.promise import MessagePromise; kept = MessagePromise()",
    "Envelope": "from otavia_ft.message import Envelope; kept = Envelope(None, 1, 'ask')",
    "TimerTask": "kept = system.timer.after(1000, print)",
    "ActorAddress": "kept = addresses[0]",
    "House": "kept = addresses[0].house",
    "Resting": "kept = addresses[0].house.actor",
    "Drain": "kept = HouseCell().drain(Mailbox.NOTICE, 1)",
    "OutsideAsk": "from otavia_ft.outside import OutsideAsk; kept = OutsideAsk(None, 1, None)",
    "Future": "kept = system.ask(addresses[0], 'again')",
    "coroutine": "async def nothing(): pass\nkept = nothing()",
}


@pytest.mark.usefixtures("free_threaded")
@pytest.mark.parametrize("lane", ["native", "python"])
def test_whatever_a_round_has_left_behind_is_found_by_its_type(on_stage, lane):
    found = on_stage(
        f"""
import gc, warnings
warnings.simplefilter("ignore")  # a coroutine that was never awaited
found = {{}}
for kind, keep in {LEFT!r}.items():
    leftovers = Leftovers(lab, patience_s=0.2)
    system, addresses = stage()
    lab.houses.clear()
    exec(keep)
    del addresses
    system.stop()
    lab.system = None
    del system
    leftovers.look()
    found[kind] = [finding["text"] for finding in lab.findings]
    lab.findings.clear()
    kept = None
    leftovers._patience_s = 5.0
    leftovers.look()
    assert not lab.findings, (kind, lab.findings)
print(json.dumps(found))
""",
        lane,
    )
    assert list(found) == list(LEFT)
    for kind, texts in found.items():
        assert len(texts) == 1, (kind, texts)
        assert f"1 {kind}" in texts[0]
