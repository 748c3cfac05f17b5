"""`my-nemesis`: a node hears the other nodes, but not its clients.

What to change:

- `RULES`, `SHOW`, `UNDO`: done to a node, counted there, taken away, if need be by the node itself.
- `OURS`: finds and removes what dead runs left.
- `observe`: the three signals. Landed: injector and victim show the fault, the control does not.
- `missing`: what speaks against the heal.
"""

from __future__ import annotations

import re

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import NemesisContext
from dstest.core.residue import Residue
from dstest.extend.nemesis import Healing, NodeFault, Observed, traffic_since

TABLE = "inet dstest_fault"  # a run does not begin where there are tables of other names
RULES = f"""table {TABLE} {{ counter dropped {{ }}
  chain cut {{ type filter hook input priority -300;
    ip saddr CLIENTS tcp dport != 22 counter name dropped drop; }}; }}
"""
SHOW = f"nft list counter {TABLE} dropped"
UNDO = f"nft delete table {TABLE}"
OURS = Residue(
    name="my-nemesis",
    mark=f"the table is called {TABLE}",
    look=f"{SHOW} >/dev/null 2>&1 && echo ours table {TABLE}; :",
    remove=f"{UNDO} 2>/dev/null; :",
)


class MyNemesis(NodeFault):
    name, doc = "my-nemesis", "drops what clients send to a node"
    residues, undo, shows_at_clients = (OURS,), UNDO.split(), True

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        rules = RULES.replace("CLIENTS", ctx.lab.control)
        for name in record.targets:
            await ctx.node(name).run(["nft", "-f", "-"], stdin=rules, check=False)

    async def dropped(self, node: Node) -> int | None:
        """Packets that were dropped at this node; None where the rule is not there."""
        found = re.search(r"packets (\d+)", (await node.run(SHOW.split(), check=False)).stdout)
        return int(found[1]) if found else None

    async def stands_on(self, node: Node) -> bool:
        return await self.dropped(node) is not None

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        targets, before = record.targets, record.facts["before"]
        packets = {n: await self.dropped(ctx.node(n)) for n in targets}
        since = traffic_since(ctx, record.facts["applied"])
        ok = {n: row["ok"] for n, row in since.items()}
        failed = {n: row["fail"] + row["unknown"] for n, row in since.items()}
        unfelt = [n for n in targets if ok[n] or not failed[n] or not before[n]["ok"]]
        hit = [n for n in ok if n not in targets and not ok[n]]
        injector = Signal(
            signal="packets dropped",
            before=dict.fromkeys(targets, 0),
            during=packets,
            moved=all(packets.values()),
            detail=f"packets dropped: {', '.join(f'{n} {p}' for n, p in packets.items())}",
        )
        victim = Signal(
            signal="answers to clients of the targets",
            before={n: before[n]["ok"] for n in targets},
            during={n: ok[n] for n in targets},
            moved=not unfelt,
            detail=f"not felt by clients of {', '.join(unfelt)}" if unfelt else "nobody has one",
        )
        control = Signal(
            signal="answers to other clients",
            during={n: ok[n] for n in ok if n not in targets},
            moved=bool(hit),
            detail=f"not answered either: {', '.join(hit)}" if hit else "untouched",
        )
        return Observed(injector=injector, victim=victim, control=control)

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> list[str]:
        since = traffic_since(ctx, healing.counts_after)
        return [f"{n}: no client is answered yet" for n in record.targets if not since[n]["ok"]]


NEMESIS = MyNemesis()
