"""`partition`: nodes that no longer hear each other, proven from the receiving side.

Injector signal: packets of the system's own traffic that each drop rule counted. Victim signal:
datagrams of a directed probe that no longer arrive. Control signal: datagrams that still arrive on
every path that was not cut. A partition landed when every rule counted, every cut path is dead in
both families and every other path is alive; for the shape `leader`, when the others have moved to a
new term as well. It has healed when the rules are gone, their counters stand still and probes pass
on every path.

Catalogue: N05 (halves), N06 (one-way), N10 (one), N11 (majority), N12 (leader).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dstest.core.evidence import LandingRecord
from dstest.core.protocols import NemesisContext, Option
from nemeses.base.driver import NEEDS_TRAFFIC, Facts, Observed
from nemeses.base.path_fault import PATH_OPTIONS
from nemeses.base.paths import Reached, alive, evidence, reach_now, token_during
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.base.simulated import Simulated, SimulatedCut
from nemeses.network.rules import ACTION_OPTION, RuleFault, cut_rules, draw_action


class Partition(RuleFault):
    """The partition nemesis."""

    name = "partition"
    taxdc = "partition"
    doc = "cuts the network between nodes, in one or both directions, in both address families"
    faults: tuple[str, ...] = ("N05", "N06", "N10", "N11", "N12")
    simulated = Simulated(
        driver=SimulatedCut,
        options=frozenset({*PATH_OPTIONS, *WINDOW_OPTIONS, "clients"}),
        fixed={"action": "drop"},
        only={"action": ("drop",)},
    )
    overlap = msgspec.structs.replace(NEEDS_TRAFFIC, may_lose_leader=True)
    options: Mapping[str, Option] = {
        **PATH_OPTIONS,
        **ACTION_OPTION,
        "clients": Option(
            type=bool, default=False, help="cut the clients of the targets off as well"
        ),
        **WINDOW_OPTIONS,
    }

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        return draw_action(rng, options, clients=options["clients"])

    def rules(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str]
    ) -> str:
        return cut_rules(ctx, record, name, sources, self.hook)

    async def probe(self, ctx: NemesisContext, token: str) -> Reached:
        return await reach_now(ctx, token)

    def impaired_paths(self, record: LandingRecord, reach: Reached) -> Iterable[str]:
        return [path for path, result in reach.items() if not alive(result)]

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        return await evidence(ctx, record, token_during(ctx, record))


NEMESIS = Partition()
