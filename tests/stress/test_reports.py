"""What a finding tells is what was: every house, the settings that ran, the shares of a run."""

import json
import re


def test_every_house_is_told_of_those_with_mail_one_by_one_and_the_others_in_groups(evaluate):
    names, lines = evaluate("""
import json
from otavia_ft import ActorSystem, StateActor
from otavia_ft.atomic import HouseCell, Mailbox
from stress.parallel.houses import house_lines, waits

class Resting(StateActor): pass
class Other(StateActor): pass

with ActorSystem(workers=2, memory_monitor=False) as system:
    kinds = [Other if n in (7, 8, 50) else Resting for n in range(412)]
    addresses = [system.build_actor(kind) for kind in kinds]
    houses = [address.house for address in addresses]
    while any(waits(house) for house in houses):
        pass
    HouseCell.put(houses[99], Mailbox.NOTICE, "lost")
    HouseCell.put(houses[299], Mailbox.ASK, "lost")
    print(json.dumps([[house.name for house in houses], house_lines(houses)]))
""")
    assert lines[:2] == [
        "Resting#100 WAITING mail {'notice': 1}",
        "Resting#300 WAITING mail {'ask': 1}",
    ]
    (group,) = lines[2:]
    assert group.startswith("410 houses WAITING without mail: ")
    assert len(group) < 200
    told = {"Resting#100", "Resting#300"}
    for kind, ranges in re.findall(r"(\w+?)((?:#\d+(?:…#\d+)? ?)+)", group.split(": ")[1]):
        for first, last in re.findall(r"#(\d+)(?:…#(\d+))?", ranges):
            told |= {f"{kind}#{n}" for n in range(int(first), int(last or first) + 1)}
    assert told == set(names)


def test_a_finding_shows_the_settings_that_ran_and_not_those_that_were_drawn(evaluate):
    drawn, report = evaluate("""
import json, subprocess, sys
from dataclasses import replace
from stress.parallel.draw import draw
cases = (replace(draw(seed, ["priority"], patience_s=0.5), lane="python") for seed in range(1000))
case = next(c for c in cases if c.settings["dispatcher"] == "pool" and c.settings["workers"] == 4)
code = '''
import os, sys, threading
os.environ["OTAVIA_FT_LANE"] = "python"  # the instruments' own, before anything is imported
from stress.parallel import child
from stress.parallel.workloads import scheduling
scheduling.Priority.bodies = lambda self: [threading.Event().wait]
child.main(sys.argv[1])
'''
text = json.dumps(case.as_dict())
done = subprocess.run([sys.executable, "-c", code, text], capture_output=True, text=True)
print(json.dumps([case.settings, json.loads(done.stdout.splitlines()[-1])]))
""")
    (finding,) = report["findings"]
    assert (drawn["dispatcher"], drawn["workers"], drawn["memory_monitor"]) == ("pool", 4, False)
    assert (finding["settings"]["dispatcher"], finding["settings"]["workers"]) == ("pinned", 2)
    assert finding["settings"].keys() == drawn.keys()


def test_a_crash_shows_the_settings_that_the_child_has_said_before(evaluate):
    (finding,) = evaluate("""
import json
from stress.parallel.draw import draw
from stress.parallel.engine import Outcome, _crashed, _understood
outcome = Outcome(1)
case = draw(1, ["count"])
said = _understood('{"settings": {"dispatcher": "ran"}}') | _crashed(-11, "")
outcome.add(case, said)
print(json.dumps(outcome.findings))
""")
    assert finding["settings"] == {"dispatcher": "ran"}


def test_messages_are_told_by_workload_scheduler_and_lane_in_text_and_json(run_module, tmp_path):
    path = tmp_path / "report.json"
    result = run_module("stress", "--seed", "11", "--cases", "4", "--json", str(path))
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(path.read_text(encoding="utf-8"))
    shares = report["shares"]
    assert sum(share["messages"] for share in shares) == report["messages"] > 0
    assert sum(share["cases"] for share in shares) == report["cases"] == 4
    keys = [(share["workload"], share["scheduler"], share["lane"]) for share in shares]
    assert len(set(keys)) == len(keys)
    table = result.stdout.splitlines()
    head = next(line for line in table if line.startswith("messages"))
    for share in shares:
        assert f"{share['scheduler']}/{share['lane']}" in head
        line = next(line for line in table if line.startswith(f"{share['workload']} "))
        assert f"{share['messages']:,}" in line.split()
    total = next(line for line in table if line.startswith("all "))
    assert total.split()[-1] == f"{report['messages']:,}"


def test_the_last_events_can_be_read_while_threads_go_on_writing_them(evaluate):
    looks = evaluate("""
import threading
from stress.parallel.events import Events
events, over = Events(), threading.Event()

def write():
    while not over.is_set():
        events.note(1, "step")

threads = [threading.Thread(target=write) for _ in range(2)]
for thread in threads: thread.start()
try:
    for look in range(3000):
        events.lines([1])
finally:
    over.set()
    for thread in threads: thread.join()
print(look + 1)
""")
    assert looks == 3000
