"""Say whether this interpreter is fit for parallel actors, and what to do if it is not.

The GIL question is asked in child processes. Only a fresh process can say who turned the GIL on:
CPython does so silently on the second offender, and here everything is imported already.

Nothing of the package is imported at the top, and the file may be run by its path, as `./ft doctor`
does: a doctor that needs the atomics to load could never say that they do not.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata

from rich.console import Console
from rich.markup import escape
from rich.table import Table

EXAMPLE = "otavia-ft doctor numpy my_other_library"

FREE_THREADED = sysconfig.get_config_var("Py_GIL_DISABLED") == 1

# Runs in the child. It knows nothing of this package but the names on its command line: a name
# that ends in ".*" stands for a package and every module in it.
PROBE = """
import importlib, json, pkgutil, sys, warnings

def modules(name):
    if not name.endswith(".*"):
        yield name
        return
    package = importlib.import_module(name[:-2])
    yield package.__name__
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not info.name.endswith(".__main__"):
            yield info.name

report = {"at_start": sys._is_gil_enabled(), "failed": {}}
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for argument in sys.argv[1:]:
        try:
            for name in modules(argument):
                importlib.import_module(name)
        except Exception as error:
            report["failed"][argument] = f"{type(error).__name__}: {error}"
report["at_end"] = sys._is_gil_enabled()
report["warnings"] = [str(w.message) for w in seen if w.category is RuntimeWarning]
print(json.dumps(report))
"""


@dataclass(frozen=True, slots=True)
class GilReport:
    """What importing some modules in a fresh interpreter did to the GIL."""

    at_start: bool
    at_end: bool
    warnings: list[str]
    failed: dict[str, str]


def probe_gil(modules: Sequence[str]) -> GilReport:
    """Import the modules in a fresh interpreter with this one's environment and GIL option."""
    option = sys._xoptions.get("gil")
    command = [sys.executable]
    if option is not None:
        command += ["-X", f"gil={option}"]
    result = subprocess.run(
        [*command, "-c", PROBE, *modules], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        reason = result.stderr.strip().rpartition("\n")[2] or f"exit status {result.returncode}"
        return GilReport(False, False, [], dict.fromkeys(modules, reason))
    # A module may print while it is imported, so the report is the last line.
    return GilReport(**json.loads(result.stdout.splitlines()[-1]))


def who_turned_it_on(report: GilReport) -> str:
    """Name the culprit as exactly as CPython lets us."""
    if not FREE_THREADED:
        return "this build always has it"
    if sys._xoptions.get("gil") == "1":
        return "you did, with -X gil=1"
    if os.environ.get("PYTHON_GIL") == "1":
        return "you did, with PYTHON_GIL=1 in the environment"
    if report.at_start:
        return "a start-up hook of this interpreter (a .pth file or sitecustomize)"
    if report.warnings:
        return report.warnings[0]
    return "unknown: it came on during the imports without a warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. ``fit`` is None where there is nothing to judge."""

    subject: str
    text: str
    fit: bool | None = None


def interpreter_findings() -> list[Finding]:
    version = f"{platform.python_implementation()} {platform.python_version()}"
    if FREE_THREADED:
        build = Finding("build", "free-threaded", True)
    else:
        build = Finding(
            "build", "has a GIL: correct, but never parallel; use a free-threaded 3.13+", False
        )
    return [
        Finding("interpreter", f"{version}, {sys.executable}", sys.version_info >= (3, 13)),
        build,
    ]


def gil_findings(extra_modules: Sequence[str]) -> list[Finding]:
    package = probe_gil(["otavia_ft.*"])
    findings = []
    if package.failed:
        findings.append(Finding("imports", "; ".join(package.failed.values()), False))
    elif package.at_end:
        findings.append(Finding("GIL", f"ON: {who_turned_it_on(package)}", False))
    elif os.environ.get("PYTHON_GIL") == "0" or sys._xoptions.get("gil") == "0":
        # The override keeps it off whatever is loaded, so "off" proves nothing about anybody.
        findings.append(
            Finding("GIL", "off by force (PYTHON_GIL=0 or -X gil=0), never needed", True)
        )
    else:
        findings.append(Finding("GIL", "off, with every module of otavia_ft imported", True))
    for name in extra_modules:
        # Each in its own process: after the first offender CPython reports no other.
        alone = probe_gil([name])
        if alone.failed:
            findings.append(Finding(name, f"does not import: {alone.failed[name]}", False))
        elif alone.at_end:
            findings.append(Finding(name, f"GIL on: {who_turned_it_on(alone)}", False))
        else:
            findings.append(Finding(name, "leaves the GIL off", True))
    return findings


def count_with_threads(threads: int, rounds: int) -> None:
    """All threads add to one atomic, and to a plain integer under one spin lock."""
    # Imported late: see the top.
    from otavia_ft.atomic import AtomicInt, SpinLock

    counter, lock, plain = AtomicInt(0), SpinLock(), [0]

    def add() -> None:
        for _ in range(rounds):
            counter.get_and_add(1)
            with lock:
                plain[0] += 1

    workers = [threading.Thread(target=add) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expected = threads * rounds
    if counter.load() != expected:
        raise AssertionError(f"get_and_add counted {counter.load()} of {expected}")
    if plain[0] != expected:
        raise AssertionError(
            f"the spin lock let {expected - plain[0]} of {expected} updates be lost"
        )
    if counter.compare_and_set(expected + 1, 0) or not counter.compare_and_set(expected, 0):
        raise AssertionError("compare_and_set took the wrong value for the right one")


def atomics_finding(check: Callable[[int, int], None] = count_with_threads) -> Finding:
    threads, rounds = 4, 20_000
    try:
        check(threads, rounds)
    except Exception as error:  # whatever is wrong with them, the report goes on
        return Finding("atomics", f"{type(error).__name__}: {error}", False)
    return Finding("atomics", f"{threads} threads x {rounds:,} updates, none lost", True)


def cffi_finding() -> Finding:
    try:
        return Finding("cffi", metadata.version("cffi"))
    except metadata.PackageNotFoundError:
        return Finding("cffi", "not installed", False)


def examine(extra_modules: Sequence[str]) -> list[Finding]:
    cores = os.process_cpu_count() or 1
    return [
        *interpreter_findings(),
        *gil_findings(extra_modules),
        Finding("cores", f"{cores}" + (": nothing can run in parallel" if cores == 1 else "")),
        cffi_finding(),
        atomics_finding(),
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="also say what importing this does to the GIL"
    )


def run(options: argparse.Namespace) -> int:
    findings = examine(options.modules)
    table = Table.grid(padding=(0, 2))
    marks = {True: "[green]ok[/]", False: "[red]bad[/]", None: ""}
    for finding in findings:
        table.add_row(
            marks[finding.fit], f"[bold]{escape(finding.subject)}[/]", escape(finding.text)
        )
    Console().print(table)
    return 1 if any(finding.fit is False for finding in findings) else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="otavia-ft doctor",
        description=__doc__.partition("\n")[0],
        epilog=f"Example: {EXAMPLE}",
    )
    add_arguments(parser)
    sys.exit(run(parser.parse_args()))
