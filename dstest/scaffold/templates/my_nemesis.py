"""`my-nemesis`: a node hears the other nodes, but not its clients.

What to change:

- `RULES`, `SHOW`, `UNDO`: what is done to a node, what counts it there, what takes it away; the
  node runs `UNDO` by itself where it no longer hears from us. `OURS` finds what dead runs left.
- `look`: the three signals. A fault has landed when injector (here packets dropped) and victim
  (clients of the target, who were answered before) show it and the control (others) does not.
- `unwhole`: what speaks against the heal.
"""

from __future__ import annotations

import re

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import NemesisContext
from dstest.core.residue import Residue
from dstest.extend.nemesis import NodeFault, Signals, Traffic, traffic_since

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
    residues = (OURS,)
    shows_at_clients = True
    undo = UNDO.split()

    async def apply(self, ctx: NemesisContext, name: str) -> None:
        rules = RULES.replace("CLIENTS", ctx.lab.control)
        await ctx.node(name).run(["nft", "-f", "-"], stdin=rules, check=False)

    async def dropped(self, ctx: NemesisContext, name: str) -> int | None:
        """Packets that were dropped at this node; None where the rule is not there."""
        shown = await ctx.node(name).run(SHOW.split(), check=False)
        found = re.search(r"packets (\d+)", shown.stdout)
        return int(found[1]) if found else None

    async def stands(self, ctx: NemesisContext, name: str) -> bool:
        return await self.dropped(ctx, name) is not None

    async def look(self, ctx: NemesisContext, record: LandingRecord) -> Signals:
        targets, before = record.targets, record.facts["before"]
        packets = {n: await self.dropped(ctx, n) for n in targets}
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
            detail=f"not felt by clients of {', '.join(unfelt)}"
            if unfelt
            else "no client is answered",
        )
        control = Signal(
            signal="answers to other clients",
            during={n: ok[n] for n in ok if n not in targets},
            moved=bool(hit),
            detail=f"not answered either: {', '.join(hit)}" if hit else "untouched",
        )
        return injector, victim, control

    async def unwhole(
        self, ctx: NemesisContext, record: LandingRecord, undone: Traffic
    ) -> list[str]:
        return [f"{n}: no client is answered yet" for n in record.targets if not undone[n]["ok"]]


NEMESIS = MyNemesis()
