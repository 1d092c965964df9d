"""What the three commands show on a terminal while they run; elsewhere nothing."""

import os
import pty
import re
import subprocess
import sys
import tempfile

import pytest


@pytest.fixture
def on_a_terminal(root):
    """Run a module with a terminal for its standard error; what it has shown there, and printed."""

    def run(*arguments):
        ours, theirs = pty.openpty()
        with os.fdopen(ours, "rb", buffering=0) as terminal, tempfile.TemporaryFile("w+") as out:
            child = subprocess.Popen(
                [sys.executable, "-m", *arguments], cwd=root, stderr=theirs,
                stdout=out, env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
            )  # fmt: skip
            os.close(theirs)
            shown = []
            try:
                while more := terminal.read(4096):
                    shown.append(more)
            except OSError:  # how a terminal says that nobody is left on the other side
                pass
            assert child.wait() in (0, 1)
            out.seek(0)
            printed = out.read()
        text = b"".join(shown).decode(errors="replace")
        return re.sub(r"\x1b\[[0-9;?]*\w", "", text), printed

    return run


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(
            ["stress", "--workload", "count", "--seed", "1", "--seconds", "2"],
            r"\d+ cases, [1-9]\d* messages, \d+ turns, \d+ steals, 0 findings, \d+ s",
            id="stress",
        ),
        pytest.param(
            ["stress.explore", "steal-complete", "--mode", "pct", "--schedules", "1500"],
            r"steal-complete \(pct, sc\): [1-9]\d* schedules, \d+ steps, \d+ cut; "
            r"[1-9]\d* schedules in all, \d+ a second, 0 findings",
            id="explore",
        ),
        pytest.param(
            ["stress.mutants", "lost-barrier", "--engine", "parallel", "--seconds", "4"],
            r"lost-barrier: [1-9]\d* messages",
            id="mutants",
        ),
    ],
)
def test_a_terminal_is_told_how_far_it_is(on_a_terminal, arguments, told):
    shown, printed = on_a_terminal(*arguments)
    assert re.search(told, shown)
    assert printed.splitlines()[-1] not in shown  # what goes to a file does not go to the terminal
