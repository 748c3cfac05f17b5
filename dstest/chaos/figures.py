"""Figures of each endpoint: how many failed and how long it took, with a fault and without."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from dstest.chaos.joined import Asked
from dstest.core.shares import interval

_Z: Final = 1.959964


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that are alike. Latencies in seconds, None of no request."""

    requests: int
    failed: int
    failed_low: float
    failed_high: float
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None


class Lift(msgspec.Struct, frozen=True, kw_only=True):
    """P(failed | a fault hit it) / P(failed | none did), with its 95 % interval."""

    value: float
    low: float
    high: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    endpoint: str
    requests: int
    ok: int
    failures: dict[str, int]
    """How many failed, by why."""
    hit: Side
    not_hit: Side
    lift: Lift | None


def side_of(asked: Sequence[Asked]) -> Side:
    """Figures of these requests."""
    failed = sum(not one.entry.ok for one in asked)
    rate = interval(failed, len(asked))
    times: list[float | None] = [None, None, None]
    if asked:
        found = np.quantile([one.entry.latency_s for one in asked], (0.5, 0.95, 0.99))
        times = [float(value) for value in found]
    return Side(
        requests=len(asked),
        failed=failed,
        failed_low=rate.low,
        failed_high=rate.high,
        p50_s=times[0],
        p95_s=times[1],
        p99_s=times[2],
    )


def p95_s(asked: Sequence[Asked]) -> float:
    """NaN of no request."""
    return float(np.quantile([a.entry.latency_s for a in asked], 0.95)) if asked else math.nan


def lift_of(hit: Side, not_hit: Side) -> Lift | None:
    """The ratio of two shares with the interval on its logarithm (Katz et al. 1978); where nothing
    or everything failed on a side, half a request is added to each (Walter 1975). None where a side
    is empty, or nothing failed on either: that is no ratio."""
    if not hit.requests or not not_hit.requests or not (hit.failed or not_hit.failed):
        return None
    a, n, b, m = hit.failed, hit.requests, not_hit.failed, not_hit.requests
    more = 0.5 if 0 in (a, b) or a == n or b == m else 0.0
    first, second = (a + more) / (n + more), (b + more) / (m + more)
    spread = _Z * math.sqrt(
        max(0.0, 1 / (a + more) - 1 / (n + more) + 1 / (b + more) - 1 / (m + more))
    )
    value = first / second
    return Lift(value=value, low=value * math.exp(-spread), high=value * math.exp(spread))


def figures_of(asked: Sequence[Asked]) -> list[Figures]:
    """Of each endpoint, by name. Requests of all phases count."""
    told = []
    for name in sorted({one.entry.endpoint for one in asked}):
        own = [one for one in asked if one.entry.endpoint == name]
        hit = side_of([one for one in own if one.hit])
        not_hit = side_of([one for one in own if not one.hit])
        failures = Counter(one.entry.why for one in own if not one.entry.ok)
        told.append(
            Figures(
                endpoint=name,
                requests=len(own),
                ok=len(own) - failures.total(),
                failures=dict(failures.most_common()),
                hit=hit,
                not_hit=not_hit,
                lift=lift_of(hit, not_hit),
            )
        )
    return told
