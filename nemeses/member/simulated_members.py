"""Members of a simulation that are removed, and whose hosts join again, empty, as other ones.

Injector signal: the members as each other host lists them, and processes that are gone. Victim
signal: clients of the targets see operations end badly, and none end well; where the member led,
the others follow another one as well. Control signal: processes of other hosts are as they were.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dstest.core.errors import LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import Leadership, NemesisContext, ReplacesMembers
from nemeses.base.leadership import agreement
from nemeses.base.simulated_processes import SimulatedProcesses, gone
from nemeses.base.steps import Facts, Healing, Observed, with_facts
from nemeses.member.listings import Listing, incomplete, plain, unchanged, unlisted
from nemeses.observe.relations import leaders_of


class SimulatedMembership(SimulatedProcesses):
    """One member goes, and another one comes at its host."""

    tolerated = (TimeoutError, LabError)

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return {"members_before": await _listed(ctx)}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await self.expel(ctx, record.targets)

    async def expel(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        """A test sabotages this."""
        for name in names:
            await ctx.need(ReplacesMembers).expel(name)

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        known = {"members": await _listed(ctx)}
        seen = await super().observe(ctx, with_facts(record, known))
        return msgspec.structs.replace(seen, facts={**known, **seen.facts})

    def fate(self, record: LandingRecord) -> Signal:
        runs = {name: int(self.world.hosts[name].up) for name in record.targets}
        return unlisted(record, gone(runs))

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            learner = record.facts.get("join") == "learner"
            await ctx.need(ReplacesMembers).rejoin(name, learner=learner)

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        now, names = await _listed(ctx), list(ctx.nodes)
        problems = [*incomplete(now, names), *unchanged(record, now)]
        led = ctx.offered(Leadership)
        if led is not None:
            problems += agreement(await leaders_of(ctx, led), names)
        return problems

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """What stands, and a cluster that is not of all hosts."""
        found, listed = await super().audit(ctx), await _listed(ctx)
        return {
            name: [*rows, *incomplete({name: listed[name]}, list(ctx.nodes))]
            for name, rows in found.items()
        }


async def _listed(ctx: NemesisContext) -> Listing:
    return plain(await ctx.need(ReplacesMembers).listed())
