"""Two runs of the same chaos, before a change and after it.

Failures are compared by the difference of two shares with Newcombe's interval (1998, method 10),
latencies by a bootstrap of the difference of their 95th percentiles, which draws whole seconds. All
comparisons of one call together hold with 95 % (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final, Literal

import msgspec
import numpy as np

from dstest.chaos.blocks import p95_drawn_s
from dstest.chaos.figures import p95_s
from dstest.chaos.joined import Asked
from dstest.chaos.outcome import Outcome
from dstest.core.errors import ConfigError
from dstest.core.shares import interval

__all__ = ["Compared", "Diff", "diff_of"]

Word = Literal["improved", "same", "worse"]
_CONFIDENCE: Final = 0.95
_TOLERANCE_S: Final = 0.005
"""A p95 that differs by less is the same to whoever waits."""


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one endpoint. `low` and `high` bound the difference, after minus before."""

    endpoint: str
    what: Literal["failed", "p95_s"]
    before: float
    after: float
    low: float
    high: float
    p: float | None
    """Of two proportions being one (two-sided z test); None of latencies."""
    word: Word


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """`verdict`: worse where anything is, improved where something is and nothing worse."""

    verdict: Word
    rows: list[Compared]


def diff_of(before: Outcome, after: Outcome) -> Diff:
    """Compare two runs. Raises ConfigError where they cannot be: other settings, data that is not
    complete."""
    _fair(before, after)
    names = sorted({one.entry.endpoint for one in before.asked})
    confidence = 1 - (1 - _CONFIDENCE) / (2 * len(names))
    rows = []
    for name in names:
        sides = [_of(outcome.asked, name) for outcome in (before, after)]
        if not all(sides):
            raise ConfigError(f"{name} was asked in one of the two only", remedy="run it again")
        rows.append(_failed(name, sides[0], sides[1], confidence))
        fed = [[one for one in side if not one.starved] for side in sides]
        if not all(fed):
            raise ConfigError(
                f"the host had no core for the service while {name} was asked",
                remedy="run it again, on a host that does nothing else",
            )
        rows.append(_slow(name, fed[0], fed[1], confidence))
    words = {row.word for row in rows}
    verdict: Word = "worse" if "worse" in words else "improved" if "improved" in words else "same"
    return Diff(verdict=verdict, rows=rows)


def _fair(before: Outcome, after: Outcome) -> None:
    mine, other = before.config.settings, after.config.settings
    if before.config == after.config:
        raise ConfigError("this is one run, twice", remedy="another run of the same settings")
    for name in ("endpoint", "load", "ramp", "seed"):
        if getattr(mine, name) != getattr(other, name):
            raise ConfigError(
                f"the two runs have another [{name}]: they cannot be compared",
                remedy="run both with the same settings; target, command and ports may differ",
            )
    faults = [{one.name: (one.faults, one.routes) for one in s.proxy} for s in (mine, other)]
    if faults[0] != faults[1]:
        raise ConfigError(
            "the two runs have other faults: they cannot be compared", remedy="the same [[proxy]]"
        )
    for what, outcome in (("first", before), ("second", after)):
        if outcome.data == "partial":
            raise ConfigError(
                f"the data of the {what} is partial ({outcome.why_partial})",
                remedy="run it again to its end",
            )
        if missing := [one for one in outcome.injected if not one.landed]:
            raise ConfigError(
                f"in the {what} no {missing[0].kind} of {missing[0].proxy} landed",
                remedy="more requests, or a service that asks that proxy",
            )


def _of(asked: Sequence[Asked], name: str) -> list[Asked]:
    """From the first fault on: what was before would hide the difference."""
    first = next((n for n, one in enumerate(asked) if one.share != 0), len(asked))
    return [one for one in asked[first:] if one.entry.endpoint == name]


def _failed(name: str, mine: list[Asked], other: list[Asked], confidence: float) -> Compared:
    counts = [(sum(not one.entry.ok for one in side), len(side)) for side in (mine, other)]
    (a, n), (b, m) = counts
    before, after = a / n, b / m
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    mine_rate, other_rate = interval(a, n, z), interval(b, m, z)
    low = after - before - math.hypot(after - other_rate.low, mine_rate.high - before)
    high = after - before + math.hypot(other_rate.high - after, before - mine_rate.low)
    pooled = (a + b) / (n + m)
    error = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    p = 2 * (1 - NormalDist().cdf(abs(after - before) / error)) if error else 1.0
    return Compared(
        endpoint=name,
        what="failed",
        before=before,
        after=after,
        low=low,
        high=high,
        p=p,
        word=_word(low, high, 0.0),
    )


def _slow(name: str, mine: list[Asked], other: list[Asked], confidence: float) -> Compared:
    drawn = [p95_drawn_s(side, f"{what}/{name}") for what, side in (("a", mine), ("b", other))]
    before, after = p95_s(mine), p95_s(other)
    tail = (1 - confidence) / 2
    low, high = map(float, np.quantile(drawn[1] - drawn[0], (tail, 1 - tail)))
    return Compared(
        endpoint=name,
        what="p95_s",
        before=before,
        after=after,
        low=low,
        high=high,
        p=None,
        word=_word(low, high, _TOLERANCE_S),
    )


def _word(low: float, high: float, tolerance: float) -> Word:
    """Of a figure of which less is better."""
    if high < -tolerance:
        return "improved"
    return "worse" if low > tolerance else "same"
