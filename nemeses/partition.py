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
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core import limits
from dstest.core.errors import ConfigError, DstestError
from dstest.core.evidence import LandingRecord
from dstest.core.node import Node
from dstest.core.protocols import FaultPlan, NemesisContext, Option
from nemeses import nft, probes
from nemeses.cluster import (
    ELECTION_DEADLINE_S,
    drop_stale_leases,
    leader_now,
    nodes_of,
    standing_leases,
)
from nemeses.grudges import DIRECTIONS, SHAPES, Grudge, Path, grudge
from nemeses.partition_evidence import (
    accounts,
    alive,
    dropped,
    evidence,
    path_name,
    reach_now,
)
from nemeses.schedule import WINDOW_OPTIONS, given_targets, windows

__all__ = ["NEMESIS", "Partition"]

LANDING_DEADLINE_S: Final = 5.0
BASELINE_S: Final = 2.0
POLL_S: Final = 0.1
STILL_S: Final = 0.15
HEAL_DEADLINE_S: Final = 10.0
HEAL_COMMAND: Final = ("nft", "delete", "table", "inet", nft.FAULT_TABLE)

_OPTIONS: Final[Mapping[str, Option]] = {
    "shape": Option(
        type=str, default="random", choices=("random", *SHAPES), help="who is parted from whom"
    ),
    "direction": Option(
        type=str,
        default="random",
        choices=("random", *DIRECTIONS),
        help="cut both ways, or only what goes in to or comes out of the targets",
    ),
    "action": Option(
        type=str,
        default="random",
        choices=("random", "drop", "reject"),
        help="drop silently, or reject with a reset",
    ),
    "clients": Option(type=bool, default=False, help="cut the clients of the targets off as well"),
    **WINDOW_OPTIONS,
}


