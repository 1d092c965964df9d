"""The benchmark of the two schedulers runs, and writes between the page's markers only; the numbers
in the page's own words are among its figures."""

import json
import re
import subprocess
import sys

import pytest

BUDGETS = (8, 16, 32, 64, 128, 256)
BEGIN, END = "<!-- dispatchers: begin -->", "<!-- dispatchers: end -->"


def run(root, *arguments):
    return subprocess.run(
        [sys.executable, str(root / "bench" / "dispatchers.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


@pytest.mark.stress
def test_it_measures_both_schedulers_at_workloads_and_at_every_budget(root, tmp_path):
    page, figures = tmp_path / "page.md", tmp_path / "figures.json"
    page.write_text(f"before\n\n{BEGIN}\nold figures\n{END}\n\nafter\n")
    result = run(root, "--smoke", "--docs", page, "--json", figures)
    assert result.returncode == 0, result.stderr
    medians = json.loads(figures.read_text())["medians"]
    assert all(value > 0 for value in medians.values())
    for dispatcher in ("pinned", "pool"):
        for workload in ("counting", "ring-across", "latency", "latency p99"):
            assert f"{workload}, {dispatcher}" in medians
        for other in ("long", "blocking", "bulk"):
            assert f"beside {other}, {dispatcher}, p50 µs" in medians
            assert f"beside {other}, {dispatcher}, p99 µs" in medians
        for budget in BUDGETS:
            assert f"budget {budget}, {dispatcher}, messages/s" in medians
            assert f"budget {budget}, {dispatcher}, p99 µs" in medians
    head, rest = page.read_text().split(BEGIN)
    block, tail = rest.split(END)
    assert (head, tail) == ("before\n\n", "\n\nafter\n")
    assert "old figures" not in block
    assert [f"\n| {budget} |" in block for budget in BUDGETS] == [True] * 6


def test_it_refuses_a_page_without_markers(root, tmp_path):
    """Before it measures anything."""
    page = tmp_path / "page.md"
    page.write_text("nothing to replace\n")
    result = run(root, "--smoke", "--docs", page)
    assert result.returncode != 0
    assert "markers" in result.stderr
    assert page.read_text() == "nothing to replace\n"
    assert "counting" not in result.stdout


def test_the_page_of_the_documentation_has_figures_of_a_real_run(root):
    page = (root / "docs" / "choosing.md").read_text()
    block = page.split(BEGIN)[1].split(END)[0]
    assert "pool / pinned" in block
    assert "too short to measure" not in block
    for other in ("handlers that compute", "handlers that block", "bulk work"):
        assert f"\n| {other} " in block
    for workload in ("counting", "ping-pong", "thread ring", "fork-join throughput", "bank"):
        assert f"\n| {workload} (" in block


UNITS = {"µs": 1, "ms": 1000, "%": 1}
NUMBER = r"\d[\d,]*(?:\.\d+)?"
QUANTITY = re.compile(
    rf"({NUMBER})\s(µs|ms|%)(?:\s+instead\s+of\s+({NUMBER}))?|instead\s+of\s+({NUMBER})"
)


def value(number):
    return float(number.replace(",", ""))


def quantities(words):
    """Each number that has a unit, also by standing after "instead of"; with the unit."""
    unit = None
    for match in QUANTITY.finditer(words):
        first, own_unit, second, alone = match.groups()
        unit = own_unit or unit
        yield from ((number, unit) for number in (first, second, alone) if number)


def backed(number, unit, figures):
    """Whether some figure is this number when it is rounded like this number."""
    places = len(number.partition(".")[2])
    return any(round(figure / UNITS[unit], places) == value(number) for figure in figures)


def test_every_number_in_the_page_s_own_words_is_one_of_its_figures(root):
    words, rest = (root / "docs" / "choosing.md").read_text().split(BEGIN)
    figures = [value(number) for number in re.findall(NUMBER, rest.split(END)[0])]
    told = list(quantities(words))
    assert len(told) > 25
    assert [each for each in told if not backed(*each, figures)] == []
