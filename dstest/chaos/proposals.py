"""What to change, by rules; the pattern that fails most requests first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from dstest.chaos.patterns import Pattern, PatternKind


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A change. `file` and `line` are of the deepest frame of the service's own source in the
    tracebacks of its failures; None where there were none."""

    endpoint: str
    pattern: PatternKind
    change: str
    why: str
    weight: float
    """Share of failing requests times requests: by this they are ordered."""
    file: str | None = None
    line: int | None = None


_BY_FAULT: Final[dict[PatternKind, str]] = {
    "hang": "give calls to {proxy} a deadline, with all of their retries, that ends before the"
    " callers have enough; retry with backoff what may be repeated",
    "unhandled error": "catch lost connections, timeouts and errors of {proxy}, and answer 503 or a"
    " fallback",
    "waits": "give calls to {proxy} a timeout, or a shorter one: a caller waits as long as it"
    " takes, and no call was seen to end by itself",
}

_BOUNDED: Final[dict[PatternKind, str]] = {
    "hang": "calls to {proxy} have a timeout already: they were seen to end after {after_s:.1f} s."
    " Give all of their tries together a deadline that ends before the callers have enough, or"
    " shorten that timeout",
    "waits": "calls to {proxy} have a timeout already: they were seen to end after {after_s:.1f} s."
    " Shorten it where callers should not wait so long",
}
"""The same, where what was observed shows that the service hangs up by itself."""

_BY_KIND: Final[dict[PatternKind, str]] = {
    "genuine failure": "mend it: no fault is needed for it",
    "unexplained failure": "run again with more requests and a longer `quiet_s`: it is a defect or"
    " a spill-over",
    "spill-over": "keep requests that need a failing part from taking the others' room: a bulkhead,"
    " pools of their own",
    "slow spill-over": "keep requests that wait for a slow part from taking the others' room: a"
    " bulkhead, pools of their own",
    "retry storm": "limit retries, with backoff and jitter, or stop asking for a while (circuit"
    " breaker)",
    "amplification": "limit retries, or stop asking for a while (circuit breaker)",
}


def proposals_of(
    patterns: Sequence[Pattern], timeouts: Mapping[tuple[str, str], float]
) -> list[Proposal]:
    """Of the patterns that want a change, one for all kinds of faults that it would mend. Genuine
    failures come first, whatever their share. `timeouts` are those that the service was seen to
    have, by endpoint and proxy, in seconds: nobody is told to give what is there."""
    alike: dict[tuple[str, PatternKind, str], list[Pattern]] = {}
    for one in patterns:
        change = _BY_KIND.get(one.kind) or _BY_FAULT.get(one.kind)
        after_s = timeouts.get((one.endpoint, one.proxy or ""))
        if after_s is not None:
            change = _BOUNDED.get(one.kind, change)
        if change is not None:
            key = one.endpoint, one.kind, change.format(proxy=one.proxy, after_s=after_s)
            alike.setdefault(key, []).append(one)
    told = [_proposal(change, found) for (_, _, change), found in alike.items()]
    return sorted(told, key=lambda one: (one.pattern != "genuine failure", -one.weight))


def _proposal(change: str, found: Sequence[Pattern]) -> Proposal:
    first = max(found, key=lambda one: one.count)
    raised = first.raised
    why = f"{first.endpoint} {first.says}: {first.count} of {first.of}"
    if raised is not None:
        why += f"; {raised.error}"
    if len(found) > 1:
        others = ", ".join(one.fault or "several" for one in found if one is not first)
        why += f"; so also under {others}"
    return Proposal(
        endpoint=first.endpoint,
        pattern=first.kind,
        change=change,
        why=why,
        weight=float(sum(one.count for one in found)),
        file=raised.file if raised is not None else None,
        line=raised.line if raised is not None else None,
    )
