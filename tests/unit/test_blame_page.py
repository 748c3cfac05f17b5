"""`docs/reference/blame.md` and the code say the same."""

from __future__ import annotations

from pathlib import Path

from dstest.judge.blame_page import markdown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "blame.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == markdown(), (
        "python -m dstest.judge.blame_page >docs/reference/blame.md"
    )
