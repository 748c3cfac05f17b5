"""How much was found: what checkers with a violation have counted, in one line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core.check import CheckResult
from dstest.report.numbers import number

__all__ = ["tallies"]

_OUTSIDE: Final = "outside faults"

_PARTS_MAX: Final = 3
"""Of a count by fault or by kind the largest parts; a run can have hundreds of faults."""


def tallies(results: Mapping[str, CheckResult]) -> list[str]:
    """`no-lost-ack: 224,232 acknowledged, 127,728 lost, ...`, of those that found something."""
    lines = []
    for name, result in results.items():
        known = {word: value for word, value in result.stats.items() if _counted(value)}
        told = {word.replace("_", " "): value for word, value in known.items() if value}
        if result.valid is not False or not told:
            continue
        plain = [f"{number(n)} {word}" for word, n in told.items() if not isinstance(n, Mapping)]
        parts = [f"{word}: {_parts(n)}" for word, n in told.items() if isinstance(n, Mapping)]
        lines.append(f"{name}: {'; '.join([*filter(None, [', '.join(plain)]), *parts])}")
    return lines


def _counted(value: Any) -> bool:
    """Is it a number, or numbers by name? A checker of one's own may tell anything."""
    if isinstance(value, Mapping):
        return all(map(_counted, value.values()))
    return isinstance(value, int | float)


def _parts(value: Mapping[str, Any]) -> str:
    if any(isinstance(part, Mapping) for part in value.values()):
        return "; ".join(f"{name} ({_parts(part)})" for name, part in value.items())
    largest = sorted(value.items(), key=lambda row: -row[1])
    told = [
        f"{number(n)} {_OUTSIDE if name == 'none' else name}" for name, n in largest[:_PARTS_MAX]
    ]
    if more := largest[_PARTS_MAX:]:
        told.append(f"{number(sum(n for _, n in more))} in {len(more)} more")
    return ", ".join(told)
