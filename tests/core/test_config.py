"""The constants that the design names are the defaults, and the number of threads follows them."""

import os

import pytest

from otavia_ft import Config

DESIGNED = {
    "dispatcher": "pinned",
    "worker_ratio": 1.0,  # one ActorThread a core
    "io_ratio": 50,
    "min_budget_us": 500,
    "deadline_stride": 16,
    "selector_rebuild_threshold": 512,
    "high_priority_replies": 2,
    "high_priority_events": 4,
    "steal_floor": 32,
    "steal_aggression": 128,
    "local_ring_capacity": 256,
    "global_poll_interval": 61,
    "timer_tick_ms": 10.0,
    "memory_interval_ms": 100,
    "memory_high_percent": 90.0,
    "memory_low_free_mb": 100,
    "memory_sleep_ms": 40,
    "pool_check_s": 60.0,
    "pool_idle_s": 30.0,
    "pool_keep": 10,
}


@pytest.mark.parametrize("name", DESIGNED)
def test_the_default_is_the_constant_of_the_design(name):
    assert getattr(Config(), name) == DESIGNED[name]


@pytest.mark.parametrize(
    ("cores", "settings", "threads"),
    [
        (8, {}, 8),
        (8, {"worker_ratio": 0.5}, 4),
        (8, {"worker_ratio": 2.0}, 16),
        (8, {"workers": 3, "worker_ratio": 2.0}, 3),
        (1, {"worker_ratio": 0.01}, 1),
        (1, {"dispatcher": "pool"}, 2),
        (1, {"dispatcher": "pool", "workers": 1}, 1),
    ],
)
def test_size_wins_over_ratio_and_there_is_one_thread_at_least(
    monkeypatch, cores, settings, threads
):
    monkeypatch.setattr(os, "process_cpu_count", lambda: cores)
    assert Config(**settings).worker_count() == threads
