"""The verdicts of the benchmarks: given figures, is it PASS, FAIL or not measured?"""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

sys.path.insert(0, str(ROOT / "bench"))
try:
    import messages
    import steps
    from savina import __main__ as child
    from savina import bars, common, host, peers, report
    from savina.catalogue import PEERS, WHY_NOT, WORKLOADS
finally:
    sys.path.remove(str(ROOT / "bench"))


def figures(**medians):
    return {name: {"median": value, "min": value} for name, value in medians.items()}


def verdicts(results, processes=None):
    return {bar.name: bar.verdict for bar in bars.judge(results, processes)}


class TestPeers:
    def test_each_dispatcher_by_itself_is_held_against_the_best_peer(self):
        judged = bars.judge({"big": figures(pinned=5.0, pool=2.0, asyncio=9.0, threads=8.0)})
        assert [(bar.measured, bar.verdict) for bar in judged] == [
            ("1.60 (against threads)", "FAIL"),
            ("4.00 (against threads)", "PASS"),
        ]

    def test_the_default_dispatcher_can_fail_where_the_other_one_passes(self):
        counting = figures(pinned=0.3, pool=0.2, threads=0.25, floor=0.08)
        judged = verdicts({"counting": counting})
        title = "counting, times as fast as a thread with a SimpleQueue"
        assert (judged[f"{title} (pinned)"], judged[f"{title} (pool)"]) == ("FAIL", "PASS")
        title = "counting, times the floor"
        assert (judged[f"{title} (pinned)"], judged[f"{title} (pool)"]) == ("FAIL", "PASS")

    def test_erlang_and_the_peers_with_a_gil_set_no_bar(self):
        results = {"big": figures(pinned=2.0, asyncio=9.0, erlang=0.5, **{"asyncio (GIL)": 1.0})}
        assert verdicts(results)["big, times as fast as the best peer (pinned)"] == "PASS"

    def test_just_below_the_bar_is_a_fail(self):
        results = {"ring": figures(pinned=1.01, asyncio=6.0)}
        assert verdicts(results)["ring, times as fast as the best peer (pinned)"] == "FAIL"

    def test_without_a_peer_there_is_no_verdict(self):
        judged = bars.judge({"ring": figures(pinned=1.0)})
        assert (judged[0].measured, judged[0].verdict) == ("not measured", "-")


class TestEveryBar:
    """Just inside each bar, and just outside."""

    @pytest.mark.parametrize(
        ("workload", "times"),
        [("counting", 1), ("fan-in", 1), ("ping-pong", 6), ("ring", 6), ("ask-reply", 4),
         ("ask-reply-await", 4), ("big", 4), ("fork-join", 2)],
    )  # fmt: skip
    def test_times_as_fast_as_the_best_peer(self, workload, times):
        whom = "a thread with a SimpleQueue" if times == 1 else "the best peer"
        name = f"{workload}, times as fast as {whom} (pool)"
        for theirs, verdict in ((times, "PASS"), (0.99 * times, "FAIL")):
            judged = verdicts({workload: figures(pool=1.0, threads=theirs, pykka=9.0 * times)})
            assert judged[name] == verdict

    @pytest.mark.parametrize(
        ("name", "inside", "outside"),
        [
            (
                "ask-reply, await against by hand (pool)",
                {"ask-reply": figures(pool=2.0), "ask-reply-await": figures(pool=3.0)},
                {"ask-reply": figures(pool=2.0), "ask-reply-await": figures(pool=3.1)},
            ),
            (
                "CPU map, all workers against one (pool)",
                {"cpu-map-one": figures(pool=19.0), "cpu-map": figures(pool=10.0)},
                {"cpu-map-one": figures(pool=18.9), "cpu-map": figures(pool=10.0)},
            ),
            (
                "notice to a sleeper, times a bare eventfd (pool)",
                {"wake-up": {"pool": {"median": 13.0, "min": 1.0, "eventfd": 10e-6}}},
                {"wake-up": {"pool": {"median": 13.1, "min": 1.0, "eventfd": 10e-6}}},
            ),
        ],
    )
    def test_all_others(self, name, inside, outside):
        assert verdicts(inside)[name] == "PASS"
        assert verdicts(outside)[name] == "FAIL"


class TestFloor:
    def test_three_times_the_floor_is_allowed_and_more_is_not(self):
        name = "counting, times the floor (pinned)"
        for ours, verdict in ((0.3, "PASS"), (0.31, "FAIL")):
            results = {"counting": figures(pinned=ours, threads=0.5, floor=0.1)}
            assert verdicts(results)[name] == verdict