class Partition:
    """The partition nemesis. `hook` lets a test hang the rules where they catch nothing."""

    name = "partition"
    doc = "cuts the network between nodes, in one or both directions, in both address families"
    faults: tuple[str, ...] = ("N05", "N06", "N10", "N11", "N12")
    options = _OPTIONS

    def __init__(self, *, hook: str = "input") -> None:
        self._hook = hook

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """Fault windows over the run; shapes in a shuffled order, so that all come in turn."""
        if len(nodes) < 3:
            raise ConfigError(
                f"a partition needs at least three nodes, not {len(nodes)}", remedy="--nodes 5"
            )
        plans = []
        shapes: list[str] = []
        found = windows(self.name, time_limit_s, options["fault_s"], options["quiet_s"])
        for index, (start_ns, duration_ns) in enumerate(found):
            if not shapes:
                shapes = [s for s in SHAPES if s != "majorities-ring" or len(nodes) > 3]
                rng.shuffle(shapes)
            drawn = {
                "shape": shapes.pop(),
                "direction": rng.choice(("both", "both", "in", "out")),
                "action": rng.choice(("drop", "drop", "drop", "reject")),
            }
            facts = {
                **{k: v if options[k] == "random" else options[k] for k, v in drawn.items()},
                "clients": options["clients"],
                "targets": given_targets(options),
                "seed": rng.getrandbits(32),
            }
            plans.append(
                FaultPlan(
                    fault_id=f"f{index + 1}",
                    nemesis=self.name,
                    start_ns=start_ns,
                    duration_ns=duration_ns,
                    facts=facts,
                )
            )
        return plans

    async def setup(self, ctx: NemesisContext) -> None:
        """Start accounting and probe listeners; remove what a dead run may have left."""
        nodes = nodes_of(ctx)
        await asyncio.gather(*(nft.delete(n, nft.FAULT_TABLE) for n in nodes))
        await asyncio.gather(*map(drop_stale_leases, nodes))
        await asyncio.gather(*(nft.delete(n, nft.ACCOUNT_TABLE) for n in nodes))

        async def account(node: Node) -> None:
            peers = [n.info for n in nodes if n.name != node.name]
            await nft.load(node, nft.account_rules(peers))

        await asyncio.gather(*map(account, nodes))
        await probes.listen(nodes)

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        """Cut, then wait until both sides show it or the deadline passes."""
        record = LandingRecord(
            fault_id=plan.fault_id,
            nemesis=self.name,
            targets=list(plan.facts["targets"]),
            scheduled_at=plan.start_ns,
            epoch=plan.fault_id,
            facts={**plan.facts, "rechecks": []},
        )
        strangers = [t for t in plan.facts["targets"] if t not in ctx.nodes]
        if strangers:
            note = f"not in the cluster: {', '.join(strangers)}; nothing was injected"
            return msgspec.structs.replace(record, notes=[note])
        leader, term = await leader_now(ctx, wanted=plan.facts["shape"] == "leader")
        try:
            cut = grudge(
                plan.facts["shape"],
                plan.facts["direction"],
                list(ctx.nodes),
                random.Random(plan.facts["seed"]),
                leader=leader,
                targets=plan.facts["targets"],
            )
        except ValueError as error:
            return msgspec.structs.replace(record, notes=[f"nothing was injected: {error}"])
        facts = {**record.facts, "leader_before": leader, "term_before": term}
        record = msgspec.structs.replace(record, targets=cut.targets, facts=facts)
        return await self._cut(ctx, record, cut)

    def _rules(
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

    async def _probe(self, ctx: NemesisContext, token: str) -> dict[str, tuple[int, int]]:
        return await reach_now(ctx, token)

    def _whole(self, result: tuple[int, int]) -> bool:
        """Does a path with this probe result carry what it should?"""
        return alive(result)

    async def _evidence(
        self, ctx: NemesisContext, record: LandingRecord, token: str
    ) -> LandingRecord:
        return await evidence(ctx, record, token)

    async def _cut(self, ctx: NemesisContext, record: LandingRecord, cut: Grudge) -> LandingRecord:
        before = await self._probe(ctx, f"{record.fault_id}-before")
        seen = await self._baseline(ctx, cut.cuts)
        by_node: dict[str, list[str]] = {}
        for source, destination in cut.cuts:
            by_node.setdefault(destination, []).append(source)
        clients = bool(record.facts["clients"])
        for target in cut.targets if clients else ():
            by_node.setdefault(target, [])
        affected = sorted(by_node)
        await asyncio.gather(
            *(
                ctx.node(name).arm_lease(
                    record.fault_id, [list(HEAL_COMMAND)], ttl_s=limits.LEASE_TTL_S
                )
                for name in affected
            )
        )
        facts = {
            **record.facts,
            "cuts": [path_name(p) for p in cut.cuts],
            "affected": affected,
            "baseline_packets": {path_name(p): n for p, n in seen.items()},
            "probe_before": {p: list(r) for p, r in before.items()},
            "traffic_at_inject": ctx.traffic.by_node(),
        }
        record = await ctx.epochs.open(msgspec.structs.replace(record, facts=facts))

        async def apply(name: str) -> None:
            await nft.load(ctx.node(name), self._rules(ctx, record, name, by_node[name]))

        errors = await asyncio.gather(*map(apply, affected), return_exceptions=True)
        applied_ms = round((ctx.clock.now_ns() - (record.injected_at or 0)) / 1e6, 2)
        facts = {**record.facts, "requested_to_applied_ms": applied_ms}
        record = msgspec.structs.replace(
            record, facts=facts, notes=[str(e) for e in errors if isinstance(e, BaseException)]
        )
        return await self._await_landing(ctx, record)

    async def _baseline(self, ctx: NemesisContext, cuts: Sequence[Path]) -> dict[Path, int]:
        """Packets on each path that is about to be cut, until all have moved or time is up.

        A path that nobody uses cannot show a fault; two seconds cover etcd's slowest keepalive.
        """
        earlier = await accounts(ctx)
        deadline_ns = ctx.clock.now_ns() + int(BASELINE_S * 1e9)
        while True:
            now = await accounts(ctx)
            seen = {path: now.get(path, 0) - earlier.get(path, 0) for path in cuts}
            if all(seen.values()) or ctx.clock.now_ns() > deadline_ns:
                return seen
            await asyncio.sleep(POLL_S)

    async def _await_landing(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        election = record.facts["shape"] == "leader"
        patience_s = ELECTION_DEADLINE_S if election else LANDING_DEADLINE_S
        deadline_ns = ctx.clock.now_ns() + int(patience_s * 1e9)
        attempt = 0
        while True:
            attempt += 1
            record = await self._evidence(ctx, record, f"{record.fault_id}-during-{attempt}")
            now_ns = ctx.clock.now_ns()
            if record.landed == "yes":
                return msgspec.structs.replace(record, landed_at=now_ns)
            if now_ns > deadline_ns:
                return record
            await asyncio.sleep(POLL_S)

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Are all rules still there, and do they still cut?"""
        if record.injected_at is None:
            return record
        names = record.facts["affected"]
        counts = await asyncio.gather(
            *(nft.rule_count(ctx.node(n), nft.FAULT_TABLE) for n in names)
        )
        gone = [n for n, count in zip(names, counts, strict=True) if count == 0]
        now_ns = ctx.clock.now_ns()
        looks = [*record.facts["rechecks"], {"at_ns": now_ns, "present": not gone, "gone": gone}]
        record = msgspec.structs.replace(record, facts={**record.facts, "rechecks": looks})
        if gone:
            note = f"rules vanished from {', '.join(gone)} while the fault should have stood"
            return msgspec.structs.replace(
                record,
                landed="ambiguous" if record.landed == "yes" else record.landed,
                notes=[*record.notes, note],
            )
        record = await self._evidence(ctx, record, f"{record.fault_id}-recheck-{len(looks)}")
        if record.landed == "yes" and record.landed_at is None:
            return msgspec.structs.replace(record, landed_at=now_ns)
        return record

    async def heal(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Take the rules out, show that nothing is dropped any more and that probes pass."""
        if record.injected_at is None:
            return msgspec.structs.replace(record, heal_verified=True)
        names = record.facts["affected"]
        nodes = [ctx.node(name) for name in names]
        record = msgspec.structs.replace(record, heal_start=ctx.clock.now_ns())
        await asyncio.gather(*(nft.flush_chain(node) for node in nodes))
        first = await dropped(ctx, record)
        await asyncio.sleep(STILL_S)
        second = await dropped(ctx, record)
        await asyncio.gather(*(nft.delete(node, nft.FAULT_TABLE) for node in nodes))
        left = await asyncio.gather(*(nft.tables(node) for node in nodes))
        residue = [
            f"{node.name}: table inet {nft.FAULT_TABLE}"
            for node, found in zip(nodes, left, strict=True)
            if nft.FAULT_TABLE in found
        ]
        reach = await self._reach_again(ctx, record)
        dead = [p for p, r in reach.items() if not self._whole(r)]
        await asyncio.gather(*(node.release_lease(record.fault_id) for node in nodes))
        record = await ctx.epochs.close(record)
        notes = list(record.notes)
        if first != second:
            notes.append("a drop counter still moved after the rules were taken out")
        if dead:
            notes.append(f"no probe passes after the heal on {', '.join(dead)}")
        injector, victim = record.injector, record.victim
        if injector is not None and victim is not None:
            injector = msgspec.structs.replace(
                injector, after={p: [first.get(p, 0), second.get(p, 0)] for p in injector.during}
            )
            victim = msgspec.structs.replace(
                victim, after={p: list(reach[p]) for p in victim.during}
            )
        return msgspec.structs.replace(
            record,
            injector=injector,
            victim=victim,
            heal_verified=first == second and not dead and not residue,
            residue=residue,
            facts={**record.facts, "traffic_at_heal": ctx.traffic.by_node()},
            notes=notes,
        )

    async def _reach_again(
        self, ctx: NemesisContext, record: LandingRecord
    ) -> dict[str, tuple[int, int]]:
        """Probe until every path is alive or the heal's deadline passes."""
        deadline_ns = ctx.clock.now_ns() + int(HEAL_DEADLINE_S * 1e9)
        attempt = 0
        while True:
            attempt += 1
            token = f"{record.fault_id}-after-{attempt}"
            reach = await self._probe(ctx, token)
            if all(map(self._whole, reach.values())) or ctx.clock.now_ns() > deadline_ns:
                return reach
            await asyncio.sleep(POLL_S)

    async def teardown(self, ctx: NemesisContext) -> None:
        """Remove both tables wherever they are."""
        for table in (nft.FAULT_TABLE, nft.ACCOUNT_TABLE):
            await asyncio.gather(*(nft.delete(n, table) for n in nodes_of(ctx)))

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """Tables and leases of ours that are still on a node."""

        async def look(node: Node) -> list[str]:
            try:
                found = [f"table inet {t}" for t in await nft.tables(node)]
            except DstestError as error:
                return [f"cannot be audited: {error.message}"]
            return found + await standing_leases(node)

        nodes = nodes_of(ctx)
        rows = await asyncio.gather(*map(look, nodes))
        return {node.name: row for node, row in zip(nodes, rows, strict=True)}


NEMESIS = Partition()
