"""At which share of faults the service breaks, and how long it takes to recover after a stretch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from dstest.chaos.figures import p95_s, side_of
from dstest.chaos.joined import Asked
from dstest.chaos.records import Began
from dstest.chaos.settings import Ramp

__all__ = ["Recovery", "Step", "breaking", "recoveries_of", "steps_of"]

_WINDOW_NS = 1_000_000_000
_USUAL = 1.5
"""Recovered is a second whose p95 is at most so many times the usual one."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A share of faults, and what became of requests that none of them hit."""

    share: float
    injected: float
    """Share of requests that a fault hit."""
    requests: int
    failed: int
    failed_low: float
    failed_high: float
    p95_s: float | None
    broken: str
    """Why the service is broken at this step; empty where it holds."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """`after_s`: from the end of the faults to the first second as good as usual; None where there
    was none until the stretch ended. `watched_s` is up to when that is known: 0 where the host had
    no core for the service all the while."""

    after: str
    after_s: float | None
    watched_s: float


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
        spared = [one for one in own if not one.hit]
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
                injected=(len(own) - len(spared)) / len(own) if own else 0.0,
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
    """After each stretch with faults, by the seconds in which requests were due."""
    if not phases:
        return []
    quiet = [one for one in asked if one.phase == phases[0].name]
    usual_s, usual = p95_s(quiet), side_of(quiet)
    if not quiet or math.isnan(usual_s):
        return []
    told = []
    for before, phase, end in zip(phases, phases[1:], phases[2:], strict=False):
        if before.share == 0 or phase.share != 0 or phase.name == "end":
            continue
        own = [one for one in asked if one.phase == phase.name]
        after_s, watched_s = None, 0.0
        for start_ns in range(phase.at_ns, end.at_ns - _WINDOW_NS + 1, _WINDOW_NS // 4):
            window = [one for one in own if 0 <= one.entry.due_ns - start_ns < _WINDOW_NS]
            failed = sum(not one.entry.ok for one in window)
            if any(one.starved for one in window):
                continue
            watched_s = (start_ns + _WINDOW_NS - phase.at_ns) / 1e9
            good = failed <= usual.failed_high * len(window) and window
            if good and p95_s(window) <= max(_USUAL * usual_s, usual_s + 0.02):
                after_s = (start_ns - phase.at_ns) / 1e9
                break
        told.append(Recovery(after=before.name, after_s=after_s, watched_s=watched_s))
    return told
