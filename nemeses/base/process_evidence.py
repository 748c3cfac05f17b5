"""Did the fault reach the server processes? What the victims show, and what the others do.

Victim: none of the services that were hit answers anybody (neither the control host nor another
node), the count of good operations of its clients stands still, and they saw operations end badly.
Of members whose clients are served elsewhere (`Endpoint.pinned`, and what they were answered by so
far), clients prove nothing. Control: every other server is the processes it was, runs, and answers,
but for one that is `silent_without_majority` of members that were not hit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from dstest.core.evidence import FaultDetails, LandingRecord, LeadDetails, ProcessDetails, Signal
from dstest.core.protocols import NemesisContext
from nemeses.base.driver import with_facts
from nemeses.base.leadership import new_lead, no_failover, voters
from nemeses.observe.processes import ProcessSnapshot, processes_before, take_two_snapshots
from nemeses.observe.servers import ask_all, probe_pairs, services_of

Snapshots = Mapping[str, tuple[ProcessSnapshot, ProcessSnapshot]]
"""Of each member, two a moment apart."""

QUIET_NS: Final = 300_000_000
"""Answers that were under way when the fault came are counted by then."""

BAD_OUTCOMES: Final = ("fail", "unknown")
"""What clients see of a process that is gone or stopped: of timeouts, too, one may be definite (a
transaction that had only read so far)."""


def with_clients(
    ctx: NemesisContext, record: LandingRecord | None = None, *, service: str = ""
) -> list[str]:
    """Members that answer clients themselves, by this service or any.

    Of a record's fault it is what they did when that was injected, whatever they do now.
    """
    found: list[str] = []
    then = FaultDetails.of(record).traffic_at_inject if record is not None else {}
    traffic = then or ctx.traffic.by_node()
    for endpoint in ctx.deployment.endpoints():
        if not endpoint.pinned or _only_elsewhere(traffic.get(endpoint.node, {})):
            continue
        services = services_of(ctx, endpoint.node, service)
        ports = {port for s in services for port in (s.probe.port, *s.ports.values())}
        if endpoint.port in ports and endpoint.node not in found:
            found.append(endpoint.node)
    return found


def all_ok(counts: Mapping[str, int]) -> int:
    """Operations of a node's clients that ended well, whoever answered: they say that its clients
    fare well, and nothing of the node."""
    return counts["ok"] + counts.get("ok_elsewhere", 0)


def _only_elsewhere(counts: Mapping[str, int]) -> bool:
    return bool(counts.get("ok_elsewhere")) and not counts["ok"]


def _counted(ctx: NemesisContext, record: LandingRecord) -> dict[str, list[int]]:
    """Per target: its count of good operations and since when (run time) it stands still."""
    now_ns, traffic = ctx.clock.now_ns(), ctx.traffic.by_node()
    earlier = ProcessDetails.of(record).counted
    found = {}
    for name in _answering(ctx, record):
        ok = traffic[name]["ok"]
        known = earlier.get(name)
        found[name] = known if known is not None and known[0] == ok else [ok, now_ns]
    return found


def _answering(ctx: NemesisContext, record: LandingRecord) -> list[str]:
    """The targets whose clients can tell of the fault."""
    own = with_clients(ctx, record, service=ProcessDetails.of(record).service)
    return [name for name in record.targets if name in own]


def _clients(ctx: NemesisContext, record: LandingRecord) -> tuple[dict[str, int], list[str]]:
    """Operations that ended badly at each target since the fault, and what speaks against it."""
    now_ns, traffic = ctx.clock.now_ns(), ctx.traffic.by_node()
    before = FaultDetails.of(record).traffic_at_inject
    bad = {
        name: sum(traffic[name][kind] - before[name][kind] for kind in BAD_OUTCOMES)
        for name in _answering(ctx, record)
    }
    problems = [f"no client of {n} saw an operation end badly yet" for n, k in bad.items() if not k]
    for name, (_, since_ns) in ProcessDetails.of(record).quiet.items():
        if now_ns - since_ns < QUIET_NS:
            problems.append(f"clients of {name} were answered a moment ago")
        if before[name]["ok"] == 0:
            problems.append(f"{name} answered no client before")
    return bad, problems


def victim(
    record: LandingRecord, asked: Mapping[str, int], bad: Mapping[str, int], problems: list[str]
) -> Signal:
    before = ProcessDetails.of(record).asked_before
    targets = record.targets
    paths = [p for p in asked if p.rpartition("->")[2] in targets]
    answering = [p for p in paths if asked[p]]
    # Another fault may cut some of the ways to a target; who answered on none of them before cannot
    # be seen to fall silent.
    heard = {p.rpartition("->")[2] for p in paths if before.get(p)}
    silent_before = [name for name in targets if name not in heard]
    problems = [*problems]
    if answering:
        problems.append(f"still answers: {', '.join(answering)}")
    if silent_before:
        problems.append(f"answered nobody before: {', '.join(silent_before)}")
    return Signal(
        signal="answers to a request; bad operations of clients since",
        before={**{p: before.get(p, 0) for p in paths}, **{f"clients->{n}": 0 for n in bad}},
        during={**{p: asked[p] for p in paths}, **{f"clients->{n}": k for n, k in bad.items()}},
        moved=bool(paths) and not problems,
        detail="; ".join(problems)
        or "nobody gets an answer"
        + (f", {sum(bad.values())} operations of clients ended badly" if bad else ""),
    )


def without_majority(
    ctx: NemesisContext, record: LandingRecord, asked: Mapping[str, int]
) -> list[str]:
    """Members that were not hit and need not answer: most of all are targets that answer nobody."""
    heard = {path.rpartition("->")[2] for path, answers in asked.items() if answers}
    every = voters(ctx)
    left = [name for name in every if name not in record.targets or name in heard]
    if 2 * len(left) > len(every):
        return []
    service = ProcessDetails.of(record).service
    return [
        name
        for name in every
        if name not in record.targets
        and any(s.silent_without_majority for s in services_of(ctx, name, service))
    ]


def control(
    record: LandingRecord,
    asked: Mapping[str, int],
    snapshots: Snapshots,
    alone: Sequence[str] = (),
) -> Signal:
    """Members that are `alone` need not answer."""
    before = ProcessDetails.of(record).asked_before
    paths = [p for p in asked if p.rpartition("->")[2] not in record.targets]
    quiet = [p for p in paths if asked[p] < before.get(p, 0)]
    silent = [p for p in quiet if p.rpartition("->")[2] not in alone]
    without = sorted({p.rpartition("->")[2] for p in quiet} & {*alone})
    hit = [name for name, (_, now) in snapshots.items() if not now.whole]
    problems = [f"hit as well: {', '.join(hit)}"] if hit else []
    if silent:
        problems.append(f"no answer either: {', '.join(silent)}")
    told = "untouched" if paths else "no server was left out"
    if without:
        told = f"{', '.join(without)} silent, without a majority; no other one was hit"
    return Signal(
        signal="answers of servers that were not to be hit",
        before={p: before.get(p, 0) for p in paths},
        during={p: asked[p] for p in paths},
        moved=bool(problems),
        detail="; ".join(problems) or told,
    )


async def gather(
    ctx: NemesisContext, record: LandingRecord
) -> tuple[LandingRecord, dict[str, tuple[ProcessSnapshot, ProcessSnapshot]], Signal, Signal]:
    """(Record with newer facts, the targets' snapshots, victim signal, control signal)."""
    details, lead = ProcessDetails.of(record), LeadDetails.of(record)
    names, targets = list(ctx.nodes), record.targets
    service = details.service
    was = {n: processes_before(record, n) for n in details.processes}
    led = lead.leader_before in targets and not lead.moved
    asked, snapshots, found = await asyncio.gather(
        ask_all(
            ctx,
            probe_pairs(names, targets),
            service=service,
            retry_for=[n for n in was if n not in targets],
        ),
        take_two_snapshots(ctx, was, service),
        new_lead(ctx, lead, targets) if led else asyncio.sleep(0, {}),
    )
    counted = _counted(ctx, record)
    record = with_facts(record, {"counted": counted, "quiet": counted, **found})
    bad, problems = _clients(ctx, record)
    left = [n for n in voters(ctx) if n not in targets]
    if details.scope == "primaries" and left and not LeadDetails.of(record).moved:
        problems.append(no_failover(lead))
    others = {n: pair for n, pair in snapshots.items() if n not in targets}
    return (
        record,
        {n: snapshots[n] for n in targets if n in snapshots},
        victim(record, asked, bad, problems),
        control(record, asked, others, without_majority(ctx, record, asked)),
    )
