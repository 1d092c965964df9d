"""Where a thread holds a spin lock it makes no call and turns no loop.

CPython runs the handlers of signals, and the collector with any `__del__`, after a call and at a
loop's turn. Either may send, ask or cancel, and so come back for a lock that its own thread holds.
The tests with real signals need luck to hit the moment; this one reads the source.
"""

import ast
from pathlib import Path

import pytest

import otavia_ft

PACKAGE = Path(otavia_ft.__file__).parent
PROMISED = ["timer.py", "schedule/queues.py", "schedule/rings.py", "house/bounded.py"]
FORBIDDEN = (
    ast.Call,
    ast.For,
    ast.While,
    ast.Await,
    ast.Yield,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.JoinedStr,
)


def locked_blocks(source: str) -> list[ast.With]:
    return [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.With)
        and any("_lock" in ast.unparse(item.context_expr) for item in node.items)
    ]


def offences(source: str) -> list[str]:
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for block in locked_blocks(source)
        for statement in block.body
        for node in ast.walk(statement)
        if isinstance(node, FORBIDDEN)
    ]


@pytest.mark.parametrize("name", PROMISED)
def test_no_call_and_no_loop_stands_under_a_spin_lock(name: str) -> None:
    source = (PACKAGE / name).read_text()
    assert locked_blocks(source), "this module has no lock any more: take it off the list"
    assert offences(source) == []


@pytest.mark.parametrize(
    "line", ["heapq.heappush(a, b)", "for x in a: x", "a[len(b)] = c", "a = [x for x in b]"]
)
def test_one_that_did_would_be_noticed(line: str) -> None:
    assert offences(f"with self._lock:\n    {line}\n")
    assert not offences(f"{line}\nwith self._lock:\n    a[b] = c\n    del d[e]\n    f = g.h\n")
