"""The native lane with stalls: `_atomics` once more, with a meaning given to its marks.

The product's C sources are compiled as they are, but for the patches of a mutant, behind `steps.h`,
which says what a mark does (`_atomics/marks.h`). The result is a second package `_atomics` in a
folder of its own, which a child puts in front of the product's before it imports the runtime. A
folder is named after all that went into it, is made once, and goes when nobody has used it for a
day.

Run as a program it writes the C file that cffi makes: cffi turns the GIL on, so not in the child.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import importlib.machinery
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["BuildError", "built", "enter", "seen", "stalls"]

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ROOT / "_atomics"
STEPS = Path(__file__).with_name("steps.h")
BUILDS = ROOT / "build" / "stalled"
DAY_S = 86400.0

Patches = Mapping[str, Sequence[tuple[str, str]]]


class BuildError(Exception):
    """The sources did not compile."""


def sources(patches: Patches) -> dict[str, str]:
    """The package's files by name, with the patches."""
    from stress.mutants import PatchError, patched

    texts = {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(SOURCES.iterdir())
        if path.suffix in (".c", ".h", ".py") and path.name != "_native.c"
    }
    if missing := set(patches) - set(texts):
        raise PatchError(f"_atomics has no {', '.join(sorted(missing))}")
    return texts | {name: patched(name, texts[name], patches[name]) for name in patches}


def built(patches: Patches) -> Path:
    """The folder with the compiled package; made if there is none yet."""
    texts = sources(patches)
    ingredients = [sys.executable, sys.version, STEPS.read_text(encoding="utf-8"), repr(texts)]
    folder = BUILDS / hashlib.sha256("\0".join(ingredients).encode()).hexdigest()[:20]
    BUILDS.mkdir(parents=True, exist_ok=True)
    with open(BUILDS / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other children of the run want the same one
        if not folder.exists():
            _sweep()
            _make(folder, texts)
        os.utime(folder)
    return folder


def _make(folder: Path, texts: dict[str, str]) -> None:
    half = folder.with_suffix(".half")  # whatever was interrupted is simply done again
    shutil.rmtree(half, ignore_errors=True)
    package = half / "_atomics"
    package.mkdir(parents=True)
    for name, text in texts.items():
        (package / name).write_text(text, encoding="utf-8")
    _call([sys.executable, "-W", "ignore", __file__, str(package)])
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    module = package / ("_native" + importlib.machinery.EXTENSION_SUFFIXES[0])
    # -O1: two seconds instead of three, of which the mutants need many.
    flags = ["-std=c11", "-O1", "-D_GNU_SOURCE", "-D_CFFI_NO_LIMITED_API", "-fPIC", "-pthread"]
    _call([*compiler, "-shared", *flags, "-include", str(STEPS), f"-I{package}",
           f"-I{sysconfig.get_path('include')}", str(package / "_native.c"),
           "-o", str(module)])  # fmt: skip
    half.rename(folder)


def _call(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise BuildError(f"the native lane with stalls needs a C compiler: {error}") from None
    if done.returncode != 0:
        raise BuildError(f"{shlex.join(command)}\n{done.stderr[-2000:]}")


def _sweep() -> None:
    """What nobody has used for a day. A child that runs has its module mapped already."""
    for old in BUILDS.iterdir():
        if time.time() - old.stat().st_mtime > DAY_S:
            if old.is_dir():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.unlink(missing_ok=True)


def enter(mutant: str | None) -> None:
    """Have this process import the build, with a mutant's patches, instead of the product's."""
    from stress.mutants import PatchError, mutants

    if "_atomics" in sys.modules:
        raise PatchError("the runtime's C module is imported already")
    sys.path.insert(0, str(built(mutants()[mutant].native if mutant is not None else {})))


@functools.cache
def _library() -> Any:
    from _atomics import _native

    return ctypes.CDLL(_native.__file__)


def stalls(permille: int, seed: int) -> None:
    """From now on, so many of a thousand steps are followed by a stall."""
    _library().otv_stalls(ctypes.c_uint32(permille), ctypes.c_uint32(seed & 0xFFFFFFFF))


def seen() -> tuple[str, str] | None:
    """The first rule that C has seen broken: the invariant's name, and what was wrong."""
    told = _library().otv_seen
    told.restype = ctypes.c_char_p
    text = told()
    if text is None:
        return None
    name, _, what = text.decode().partition(": ")
    return name, what


if __name__ == "__main__":
    made = Path(sys.argv[1])
    runpy.run_path(str(made / "build.py"))["ffibuilder"].emit_c_code(str(made / "_native.c"))
