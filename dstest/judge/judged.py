"""How many operations the checkers judged, in words: once, and by checker where they differ."""

from __future__ import annotations

from dstest.core.evidence import CheckerEvidence


def judged(c: CheckerEvidence) -> str:
    """`set, order judged 40 operations`; `set judged 40 and order 38 operations`."""
    counts = {name: row.consumed for name, row in c.by_checker.items()}
    if len({*counts.values()}) < 2:
        count = next(iter(counts.values()), c.ops_consumed)
        return f"{', '.join(c.ran)} judged {count:,} operations"
    (first, most), *rest = counts.items()
    others = " and ".join(f"{name} {count:,}" for name, count in rest)
    return f"{first} judged {most:,} and {others} operations"


def share(c: CheckerEvidence) -> str:
    """`38 of 40`; `40 of 40 by set, 38 of 40 by order`."""
    shares = {
        name: f"{row.consumed:,} of {row.eligible:,}" for name, row in c.by_checker.items()
    } or {"": f"{c.ops_consumed:,} of {c.ops_eligible:,}"}
    if len({*shares.values()}) == 1:
        return next(iter(shares.values()))
    return ", ".join(f"{text} by {name}" for name, text in shares.items())
