"""A system is a file that is read at one sitting: what many need is in the base."""

from __future__ import annotations

from pathlib import Path

import pytest

SYSTEMS = Path(__file__).resolve().parents[2] / "clusters" / "systems"
LINES_MAX = {"memcached.py": 100, "redis_sentinel.py": 150}
OTHERS_LINES_MAX = 280


@pytest.mark.parametrize("name", sorted(path.name for path in SYSTEMS.glob("[!_]*.py")))
def test_a_system_keeps_to_its_budget_as_the_formatter_writes_it(name: str) -> None:
    text = (SYSTEMS / name).read_text()
    assert len(text.splitlines()) <= LINES_MAX.get(name, OTHERS_LINES_MAX)
    assert "fmt: " not in text