class TestMemory:
    def many(self, size, erlang):
        many = figures(pinned=5.0, erlang=3.0)
        many["pinned"] |= {"bytes": size, "n": 1_000_000}
        many["erlang"] |= {"bytes": erlang, "n": 1_000_000}
        return {"many": many}

    def test_a_thousand_bytes_and_less_than_an_erlang_process(self):
        judged = verdicts(self.many(900.0, 2700.0))
        assert judged["bytes an actor (pinned)"] == "PASS"
        assert judged["bytes an actor, times an Erlang process's (pinned)"] == "PASS"

    def test_either_can_fail_alone(self):
        judged = verdicts(self.many(1100.0, 2700.0))
        assert judged["bytes an actor (pinned)"] == "FAIL"
        assert judged["bytes an actor, times an Erlang process's (pinned)"] == "PASS"
        judged = verdicts(self.many(900.0, 800.0))
        assert judged["bytes an actor, times an Erlang process's (pinned)"] == "FAIL"

    @pytest.mark.parametrize(
        ("figure", "alive", "rate"),
        [
            ({"n": 10_000_000, "spawn": 60.0}, "PASS", "PASS"),
            ({"n": 10_000_000, "spawn": 70.0}, "PASS", "FAIL"),
            ({"n": 1_000_000, "spawn": 6.0}, "FAIL", "PASS"),
            ({"why": "MemoryError: "}, "FAIL", "-"),
            ({"why": "crowd needs 15 GB of free memory"}, "-", "-"),
        ],
    )
    def test_ten_million_alive_and_how_fast_they_came(self, figure, alive, rate):
        judged = verdicts({"crowd": {"pinned": figure}})
        assert judged["actors alive at once (pinned)"] == alive
        assert judged["actors spawned a second (pinned)"] == rate


class TestGrowth:
    def bar(self, curve):
        results = {"growth-actors": {"pinned": {"median": 1.0, "curve": curve}}}
        return next(bar for bar in bars.judge(results) if "(pinned)" in bar.name)

    def test_a_bump_in_the_middle_counts_as_much_as_one_at_the_end(self):
        assert self.bar({"10": 1.0, "100": 1.19, "1000": 1.1}).verdict == "PASS"
        assert self.bar({"10": 1.0, "100": 1.3, "1000": 1.0}).verdict == "FAIL"
        assert self.bar({"10": 1.0, "100": 1.0, "1000": 1.3}).verdict == "FAIL"


class TestSlowdown:
    """What the guard says of runs that took turns."""

    NOISE = (1.0, 1.08, 0.95, 1.02, 0.99, 1.1, 0.97, 1.01, 1.04)

    def failed(self, base, here):
        return bars.slowdown(base, here).failed

    def test_a_quarter_slower_fails_in_usual_noise(self):
        here = [1.25 * noise for noise in reversed(self.NOISE)]
        assert self.failed(self.NOISE, here)

    def test_the_same_passes_in_usual_noise(self):
        assert not self.failed(self.NOISE, self.NOISE[::-1])
        assert not self.failed(self.NOISE, self.NOISE[3:] + self.NOISE[:3])

    def test_a_tenth_slower_fails_where_there_is_no_noise(self):
        assert self.failed([1.0] * 9, [1.1] * 9)

    def test_so_does_what_was_just_below_a_fixed_limit_in_every_round(self):
        assert self.failed([1.0] * 9, [1.24] * 9)

    def test_a_slow_spell_of_the_machine_hits_both_and_says_nothing(self):
        spell = [1.0] * 4 + [3.0] * 5
        assert not self.failed(spell, [1.02 * one for one in spell])

    def test_one_disturbed_round_neither_fails_nor_hides_a_slowdown(self):
        assert not self.failed([1.0] * 9, [1.0] * 8 + [50.0])
        assert self.failed([1.0] * 9, [1.2] * 8 + [0.1])

    def test_less_than_anybody_notices_passes(self):
        assert not self.failed([1.0] * 9, [1.04] * 9)

    def test_faster_passes(self):
        assert not self.failed([1.0] * 9, [0.5] * 9)

    def test_noise_raises_the_limit(self):
        wild = [1.0, 2.0, 0.5, 1.7, 0.6, 1.0, 1.4, 0.8, 1.2]
        assert bars.slowdown([1.0] * 9, wild).limit > 1.25


