"""`NodeFault`: the family of faults of single nodes, for a nemesis in a file of one's own.

It is driven as the nemeses that come with dstest are (`nemeses/base/driver.py`): draw a node for
each window, arm the lease, open the epoch, apply, wait for the proof, look again, revert, wait
until all is whole, release the lease. What is done to a node, and what proves it, are steps of the
nemesis's own.
"""

from __future__ import annotations

import asyncio
import random
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dstest.core.evidence import LandingRecord
from dstest.core.node import Node
from dstest.core.protocols import FaultPlan, NemesisContext
from nemeses.base.driver import (
    Choice,
    Driver,
    Facts,
    Healing,
    Observed,
    Proven,
    Reverted,
    audit_each,
    with_facts,
)
from nemeses.base.schedule import planned

__all__ = ["Healing", "NodeFault", "Observed", "Traffic", "traffic_since"]

Traffic = dict[str, dict[str, int]]
"""Operations per node: how many were `invoked`, and ended `ok`, `fail` or `unknown`."""


def traffic_since(ctx: NemesisContext, earlier: Mapping[str, Mapping[str, int]]) -> Traffic:
    """What clients of each node have done since `ctx.traffic` said `earlier`."""
    now: Traffic = ctx.traffic.by_node()
    return {n: {kind: row[kind] - earlier[n][kind] for kind in row} for n, row in now.items()}


class NodeFault(Driver):
    """Base of such a nemesis: it says `undo`, `apply`, `stands_on`, `observe` and `missing`.

    In the facts of a record are `before`, what clients of each node did in the last `baseline_s`
    before the fault, and `applied`, the counts of all operations `settle_s` after it was applied,
    when answers that were on their way have arrived. A fault that has not shown after `landing_s`
    did not land, unless it shows when it is looked at again. One whose victims are the clients of
    its targets has `shows_at_clients`: it is planned only where clients stay with their node.
    """

    shows_at_clients: bool = False
    baseline_s: ClassVar[float] = 1.0
    settle_s = 0.3
    landing_s: ClassVar[float] = 5.0
    healing_s: ClassVar[float] = 10.0

    undo: ClassVar[Sequence[str]]
    """The command that takes the fault away, run on its node by us or by the node itself; it does
    nothing where there is no fault."""

    @abstractmethod
    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts | None:
        """Do it to `record.targets`; facts for the record. What fails shows in the signals."""

    @abstractmethod
    async def stands_on(self, node: Node) -> bool:
        """Is the fault on this node, by the node's own word?"""

    @abstractmethod
    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        """The signals as they are now. A control that moved was hit as well."""

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """A fault per window, of the nodes that the user names or of one that is drawn."""

        def draw() -> dict[str, Any]:
            return {} if options["targets"] else {"targets": [rng.choice(nodes)]}

        return planned(self.name, time_limit_s, options, draw)

    async def clear(self, nodes: Sequence[Node]) -> None:
        await asyncio.gather(*(node.run(self.undo, check=False) for node in nodes))

    async def choose(self, ctx: NemesisContext, plan: FaultPlan) -> Choice:
        return Choice()

    async def baseline(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        earlier = ctx.traffic.by_node()
        await asyncio.sleep(self.baseline_s)
        return {"before": traffic_since(ctx, earlier)}

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [list(self.undo)]

    async def after_apply(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        return with_facts(record, {"applied": ctx.traffic.by_node()})

    def usual_patience_s(self, ctx: NemesisContext, record: LandingRecord) -> float:
        return self.landing_s

    async def vanished(
        self, ctx: NemesisContext, record: LandingRecord
    ) -> Mapping[str, str] | None:
        found = await asyncio.gather(*(self.stands_on(ctx.node(n)) for n in record.targets))
        there = zip(record.targets, found, strict=True)
        return {name: self.name for name, stands in there if not stands}

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> Reverted | None:
        await self.clear([ctx.node(name) for name in record.targets])
        return None

    def heal_within_s(self, ctx: NemesisContext) -> float:
        return self.healing_s

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """The fault is gone."""
        gone = await self.vanished(ctx, record) or {}
        standing = [name for name in record.targets if name not in gone]
        missing = [f"{name}: the fault still stands" for name in standing]
        since = traffic_since(ctx, healing.counts_after)
        return Proven(
            missing,
            victim={name: since[name]["ok"] for name in record.targets if name in since},
            residue=[f"{name}: {self.name}" for name in standing],
        )

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """Nodes on which it still stands, and leases."""

        async def check(node: Node) -> list[str]:
            return [self.name] if await self.stands_on(node) else []

        return await audit_each(ctx, check)
