"""Counts points of a server's program under load, without any fault: `dstest points --count`.

As a nemesis it goes where a fault goes: when the load runs, with a lease on each node that lets go
of what is traced. Functions are armed by 250 in turn, and share the time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core import limits
from dstest.core.errors import LabError
from dstest.core.evidence import LandingRecord, PointCount
from dstest.core.protocols import FaultPlan, Nemesis, NemesisContext, Processes
from nemeses.base.driver import audit_each, nodes_of
from nemeses.observe.processes import running
from nemeses.tools import aim

BEGINS_S: Final = 3.0
"""Of load before anything is counted."""

ROUNDS_MAX: Final = 20
ROUND_S_MIN: Final = 0.5


class Survey(Nemesis):
    """Functions that fit `glob`; without one, system calls."""

    name = "count"
    doc = "counts how often points of a program are reached"
    requires: tuple[type, ...] = (Processes,)

    def __init__(self, glob: str, seconds: float) -> None:
        self.glob, self.seconds = glob, seconds

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        start_ns, long_ns = int(BEGINS_S * 1e9), int(self.seconds * 1e9)
        return [FaultPlan(fault_id="f1", nemesis="count", start_ns=start_ns, duration_ns=long_ns)]

    async def setup(self, ctx: NemesisContext) -> None:
        await aim.install(self.name, nodes_of(ctx))

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        """A record of what was counted by member; with notes where something could not be."""
        found = {n: [p.pid for p in rows] for n, rows in (await running(ctx)).items()}
        rows = await asyncio.gather(*(self._count(ctx, n, pids) for n, pids in found.items()))
        told = dict(zip(found, rows, strict=True))
        counts = {n: msgspec.to_builtins(row[0]) for n, row in told.items() if row[0] is not None}
        return LandingRecord(
            fault_id=plan.fault_id,
            nemesis=self.name,
            targets=[],
            scheduled_at=plan.start_ns,
            epoch=plan.fault_id,
            facts={"counts": counts, "points": sorted({p for _, ps, _ in rows for p in ps})},
            notes=[f"{name}: {why}" for name, (_, _, why) in told.items() if why],
        )

    async def _count(
        self, ctx: NemesisContext, name: str, pids: Sequence[int]
    ) -> tuple[PointCount | None, list[str], str]:
        """(What was counted, the names of all that was armed, why nothing could be)."""
        node, lease = ctx.node(name), "count"
        await node.arm_lease(lease, [[aim.OFF]], ttl_s=limits.LEASE_TTL_S)
        try:
            if not self.glob:
                step = aim.Step(kind="syscall", name="fsync")
                seen = await aim.sight(node, pids, [step])
                if isinstance(seen, str):
                    return None, [], seen
                return await aim.count(node, seen, "syscall", self.seconds), [*aim.CALLS], ""
            seen = await aim.sight(node, pids, [aim.Step(kind="any", name=self.glob)])
            if isinstance(seen, str):
                return None, [], seen
            return await self._functions(ctx, name, seen)
        except LabError as error:
            return None, [], error.message
        finally:
            await node.release_lease(lease)

    async def _functions(
        self, ctx: NemesisContext, name: str, seen: aim.Sight
    ) -> tuple[PointCount | None, list[str], str]:
        rows = [*seen.points[0].items()]
        parts = [rows[i : i + aim.POINTS_MAX] for i in range(0, len(rows), aim.POINTS_MAX)]
        if len(parts) > ROUNDS_MAX:
            most = ROUNDS_MAX * aim.POINTS_MAX
            return None, [], f"{len(rows):,} functions fit, and {most:,} can be counted"
        each_s = max(ROUND_S_MIN, self.seconds / len(parts))
        found = []
        for part in parts:
            own = msgspec.structs.replace(seen, points=[dict(part)])
            found.append(await aim.count(ctx.node(name), own, "function", each_s))
        reached = {n: hits for count in found for n, hits in count.reached.items()}
        whole = PointCount(
            armed=sum(count.armed for count in found),
            seconds=found[0].seconds,
            reached=aim.ranked(reached),
            stops=sum(count.stops for count in found),
            stop_ns=sum(count.stop_ns for count in found),
        )
        return whole, [n for n, _ in rows], ""

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        return record

    async def heal(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        return msgspec.structs.replace(record, heal_verified=True)

    async def teardown(self, ctx: NemesisContext) -> None:
        await asyncio.gather(*map(aim.stop, nodes_of(ctx)))

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        async def traced(node: Any) -> list[str]:
            return [f"process {pid} of ours traces" for pid in await aim.traces(node)]

        return await audit_each(ctx, traced)
