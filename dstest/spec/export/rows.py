"""Places in a sequence as Python counts them: from the end below 0, and of a part no further than
the sequence goes. Other languages count from the front, and go wrong outside of it."""

from __future__ import annotations

from dstest.spec.export.language import Language, Text


def place(to: Language, row: Text, at: Text) -> str:
    """Counted from the front."""
    if at.text.isdigit():
        return at.text
    length = to.length(row.text)
    if at.text.startswith("-") and at.text[1:].isdigit():
        return to.arithmetic("-", length, at.text[1:])
    below = to.compare("<", at.text, to.literal(0))
    return to.choice(below, to.arithmetic("+", length, at.text), at.text)


def part(to: Language, row: Text, lower: Text | None, upper: Text | None) -> Text:
    """`row[lower:upper]`; None is the beginning or the end."""
    start = to.literal(0) if lower is None else _within(to, row, lower)
    end = to.length(row.text) if upper is None else _within(to, row, upper)
    if lower is not None and upper is not None:
        end = _larger(to, start, end)
    return Text(to.part(row.text, start, end), row.kind)


def _within(to: Language, row: Text, bound: Text) -> str:
    at, length = place(to, row, bound), to.length(row.text)
    if at == to.literal(0):
        return at
    if not at.isdigit():
        at = _larger(to, to.literal(0), at)
    return to.choice(to.compare("<", at, length), at, length)


def _larger(to: Language, a: str, b: str) -> str:
    return to.choice(to.compare("<", a, b), b, a)
