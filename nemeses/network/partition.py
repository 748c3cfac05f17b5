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

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dstest.core.evidence import LandingRecord
from dstest.core.node import Node
from dstest.core.protocols import NemesisContext, Option
from nemeses.base.path_evidence import alive, dropped, evidence, reach_now
from nemeses.base.path_fault import PATH_OPTIONS, STILL_S, Lifted, PathFault, Reached
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.tools import nft

__all__ = ["NEMESIS", "Partition"]

HEAL_COMMAND: Final = ("nft", "delete", "table", "inet", nft.FAULT_TABLE)

_OPTIONS: Final[Mapping[str, Option]] = {
    **PATH_OPTIONS,
    "action": Option(
        type=str,
        default="random",
        choices=("random", "drop", "reject"),
        help="drop silently, or reject with a reset",
    ),
    "clients": Option(type=bool, default=False, help="cut the clients of the targets off as well"),
    **WINDOW_OPTIONS,
}


class Partition(PathFault):
    """The partition nemesis. `hook` lets a test hang the rules where they catch nothing."""

    name = "partition"
    doc = "cuts the network between nodes, in one or both directions, in both address families"
    faults: tuple[str, ...] = ("N05", "N06", "N10", "N11", "N12")
    options = _OPTIONS
    leader_first = True

    def __init__(self, *, hook: str = "input") -> None:
        self._hook = hook

    def drawn(self, rng: random.Random, options: Mapping[str, Any]) -> dict[str, Any]:
        """Drop or reject, and whether clients are cut off."""
        action = rng.choice(("drop", "drop", "drop", "reject"))
        asked = options["action"]
        return {"action": action if asked == "random" else asked, "clients": options["clients"]}

    def rules(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str]
    ) -> str:
        """The fault table of node `name`, about what `sources` send to it."""
        return nft.fault_rules(
            [ctx.node(source).info for source in sources],
            ctx.lab,
            record.facts["action"],
            cut_clients=bool(record.facts["clients"]) and name in record.targets,
            hook=self._hook,
        )

    async def apply(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str]
    ) -> None:
        await nft.load(ctx.node(name), self.rules(ctx, record, name, sources))

    def heal_command(self) -> list[str]:
        return list(HEAL_COMMAND)

    async def clear(self, nodes: Sequence[Node]) -> None:
        await asyncio.gather(*(nft.delete(node, nft.FAULT_TABLE) for node in nodes))

    async def vanished(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, str]:
        names = record.facts["affected"]
        counts = await asyncio.gather(
            *(nft.rule_count(ctx.node(n), nft.FAULT_TABLE) for n in names)
        )
        return {n: "rules" for n, count in zip(names, counts, strict=True) if count == 0}

    async def lift(self, ctx: NemesisContext, record: LandingRecord) -> Lifted:
        """Rules first, for their counters are to be read once more; then the tables."""
        nodes = [ctx.node(name) for name in record.facts["affected"]]
        await asyncio.gather(*(nft.flush_chain(node) for node in nodes))
        first = await dropped(ctx, record)
        await asyncio.sleep(STILL_S)
        second = await dropped(ctx, record)
        await self.clear(nodes)
        return Lifted(first, second)

    async def residue(self, node: Node) -> list[str]:
        found = await nft.tables(node)
        return [f"table inet {nft.FAULT_TABLE}"] if nft.FAULT_TABLE in found else []

    async def probe(self, ctx: NemesisContext, token: str) -> Reached:
        return await reach_now(ctx, token)

    def unwhole(self, record: LandingRecord, reach: Reached) -> Iterable[str]:
        return [path for path, result in reach.items() if not alive(result)]

    async def evidence(
        self, ctx: NemesisContext, record: LandingRecord, token: str
    ) -> LandingRecord:
        return await evidence(ctx, record, token)

    def patience_s(self, ctx: NemesisContext, record: LandingRecord) -> float:
        """Elections take several rounds."""
        led = record.facts["shape"] == "leader"
        return ctx.deployment.timing.failover_s if led else super().patience_s(ctx, record)


NEMESIS = Partition()
