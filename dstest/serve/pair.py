"""Two runs side by side: what was asked of each, what each came to, and whether their numbers may
be compared at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.compare.fair import Met, unfair
from dstest.compare.intervals import RUNS_MIN
from dstest.compare.measured import METRICS, MORE_IS_BETTER, metric_words
from dstest.retention.copies import Recorded, digest_of, recorded
from dstest.retention.walk import Place
from dstest.runner.integrity import Told
from dstest.serve.reading import contents_shown
from dstest.serve.row import Figures, Row
from dstest.serve.standing import look_at

_OWN: Final = ("status", "started", "load s")
"""Rows that differ between any two runs, and mean nothing by it."""

_OUTCOME: Final = ("verdict", "rule", "reason", "operations", "budget", "audit short")


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of both, `words` say which; `ratio` is right to left, None where there is none.
    `why` says of which side there is no value, and why."""

    metric: str
    words: str
    why: str
    left: float | None
    right: float | None
    ratio: float | None
    better: str


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """`settings` are those that differ, as (name, left, right), `same` the names of those that do
    not; `outcome` and `faults` are shown whether they differ or not. `unfair` are sentences why
    numbers of these two say nothing about what was compared; empty where they may be compared."""

    left: Row
    right: Row
    settings: list[tuple[str, Any, Any]]
    same: list[str]
    outcome: list[tuple[str, Any, Any]]
    faults: list[tuple[str, Any, Any]]
    anomalies: tuple[list[str], list[str], list[str]]
    measures: list[Measure]
    why_not: list[str]
    unfair: list[str]
    runs_needed: int = RUNS_MIN


def pair_of(
    left: tuple[Row, Place], right: tuple[Row, Place], now: Callable[[Row], Figures]
) -> Pair:
    """Never raises for what lies in the directories."""
    (a, at_a), (b, at_b) = left, right
    rows = (contents_shown(at_a.path), contents_shown(at_b.path))
    names = list(dict.fromkeys([*rows[0], *rows[1]]))
    shown = [(name, rows[0].get(name), rows[1].get(name)) for name in names]
    settings = [row for row in shown if not _is_outcome(row[0]) and row[0] not in _OWN]
    figures = (now(a), now(b))
    return Pair(
        left=a,
        right=b,
        settings=[row for row in settings if row[1] != row[2]],
        same=[name for name, one, other in settings if one == other],
        outcome=[row for row in shown if _is_outcome(row[0])],
        faults=_faults(at_a, at_b),
        anomalies=_anomalies(a, b),
        measures=_measures(*figures),
        why_not=[
            f"{row.ref}: {one.why}" for row, one in zip((a, b), figures, strict=True) if one.why
        ],
        unfair=_unfair((a, at_a), (b, at_b)),
    )


def _is_outcome(name: str) -> bool:
    return name in _OUTCOME or name.startswith(("checker ", "faults "))


def _anomalies(a: Row, b: Row) -> tuple[list[str], list[str], list[str]]:
    """By fingerprint: in both, in the left one alone, in the right one alone."""
    mine, theirs = set(a.fingerprints), set(b.fingerprints)
    return sorted(mine & theirs), sorted(mine - theirs), sorted(theirs - mine)


def _faults(left: Place, right: Place) -> list[tuple[str, Any, Any]]:
    """(fault, how it went on the left, on the right), by the order of their ids."""
    sides = [_landed(place) for place in (left, right)]
    names = list(dict.fromkeys([*sides[0], *sides[1]]))
    return [(name, sides[0].get(name), sides[1].get(name)) for name in names]


def _landed(place: Place) -> dict[str, str]:
    told = look_at(place).told
    if told is None:
        return {}
    return {
        fault.id: f"{fault.nemesis}: landed {fault.landed}, heal "
        f"{'proven' if fault.heal_verified else 'not proven'}"
        for fault in told.evidence.faults
    }


def _measures(left: Figures, right: Figures) -> list[Measure]:
    rows = []
    for metric in METRICS:
        one, other = getattr(left, metric), getattr(right, metric)
        rows.append(
            Measure(
                metric=metric,
                words=metric_words(metric),
                why=_no_value(metric, left, right),
                left=one,
                right=other,
                ratio=_ratio(one, other),
                better="more" if metric in MORE_IS_BETTER else "less",
            )
        )
    return rows


def _no_value(metric: str, left: Figures, right: Figures) -> str:
    sides = {side: one.whys.get(metric) for side, one in (("left", left), ("right", right))}
    if sides["left"] and sides["left"] == sides["right"]:
        return sides["left"]
    return "; ".join(f"{side}: {why}" for side, why in sides.items() if why)


def _ratio(one: float | None, other: float | None) -> float | None:
    if not one or other is None or not (math.isfinite(one) and math.isfinite(other)):
        return None
    return other / one


def _unfair(left: tuple[Row, Place], right: tuple[Row, Place]) -> list[str]:
    """As `dstest compare` would say it, but for what it finds by judging both again."""
    told = [look_at(place) for _, place in (left, right)]
    odd = [
        f"{row.ref} is {look.standing}: {look.why}"
        for (row, _), look in zip((left, right), told, strict=True)
        if look.told is None
    ]
    if odd:
        return odd
    sides: list[tuple[str, Sequence[Met]]] = [
        (name, [_met(row, place, look.told)])
        for name, (row, place), look in zip(("left", "right"), (left, right), told, strict=True)
        if look.told is not None
    ]
    return unfair(sides, ())


def _met(row: Row, place: Place, told: Told) -> Met:
    return Met(
        path=Path(row.ref),
        meta=told.meta,
        verdict=told.verdict,
        digest=_digest(row.ref, place.path),
    )


def _digest(ref: str, run: Path) -> str:
    """Of what was recorded; where there is nothing one of its own."""
    return digest_of(Recorded(name=ref, path=run, bytes=recorded(run))) or ref
