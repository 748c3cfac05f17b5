"""What proves that a server's clock is shifted: for the nemesis `clock`, which see."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from dstest.core import clock
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import Clocked, NemesisContext, Process
from nemeses.base.process_fault import served_before
from nemeses.observe.servers import Skew, Strobe, strobe_of
from nemeses.tools.clock_tool import Patch

TOLERANCE: Final = 0.1
TOLERANCE_MIN_S: Final = 0.3
RATE_WINDOW_S: Final = 30.0
"""A rate is told from noise by its slope over at least this long."""

STROBE_JUMPS_MIN: Final = 2


def tolerance_s(shift_s: float) -> float:
    """How far from the shift asked for the one that shows may be."""
    return max(TOLERANCE * abs(shift_s), TOLERANCE_MIN_S)


def number(skew: Skew | None) -> float | None:
    """Seconds, to the millisecond."""
    return None if skew is None else round(skew.seconds, 3)


def row(record: LandingRecord, skews: Mapping[str, Skew | None]) -> list[float | None]:
    """The skews of the targets, in their order."""
    return [number(skews[name]) for name in record.targets]


def expected_s(record: LandingRecord, at_ns: int) -> float:
    """By how much a target's clock should be ahead at this time of the run."""
    ran_s = (at_ns - (record.injected_at or at_ns)) / 1e9
    expected: float = record.facts["skew_s"] + ran_s * (record.facts["rate"] - 1.0)
    return expected


def hits(patches: Mapping[Process, Patch | None]) -> int:
    """How often the processes of a member have read a shifted clock."""
    return sum(patch.hits for patch in patches.values() if patch)


def _wanted(record: LandingRecord) -> Patch:
    facts = record.facts
    return Patch(
        patched=1,
        offset_ns=round(facts["skew_s"] * 1e9),
        rate_ppm=round((facts["rate"] - 1.0) * 1e6),
        mono=int(facts["monotonic"]),
        strobe_ns=facts["strobe_ms"] * 1_000_000,
        hits=0,
    )


def as_asked_for(record: LandingRecord, patches: Mapping[Process, Patch | None]) -> bool:
    """Is the shift in force in each of these processes?"""
    wanted = _wanted(record)
    return all(
        patch is not None and msgspec.structs.replace(patch, hits=0) == wanted
        for patch in patches.values()
    )


def injector(
    record: LandingRecord, patches: Mapping[str, Mapping[Process, Patch | None]]
) -> Signal:
    """The shift is in force in all processes of the server, as asked for, and was read since."""
    facts, wanted = record.facts, _wanted(record)
    earlier = facts.get("hits", {})
    problems = []
    for name, rows in patches.items():
        problems += served_before(record, name)
        pid = facts["pids"][name][0]
        if not any(p.main and p.pid == pid for p in rows):
            problems.append(f"{name}: process {pid} is gone")
        strange = [
            process.pid
            for process, patch in rows.items()
            if patch is None or msgspec.structs.replace(patch, hits=0) != wanted
        ]
        problems += [
            f"{name}: the clock of process {p} is not shifted as asked for" for p in strange
        ]
        if not strange and hits(rows) <= earlier.get(name, 0):
            problems.append(f"{name}: process {pid} has not read the shifted clock")
    read = {name: hits(rows) for name, rows in patches.items()}
    return Signal(
        signal="readings of the shifted clock",
        before=dict.fromkeys(record.targets, 0),
        during=read,
        moved=bool(record.targets) and not problems,
        detail="; ".join(problems) or f"the shifted clock was read {sum(read.values()):,} times",
    )


