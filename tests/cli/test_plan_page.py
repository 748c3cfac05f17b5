"""docs/plans.md: its commands do what the page shows, and the rules are those of docs/reference."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from forked import in_bash

from dstest.plans.lint import RULES
from dstest.report.review.rules import RULES as REVIEW

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "plans.md"
RULES_PAGE = DOCS / "reference" / "rules.md"


def test_the_commands_do_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(DOCS)
    paths = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)]
    asked = [part.partition("\n") for part in parts if part]
    assert len(asked) == 12
    for command, _, shown in asked:
        done = subprocess.run(
            in_bash(command), cwd=tmp_path, env={**os.environ, **paths},
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert (command, done.stdout) == (command, shown), done.stderr


def test_what_a_report_is_held_to_is_listed() -> None:
    rows = [f"| {rule.id} | {rule.title} |" for rule in REVIEW]
    assert [line for line in RULES_PAGE.read_text().splitlines() if line.startswith("| R")] == rows


def test_the_rules_are_listed() -> None:
    rows = [f"| {rule.id} | {rule.severity} | {rule.title} |" for rule in RULES]
    assert [line for line in RULES_PAGE.read_text().splitlines() if line.startswith("| L")] == rows
