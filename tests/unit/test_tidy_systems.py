"""A system is a file that is read at one sitting: what many need is in the base."""

from __future__ import annotations

from pathlib import Path

import pytest

SYSTEMS = Path(__file__).resolve().parents[2] / "clusters" / "systems"
LINES_MAX = {"memcached.py": 100, "redis_sentinel.py": 150}


def test_each_system_of_one_file_has_its_budget() -> None:
    assert {path.name for path in SYSTEMS.glob("[!_]*.py")} == set(LINES_MAX)


@pytest.mark.parametrize("name", LINES_MAX)
def test_a_system_keeps_to_its_budget_as_the_formatter_writes_it(name: str) -> None:
    text = (SYSTEMS / name).read_text()
    assert len(text.splitlines()) <= LINES_MAX[name]
    assert "fmt: " not in text
