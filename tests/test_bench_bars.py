"""The verdicts of the benchmarks: given figures, is it PASS, FAIL or not measured?"""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

sys.path.insert(0, str(ROOT / "bench"))
try:
    from savina import bars, common, host, report
    from savina.catalogue import WORKLOADS
finally:
    sys.path.remove(str(ROOT / "bench"))


def figures(**medians):
    return {name: {"median": value, "min": value} for name, value in medians.items()}


def verdicts(results, processes=None):
    return {bar.name: bar.verdict for bar in bars.judge(results, processes)}


class TestPeers:
    def test_our_better_dispatcher_is_held_against_the_best_peer(self):
        judged = bars.judge({"big": figures(pinned=5.0, pool=2.0, asyncio=9.0, threads=8.0)})
        assert (judged[0].measured, judged[0].verdict) == ("4.00 (pool against threads)", "PASS")

    def test_erlang_and_the_peers_with_a_gil_set_no_bar(self):
        results = {"big": figures(pinned=2.0, asyncio=9.0, erlang=0.5, **{"asyncio (GIL)": 1.0})}
        assert verdicts(results)["big, times as fast as the best peer"] == "PASS"

    def test_just_below_the_bar_is_a_fail(self):
        results = {"ring": figures(pinned=1.01, asyncio=6.0)}
        assert verdicts(results)["ring, times as fast as the best peer"] == "FAIL"

    def test_without_a_peer_there_is_no_verdict(self):
        judged = bars.judge({"ring": figures(pinned=1.0)})
        assert (judged[0].measured, judged[0].verdict) == ("not measured", "-")


class TestFloor:
    def test_three_times_the_floor_is_allowed_and_more_is_not(self):
        name = "counting, times the floor"
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

    def test_the_page_has_a_place_for_every_block(self):
        for name in ("bars", "figures", "steps", "guard"):
            assert f"<!-- {name}: begin -->" in report.PAGE.read_text()


def test_a_wrong_result_is_an_error_and_not_a_figure():
    with pytest.raises(common.WrongResultError, match="is 3 and should be 4"):
        common.expect(3, 4)


def test_the_erlang_programs_are_those_that_the_host_asks_for():
    written = re.findall(r'^run\("([a-z-]+)",', host.ESCRIPT.read_text(), re.MULTILINE)
    assert set(written) == host.ERLANG
    assert set(host.ERLANG_TWICE.values()) <= host.ERLANG
    assert host.ERLANG | set(host.ERLANG_TWICE) <= set(WORKLOADS)
