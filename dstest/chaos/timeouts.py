"""Timeouts that a service has already: what it asked for was still waited for when it hung up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

from dstest.chaos.joined import Asked, Joined
from dstest.chaos.records import Passed

_NOTICED_S: Final = 0.01
_BEYOND: Final = 1.5
"""A call that stood so many times as long as the timeout had none."""

_TOGETHER_NS: Final = 50_000_000
"""What ends within so long of a caller's own end may have been ended by that."""


def timeouts_of(found: Joined) -> Mapping[tuple[str, str], float]:
    """(endpoint, proxy) -> seconds, the longest after which the service hung up by itself on what
    stands behind that proxy. Nothing is said of calls that nobody saw to end so, where it is not
    known whose they are, and where another call to the same was waited for much longer."""
    ends = sorted(one.entry.end_ns for one in found.asked if one.entry.trouble == "timeout")
    longest: dict[tuple[str, str, str], float] = {}
    waited: dict[tuple[str, str, str], float] = {}
    for one in found.asked:
        for fault in one.faults:
            key = one.entry.endpoint, fault.proxy, fault.endpoint
            took_s = (fault.end_ns - fault.begin_ns) / 1e9
            waited[key] = max(waited.get(key, 0.0), took_s)
            if fault.id in found.guessed or not _hung_up(one, fault):
                continue
            if fault.proxy in found.by_time and _near(ends, fault.end_ns):
                continue  # it may belong to another request, whose caller had enough
            longest[key] = max(longest.get(key, 0.0), took_s)
    told: dict[tuple[str, str], float] = {}
    for endpoint, proxy, _ in waited:
        routes = [key for key in waited if key[:2] == (endpoint, proxy)]
        bounded = [key for key in routes if waited[key] < _BEYOND * longest.get(key, 0.0)]
        if len(bounded) == len([key for key in routes if waited[key] >= _NOTICED_S]):
            told[endpoint, proxy] = max(longest[key] for key in bounded) if bounded else 0.0
    return {key: after_s for key, after_s in told.items() if after_s}


def _hung_up(one: Asked, fault: Passed) -> bool:
    """Did the service have enough of this, before its own caller had, or long after?"""
    entry = one.entry
    if (fault.end_ns - fault.begin_ns) / 1e9 < _NOTICED_S or entry.trouble not in (None, "timeout"):
        return False
    slack_ns = _TOGETHER_NS if entry.trouble == "timeout" else 0
    if fault.ended == "held":  # this is also how it ends for who never hung up
        return fault.end_ns <= entry.end_ns - slack_ns
    return fault.ended == "client left" and abs(fault.end_ns - entry.end_ns) >= slack_ns


def _near(ends: Sequence[int], time_ns: int) -> bool:
    at = bisect_left(ends, time_ns - _TOGETHER_NS)
    return at < len(ends) and ends[at] <= time_ns + _TOGETHER_NS
