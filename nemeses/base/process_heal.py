"""Are the servers whole again after a fault, and is nothing of it left on a node?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from dstest.core.evidence import LandingRecord
from dstest.core.node import Node
from dstest.core.protocols import Leadership, NemesisContext, Process
from nemeses.base.cluster import audit_each
from nemeses.base.leadership import agreement
from nemeses.base.process_evidence import all_ok, with_clients
from nemeses.base.steps import Proven
from nemeses.observe.answers import ask_all, probe_pairs, services_of
from nemeses.observe.processes import (
    ProcessSnapshot,
    ports_of,
    running,
    take_snapshot,
    take_snapshots,
)
from nemeses.observe.relations import health_of, leaders_of

Healed = Callable[[LandingRecord, str, Sequence[Process], ProcessSnapshot], str | None]
"""What is wrong with a target's processes, None where nothing is."""

Extra = Callable[[NemesisContext, Node, Sequence[Process]], Awaitable[list[str]]]


def not_serving(now: Sequence[Process], snapshot: ProcessSnapshot) -> str | None:
    """That the processes which run `now` do not listen at their ports, None where they do."""
    pids = ", ".join(str(p.pid) for p in now)
    return None if snapshot.serves else f"processes {pids} do not serve"


def incomplete(ctx: NemesisContext, name: str, now: Sequence[Process]) -> str | None:
    """Which services of a member have no main process, None where all have one."""
    there = {p.service for p in now if p.main}
    lost = [s.name for s in services_of(ctx, name) if s.name not in there]
    if not lost:
        return None
    return f"{', '.join(lost)} does not run" if there else "its server does not run"


def still_standing(snapshot: ProcessSnapshot) -> str | None:
    """What still stands, stopped or frozen."""
    pids = ", ".join(map(str, snapshot.standing))
    return f"process {pids} still stands, stopped or frozen" if pids else None


async def whole(
    ctx: NemesisContext, record: LandingRecord, before: Mapping[str, Any], healed: Healed
) -> Proven:
    """Processes, answers, health, one leader for all, clients: what is missing?

    `before` are the counts of the load from before the heal.
    """
    names = record.targets
    now = await running(ctx)
    snapshots = await take_snapshots(ctx, {n: now[n] for n in names if n in now}, now)
    missing: list[str] = []
    for name in names:
        lost = incomplete(ctx, name, now.get(name, ()))
        wrong = (
            lost
            or still_standing(snapshots[name])
            or healed(record, name, now[name], snapshots[name])
        )
        missing += [f"{name}: {wrong}"] if wrong else []
    served = {n: (snapshots[n].listener or 0) if n in snapshots else 0 for n in names}
    asked = await ask_all(ctx, probe_pairs(list(ctx.nodes), names))
    missing += [
        f"no answer {path}"
        for path, n in asked.items()
        if n < len(services_of(ctx, path.rpartition("->")[2]))
    ]
    healthy = await health_of(ctx)
    missing += [f"{n} does not serve" for n in names if not healthy.get(n)]
    led = ctx.offered(Leadership)
    missing += agreement(await leaders_of(ctx, led), ctx.nodes) if led else []
    traffic = ctx.traffic.by_node()
    own = [n for n in with_clients(ctx, record) if n in names]
    answered = {n: all_ok(traffic[n]) - all_ok(before[n]) for n in own}
    missing += [f"clients of {n} are not answered yet" for n, k in answered.items() if not k]
    paths = {p: n for p, n in asked.items() if p.rpartition("->")[2] in names}
    clients = {f"clients->{n}": k for n, k in answered.items()}
    return Proven(missing, served, {**paths, **clients})


async def leaks(ctx: NemesisContext, extra: Extra) -> dict[str, list[str]]:
    """Per node: servers that do not run, are stopped or frozen, what `extra` finds, and leases."""
    now = await running(ctx)

    async def check(node: Node) -> list[str]:
        rows = now.get(node.name, [])
        wrong = incomplete(ctx, node.name, rows)
        if wrong:
            return [wrong]
        found: list[str] = []
        for one in rows:
            seen = await take_snapshot(node, [one], [one], ports_of(ctx, node.name))
            stands = "stopped" if seen.stopped else ""
            stands = f"frozen in {seen.frozen}" if seen.frozen else stands
            found += [f"process {one.pid} is {stands}"] if stands else []
        return [*found, *await extra(ctx, node, rows)]

    return await audit_each(ctx, check)
