"""The section of a findings report that says what was seen red before it was green."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dstest.plans.execution.red import NEVER, RedSide
from dstest.report.review.markdown import table

TITLE: Final = "Red first"

_COLUMNS: Final = ("Seen red", "Arm", "Under", "Its verdict", "What was seen")


def red_lines(sides: Sequence[RedSide]) -> tuple[str, ...]:
    """A row for each arm."""
    rows = (
        (
            "yes" if side.answer == "red" else NEVER,
            side.of,
            side.under,
            "-" if side.state is None else side.state.value,
            side.said,
        )
        for side in sides
    )
    return (*table(_COLUMNS, rows),)
