"""The C under the atomics is free of races and of memory errors, and the tools would see them.

The headers are compiled without Python into a small program (`_atomics/driver.c`), because the
interpreter's own synchronisation would hide most races from ThreadSanitizer.
"""

import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sysconfig
from pathlib import Path

import pytest

LIMIT = 100  # seconds for one run; without a load it takes less than one
TRIVIAL = """
#include <pthread.h>
static void *nothing(void *argument) { return argument; }
int main(void)
{
    pthread_t thread;
    return pthread_create(&thread, 0, nothing, 0) || pthread_join(thread, 0);
}
"""
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def compiler() -> list[str]:
    """`$CC` if set, else cc, else what the interpreter was built with."""
    named = shlex.split(os.environ.get("CC", ""))
    for candidate in (named, ["cc"], shlex.split(sysconfig.get_config_var("CC") or "")[:1]):
        if candidate and shutil.which(candidate[0]):
            return candidate
    pytest.skip("there is no C compiler here")


class Sanitizer:
    """Compiles C with one sanitizer and runs the result, in whatever way it can run here."""

    def __init__(self, flags: list[str], folder: Path) -> None:
        self.flags = flags
        self.folder = folder
        self.wrapper: list[str] = []
        trivial = folder / "trivial.c"
        trivial.write_text(TRIVIAL)
        built = self.compile(trivial, "trivial")
        if built.returncode != 0:
            pytest.skip(f"the compiler lacks {' '.join(flags)}: {built.stderr.strip()[-200:]}")
        # With much address space randomisation an older runtime finds its shadow memory taken and
        # gives up at once; setarch -R turns the randomisation off for one program.
        plain = self.run("trivial")
        if plain.returncode != 0 and shutil.which("setarch"):
            self.wrapper = ["setarch", "-R"]
        if self.run("trivial").returncode != 0:
            pytest.skip(f"a program with {' '.join(flags)} cannot run here: {plain.stderr[-200:]}")

    def compile(self, source: Path, name: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [*compiler(), "-std=c11", "-D_GNU_SOURCE", "-g", "-O1", *self.flags, *options]
        return subprocess.run(
            [*command, "-pthread", str(source), "-o", str(self.folder / name)],
            capture_output=True, text=True, check=False, timeout=LIMIT,
        )  # fmt: skip

    def run(self, name: str, limit: float = LIMIT) -> subprocess.CompletedProcess[str]:
        options = {name: value for name, value in os.environ.items() if "SAN_OPTIONS" not in name}
        return subprocess.run(
            [*self.wrapper, str(self.folder / name)],
            env=options | {"TSAN_OPTIONS": "halt_on_error=1"},
            capture_output=True, text=True, check=False, timeout=limit,
        )  # fmt: skip

    def drive(self, root: Path, *options: str) -> subprocess.CompletedProcess[str]:
        """Build the driver and run it."""
        built = self.compile(root / "_atomics" / "driver.c", "driver", *options)
        assert built.returncode == 0, built.stderr
        return self.run("driver")

    def drive_into_a_bug(self, root: Path, *options: str) -> subprocess.CompletedProcess[str]:
        """The same, more than once if need be: two threads have to meet at one place, which one
        run may miss on a busy machine, and ten do not. A run that hangs, as a bug may make it, is a
        miss too."""
        built = self.compile(root / "_atomics" / "driver.c", "driver", *options)
        assert built.returncode == 0, built.stderr
        for _ in range(10):
            try:
                result = self.run("driver", limit=25)
            except subprocess.TimeoutExpired:
                continue
            if result.returncode != 0:
                break
        return result


@pytest.fixture
def thread_sanitizer(tmp_path) -> Sanitizer:
    return Sanitizer(["-fsanitize=thread"], tmp_path)


@pytest.fixture
def address_sanitizer(tmp_path) -> Sanitizer:
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    return Sanitizer(flags, tmp_path)


@pytest.fixture
def no_sanitizer(tmp_path) -> Sanitizer:
    return Sanitizer([], tmp_path)


def passed(result: subprocess.CompletedProcess[str]) -> bool:
    return (result.returncode, result.stdout) == (0, "driver: all checks passed\n")


@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
def test_the_driver_passes_at_every_optimisation_and_compiles_without_a_warning(
    no_sanitizer, root, level
):
    result = no_sanitizer.drive(root, level, "-DROUNDS=100000", *WARNINGS)
    assert passed(result), result.stderr


def test_there_is_no_data_race(thread_sanitizer, root):
    result = thread_sanitizer.drive(root, *WARNINGS)
    assert passed(result), result.stderr


def test_there_is_no_memory_error_no_leak_and_no_undefined_behaviour(address_sanitizer, root):
    result = address_sanitizer.drive(root, *WARNINGS)
    assert passed(result), result.stderr


@pytest.mark.parametrize(
    ("bug", "place"),
    [
        ("PLANT_RELAXED_UNLOCK", "locking"),
        ("PLANT_TORN_LOCK", "locking"),
        ("PLANT_RELAXED_PUBLISH", "hand_on"),
        ("PLANT_SECOND_RUNNER", "contest"),
        ("PLANT_SHARED_SPARES", r"otv_(new|free|keep)_\w+"),
        ("PLANT_CARELESS_BELL", r"ring|otv_bell_\w+"),  # whichever came second
    ],
)
def test_a_planted_race_is_reported(thread_sanitizer, root, bug, place):
    """On x86-64 a relaxed store does no harm, so the report is all there is to see."""
    result = thread_sanitizer.drive_into_a_bug(root, f"-D{bug}")
    assert "ThreadSanitizer: data race" in result.stderr
    assert re.search(rf"SUMMARY: .* in ({place})\n", result.stderr)


def test_a_planted_use_after_free_is_reported(address_sanitizer, root):
    result = address_sanitizer.drive(root, "-DPLANT_EARLY_FREE")
    assert result.returncode != 0
    assert "AddressSanitizer: heap-use-after-free" in result.stderr
    assert "in pop" in result.stderr


def edited(root: Path, folder: Path, header: str, sound: str, broken: str) -> Path:
    """A copy of the driver and its headers, in which one text is replaced by another."""
    (folder / "_atomics").mkdir()
    for path in [root / "_atomics" / "driver.c", *(root / "_atomics").glob("*.h")]:
        name, text = path.name, path.read_text()
        if name == header:
            assert text.count(sound) == 1
            text = text.replace(sound, broken)
        (folder / "_atomics" / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("header", "sound", "broken"),
    [
        # The push no longer publishes the message that it links.
        ("mailbox.h", "node, memory_order_seq_cst, memory_order_relaxed",
         "node, memory_order_relaxed, memory_order_relaxed"),
        # The consumer does not take over what the push published.
        ("mailbox.h", "NULL, memory_order_acquire", "NULL, memory_order_relaxed"),
        # The lock does not take over what the unlock published.
        ("atomics.h", "me, memory_order_acquire", "me, memory_order_relaxed"),
        # A lazy set that is too lazy.
        ("atomics.h", "v, memory_order_release", "v, memory_order_relaxed"),
        # A theft under one of the two locks, a pop under none.
        ("rings.h", "    otv_ring_lock(second, me);\n", ""),
        ("rings.h", "*item = NULL;\n    otv_ring_lock(ring, me);\n", "*item = NULL;\n"),
        # A house taken or linked without the list's lock.
        ("house_list.h", "return NULL;\n    otv_lock(&list->lock, me);\n", "return NULL;\n"),
        ("house_list.h", "otv_lock(&list->lock, me);\n    OTV_SEE(queued", "OTV_SEE(queued"),
        ("house_list.h", "|| !otv_try_lock(&list->lock, me)", ""),
    ],
    ids=["push", "fetch", "try_lock", "lazy_set", "steal_half", "ring_pop", "list_pop",
         "list_append", "list_steal"],
)  # fmt: skip
def test_a_memory_order_that_is_too_weak_is_reported(
    thread_sanitizer, root, tmp_path, header, sound, broken
):
    """The orders in the headers are needed, and the driver exercises every one of them."""
    source = edited(root, tmp_path, header, sound, broken)
    result = thread_sanitizer.drive_into_a_bug(source)
    assert result.returncode != 0
    assert "ThreadSanitizer: data race" in result.stderr


def test_thieves_that_take_their_victims_lock_first_wait_for_each_other_for_ever(
    no_sanitizer, root, tmp_path
):
    """And the driver notices: the order of the locks is needed."""
    ordered = "victim->index < thief->index ? victim : thief"
    source = edited(root, tmp_path, "rings.h", ordered, "victim")
    result = no_sanitizer.drive_into_a_bug(source, "-O2", "-DROUNDS=300000")
    assert result.returncode == 1
    assert "a deadlock" in result.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere a loser may read only")
def test_a_transition_that_does_not_look_first_would_write_to_a_busy_house(no_sanitizer, root):
    """The driver tries every transition on a busy house whose memory is read-only, and passes: see
    above. With a compare-and-set that does not look first it does not get that far."""
    result = no_sanitizer.drive(root, "-DPLANT_BLIND_TRANSITION")
    assert result.returncode == -signal.SIGSEGV
