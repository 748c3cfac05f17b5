"""What is known of the points of an aimed fault: whether they were reached, by whom, how often
without a fault, and which others were.

A point that nobody has come to is counted once more, on all members, with the functions that stand
nearest to it by their names (of a system call: with all other calls): so a run says after its first
try what the load does reach. `any:` counts first, and draws among what was reached.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError, LabError
from dstest.core.evidence import Details, LandingRecord, PointCount, Signal, point_counts
from dstest.core.node import Node
from dstest.core.protocols import NemesisContext
from nemeses.observe.processes import processes_before
from nemeses.tools import aim
from nemeses.tools.agent_points import in_common

COUNT_S: Final = 3.0
"""How long points are counted without a fault."""

TOLD_MAX: Final = 5
"""So many of those that were reached are told."""

_KEPT: Final = (
    *("hits", "fired", "step", "pid", "tid", "root", "file", "stops", "stop_ns", "stop_ns_max"),
    *("lost", "delayed", "refused"),
)
"""What a record keeps of what the program on a node says."""


class AimedDetails(Details, frozen=True, kw_only=True):
    """Of a fault at a point: what was asked for; the programs, and where the point lies in them, by
    member (`sights`); what was told of the first act (`reached`, by member: `hits`, `fired`,
    `pid`, `tid`, `callers`, ..). `asleep` counts samples by member in which a thread stood and
    others ran, `aimed_at` are the members that were traced. `counts` are points that were counted
    without a fault, by member, as `PointCount`; `drawn` is the function that was drawn of them, the
    one at place `walk[1]` of an order by the seed `walk[0]`. Of an error: `fates` says by member
    whether the server is `gone`, `told` of it in its log, or is `unharmed`, `said` counts lines of
    the log that name it, from `log_sizes` on, `tracers` our programs that trace it."""

    at: str = ""
    hit: int = 1
    then: str = "kill"
    times: int = 0
    delay_ms: float = 0.0
    reach_s: float = 10.0
    aimed_at: list[str] = []
    sights: dict[str, dict[str, Any]] = {}
    reached: dict[str, dict[str, Any]] = {}
    asleep: dict[str, int] = {}
    counts: dict[str, dict[str, Any]] = {}
    drawn: str = ""
    walk: tuple[int, int] = (0, 0)
    fates: dict[str, str] = {}
    said: dict[str, int] = {}
    tracers: dict[str, int] = {}
    log_sizes: dict[str, int] = {}

    @property
    def point(self) -> str:
        """Where it is, drawn or asked for."""
        return f"function:{self.drawn}" if self.drawn else self.at

    @property
    def steps(self) -> list[aim.Step]:
        """The chain."""
        return aim.parse(self.point)[0]

    @property
    def place(self) -> int:
        """Of the step that was waited for, where none of them did anything; 0 is the first."""
        return max((row["step"] for row in self.reached.values()), default=0)

    @property
    def own(self) -> frozenset[str]:
        """Names of the functions that are that step."""
        return frozenset(n for seen in self.sights.values() for n in seen["points"][self.place])

    @property
    def fired(self) -> list[str]:
        """Members on which something was done."""
        return [name for name, row in self.reached.items() if row["fired"]]

    @property
    def unmet(self) -> list[str]:
        """Members that were traced and on which nobody has come to the point at all."""
        rows = {name: self.reached.get(name) for name in self.aimed_at}
        return [n for n, row in rows.items() if row and not row["hits"] and not row["fired"]]


async def reached_now(ctx: NemesisContext, record: LandingRecord) -> dict[str, dict[str, Any]]:
    """What the program on each node that is aimed at says now, with names for its addresses once it
    has acted. What it has said is kept where it says nothing any more."""
    details = AimedDetails.of(record)

    async def one(name: str) -> dict[str, Any]:
        node, known = ctx.node(name), details.reached.get(name, {})
        status = await aim.status_of(node)
        if not status.armed_ns and known:
            return known
        row = {field: getattr(status, field) for field in _KEPT}
        acted_ns = status.fired_ns - status.armed_ns if status.fired else 0
        row |= {"acted_after_s": round(acted_ns / 1e9, 3)}
        callers = known.get("callers", [])
        if status.fired and not callers and status.frames:
            callers = await _names(node, details.sights[name], status.frames)
        return {**row, "callers": callers}

    rows = await asyncio.gather(*map(one, details.aimed_at))
    return dict(zip(details.aimed_at, rows, strict=True))


async def _names(node: Node, sight: Mapping[str, Any], addresses: Sequence[str]) -> list[str]:
    try:
        return [name for name in await aim.ask(node, "names", sight["exe"], *addresses) if name]
    except LabError:
        return []


def problems(record: LandingRecord) -> list[str]:
    """Why it has not happened at the point, or not to the server."""
    details, found = AimedDetails.of(record), []
    some = details.then == "kill-all" and details.fired
    for name in details.aimed_at:
        row = details.reached.get(name)
        if row is None or (not row["fired"] and not some):
            hits = row["hits"] if row else 0
            of = f"{hits} of {details.hit} hits" if hits else "never reached"
            steps = details.point.split(" > ")
            first = row["step"] if row else 0
            where = f", {steps[first].strip()} was waited for" if len(steps) > 1 else ""
            found.append(f"{name}: {details.point}: {of} in {details.reach_s:g} s{where}")
        elif row["fired"] and row["root"] not in {p.pid for p in processes_before(record, name)}:
            found.append(f"{name}: process {row['pid']} came there, which is none of its server")
        elif row["lost"]:
            found.append(f"{name}: somebody else has changed the code that is traced")
    return found


def signal_of(
    details: AimedDetails, what: str, counts: dict[str, int], wrong: Sequence[str], told: str
) -> Signal:
    """What the programs on the nodes have counted, by member; `told` where nothing is wrong."""
    return Signal(
        signal=what,
        before=dict.fromkeys(details.aimed_at, 0),
        during=counts,
        moved=bool(counts) and not wrong,
        detail="; ".join(wrong) or told,
    )


def reached_signal(record: LandingRecord, effect: Signal) -> Signal:
    """The point was reached, and its effect on the processes shows."""
    details, wrong = AimedDetails.of(record), problems(record)
    wrong += [] if effect.moved or wrong else [effect.detail]
    told = "; ".join(
        f"{n}: thread {row['tid']} of process {row['pid']} came there"
        f" {row['acted_after_s']:g} s after it was armed (hit {row['hits']})"
        for n, row in details.reached.items()
        if row["fired"]
    )
    if details.drawn:
        counts = [*point_counts(record).values()]
        met = min(len(count.reached) for count in counts)
        told = f"{details.point}, of {met} reached ones of {counts[0].armed}; {told}"
    what = f"hits of {details.point}, and what was done there: {details.then}"
    hits = {n: row["hits"] for n, row in details.reached.items()}
    return signal_of(details, what, hits, wrong, f"{told}; {effect.detail}")


async def counts_around(ctx: NemesisContext, record: LandingRecord) -> dict[str, PointCount]:
    """By member, of those that could be looked at: the point that was waited for and those nearest
    to it, counted without a fault. Whatever was armed there is let go before."""
    details = AimedDetails.of(record)
    step = details.steps[details.place]

    async def one(name: str) -> PointCount | None:
        node = ctx.node(name)
        try:
            await aim.stop(node)
            pids = [p.pid for p in processes_before(record, name)]
            seen = await aim.sight(node, pids, [step])
            if isinstance(seen, str):
                return None
            if step.kind == "syscall":
                return await aim.count(node, seen, "syscall", COUNT_S)
            seen = await aim.around(node, seen, step.name)
            return await aim.count(node, seen, "function", COUNT_S)
        except LabError:
            return None

    names = list(ctx.nodes)
    found = await asyncio.gather(*map(one, names))
    return {n: count for n, count in zip(names, found, strict=True) if count is not None}


def own_hits(details: AimedDetails, counts: Mapping[str, PointCount]) -> dict[str, int]:
    """By member, how often the point itself was among what was counted. Members are left out where
    nobody knows: of a system call on some files, where the call was made at all."""
    step = details.steps[details.place]
    names = details.own or {step.name}
    found = {n: sum(c.reached.get(name, 0) for name in names) for n, c in counts.items()}
    return {n: k for n, k in found.items() if not (k and step.glob)}


def others_reached(
    details: AimedDetails, counts: Mapping[str, PointCount]
) -> list[tuple[str, int]]:
    """(Point, hits on all members) of what was reached instead, by as many members as any was;
    nearest to the name first."""
    step = details.steps[details.place]
    call = step.kind == "syscall"
    own = {step.name} if call and not step.glob else details.own
    whole = min(own, default=step.name)
    hits: dict[str, list[int]] = {}
    for count in counts.values():
        for name, number in count.reached.items():
            hits.setdefault(name, []).append(number)
    rows = [
        (f"syscall:{name}" if call else f"function:{name.rpartition('/')[2]}", name, numbers)
        for name, numbers in hits.items()
        if name not in own
    ]
    rows.sort(key=lambda r: (-len(r[2]), -_shared(whole, r[1]), -sum(r[2])))
    return [(point, sum(numbers)) for point, _, numbers in rows if _can_be_asked_for(point)]


def _shared(one: str, other: str) -> int:
    """Letters that two names share behind their paths, from the left."""
    return in_common(one.rpartition("/")[2], other.rpartition("/")[2])


def _can_be_asked_for(point: str) -> bool:
    try:
        return len(aim.parse(point)[0]) == 1
    except ConfigError:
        return False


def unmet_note(details: AimedDetails, counts: Mapping[str, PointCount]) -> str:
    """What a try that has not met its point says of it, for people and for the next command."""
    others = others_reached(details, counts)[:TOLD_MAX]
    own = own_hits(details, counts)
    where = (
        f"{details.point}: counted for {COUNT_S:g} s more on {len(counts)} members without a fault"
    )
    parts = [where]
    if unknown := [name for name in counts if name not in own]:
        parts.append(f"the call was made on {', '.join(unknown)}, on which files nobody counted")
    elif any(own.values()):
        told = ", ".join(f"{name} ({k:,} times)" for name, k in own.items() if k)
        parts.append(f"it was reached on {told}")
    else:
        parts.append("it was not reached on any")
    told = ", ".join(f"{point} ({k:,} times)" for point, k in others)
    parts.append(f"reached there: {told}" if told else "nor was anything near it")
    return "; ".join(parts)


async def drawn(ctx: NemesisContext, details: AimedDetails) -> dict[str, Any] | str:
    """Facts of an `any:` point: what was counted, which function was drawn among those that were
    reached on each member that is aimed at, and where that lies; or why none was drawn."""

    async def one(name: str) -> PointCount:
        seen = msgspec.convert(details.sights[name], aim.Sight)
        return await aim.count(ctx.node(name), seen, "function", COUNT_S)

    rows = await asyncio.gather(*map(one, details.aimed_at))
    counts = dict(zip(details.aimed_at, rows, strict=True))
    facts: dict[str, Any] = {"counts": msgspec.to_builtins(counts)}
    met = sorted(set.intersection(*({*row.reached} for row in rows)))
    met = [name for name in met if _can_be_asked_for(f"function:{name}")]
    if not met:
        armed = max(row.armed for row in rows)
        return f"{details.at}: none of the {armed} functions was reached in {COUNT_S:g} s"
    seed, place = details.walk
    random.Random(seed).shuffle(met)
    name = met[place % len(met)]
    sights = {
        member: {**seen, "points": [{name: seen["points"][0][name]}]}
        for member, seen in details.sights.items()
    }
    return {**facts, "drawn": name, "sights": sights}


def sampled(seen: aim.Sight, seed: int) -> aim.Sight:
    """The same program with as many of its points as can be met at a time, chosen by seed."""
    (points,) = seen.points
    names = sorted(points)
    if len(names) > aim.POINTS_MAX:
        names = sorted(random.Random(seed).sample(names, aim.POINTS_MAX))
    return msgspec.structs.replace(seen, points=[{name: points[name] for name in names}])
