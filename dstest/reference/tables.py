"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def code(text: str) -> str:
    """In the type of code; empty stays empty."""
    if not text:
        return ""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; bars and line ends in a cell stay in it."""
    rule = "|".join("---" for _ in head)
    return [
        f"| {' | '.join(head)} |",
        f"|{rule}|",
        *(f"| {' | '.join(map(_cell, row))} |" for row in rows),
    ]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
