"""Pages that show commands with what they print: those that need no lab do that."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from forked import in_bash

from dstest.extend.scaffold.write import KINDS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS / f"new-{kind}.md" for kind in KINDS]
GUIDES = [
    DOCS / name
    for name in (
        *("explain.md", "for-jepsen-users.md", "new-simulation.md"),
        *("properties.md", "simulation.md", "specs.md", "tutorial.md"),
    )
]
LAB = (
    "dstest run ",
    "dstest lab ",
    "dstest replay ",
    "dstest blame ",
    "dstest confirm ",
    "dstest shrink ",
    "make ",
)
"""Such commands need nodes; `tests/integration` has them."""

SIMULATED = "--lab sim "
"""But for these."""

PART = re.compile(
    r"(?P<command>[^\n]*<<'END'\n.*?^END|[^\n]*)\n?(?P<shown>.*)", re.DOTALL | re.MULTILINE
)
"""A command, with the text that it is given, and what it prints."""


def commands(page: Path) -> list[tuple[str, str]]:
    """Each command of the page with what it shows as its output."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)]
    found = [PART.fullmatch(part) for part in parts if part]
    return [(part["command"], part["shown"]) for part in found if part is not None]


def measured(text: str) -> str:
    """Without what differs from time to time: seconds."""
    return re.sub(r"\d+\.\d+ ?s\b", "_", text)


@pytest.mark.parametrize("page", [*PAGES, *GUIDES], ids=lambda page: page.name)
def test_the_commands_do_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    asked = commands(page)
    (tmp_path / "tests").symlink_to(DOCS.parent / "tests")
    assert any(not command.startswith(LAB) for command, _ in asked)
    for command, shown in asked:
        if command.startswith(LAB) and SIMULATED not in command:
            continue
        done = subprocess.run(
            in_bash(command), cwd=tmp_path, env=env, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        assert (command, measured(done.stdout)) == (command, measured(shown)), done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_short_and_its_files_exist(page: Path) -> None:
    text = page.read_text()
    assert text.count("\n") <= 120
    root = DOCS.parent
    named = re.findall(r"`((?:dstest|nemeses|checkers|clusters|workloads|tests)/[\w/.]*)`", text)
    assert [path for path in named if not (root / path).exists()] == []
