"""Links of a simulation that let nothing through.

Injector signal: messages that were held up on each link that was cut, by the count of the network.
Victim signal: messages that arrived on it, which must stand still from the cut on. Control signal:
messages held up on links that were not to be cut. A link is used where a message has arrived on it
in the second before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.details import PathDetails
from dstest.core.evidence import Landed, LandingRecord, Signal
from dstest.core.node import CLIENTS_HOST
from dstest.core.protocols import FaultPlan, NemesisContext
from nemeses.base.cut_sets import Path
from nemeses.base.path_evidence import landed_on_used_paths, path_name, path_of, used_paths
from nemeses.base.path_plan import cuts_of
from nemeses.base.simulated import SimulatedDriver, followed
from nemeses.base.steps import Choice, Facts, Healing, Observed, Proven, Reverted, Standing

BEFORE_S: Final = 1.0
STILL_S: Final = 0.15


class SimulatedCut(SimulatedDriver):
    """The nemesis of simulated links."""

    async def choose(self, ctx: NemesisContext, plan: FaultPlan) -> Choice:
        lead = await self.lead(ctx, plan.facts)
        try:
            cut = cuts_of(plan, list(ctx.nodes), lead.leader if lead else None)
        except ValueError as error:
            return Choice(why_not=str(error))
        cuts = [path_name(path) for path in cut.cuts]
        known = lead.facts() if lead else {}
        return Choice(targets=cut.targets, facts={**known, "cuts": cuts})

    async def baseline(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """Which links are in use."""
        names = list(ctx.nodes)
        every = [(a, b) for a in names for b in names if a != b]
        before = self._carried(every)
        await asyncio.sleep(BEFORE_S)
        now = self._carried(every)
        seen = {path: now[path] - before[path] for path in now}
        cuts = PathDetails.of(record).cuts or []
        return {
            "baseline_packets": {path: seen[path] for path in cuts},
            "links": [path for path, count in seen.items() if count],
            "idle_paths": [path for path in cuts if not seen[path]],
            "affected": sorted({path_of(path)[1] for path in cuts}),
        }

    def _carried(self, paths: Sequence[Path]) -> dict[str, int]:
        return {path_name(path): self.world.net.carried[path] for path in paths}

    def _held(self) -> dict[str, int]:
        return {path_name(path): count for path, count in sorted(self.world.net.dropped.items())}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        links = links_of(record)
        facts = {"held_before": self._held(), "carried_before": self._carried(links)}
        self.cut(links)
        return facts

    def cut(self, links: Sequence[Path]) -> None:
        """A test sabotages this."""
        self.world.cut(links)

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        links = [path_name(path) for path in links_of(record)]
        held = _since(self._held(), record.facts["held_before"])
        arrived = _since(self._carried(links_of(record)), record.facts["carried_before"])
        before = PathDetails.of(record).baseline_packets or {}
        victim = _victim(before, {path: arrived[path] for path in before})
        facts: Facts = {}
        if self.for_leader(record.facts):
            victim, facts = await followed(ctx, record, victim)
        return Observed(
            injector=_injector(record, {path: held.get(path, 0) for path in links}),
            victim=victim,
            control=_control({p: n for p, n in held.items() if p not in links}),
            facts=facts,
        )

    def landed(self, record: LandingRecord) -> Landed:
        return landed_on_used_paths(record)

    def stands(self, earlier: LandingRecord, record: LandingRecord) -> Standing:
        gone = [path_name(p) for p in links_of(record) if p not in self.world.net.cut]
        doubts = [f"messages pass on {', '.join(gone)} inside the window"] if gone else []
        return Standing(present=not gone, doubts=doubts)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> Reverted:
        links = links_of(record)
        self.world.mend(links)
        first = self._held()
        await asyncio.sleep(STILL_S)
        left = [path_name(path) for path in links if path in self.world.net.cut]
        return Reverted(first=first, second=self._held(), residue=[f"{p}: still cut" for p in left])

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """Nothing is held up there any more, and messages arrive where they did before."""
        first, second = healing.reverted.first, healing.reverted.second
        links = [path_name(path) for path in links_of(record)]
        moved = [path for path in links if first.get(path, 0) != second.get(path, 0)]
        missing = [f"messages are still held up on {', '.join(moved)}"] if moved else []
        now = self._carried(links_of(record))
        arrived = _since(now, record.facts["carried_before"])
        if not any(arrived[path] for path in used_paths(record)):
            missing.append("no message has arrived yet on a link that was cut")
        return Proven(
            missing,
            {path: [first.get(path, 0), second.get(path, 0)] for path in links},
            {path: arrived[path] for path in PathDetails.of(record).baseline_packets or {}},
        )


def links_of(record: LandingRecord) -> list[Path]:
    """All links that a record's fault cuts, those of clients included."""
    paths = PathDetails.of(record)
    found = [path_of(name) for name in paths.cuts or ()]
    for name in record.targets if paths.clients else ():
        found += [(CLIENTS_HOST, name), (name, CLIENTS_HOST)]
    return found


def _since(now: Mapping[str, int], before: Mapping[str, Any]) -> dict[str, int]:
    return {path: count - before.get(path, 0) for path, count in now.items()}


def _injector(record: LandingRecord, held: Mapping[str, int]) -> Signal:
    used = used_paths(record)
    silent = [path for path in used if not held[path]]
    told = f"no message yet on {', '.join(silent)}" if silent else f"all {len(used)} used ones held"
    return Signal(
        signal="messages held up per link",
        before=dict.fromkeys(held, 0),
        during=dict(held),
        moved=bool(used) and not silent,
        detail=f"{sum(held.values())} messages held up on {len(held)} links ({told})",
    )


def _victim(before: Mapping[str, int], arrived: Mapping[str, int]) -> Signal:
    passing = [path for path, count in arrived.items() if count]
    return Signal(
        signal="messages that arrived per link, in the second before and since",
        before=dict(before),
        during=dict(arrived),
        moved=bool(arrived) and not passing,
        detail=f"messages pass on {', '.join(passing)}"
        if passing
        else "no message arrives on any link that was cut",
    )


def _control(held: Mapping[str, int]) -> Signal:
    hit = [path for path, count in held.items() if count]
    return Signal(
        signal="messages held up on links that were not to be cut",
        before=dict.fromkeys(held, 0),
        during=dict(held),
        moved=bool(hit),
        detail=f"hit as well: {', '.join(hit)}" if hit else "untouched",
    )
