"""The monotonic clock of who leads, read from the time that a lease has left.

No answer of a server carries its monotonic clock. But leases end by it, and who leads says how many
whole seconds one has left: asked until the figure falls, it tells when the lease will end. A
monotonic clock that was set forward by half a minute ends it half a minute earlier. Members that do
not lead keep no such time, and a new leader gives each lease its whole time again: only one leader,
and only while it leads, can be compared with itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dstest.core import clock
from dstest.core.errors import DstestError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import MonotonicTimer, NemesisContext
from nemeses.base.leadership import lead
from nemeses.clock.clock_evidence import expected_s, tolerance_s

TTL_S: Final = 3600
"""Longer than any shift and any fault."""

POLL_S: Final = 0.04
WATCH_S: Final = 1.3
ANSWER_MAX_S: Final = 0.5


class End(msgspec.Struct, frozen=True):
    """When a lease will end on our clock, as `leader` of `term` has it, and how far off that is."""

    leader: str
    term: int
    ends_s: float
    doubt_s: float


async def _end(ctx: NemesisContext, lease: int) -> End | None:
    timer = ctx.need(MonotonicTimer)
    led = await lead(ctx)
    leader, term = led.leader, led.epoch
    if leader is None or term is None:
        return None
    found: End | None = None
    last: int | None = None
    last_ns = 0
    deadline_ns = clock.monotonic_ns() + int(WATCH_S * 1e9)
    while clock.monotonic_ns() < deadline_ns:
        asked_ns = clock.monotonic_ns()
        left = await timer.lease_left(leader, lease)
        answered_ns = clock.monotonic_ns()
        if left is None or left < 0:
            return None
        if left + 1 == last and answered_ns - last_ns < ANSWER_MAX_S * 1e9:
            doubt_s = _half_s(last_ns, answered_ns)
            found = End(leader, term, _at_s(last_ns, answered_ns, left + 1), doubt_s)
            break
        # What is cut off is half a second, give or take as much.
        doubt_s = 0.5 + _half_s(asked_ns, answered_ns)
        found = End(leader, term, _at_s(asked_ns, answered_ns, left + 0.5), doubt_s)
        last, last_ns = left, asked_ns
        await asyncio.sleep(POLL_S)
    return found if await lead(ctx) == led else None


def _at_s(asked_ns: int, answered_ns: int, left_s: float) -> float:
    return (asked_ns + answered_ns) / 2e9 + left_s


def _half_s(asked_ns: int, answered_ns: int) -> float:
    return (answered_ns - asked_ns) / 2e9


async def grant(ctx: NemesisContext) -> dict[str, Any]:
    """What the record keeps of a lease of ours before the fault; {} where none can be had."""
    timer = ctx.need(MonotonicTimer)
    try:
        lease = await timer.grant_lease(TTL_S)
    except DstestError:
        return {}
    return {"id": lease, "before": msgspec.to_builtins(await _end(ctx, lease))}


async def observe(ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
    """The record with what the lease tells now; what it has once proven stays."""
    lease = record.facts["lease"]
    if not lease or lease.get("proof"):
        return record
    at_ns = ctx.clock.now_ns()
    found = await _end(ctx, lease["id"])
    proof, why = judged(record, found, at_ns)
    row = {**lease, "now": msgspec.to_builtins(found), "proof": proof, "why": why}
    return msgspec.structs.replace(record, facts={**record.facts, "lease": row})


def judged(
    record: LandingRecord, found: End | None, at_ns: int
) -> tuple[Mapping[str, Any] | None, str]:
    """(node and by how much its lease ran ahead, "") where that shows, else (None, why not)."""
    before = record.facts["lease"]["before"]
    if before is None:
        return None, "no lease time was told before"
    was = msgspec.convert(before, End)
    if was.leader not in record.targets:
        return None, f"{was.leader} leads, whose clock is right: leases go by it"
    if found is None:
        return None, "no lease time is told"
    if (found.leader, found.term) != (was.leader, was.term):
        return None, f"{found.leader} leads by now, and gives leases their whole time again"
    ahead_s, wanted_s = was.ends_s - found.ends_s, expected_s(record, at_ns)
    doubt_s = was.doubt_s + found.doubt_s
    if abs(ahead_s - wanted_s) > tolerance_s(wanted_s) + doubt_s:
        return None, f"lease time of {was.leader} is {ahead_s:+.2f} s off, {wanted_s:+.2f} s wanted"
    if abs(ahead_s) <= 2 * tolerance_s(0) + doubt_s:
        return None, f"lease time of {was.leader} is only {ahead_s:+.2f} s off as yet"
    return {"node": was.leader, "ahead_s": round(ahead_s, 3), "doubt_s": round(doubt_s, 3)}, ""


def with_lease(record: LandingRecord, victim: Signal) -> Signal:
    """The victim signal of a monotonic shift: the lease has to have shown it as well."""
    lease = record.facts["lease"]
    proof = lease.get("proof")
    if proof:
        shown = f"lease time of {proof['node']} off by {proof['ahead_s']:+.2f} s"
        return msgspec.structs.replace(victim, detail=f"{victim.detail}; {shown}")
    shown = lease.get("why") or "the system tells no lease times"
    return msgspec.structs.replace(
        victim, moved=False, detail=f"monotonic: {shown}; {victim.detail}"
    )


async def drop(ctx: NemesisContext, record: LandingRecord) -> None:
    """End the lease; one that cannot be ended now ends by itself."""
    lease = record.facts.get("lease")
    if lease:
        try:
            await ctx.need(MonotonicTimer).revoke_lease(lease["id"])
        except DstestError:
            return
