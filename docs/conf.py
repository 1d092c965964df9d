"""Sphinx settings. ``./ft docs`` builds with warnings as errors."""

import tomllib
from pathlib import Path

settings = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())

project = "otavia-ft"
author = "otavia-ft contributors"
copyright = author
release = version = settings["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.doctest"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True  # a reference that leads nowhere is a mistake

html_theme = "furo"
html_title = "otavia-ft"

# The signatures' types are read in the source; as links they would lead to private modules.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# Written with single backquotes in docstrings, as in the source's comments: shown as code.
default_role = "code"