def victim(record: LandingRecord, skews: Mapping[str, Skew | None], at_ns: int) -> Signal:
    """The servers tell a time that is off by what was asked for; `at_ns` of the run's clock."""
    wanted_s = expected_s(record, at_ns)
    allowed_s = tolerance_s(wanted_s)
    before = record.facts["skew_before_s"]
    problems = []
    for name in record.targets:
        skew, was = skews[name], before[name]
        if skew is None:
            problems.append(f"{name} tells no time")
        elif skew.doubt_s > allowed_s:
            problems.append(f"{name} answers too slowly to tell its time")
        elif abs(skew.seconds - wanted_s) > allowed_s:
            problems.append(f"{name} is {skew.seconds:+.2f} s off, {wanted_s:+.2f} s asked for")
        elif abs(skew.seconds) <= 2 * TOLERANCE_MIN_S:
            problems.append(f"{name} is only {skew.seconds:+.2f} s off as yet")
        if was is None or abs(was) > 1.0:
            problems.append(f"{name} was {was} s off before")
    shown = {n: number(skews[n]) for n in record.targets}
    return Signal(
        signal="seconds that the server's clock is ahead of ours",
        before=dict(before),
        during=shown,
        moved=bool(record.targets) and not problems,
        detail="; ".join(problems)
        or "off by " + ", ".join(f"{v:+.2f} s on {n}" for n, v in shown.items() if v is not None),
    )


async def watch_strobes(ctx: NemesisContext, record: LandingRecord) -> dict[str, Strobe]:
    """Which times each target tells, asked again and again."""
    server, offset_s = ctx.need(Clocked), record.facts["skew_s"]
    found = await asyncio.gather(*(strobe_of(server, n, offset_s) for n in record.targets))
    return dict(zip(record.targets, found, strict=True))


def strobing(record: LandingRecord, strobes: Mapping[str, Strobe]) -> Signal:
    """The servers tell now the right time, now the shifted one."""
    problems = [
        f"{n} told the right time {s.right} times, the shifted one {s.off} times, another "
        f"{s.other} times"
        for n, s in strobes.items()
        if not (s.right and s.off and s.jumps >= STROBE_JUMPS_MIN and s.other <= s.off // 4)
    ]
    jumps = {n: s.jumps for n, s in strobes.items()}
    return Signal(
        signal="jumps of the server's clock between two times",
        before=dict.fromkeys(record.targets, 0),
        during=jumps,
        moved=bool(strobes) and not problems,
        detail="; ".join(problems) or f"the time jumped {sum(jumps.values())} times",
    )


async def host_skew(node: Node) -> Skew:
    """How far the clock of the node itself is ahead, as another process of its reads it."""
    asked_ns = clock.wall_ns()
    answer = await node.call("ping")
    answered_ns = clock.wall_ns()
    middle_ns = (asked_ns + answered_ns) // 2
    return Skew((answer["wall_ns"] - middle_ns) / 1e9, (answered_ns - asked_ns) / 2e9)


def control(
    record: LandingRecord, skews: Mapping[str, Skew | None], hosts: Mapping[str, Skew]
) -> Signal:
    """Other servers, and other processes of each node, tell the right time."""
    others = {n: s for n, s in skews.items() if n not in record.targets}
    others |= {f"agent of {n}": s for n, s in hosts.items()}
    hit = [
        n for n, s in others.items() if s is None or abs(s.seconds) > TOLERANCE_MIN_S + s.doubt_s
    ]
    return Signal(
        signal="seconds that other servers, and other processes of each node, are ahead of us",
        before={},
        during={n: number(s) for n, s in others.items()},
        moved=bool(hit),
        detail=f"hit as well: {', '.join(hit)}" if hit else "untouched",
    )


def slopes(record: LandingRecord) -> tuple[str | None, dict[str, float]]:
    """What is wrong with the slope of a target's clock, None where all are right; the slopes."""
    seen = [row for row in record.facts["skew_seen_s"] if None not in row]
    if len(seen) < 2 or seen[-1][0] - seen[0][0] < RATE_WINDOW_S * 0.9e9:
        return "the clock was not watched for long enough to tell its rate", {}
    first, last = seen[0], seen[-1]
    span_s = (last[0] - first[0]) / 1e9
    wanted = record.facts["rate"] - 1.0
    found = {
        name: round((last[i + 1] - first[i + 1]) / span_s, 4)
        for i, name in enumerate(record.targets)
    }
    # The two ends are known to a few hundredths of a second each.
    allowed = max(TOLERANCE * abs(wanted), 0.2 / span_s)
    off = [f"{n} {v:+.4f}" for n, v in found.items() if abs(v - wanted) > allowed]
    if off:
        return f"slope of the clock is {', '.join(off)}, {wanted:+.4f} asked for", found
    return None, found
