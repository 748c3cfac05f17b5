"""The table of extras in docs/ci.md: all there are, with the commands that want them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from dstest.cli.app import app
from dstest.core import registry
from dstest.core.extras import extra_with

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_, _, SECTION = (ROOT / "docs" / "ci.md").read_text().partition("\n## Extras\n")
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\|$", re.M)
ROWS = {name: row for name, *row in ROW.findall(SECTION)}


def test_it_has_each_extra() -> None:
    assert {*ROWS} == {*PROJECT["optional-dependencies"]} - {"dev"}


def test_all_is_all_of_them() -> None:
    named = re.findall(r"[\w-]+", " ".join(PROJECT["optional-dependencies"]["all"]))
    assert {*named} - {"dstest"} == {*PROJECT["optional-dependencies"]} - {"dev", "all"}


def test_each_system_stands_with_the_extra_that_has_its_driver() -> None:
    for name in registry.names("systems", ours=True):
        packages = registry.load("systems", name).client_packages
        for extra in filter(None, map(extra_with, packages)):
            assert name in re.split("[ ,]+", ROWS[extra][0]), (name, extra)


def test_its_commands_are_there() -> None:
    told = [row[1] for row in ROWS.values()]
    shown = re.findall(r"`dstest ([a-z ]+?)(?: --.*?)?`", " ".join(told))
    assert {"nightly run", "workers put", "shrink", "report", "export"} <= {*shown}
    for words in shown:
        found = get_command(app)
        for word in words.split():
            found = getattr(found, "commands", {})[word]
