"""The documentation says what the code says: settings, public names, callbacks, links."""

import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import pytest

import otavia_ft
from otavia_ft import AbstractActor, AutoCleanable, Config

DOCS = Path(__file__).resolve().parent.parent / "docs"
README = DOCS.parent / "README.md"


def table_rows(text: str) -> list[list[str]]:
    """The cells of every row of every table, the heads and their rulers left out."""
    lines = text.splitlines()
    rows = []
    for above, line in zip(lines, [*lines[1:], ""], strict=True):
        is_ruler = set(above) <= set("|- ")
        is_head = set(line) <= set("|- ") and bool(line)
        if above.startswith("|") and not is_ruler and not is_head:
            rows.append([cell.strip() for cell in above.strip("|").split("|")])
    return rows


class TestConfiguration:
    """docs/configuration.md has a row for every setting, with what the code says about it."""

    def row(self, setting: "Field[Any]") -> list[str]:
        meta = setting.metadata
        assert setting.default is not MISSING
        if setting.type == "bool":
            allowed = "True, False"
        elif "allowed" in meta:
            allowed = ", ".join(f"`{each}`" for each in meta["allowed"])
        else:
            allowed = f"{meta['low']:,} to {meta['high']:,}"
        variable = f"OTAVIA_FT_{setting.name.upper()}"
        return [f"`{setting.name}`", f"`{variable}`", f"`{setting.default}`", allowed, meta["doc"]]

    def test_there_is_a_row_for_every_setting_as_the_code_has_it(self):
        expected = [self.row(setting) for setting in fields(Config)]
        rows = table_rows((DOCS / "configuration.md").read_text())
        missing = [row for row in expected if row not in rows]
        wrong = [row for row in rows if row not in expected]
        printed = "\n".join(f"| {' | '.join(row)} |" for row in missing)
        assert not missing, f"these rows are missing or out of date:\n{printed}"
        assert not wrong, "these rows describe nothing that the code knows"
        assert len(rows) == len(expected), "a setting is described twice"

    def test_every_setting_says_what_it_does(self):
        assert [f.name for f in fields(Config) if not f.metadata.get("doc")] == []

    @pytest.mark.parametrize("setting", fields(Config), ids=lambda setting: setting.name)
    def test_every_setting_is_read_from_the_variable_that_the_page_promises(self, setting):
        meta = setting.metadata
        if setting.type == "bool":
            text, value = str(not setting.default).lower(), not setting.default
        elif "allowed" in meta:
            text = value = meta["allowed"][-1]
        else:
            value = setting.default + 1 if setting.default + 1 <= meta["high"] else meta["low"]
            text = str(value)
        config = Config.load({f"OTAVIA_FT_{setting.name.upper()}": text})
        assert getattr(config, setting.name) == value

    def test_an_argument_wins_over_the_environment_and_that_over_the_default(self):
        environment = {"OTAVIA_FT_WORKERS": "3", "OTAVIA_FT_IO_RATIO": "70"}
        config = Config.load(environment, workers=5)
        assert (config.workers, config.io_ratio, config.batch_limit) == (5, 70, 1024)


class TestReference:
    def named(self) -> list[str]:
        text = (DOCS / "reference.md").read_text()
        return re.findall(r"^\.\. auto\w+:: otavia_ft\.(\w+)$", text, re.MULTILINE)

    def test_every_public_name_is_described_once(self):
        named = [name for name in self.named() if name != "testkit"]
        assert sorted(named) == sorted(otavia_ft.__all__)

    def test_every_public_name_has_a_text_of_its_own(self):
        bare = []
        for name in otavia_ft.__all__:
            thing = getattr(otavia_ft, name)
            own = thing.__dict__.get("__doc__") if isinstance(thing, type) else thing.__doc__
            # A dataclass without a text gets its signature for one.
            if not own or own.startswith(f"{name}("):
                bare.append(name)
        assert bare in ([], ["UnitReply", "TimeoutReply"], ["TimeoutReply", "UnitReply"])


class TestCallbackTable:
    """docs/actors.md: hook, when, thread, allowed results, effect of raising."""

    NOT_CALLBACKS = frozenset(
        # What an actor calls itself, rather than being called by the runtime.
        [
            "address",
            "system",
            "logger",
            "stop",
            "build_child",
            "children",
            "parent",
            "watch",
            "unwatch",
            "stash",
            "unstash",
            "unstash_all",
            "notice_self_first",
            "later",
            "after",
            "at",
            "resume_channel",
        ]
    )

    def rows(self) -> list[list[str]]:
        page = (DOCS / "actors.md").read_text()
        return table_rows(page.split("## The callback contract")[1].split("\n## ")[0])

    def test_every_callback_of_an_actor_has_a_row(self):
        first_cells = " ".join(row[0] for row in self.rows())
        described = set(re.findall(r"`(?:\w+\.)?(\w+)\(", first_cells))
        callbacks = {
            name
            for name, value in vars(AbstractActor).items()
            if not name.startswith("_") and (callable(value) or isinstance(value, property))
        } - self.NOT_CALLBACKS
        assert callbacks <= described, sorted(callbacks - described)

    def test_every_row_describes_something_that_exists(self):
        for row in self.rows():
            for owner, name in re.findall(r"`(?:(\w+)\.)?(\w+)\(", row[0]):
                holders: list[Any] = [AbstractActor, AutoCleanable]
                if owner:
                    holders = [getattr(otavia_ft, owner)]
                assert any(hasattr(holder, name) for holder in holders), row[0]

    def test_every_row_says_when_where_what_and_what_if(self):
        for row in self.rows():
            assert len(row) == 5, row
            assert all(row), row


class TestLinks:
    @pytest.mark.parametrize("page", ["README.md", "docs/guide.md", "docs/actors.md"])
    def test_links_between_files_lead_somewhere(self, page):
        path = DOCS.parent / page
        for target in re.findall(r"\]\((?!http)([^)#]+)", path.read_text()):
            assert (path.parent / target).exists(), f"{page} links to {target}"

    def test_every_page_is_in_the_table_of_contents(self):
        contents = (DOCS / "index.md").read_text().split("toctree")[1]
        pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
        assert {page for page in pages if f"\n{page}\n" not in contents} == set()


class TestReadme:
    def test_the_two_commands_for_newcomers_are_commands_of_ft(self):
        commands = re.findall(r"^    \./ft (\w+)", README.read_text(), re.MULTILINE)
        assert commands == ["demo", "test"]
        script = (DOCS.parent / "ft").read_text()
        for command in commands:
            assert f"run_{command}()" in script

    def test_every_folder_of_its_table_is_there(self):
        text = README.read_text().split("## Where things are")[1]
        folders = re.findall(r"`(\w+)/`", text)
        assert folders
        for folder in folders:
            assert (DOCS.parent / folder).is_dir(), folder
