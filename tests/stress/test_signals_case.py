"""A case that gets real signals leaves its process as it was, and waits for nobody in vain."""

import pytest

CASE = """
import json, signal
from dataclasses import replace
from stress.parallel import child
from stress.parallel.draw import draw
child._say = lambda what: None
case = replace(draw(2, ["signals"]), bare=True, lane="native", rounds=12)
case.settings["dispatcher"] = {scheduler!r}
"""


@pytest.mark.usefixtures("free_threaded")
@pytest.mark.parametrize("scheduler", ["pinned", "pool"])
def test_real_signals_come_through_also_where_they_were_ignored_and_are_ignored_again(
    evaluate, scheduler
):
    """A shell without job control starts what runs in the background with SIGINT ignored."""
    report, ignored = evaluate(
        CASE.format(scheduler=scheduler)
        + """
signal.signal(signal.SIGINT, signal.SIG_IGN)
report = child._Runner(case, float("inf")).run()
print(json.dumps([report, signal.getsignal(signal.SIGINT) is signal.SIG_IGN]))
"""
    )
    assert report["findings"] == []
    assert report["rounds"] == 12
    assert ignored


@pytest.mark.usefixtures("free_threaded")
def test_a_workload_waits_with_a_deadline_and_no_longer_after_a_finding(evaluate):
    findings, took = evaluate("""
import json, random, time
from dataclasses import replace
from stress.parallel.draw import draw
from stress.parallel.lab import Lab
from stress.parallel.workloads import WORKLOADS
lab = Lab(draw(1, ["count"], patience_s=0.1))
workload = WORKLOADS["count"](lab, random.Random(1))
assert workload.until(lambda: True, "no-error", "at once")
assert not workload.until(lambda: False, "no-lost-wake-up", "never")
lab.case = replace(lab.case, patience_s=1000.0)
began = time.monotonic()
assert not workload.until(lambda: False, "no-error", "another one")
print(json.dumps([lab.findings, time.monotonic() - began]))
""")
    assert [finding["text"] for finding in findings] == ["never"]
    assert took < 30
