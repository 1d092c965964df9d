"""Findings and totals for people (text), programs (JSON) and CI (JUnit)."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

from stress.parallel.engine import Outcome
from stress.parallel.invariants import INVARIANTS

__all__ = ["finding_text", "share_lines", "summary", "write_json", "write_junit"]


def finding_text(finding: dict[str, Any]) -> str:
    """All that is known of a finding, the command to repeat it last."""
    name = finding["invariant"]
    lines = [
        f"FINDING {name}: {finding['text']}",
        f"  rule: {INVARIANTS[name].statement}",
        "  seed {seed}, workload {workload}, round {round}, {lane} lane".format(
            **{"round": "?"} | finding
        ),
        "  settings: " + ", ".join(f"{k}={v}" for k, v in finding["settings"].items()),
    ]
    for title, key in (("last events", "events"), ("houses", "houses"), ("stacks", "stacks")):
        if finding.get(key):
            lines += [f"  {title}:", *(f"    {line}" for line in finding[key])]
    return "\n".join([*lines, f"  again: {finding['command']}"])


def share_lines(outcome: Outcome) -> list[str]:
    """Messages by workload, scheduler and lane; a sum below."""
    columns = sorted({(share["scheduler"], share["lane"]) for share in outcome.shares})
    table: dict[str, list[int]] = {}
    for share in outcome.shares:
        row = table.setdefault(share["workload"], [0] * len(columns))
        row[columns.index((share["scheduler"], share["lane"]))] += share["messages"]
    sums = [sum(column) for column in zip(*table.values(), strict=True)]
    rows = [*sorted(table.items()), ("all", sums)]
    titles = [f"{scheduler}/{lane}" for scheduler, lane in columns]
    lines = [f"{'messages':<12}" + "".join(f"{title:>22}" for title in [*titles, "all"])]
    for name, row in rows:
        lines.append(f"{name:<12}" + "".join(f"{number:>22,}" for number in [*row, sum(row)]))
    return lines


def summary(outcome: Outcome) -> str:
    found = f"{len(outcome.findings)} findings" if outcome.findings else "no finding"
    if outcome.interrupted:
        found += " before it was interrupted"
    unfinished = f" and {outcome.unfinished} unfinished" if outcome.unfinished else ""
    return (
        f"{outcome.cases} cases{unfinished}, {outcome.rounds} rounds, {outcome.messages} messages, "
        f"{outcome.turns} turns, {outcome.steals} steals in {outcome.seconds:.1f} s "
        f"({outcome.messages / max(outcome.seconds, 1e-9):.0f} messages/s); {found} "
        f"(seed {outcome.seed})"
    )


def write_json(outcome: Outcome, path: str) -> None:
    text = json.dumps(asdict(outcome), indent=2)
    if path == "-":
        print(text)
    else:
        Path(path).write_text(text + "\n", encoding="utf-8")


def write_junit(outcome: Outcome, path: str) -> None:
    """One test case a workload; its findings are failures."""
    workloads = sorted({share["workload"] for share in outcome.shares})
    suite = Xml.Element(
        "testsuite",
        name=f"stress seed {outcome.seed}",
        tests=str(len(workloads)),
        failures=str(len({finding["workload"] for finding in outcome.findings})),
        time=f"{outcome.seconds:.3f}",
    )
    for workload in workloads:
        case = Xml.SubElement(suite, "testcase", classname="stress", name=workload)
        for finding in outcome.findings:
            if finding["workload"] == workload:
                message = f"{finding['invariant']}: {finding['text'].splitlines()[0]}"
                Xml.SubElement(case, "failure", message=message).text = _legal(
                    finding_text(finding)
                )
                break  # JUnit knows one failure a case
    Xml.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def _legal(text: str) -> str:
    return "".join(c for c in text if c in "\n\t" or c.isprintable())
