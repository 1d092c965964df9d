"""Arguments that the command lines of this folder share: a wrong one ends with status 2."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

__all__ = ["at_least", "file_to_write", "positive", "positive_float"]


def at_least(least: int, text: str) -> int:
    number = int(text)
    if number < least:
        raise argparse.ArgumentTypeError(f"{text} is below {least}")
    return number


def positive(text: str) -> int:
    return at_least(1, text)


def positive_float(text: str) -> float:
    number = float(text)
    if not number > 0:  # which is also said of NaN
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def file_to_write(text: str) -> str:
    """Refuses before the run what could only fail after it. `-` is standard output."""
    path = Path(text)
    if text != "-":
        if path.is_dir():
            raise argparse.ArgumentTypeError(f"{text} is a folder")
        if not path.parent.is_dir():
            raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise argparse.ArgumentTypeError(f"{text} cannot be written")
    return text