class TestGaps:
    def test_every_workload_runs_for_every_peer_or_has_a_reason(self):
        for name in PEERS:
            runs = {*peers.PROGRAMS, *child.extras_of(child.kit_of(name))}
            for workload, work in WORKLOADS.items():
                if not work.ours_only:
                    assert (workload in runs) or (name, workload) in WHY_NOT, (name, workload)
        for workload, work in WORKLOADS.items():
            if not work.ours_only:
                assert workload in host.ERLANG | set(host.ERLANG_TWICE), workload

    def test_no_reason_is_given_for_what_does_not_exist(self):
        for name, workload in WHY_NOT:
            assert name in PEERS
            assert not WORKLOADS[workload].ours_only
            assert workload not in child.extras_of(child.kit_of(name))

    def test_what_has_a_reason_is_not_run(self):
        assert "cpu-map" not in child.runs_of("asyncio")

    def test_the_reasons_stand_below_the_figures(self):
        results = {
            "cpu-map": {"asyncio": {"why": "one thread"}, "asyncio (GIL)": {"why": "one thread"}},
            "ring-across": {"asyncio": {"why": "one thread"}},
        }
        assert messages.remarks(results) == [
            "asyncio: no figure for CPU map, all workers; thread ring, all workers: one thread"
        ]

    def test_so_does_what_is_no_median_of_all_rounds(self):
        said = messages.remarks({"crowd": figures(pinned=7.0), "counting": figures(pinned=0.3)})
        assert "ten million actors: one run, which takes minutes" in said
        assert all("counting" not in remark for remark in said)
        for work in WORKLOADS.values():
            assert bool(work.rounds) == bool(work.why_rounds)


class TestSteps:
    def test_the_turn_is_what_a_hop_costs_more_than_the_same_handler_without_it(self):
        runs = {name: [10.0] for name in steps.PARTS}
        runs |= {"send": [60.0, 61.0], "receive": [100.0, 100.0]}
        runs |= {"pass on": [200.0, 500.0], "hop": [350.0, 660.0], "ready": [55.0, 55.0]}
        rows = {name: cost for name, cost, _ in steps.rows(runs)}
        assert rows["... of that, the turn"] == "155"  # the median of the rounds' differences
        assert rows["... of the turn, make ready and queue"] == "55"
        assert rows["... of the turn, take from the queue, run, wait again"] == "100"

    def test_parts_that_only_the_python_lane_calls_say_so(self):
        for name, (setup, _) in steps.PARTS.items():
            assert ("HouseCell" in setup) == name.startswith("Python lane: ")


class TestReport:
    def test_a_block_is_replaced_and_the_rest_of_the_page_is_left_alone(
        self, tmp_path, monkeypatch
    ):
        page = tmp_path / "page.md"
        page.write_text("above\n<!-- a: begin -->\nold\n<!-- a: end -->\nbelow\n")
        monkeypatch.setattr(report, "PAGE", page)
        monkeypatch.setattr(report, "ROOT", tmp_path)
        report.replace_block("a", "new\n")
        wanted = "above\n<!-- a: begin -->\n\nnew\n\n<!-- a: end -->\nbelow\n"
        assert page.read_text() == wanted
        with pytest.raises(ValueError, match="no markers for b"):
            report.replace_block("b", "new\n")

    @pytest.mark.parametrize("name", ["bars", "figures", "steps", "guard-pinned", "guard-pool"])
    def test_every_block_of_the_page_has_figures(self, name):
        _, _, rest = report.PAGE.read_text().partition(f"<!-- {name}: begin -->")
        block, end, _ = rest.partition(f"<!-- {name}: end -->")
        assert end
        assert re.search(r"^\| [^|]+ \|.*\d", block, re.MULTILINE)

    def test_the_page_is_of_the_workloads_and_bars_that_there_are(self):
        page = report.PAGE.read_text()
        for work in WORKLOADS.values():
            assert f"\n| {work.title} ({work.operation}) |" in page
        results = {
            workload: {
                name: {"median": 1.0, "min": 1.0, "curve": {"1": 1.0}, "bytes": 1.0}
                for name in ("pinned", "pool", "threads", "erlang")
            }
            for workload in WORKLOADS
        }
        for bar in bars.judge(results):
            assert f"\n| {bar.name} |" in page

    def test_the_line_about_the_machine_names_the_revision(self):
        assert "revision 1a2b3c4" in report.machine_line(
            {"python": "3.13.5t", "gil": False, "cores": 2, "cpu": "a core", "load": [0.5],
             "revision": "1a2b3c4"}
        )  # fmt: skip


def test_a_wrong_result_is_an_error_and_not_a_figure():
    with pytest.raises(common.WrongResultError, match="is 3 and should be 4"):
        common.expect(3, 4)


def test_the_erlang_programs_are_those_that_the_host_asks_for():
    written = re.findall(r'^run\("([a-z-]+)",', host.ESCRIPT.read_text(), re.MULTILINE)
    assert set(written) == host.ERLANG
    assert set(host.ERLANG_TWICE.values()) <= host.ERLANG
    assert host.ERLANG | set(host.ERLANG_TWICE) <= set(WORKLOADS)
