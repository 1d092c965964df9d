"""Everything declarative is in pyproject.toml; only cffi's keyword needs this file."""

from setuptools import setup

setup(cffi_modules=["_atomics/build.py:ffibuilder"])
