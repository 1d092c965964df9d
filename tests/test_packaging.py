"""The artefact that users install is whole, and works away from the checkout."""

import importlib.machinery
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

SHIPPED = ["pyproject.toml", "setup.py", "README.md", "LICENSE", "otavia_ft", "_atomics"]


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A copy of the checkout without its build products, so that building leaves no trace here."""
    root = Path(__file__).resolve().parent.parent
    copy = tmp_path_factory.mktemp("source")
    for name in SHIPPED:
        if (root / name).is_dir():
            ignore = shutil.ignore_patterns("*.so", "*.o", "__pycache__", "_native.c")
            shutil.copytree(root / name, copy / name, ignore=ignore)
        else:
            shutil.copy2(root / name, copy / name)
    return copy


def build(source: Path, kind: str, destination: Path) -> Path:
    """Call the build backend as pip does, with what is installed here instead of the network."""
    code = f"import setuptools.build_meta as backend; backend.build_{kind}({str(destination)!r})"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    [artefact] = destination.iterdir()
    return artefact


@pytest.fixture(scope="module")
def sdist(source, tmp_path_factory) -> Path:
    return build(source, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory) -> Path:
    """Built from the sdist, so that a file missing from that one is noticed."""
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    [source] = unpacked.iterdir()
    return build(source, "wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_has_every_module_of_the_checkout(source, wheel):
    expected = {
        path.relative_to(source).as_posix()
        for package in ("otavia_ft", "_atomics")
        for path in (source / package).rglob("*.py")
    }
    assert expected <= set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_has_the_compiled_module_and_the_typing_marker(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "otavia_ft/py.typed" in names
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    assert [n for n in names if n.startswith("_atomics/_native") and n.endswith(suffixes)]


def test_the_wheel_brings_nothing_else_to_the_top_level(wheel):
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"otavia_ft", "_atomics"}


def test_the_installed_wheel_works_away_from_the_checkout(wheel, tmp_path, run_python):
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    # Ahead of site-packages, where an editable install would point back to the checkout.
    result = run_python(f"""
import sys
sys.path.insert(0, {str(tmp_path / "installed")!r})
import otavia_ft, _atomics
from otavia_ft.atomic import AtomicInt
cell = AtomicInt(41)
cell.get_and_add(1)
print(cell.load(), otavia_ft.__file__, _atomics.__file__, sep="\\n")
""")
    assert result.stderr == ""
    value, *files = result.stdout.split("\n")[:3]
    assert value == "42"
    assert all(Path(file).is_relative_to(tmp_path) for file in files)


def test_every_package_folder_can_be_imported(source):
    """A folder without ``__init__.py`` would silently stay out of the wheel."""
    folders = {
        path.parent for name in ("otavia_ft", "_atomics") for path in (source / name).rglob("*.py")
    }
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_cffi_is_pinned_alike_for_building_and_running(root):
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    building = {line for line in settings["build-system"]["requires"] if line.startswith("cffi")}
    running = {line for line in settings["project"]["dependencies"] if line.startswith("cffi")}
    assert building == running
