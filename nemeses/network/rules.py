"""Faults of paths that are a table of nftables rules: `partition`, `loss` and those beside them."""

from __future__ import annotations

import asyncio
import random
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.evidence import LandingRecord, PathDetails
from dstest.core.node import Node
from dstest.core.protocols import NemesisContext, Option, Ticks
from nemeses.base.driver import Facts
from nemeses.base.path_fault import (
    PATH_OPTIONS,
    STILL_S,
    CountersAfterRemoval,
    PathFault,
    landing_s,
)
from nemeses.base.paths import drops
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.tools import nft

HEAL_COMMAND: Final = ("nft", "delete", "table", "inet", nft.FAULT_TABLE)

ACTION_OPTION: Final[Mapping[str, Option]] = {
    "action": Option(
        type=str,
        default="random",
        choices=("random", "drop", "reject"),
        help="drop silently, or reject with a reset",
    ),
}
RULE_OPTIONS: Final[Mapping[str, Option]] = {**PATH_OPTIONS, **ACTION_OPTION, **WINDOW_OPTIONS}


def draw_action(rng: random.Random, options: Mapping[str, Any], *, clients: bool) -> Facts:
    """Drop or reject, and whether clients are cut off."""
    action = rng.choice(("drop", "drop", "drop", "reject"))
    asked = options["action"]
    return {"action": action if asked == "random" else asked, "clients": clients}


def cut_rules(
    ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str], hook: str
) -> str:
    """Rules that cut node `name` off from what `sources` send to it."""
    return nft.fault_rules(
        [ctx.node(source).info for source in sources],
        ctx.lab,
        record.facts["action"],
        cut_clients=bool(record.facts["clients"]) and name in record.targets,
        hook=hook,
    )


async def clear_rules(nodes: Sequence[Node]) -> None:
    """Remove the fault table from these nodes, where it is there."""
    await asyncio.gather(*(nft.delete(node, nft.FAULT_TABLE) for node in nodes))


async def without_rules(ctx: NemesisContext, names: Sequence[str]) -> dict[str, str]:
    """Those of these nodes on which no rule of a fault stands."""
    counts = await asyncio.gather(*(nft.rule_count(ctx.node(n), nft.FAULT_TABLE) for n in names))
    return {n: "rules" for n, count in zip(names, counts, strict=True) if count == 0}


async def leftover_rules(node: Node) -> list[str]:
    """The fault table, where a node still has it."""
    return [f"table inet {t}" for t in await nft.tables(node) if t == nft.FAULT_TABLE]


class RuleFault(PathFault):
    """Base: its rules are in the fault table of each node, with a named counter per source.

    `hook` lets a test hang the rules where they catch nothing.
    """

    leader_first = True

    def __init__(self, *, hook: str = "input") -> None:
        self.hook = hook

    @abstractmethod
    def rules(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str]
    ) -> str:
        """The fault table of node `name`, about what `sources` send to it."""

    async def apply_to(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str]
    ) -> None:
        await nft.load(ctx.node(name), self.rules(ctx, record, name, sources))

    def heal_command(self) -> list[str]:
        return list(HEAL_COMMAND)

    async def clear(self, nodes: Sequence[Node]) -> None:
        await clear_rules(nodes)

    def usual_patience_s(self, ctx: NemesisContext, record: LandingRecord) -> float:
        """Elections take several rounds."""
        led = record.facts["shape"] == "leader"
        return ctx.deployment.timing.failover_s if led else landing_s(ctx)

    async def ticks(self, ctx: NemesisContext, record: LandingRecord) -> Ticks | None:
        """What its rules have cut off so far; `seen` and the like are no cuts."""
        cuts = PathDetails.of(record).cuts or ()
        rules = {*cuts, *(f"clients->{name}" for name in record.targets)}
        counted = await drops(ctx, record)
        return Ticks("packets cut", sum(n for rule, n in counted.items() if rule in rules))

    async def in_force(self, ctx: NemesisContext, record: LandingRecord) -> Mapping[str, str]:
        affected = [ctx.node(name) for name in PathDetails.of(record).affected]
        return await nft.marks(affected, nft.FAULT_TABLE)

    async def vanished(
        self, ctx: NemesisContext, record: LandingRecord
    ) -> Mapping[str, str] | None:
        return await without_rules(ctx, record.facts["affected"])

    async def remove(self, ctx: NemesisContext, record: LandingRecord) -> CountersAfterRemoval:
        """Rules first, for their counters are to be read once more; then the tables."""
        nodes = [ctx.node(name) for name in record.facts["affected"]]
        await asyncio.gather(*(nft.flush_chain(node) for node in nodes))
        first = await drops(ctx, record)
        await asyncio.sleep(STILL_S)
        second = await drops(ctx, record)
        await self.clear(nodes)
        return CountersAfterRemoval(first, second)

    async def residue(self, node: Node) -> list[str]:
        return await leftover_rules(node)
