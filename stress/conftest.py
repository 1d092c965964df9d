"""One fresh seed a test run, printed at its start and known to every process of it."""

import os
import random


def pytest_configure(config):
    if not os.environ.get("OTAVIA_FT_STRESS_SEED"):
        os.environ["OTAVIA_FT_STRESS_SEED"] = str(random.SystemRandom().randrange(1 << 31))


def pytest_report_header(config):
    return f"stress seed: {os.environ['OTAVIA_FT_STRESS_SEED']} (OTAVIA_FT_STRESS_SEED repeats it)"
