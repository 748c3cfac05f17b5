"""Two runs of the same chaos, before a change and after it.

Defects are compared first, as each run tells them: those that are gone, new and left. A failure
that the service answers for (503 where what it needs is not there) is no defect, so that of an
endpoint which lost a defect only failures count that it did not handle.

Failures are compared by the difference of two shares with Newcombe's interval (1998, method 10),
latencies by a bootstrap of the difference of their 95th percentiles, which draws whole seconds. All
comparisons of one call together hold with 95 % (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from dstest.chaos.figures import Request, p95_drawn_s, p95_s
from dstest.chaos.outcome import Outcome
from dstest.chaos.patterns import FEW, graceful
from dstest.core.errors import ConfigError
from dstest.core.rates import interval

Word = Literal["improved", "same", "worse"]
_CONFIDENCE: Final = 0.95
_TOLERANCE_S: Final = 0.005
"""A p95 that differs by less is the same to whoever waits."""


class FigureChange(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one endpoint. `low` and `high` bound the difference, after minus before."""

    endpoint: str
    what: Literal["failed", "unhandled", "p95_s"]
    before: float
    after: float
    low: float
    high: float
    p: float | None
    """Of two proportions being one (two-sided z test); None of latencies."""
    word: Word
    counts: bool = True
    """For the verdict. What an endpoint answers for that lost a defect does not."""


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """`verdict`: worse where a defect is new that more than two requests show, or a figure worse
    that counts; improved where a defect is gone or a figure better. `gone`, `new` and `left` are
    defects, a line each."""

    verdict: Word
    gone: list[str]
    new: list[str]
    left: list[str]
    rows: list[FigureChange]


def diff_of(before: Outcome, after: Outcome) -> Diff:
    """Compare two runs. Raises ConfigError where they cannot be: other settings, data that is not
    complete."""
    _fair(before, after)
    names = sorted({one.entry.endpoint for one in before.asked})
    confidence = 1 - (1 - _CONFIDENCE) / (3 * len(names))
    rows = []
    for name in names:
        sides = [_of(outcome.asked, name) for outcome in (before, after)]
        if not all(sides):
            raise ConfigError(f"{name} was asked in one of the two only", remedy="run it again")
        rows += [_failed(name, sides[0], sides[1], confidence, what) for what in _FAILS]
        fed = [[one for one in side if not one.starved] for side in sides]
        if not all(fed):
            raise ConfigError(
                f"the host had no core for the service while {name} was asked",
                remedy="run it again, on a host that does nothing else",
            )
        rows.append(_slow(name, fed[0], fed[1], confidence))
    return weigh(_defects(before), _defects(after), rows)


class Defect(NamedTuple):
    """As a run tells it; `requests` show it."""

    says: str
    requests: int


Defects = dict[tuple[str, str, str | None], Defect]
"""By kind, endpoint and proxy."""


def weigh(mine: Defects, other: Defects, rows: list[FigureChange]) -> Diff:
    """What changed, by defects and by figures."""
    gone, new, left = mine.keys() - other.keys(), other.keys() - mine.keys(), mine.keys() & other
    mended = {endpoint for _, endpoint, _ in gone} - {endpoint for _, endpoint, _ in new}
    # Who mends a storm of retries answers 503 where faults were hidden before.
    told = [
        msgspec.structs.replace(row, counts=row.what != "failed" or row.endpoint not in mended)
        for row in rows
    ]
    words = {row.word for row in told if row.counts}
    verdict: Word = "same"
    if "worse" in words or any(other[key].requests >= FEW for key in new):
        verdict = "worse"
    elif gone or "improved" in words:
        verdict = "improved"
    return Diff(
        verdict=verdict,
        gone=sorted(mine[key].says for key in gone),
        new=sorted(other[key].says for key in new),
        left=sorted(other[key].says for key in left),
        rows=told,
    )


def _defects(outcome: Outcome) -> Defects:
    told: Defects = {}
    for one in outcome.patterns:
        if one.defect:
            key = one.kind, one.endpoint, one.proxy
            said = f"{one.kind}: {one.endpoint} {one.says}: {one.count} of {one.of}"
            first = told.get(key, Defect(said, 0))
            told[key] = Defect(first.says, first.requests + one.count)
    if outcome.service_end is not None:
        told["end", "", None] = Defect(outcome.defects[0], FEW)
    return told


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


def _of(asked: Sequence[Request], name: str) -> list[Request]:
    """From the first fault on: what was before would hide the difference."""
    first = next((n for n, one in enumerate(asked) if one.share != 0), len(asked))
    return [one for one in asked[first:] if one.entry.endpoint == name]


_FAILS: Final[tuple[Literal["failed", "unhandled"], ...]] = ("failed", "unhandled")


def _failed(
    name: str,
    mine: list[Request],
    other: list[Request],
    confidence: float,
    what: Literal["failed", "unhandled"] = "failed",
) -> FigureChange:
    bad = [[one for one in side if not one.entry.ok] for side in (mine, other)]
    if what == "unhandled":
        bad = [[one for one in side if not (one.hit and graceful(one))] for side in bad]
    counts = [(len(bad[0]), len(mine)), (len(bad[1]), len(other))]
    (a, n), (b, m) = counts
    before, after = a / n, b / m
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    mine_rate, other_rate = interval(a, n, z), interval(b, m, z)
    low = after - before - math.hypot(after - other_rate.low, mine_rate.high - before)
    high = after - before + math.hypot(other_rate.high - after, before - mine_rate.low)
    pooled = (a + b) / (n + m)
    error = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    p = 2 * (1 - NormalDist().cdf(abs(after - before) / error)) if error else 1.0
    return FigureChange(
        endpoint=name,
        what=what,
        before=before,
        after=after,
        low=low,
        high=high,
        p=p,
        word=_word(low, high, 0.0),
    )


def _slow(name: str, mine: list[Request], other: list[Request], confidence: float) -> FigureChange:
    drawn = [p95_drawn_s(side, f"{what}/{name}") for what, side in (("a", mine), ("b", other))]
    before, after = p95_s(mine), p95_s(other)
    tail = (1 - confidence) / 2
    low, high = map(float, np.quantile(drawn[1] - drawn[0], (tail, 1 - tail)))
    return FigureChange(
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
