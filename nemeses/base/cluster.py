"""What every nemesis asks of a cluster: its nodes, its leader, leases that stand on a node."""

from __future__ import annotations

import asyncio
from typing import Final

from dstest.core.errors import DstestError
from dstest.core.evidence import LandingRecord
from dstest.core.node import Node
from dstest.core.protocols import FaultPlan, Leadership, NemesisContext
from dstest.core.residue import GUARD_LEASES

__all__ = [
    "begun",
    "drop_stale_leases",
    "leader_and_term",
    "leader_now",
    "nodes_of",
    "standing_leases",
]

ELECTION_DEADLINE_S: Final = 20.0
_POLL_S: Final = 0.1


def nodes_of(ctx: NemesisContext) -> list[Node]:
    """All nodes of the cluster."""
    return [ctx.node(name) for name in ctx.nodes]


def begun(ctx: NemesisContext, nemesis: str, plan: FaultPlan) -> LandingRecord:
    """The record of a fault that begins; with a note where it names nodes that are not there."""
    strangers = [t for t in plan.facts["targets"] if t not in ctx.nodes]
    note = f"not in the cluster: {', '.join(strangers)}; nothing was injected"
    return LandingRecord(
        fault_id=plan.fault_id,
        nemesis=nemesis,
        targets=list(plan.facts["targets"]),
        scheduled_at=plan.start_ns,
        epoch=plan.fault_id,
        facts={**plan.facts, "rechecks": []},
        notes=[note] if strangers else [],
    )


async def leader_and_term(ctx: NemesisContext) -> tuple[str | None, int]:
    """The leader that most nodes name, and the highest term seen; (None, 0) where unknown."""
    led = ctx.offered(Leadership)
    if led is None:
        return None, 0
    views = await led.primaries()
    named = [v.leader for v in views if v.leader]
    term = max((v.term or 0 for v in views), default=0)
    return (max(set(named), key=named.count) if named else None), term


async def leader_now(ctx: NemesisContext, *, wanted: bool) -> tuple[str | None, int]:
    """Leader and term; where the leader is `wanted`, wait out an election first."""
    deadline_ns = ctx.clock.now_ns() + int(ELECTION_DEADLINE_S * 1e9)
    while True:
        leader, term = await leader_and_term(ctx)
        if leader or not wanted or ctx.clock.now_ns() > deadline_ns:
            return leader, term
        await asyncio.sleep(_POLL_S)


async def drop_stale_leases(node: Node) -> None:
    """A dead run's lease would heal a fault of ours when it runs out."""
    standing = await node.call("lease_list")
    for lease_id in [*standing["armed"], *standing["firing"]]:
        if lease_id in GUARD_LEASES:
            continue
        await node.call("lease_release", id=lease_id, timeout_s=40.0)


async def standing_leases(node: Node) -> list[str]:
    """Leaks: `lease ID` for each one that is armed or firing, or why nobody could tell."""
    try:
        leases = await node.call("lease_list")
    except DstestError as error:
        return [f"cannot be audited: {error.message}"]
    standing = [*leases["armed"], *leases["firing"]]
    return [f"lease {lease}" for lease in standing if lease not in GUARD_LEASES]
