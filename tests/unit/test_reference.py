"""docs/reference: what is there is what the code says of itself, and nothing is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from dstest.cli.reference.pages import PAGES, code, every_command, table
from dstest.core import registry
from dstest.runner.plugins import options_of

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
BY_HAND = {"explain.md", "formats.md", "system-bases.md", "threat-model.md"}
BY_OTHERS = {"blame.md", "capabilities.md", "verdicts.md"}
AGAIN = "python -m dstest.cli.reference docs/reference"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), f"written again by: {AGAIN}"


def test_no_page_is_left_from_before() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES) | BY_HAND | BY_OTHERS


def test_every_option_of_every_plugin_is_there() -> None:
    """As `dstest options` lists them."""
    asked = {"systems": 0, "workloads": 1, "nemeses": 2}
    for group, at in asked.items():
        page = PAGES[f"{group}.md"]()
        for name in registry.names(group):
            chosen = [name if at == each else None for each in range(3)]
            part = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
            for whose, option, _ in options_of(*chosen):
                where = page if whose == "every run" and group == "workloads" else part
                if whose != "every run" or group == "workloads":
                    assert f"| `{option}` |" in where, (name, option)


def test_every_command_is_there_with_its_options() -> None:
    page = PAGES["commands.md"]()
    for words, command in every_command():
        part = page.partition(f"## {words}\n")[2].partition("\n## ")[0]
        assert part, words
        for param in command.params:
            if param.param_type_name == "option" and param.name != "help":
                assert f"`{param.opts[0]}`" in part, (words, param.opts)


def test_cells_keep_bars_and_lines() -> None:
    assert table(("a",), [("x|y\nz",)])[-1] == r"| x\|y z |"
    assert code("`a`") == "```a```"
    assert code("") == ""
