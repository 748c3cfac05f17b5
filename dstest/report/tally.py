"""How much was found: what checkers with a violation have counted, in one line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET

from dstest.core.check import CheckResult, Spread
from dstest.report.meanings import meaning_of
from dstest.report.numbers import number
from dstest.report.places import LOST

_OUTSIDE: Final = "outside faults"
_BY_EPOCH: Final = "anomalies_by_epoch"

_PARTS_MAX: Final = 3
"""Of a count by fault or by kind the largest parts; a run can have hundreds of faults."""


def tallies(results: Mapping[str, CheckResult]) -> list[str]:
    """`no-lost-ack: 224,232 acknowledged, 127,728 lost, ...`, of those that found something."""
    lines = []
    for name, result in results.items():
        known = {word: value for word, value in result.stats.items() if _counted(value)}
        if _BY_EPOCH in known and result.spreads:
            known[_BY_EPOCH] = {kind: _fell(kind, s, name) for kind, s in result.spreads.items()}
        told = {word.replace("_", " "): value for word, value in known.items() if value}
        if result.valid is not False or not told:
            continue
        plain = [f"{number(n)} {word}" for word, n in told.items() if not isinstance(n, Mapping)]
        parts = [f"{word}: {_parts(n)}" for word, n in told.items() if isinstance(n, Mapping)]
        lines.append(f"{name}: {'; '.join([*filter(None, [', '.join(plain)]), *parts])}")
    return lines


def _fell(kind: str, spread: Spread, checker: str) -> dict[str, int]:
    """Where anomalies fell, as the page has it: of what was lost by when it was acknowledged."""
    lost = spread.known is not None and meaning_of(checker, kind).shape == LOST
    seen, lead = (spread.known, "acknowledged ") if lost else (spread.told, "")
    if seen is None:
        return {"none": spread.count}
    rows = {f"{lead}in {epoch}": n for epoch, n in seen.epochs.items()}
    after = seen.after or {}
    rows |= {f"{lead}after the heal of {epoch}": n for epoch, n in after.items()}
    if rest := seen.outside - sum(after.values()):
        word = _OUTSIDE if seen.after is UNSET else "before any heal"
        rows[f"{lead}{word}"] = rest
    return rows


def _counted(value: Any) -> bool:
    """Is it a number, or numbers by name? A checker of one's own may tell anything."""
    if isinstance(value, Mapping):
        return all(map(_counted, value.values()))
    return isinstance(value, int | float | str)


def _parts(value: Mapping[str, Any]) -> str:
    if any(isinstance(part, Mapping) for part in value.values()):
        return "; ".join(f"{name} ({_parts(part)})" for name, part in value.items())
    numbers = [row for row in value.items() if isinstance(row[1], int | float)]
    largest = sorted(numbers, key=lambda row: -row[1])
    told = [
        f"{number(n)} {_OUTSIDE if name == 'none' else name}" for name, n in largest[:_PARTS_MAX]
    ]
    if more := largest[_PARTS_MAX:]:
        told.append(f"{number(sum(n for _, n in more))} in {len(more)} more")
    return ", ".join(told)
