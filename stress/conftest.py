"""One fresh seed a test run, known to every process of it, told at its start and at its end."""

import os
import random

SEED = "OTAVIA_FT_STRESS_SEED"


def pytest_configure(config):
    # Before xdist starts its workers, which inherit it.
    if not os.environ.get(SEED):
        os.environ[SEED] = str(random.SystemRandom().randrange(1 << 31))


def pytest_report_header(config):
    return f"stress seed: {os.environ[SEED]} ({SEED} repeats it)"


def pytest_terminal_summary(terminalreporter):
    """Also at the end, since a log is read from there, and -q leaves the header out."""
    told = [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for name, value in getattr(report, "user_properties", ())
        if name == "stress"
    ]
    ran = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if report.nodeid.startswith("stress/")
    ]
    if ran:
        terminalreporter.section(f"stress seed {os.environ[SEED]} ({SEED} repeats it)")
        for line in sorted(told):
            terminalreporter.write_line(line)
