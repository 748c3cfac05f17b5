"""At which share of faults the service breaks, and how long it takes to recover after a stretch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from dstest.chaos.figures import p95_s, side_of
from dstest.chaos.joined import Asked
from dstest.chaos.records import Began
from dstest.chaos.settings import Ramp

_ENOUGH = 10
_SLOW = 2.0
"""Not recovered is an endpoint whose p95 is more than so many times the usual one."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A share of faults, and what became of requests that none of them hit."""

    share: float
    injected: float
    """Share of requests that a fault hit."""
    hit: int
    requests: int
    failed: int
    failed_low: float
    failed_high: float
    p95_s: float | None
    broken: str
    """Why the service is broken at this step; empty where it holds."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """Of an endpoint, after a stretch with faults. `after_s` is when the last request that failed
    was due, 0 where none did; None where nobody can say: too few requests, or a host without a core
    for the service. `why`: how it still differs from what it was before any fault, in the second
    half of the `watched_s` that followed; empty where it does not. `slow`: the same of latencies,
    where no request failed: a host that is busy with others is slow as well."""

    endpoint: str
    after: str
    after_s: float | None
    watched_s: float
    why: str = ""
    slow: str = ""


def steps_of(asked: Sequence[Asked], phases: Sequence[Began], ramp: Ramp) -> list[Step]:
    """Each step of a ramp that was begun."""
    if not phases:
        return []
    quiet = [one for one in asked if one.phase == phases[0].name and not one.starved]
    if not quiet:
        return []
    usual_s = p95_s(quiet)
    told = []
    for phase in phases:
        if not phase.name.startswith("step ") or phase.share is None:
            continue
        own = [one for one in asked if one.phase == phase.name]
        spared = [one for one in own if not one.hit and not one.timed_out_starved]
        side = side_of(spared)
        fed_s = p95_s([one for one in spared if not one.starved])
        broken = ""
        if side.failed_low > ramp.failures:
            broken = f"{side.failed} of {side.requests} requests that no fault hit failed"
        elif fed_s > ramp.slower * usual_s:
            broken = (
                f"p95 of requests that no fault hit is {fed_s * 1e3:.0f} ms, "
                f"{fed_s / usual_s:.1f} times the usual {usual_s * 1e3:.0f} ms"
            )
        told.append(
            Step(
                share=phase.share,
                hit=sum(one.hit for one in own),
                injected=sum(one.hit for one in own) / len(own) if own else 0.0,
                requests=side.requests,
                failed=side.failed,
                failed_low=side.failed_low,
                failed_high=side.failed_high,
                p95_s=side.p95_s,
                broken=broken,
            )
        )
    return told


def breaking(steps: Sequence[Step]) -> Step | None:
    """The first step at which it is broken."""
    return next((step for step in steps if step.broken), None)


def recoveries_of(asked: Sequence[Asked], phases: Sequence[Began]) -> list[Recovery]:
    """After each stretch with faults, of each endpoint."""
    told = []
    for before, phase, end in zip(phases, phases[1:], phases[2:], strict=False):
        if before.share == 0 or phase.share != 0 or phase.name == "end":
            continue
        for name in sorted({one.entry.endpoint for one in asked}):
            own = [one for one in asked if one.entry.endpoint == name]
            quiet = [one for one in own if one.phase == phases[0].name]
            then = [one for one in own if one.phase == phase.name and not one.hit]
            told.append(_recovery(name, before.name, quiet, then, phase.at_ns, end.at_ns))
    return told


def _recovery(
    name: str, after: str, quiet: Sequence[Asked], then: Sequence[Asked], from_ns: int, to_ns: int
) -> Recovery:
    middle_ns = (from_ns + to_ns) // 2
    late = [one for one in then if one.entry.due_ns >= middle_ns and not one.timed_out_starved]
    failed_s = [(one.entry.due_ns - from_ns) / 1e9 for one in then if not one.entry.ok]
    watched_s = (to_ns - from_ns) / 1e9
    if not late or not quiet:
        return Recovery(endpoint=name, after=after, after_s=None, watched_s=watched_s)
    usual, now = side_of(quiet), side_of(late)
    why = ""
    every = now.failed == now.requests and usual.failed < usual.requests
    if now.failed and (every or now.failed_low > usual.failed_high):
        why = f"{now.failed} of its last {now.requests} requests failed"
    fed = [one for one in late if not one.starved]
    usual_s = p95_s([one for one in quiet if not one.starved])
    slow = ""
    if not why and len(fed) >= _ENOUGH and p95_s(fed) > max(_SLOW * usual_s, usual_s + 0.05):
        slow = f"p95 is {p95_s(fed) * 1e3:.0f} ms, {usual_s * 1e3:.0f} ms before"
    if now.failed:
        why, slow = why or slow, ""
    known = why or (fed and not math.isnan(usual_s))
    last_s = max(failed_s, default=0.0) if known else None
    return Recovery(
        endpoint=name, after=after, after_s=last_s, watched_s=watched_s, why=why, slow=slow
    )
