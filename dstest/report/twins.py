"""One and the same anomaly, found by several checkers: told once, with all who found it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET

from dstest.core.check import Anomaly
from dstest.core.op import NULL_IS_RESULT, Op, Outcome
from dstest.core.words import quoted
from dstest.report.places import LOST

_NOT_KNOWN: Final = ""


def element_of(anomaly: Anomaly, shape: str, by_id: Mapping[int | str, Op]) -> str:
    """What it is about, as JSON; empty where nobody knows. Runs of before checkers said so are read
    by their witness: what is lost is what its acknowledged write wrote."""
    if anomaly.element is not UNSET:
        return quoted(anomaly.element)
    wrote: list[Any] = [
        op.input
        for op in (by_id[id] for id in anomaly.ops if id in by_id)
        if op.outcome is Outcome.OK and op.op_type not in NULL_IS_RESULT and op.input is not None
    ]
    known = shape == LOST and len({quoted(value) for value in wrote}) == 1
    return quoted(wrote[0]) if known else _NOT_KNOWN


def twins(
    anomalies: Sequence[tuple[str, Anomaly]],
    shape_of: Callable[[str, str], str],
    by_id: Mapping[int | str, Op],
) -> dict[int, int]:
    """Of (checker, anomaly), by place: which one repeats which earlier one of another checker.

    What is lost is the same where the kind, the key and the element are; anything else where its
    witness holds the same operations as well. `shape_of` is asked with checker and kind. Two of one
    checker are never the same: an element that was put in twice can be lost twice.
    """
    firsts: dict[tuple[Any, ...], list[int]] = {}
    seen: dict[tuple[Any, ...], int] = {}
    found: dict[int, int] = {}
    for at, (checker, anomaly) in enumerate(anomalies):
        shape = shape_of(checker, anomaly.type)
        element = element_of(anomaly, shape, by_id)
        lost = shape == LOST and element != _NOT_KNOWN
        ops = frozenset() if lost else frozenset(anomaly.ops)
        if not lost and not ops:
            continue
        same = (anomaly.type, quoted(anomaly.key), element, ops)
        rows = firsts.setdefault(same, [])
        nth = seen[checker, *same] = seen.get((checker, *same), -1) + 1
        if nth < len(rows):
            found[at] = rows[nth]
        else:
            rows.append(at)
    return found
