"""One line on a terminal that tells how far a command is; elsewhere nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["display"]


@contextmanager
def display(doing: str) -> Iterator[Callable[[str], None]]:
    """Shows each text that is passed to what it gives, which may be in rich's markup."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    try:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text
    except ImportError:  # only the display needs it
        yield lambda text: None
        return
    spinner = Spinner("dots", doing)
    with Live(
        spinner,
        console=Console(stderr=True),
        refresh_per_second=10,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # above the line; a file or a pipe stays what it is
    ):
        yield lambda text: spinner.update(text=Text.from_markup(text))
