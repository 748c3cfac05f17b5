"""Markdown of what others have said: text that cannot open a tag, a cell or a heading; tables."""

from __future__ import annotations

from collections.abc import Iterable

from dstest.core.printable import printable


def md(text: object) -> str:
    """Text that cannot open a tag, a table cell, a heading or a code span."""
    flat = printable(" ".join(str(text).split()))
    for char in ("\\", "`", "*", "_", "[", "]", "|", "#"):
        flat = flat.replace(char, "\\" + char)
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def fenced(text: str) -> str:
    """A fenced block; the fence is longer than any run of backticks inside."""
    text = printable(text)
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """A table with an empty line after it."""
    names = list(head)
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(md(cell) for cell in row) + " |" for row in rows]
    return [*lines, ""]
