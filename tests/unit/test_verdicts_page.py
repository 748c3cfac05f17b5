"""`docs/reference/verdicts.md` and the code say the same."""

from __future__ import annotations

import re
from pathlib import Path

from dstest.core.verdict import State
from dstest.judge.decide import RULES
from dstest.judge.lints import LINTS
from dstest.judge.page import STATES, markdown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "verdicts.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == markdown(), "python -m dstest.judge.page >docs/reference/verdicts.md"


def test_all_is_described_and_nothing_else() -> None:
    assert set(STATES) == set(State)
    assert all(rule.title for rule in RULES)
    assert [lint.id for lint in LINTS] == [f"H{n:02}" for n in range(1, 19)]


def test_rules_stand_in_their_order() -> None:
    said = re.findall(r"^\| (V\d\d\w?) \|", PAGE.read_text(), re.MULTILINE)
    assert said == [rule.id for rule in RULES]
