"""Are the servers whole again after a fault, and is nothing of it left on a node?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from dstest.core.errors import DstestError
from dstest.core.evidence import LandingRecord
from dstest.core.node import Node
from dstest.core.protocols import Leadership, NemesisContext, Process
from nemeses.base.cluster import nodes_of, standing_leases
from nemeses.base.leadership import agreement
from nemeses.base.process_evidence import with_clients
from nemeses.observe.answers import ask_all, services_of, ways
from nemeses.observe.processes import Sight, look, look_all, ports_of, running

__all__ = ["Proven", "leaks", "whole"]

Healed = Callable[[LandingRecord, str, Sequence[Process], Sight], str | None]
"""What is wrong with a target's processes, None where nothing is."""

Extra = Callable[[NemesisContext, Node, Sequence[Process]], Awaitable[list[str]]]


class Proven(msgspec.Struct, frozen=True):
    """What is still missing for a proven heal (nothing: proven), and the figures afterwards."""

    missing: list[str]
    injector: dict[str, int]
    victim: Mapping[str, float]


def _incomplete(ctx: NemesisContext, name: str, now: Sequence[Process]) -> str | None:
    """Which services of a member have no main process, None where all have one."""
    there = {p.service for p in now if p.main}
    lost = [s.name for s in services_of(ctx, name) if s.name not in there]
    if not lost:
        return None
    return f"{', '.join(lost)} does not run" if there else "its server does not run"


async def whole(
    ctx: NemesisContext, record: LandingRecord, before: Mapping[str, Any], healed: Healed
) -> Proven:
    """Processes, answers, health, one leader for all, clients: what is missing?

    `before` are the counts of the load from before the heal.
    """
    names = record.targets
    now = await running(ctx)
    sights = await look_all(ctx, {n: now[n] for n in names if n in now}, now)
    missing: list[str] = []
    for name in names:
        lost = _incomplete(ctx, name, now.get(name, ()))
        wrong = lost or healed(record, name, now[name], sights[name])
        missing += [f"{name}: {wrong}"] if wrong else []
    served = {n: (sights[n].listener or 0) if n in sights else 0 for n in names}
    asked = await ask_all(ctx, ways(list(ctx.nodes), names))
    missing += [
        f"no answer {path}"
        for path, n in asked.items()
        if n < len(services_of(ctx, path.rpartition("->")[2]))
    ]
    healthy = await ctx.deployment.healthy()
    missing += [f"{n} serves no linearizable request" for n in names if not healthy.get(n)]
    led = ctx.offered(Leadership)
    missing += agreement(await led.leaders(), ctx.nodes) if led else []
    traffic = ctx.traffic.by_node()
    own = [n for n in with_clients(ctx, {}) if n in names]
    answered = {n: traffic[n]["ok"] - before[n]["ok"] for n in own}
    missing += [f"clients of {n} are not answered yet" for n, k in answered.items() if not k]
    paths = {p: n for p, n in asked.items() if p.rpartition("->")[2] in names}
    clients = {f"clients->{n}": k for n, k in answered.items()}
    return Proven(missing, served, {**paths, **clients})


async def leaks(ctx: NemesisContext, extra: Extra) -> dict[str, list[str]]:
    """Per node: servers that do not run, are stopped or frozen, what `extra` finds, and leases."""
    now = await running(ctx)

    async def check(node: Node) -> list[str]:
        rows = now.get(node.name, [])
        wrong = _incomplete(ctx, node.name, rows)
        if wrong:
            return [wrong, *await standing_leases(node)]
        found: list[str] = []
        try:
            for one in rows:
                sight = await look(node, [one], [one], ports_of(ctx, node.name))
                stands = "stopped" if sight.stopped else ""
                stands = f"frozen in {sight.frozen}" if sight.frozen else stands
                found += [f"process {one.pid} is {stands}"] if stands else []
            found += await extra(ctx, node, rows)
        except DstestError as error:
            return [f"cannot be audited: {error.message}"]
        return [*found, *await standing_leases(node)]

    nodes = nodes_of(ctx)
    rows = await asyncio.gather(*map(check, nodes))
    return {node.name: row for node, row in zip(nodes, rows, strict=True)}
