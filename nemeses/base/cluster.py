"""What every nemesis asks of a cluster: its nodes, a record, leases that stand on a node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from dstest.core.errors import DstestError
from dstest.core.evidence import LandingRecord
from dstest.core.node import Node
from dstest.core.protocols import FaultPlan, NemesisContext
from dstest.core.residue import GUARD_LEASES


def nodes_of(ctx: NemesisContext) -> list[Node]:
    """All nodes of the cluster."""
    return [ctx.node(name) for name in ctx.nodes]


def new_record(ctx: NemesisContext, nemesis: str, plan: FaultPlan) -> LandingRecord:
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


async def audit_each(
    ctx: NemesisContext, check: Callable[[Node], Awaitable[Sequence[str]]]
) -> dict[str, list[str]]:
    """Per node what `check` finds there, and leases; or why nobody could look."""

    async def one(node: Node) -> list[str]:
        try:
            found = await check(node)
        except DstestError as error:
            return [f"cannot be audited: {error.message}"]
        return [*found, *await standing_leases(node)]

    rows = await asyncio.gather(*map(one, nodes_of(ctx)))
    return dict(zip(ctx.nodes, rows, strict=True))
