"""`NodeFault`: the course of a fault of single nodes, for a nemesis in a file of one's own.

It is the same for all of them: draw a node for each window, arm the lease, open the epoch, apply,
wait for the proof, look again, undo, wait until all is whole, release the lease. What is done to a
node, and what proves it, is the nemesis's own.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from dstest.core.errors import DstestError
from dstest.core.evidence import Landed, LandingRecord, Signal
from dstest.core.limits import LEASE_TTL_S
from dstest.core.protocols import FaultPlan, NemesisContext, Option
from dstest.core.residue import Residue
from nemeses.base.schedule import WINDOW_OPTIONS, planned

__all__ = ["NodeFault", "Signals", "Traffic", "traffic_since"]

POLL_S: Final = 0.1

Traffic = dict[str, dict[str, int]]
"""Operations per node: how many were `invoked`, and ended `ok`, `fail` or `unknown`."""

Signals = tuple[Signal, Signal, Signal]
"""Injector, victim and control."""


def traffic_since(ctx: NemesisContext, earlier: Mapping[str, Mapping[str, int]]) -> Traffic:
    """What clients of each node have done since `ctx.traffic` said `earlier`."""
    now: Traffic = ctx.traffic.by_node()
    return {n: {kind: row[kind] - earlier[n][kind] for kind in row} for n, row in now.items()}


class NodeFault:
    """Base of such a nemesis: it says `apply`, `undo`, `stands`, `look` and `unwhole`.

    In the facts of a record are `before`, what clients of each node did in the last `baseline_s`
    before the fault, and `applied`, the counts of all operations `settle_s` after it was applied,
    when answers that were on their way have arrived. A fault that has not shown after `patience_s`
    did not land, unless it shows when it is looked at again. One whose victims are the clients of
    its targets has `shows_at_clients`: it is planned only where clients stay with their node.
    """

    name: str
    doc: str
    faults: tuple[str, ...] = ()
    requires: tuple[type, ...] = ()
    shows_at_clients: bool = False
    options: Mapping[str, Option] = WINDOW_OPTIONS
    residues: tuple[Residue, ...] = ()
    baseline_s: ClassVar[float] = 1.0
    settle_s: ClassVar[float] = 0.3
    patience_s: ClassVar[float] = 5.0
    healing_s: ClassVar[float] = 10.0

    undo: ClassVar[Sequence[str]]
    """The command that takes the fault away, run on its node by us or by the node itself; it does
    nothing where there is no fault."""

    async def apply(self, ctx: NemesisContext, name: str) -> None:
        """Do it to the node `name`. What fails shows in the signals; only a lost lab raises."""
        raise NotImplementedError

    async def stands(self, ctx: NemesisContext, name: str) -> bool:
        """Is the fault on this node, by the node's own word?"""
        raise NotImplementedError

    async def look(self, ctx: NemesisContext, record: LandingRecord) -> Signals:
        """The signals as they are now. A control that moved was hit as well."""
        raise NotImplementedError

    async def unwhole(
        self, ctx: NemesisContext, record: LandingRecord, undone: Traffic
    ) -> list[str]:
        """What still speaks against the heal. `undone` is what clients did since the fault went."""
        raise NotImplementedError

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

    async def setup(self, ctx: NemesisContext) -> None:
        """Take away what a dead run may have left."""
        await self._undo(ctx, list(ctx.nodes))

    async def _undo(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        await asyncio.gather(*(ctx.node(n).run(self.undo, check=False) for n in names))

    async def _standing(self, ctx: NemesisContext, names: Sequence[str]) -> list[str]:
        found = await asyncio.gather(*(self.stands(ctx, name) for name in names))
        return [name for name, there in zip(names, found, strict=True) if there]

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        """Apply it, then wait for the proof."""
        record = LandingRecord(
            fault_id=plan.fault_id,
            nemesis=self.name,
            targets=list(plan.facts["targets"]),
            scheduled_at=plan.start_ns,
            epoch=plan.fault_id,
            facts={**plan.facts, "rechecks": []},
        )
        if strangers := [name for name in record.targets if name not in ctx.nodes]:
            note = f"not in the cluster: {', '.join(strangers)}; nothing was injected"
            return replace(record, notes=[note])
        earlier = ctx.traffic.by_node()
        await asyncio.sleep(self.baseline_s)
        record = _told(record, before=traffic_since(ctx, earlier))
        lease = [list(self.undo)]
        await asyncio.gather(
            *(
                ctx.node(name).arm_lease(record.fault_id, lease, ttl_s=LEASE_TTL_S)
                for name in record.targets
            )
        )
        record = await ctx.epochs.open(record)
        await asyncio.gather(*(self.apply(ctx, name) for name in record.targets))
        await asyncio.sleep(self.settle_s)
        return await self._landing(ctx, _told(record, applied=ctx.traffic.by_node()))

    async def _landing(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        deadline_ns = ctx.clock.now_ns() + int(self.patience_s * 1e9)
        while True:
            record = await self._look(ctx, record)
            if record.landed == "yes" or ctx.clock.now_ns() > deadline_ns:
                return record
            await asyncio.sleep(POLL_S)

    async def _look(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        injector, victim, control = await self.look(ctx, record)
        landed: Landed = "ambiguous"
        if not injector.moved and not victim.moved:
            landed = "no"
        elif injector.moved and victim.moved and not control.moved:
            landed = "yes"
        if landed == "yes" and record.facts.get("ended_early"):
            landed = "ambiguous"
        landed_at = record.landed_at
        if landed == "yes" and landed_at is None:
            landed_at = ctx.clock.now_ns()
        return replace(
            record,
            injector=injector,
            victim=victim,
            control=control,
            landed=landed,
            landed_at=landed_at,
        )

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Is it still there, and does it still show?"""
        standing = await self._standing(ctx, record.targets)
        gone = [name for name in record.targets if name not in standing]
        row = {"at_ns": ctx.clock.now_ns(), "present": not gone, "gone": gone}
        record = _told(record, rechecks=[*record.facts["rechecks"], row])
        if gone:
            note = f"gone from {', '.join(gone)} while it should have stood"
            record = replace(_told(record, ended_early=True), notes=[*record.notes, note])
        return await self._look(ctx, record)

    async def heal(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Undo it, and show that it is gone and that all is as it was before."""
        if record.injected_at is None:
            return replace(record, heal_verified=True)
        record = replace(record, heal_start=ctx.clock.now_ns())
        await self._undo(ctx, record.targets)
        undone = ctx.traffic.by_node()
        deadline_ns = ctx.clock.now_ns() + int(self.healing_s * 1e9)
        while True:
            since = traffic_since(ctx, undone)
            standing = await self._standing(ctx, record.targets)
            problems = [f"{name}: the fault still stands" for name in standing]
            problems += await self.unwhole(ctx, record, since)
            if not problems or ctx.clock.now_ns() > deadline_ns:
                break
            await asyncio.sleep(POLL_S)
        await asyncio.gather(*(ctx.node(n).release_lease(record.fault_id) for n in record.targets))
        record = await ctx.epochs.close(record)
        if record.victim is not None:
            answered = {name: since[name]["ok"] for name in record.targets}
            record = replace(record, victim=replace(record.victim, after=answered))
        residue = [f"{name}: {self.name}" for name in standing]
        notes = [*record.notes, *problems]
        return replace(record, heal_verified=not problems, residue=residue, notes=notes)

    async def teardown(self, ctx: NemesisContext) -> None:
        """Take it away wherever it is."""
        await self._undo(ctx, list(ctx.nodes))

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """Nodes on which it still stands."""

        async def look(name: str) -> list[str]:
            try:
                return [self.name] if await self.stands(ctx, name) else []
            except DstestError as error:
                return [f"cannot be audited: {error.message}"]

        rows = await asyncio.gather(*map(look, ctx.nodes))
        return dict(zip(ctx.nodes, rows, strict=True))


def _told(record: LandingRecord, **facts: Any) -> LandingRecord:
    return replace(record, facts={**record.facts, **facts})
