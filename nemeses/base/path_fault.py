"""The common course of a fault of paths between nodes: choose, prove, look again, heal.

`partition`, `loss` and the faults of a queue say what they do to what one node receives from
others, how that shows, and how it is taken away. A lease that takes it away is armed on each
affected node before anything is done.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core import limits
from dstest.core.errors import ConfigError, DstestError
from dstest.core.evidence import LandingRecord
from dstest.core.node import Node
from dstest.core.protocols import FaultPlan, Leadership, Linked, NemesisContext, Option, When
from dstest.core.residue import Residue
from nemeses.base.cluster import begun, drop_stale_leases, nodes_of, standing_leases
from nemeses.base.cut_sets import DIRECTIONS, SHAPES, Grudge, Path, grudge, named
from nemeses.base.leadership import lead_when_known
from nemeses.base.path_evidence import accounts, path_name, use_of
from nemeses.base.schedule import WINDOW_OPTIONS, drawable, planned
from nemeses.observe import probes
from nemeses.tools import nft

__all__ = ["PATH_OPTIONS", "STILL_S", "Lifted", "PathFault", "Reached"]

LANDING_DEADLINE_S: Final = 5.0
POLL_S: Final = 0.1
STILL_S: Final = 0.15
"""Between two readings of counters that must stand still."""

HEAL_DEADLINE_S: Final = 10.0

PATH_OPTIONS: Final[Mapping[str, Option]] = {
    "shape": Option(
        type=str, default="random", choices=("random", *SHAPES), help="who is parted from whom"
    ),
    "direction": Option(
        type=str,
        default="random",
        choices=("random", *DIRECTIONS),
        help="cut both ways, or only what goes in to or comes out of the targets",
    ),
    "paths": Option(
        type=str, default="", help="these paths alone, as n1:n2,n3:n1 (from:to), not a shape"
    ),
}

Reached = Mapping[str, tuple[int, ...]]
"""`source->destination` -> what a probe found there; what the figures mean is the fault's."""


class Lifted(NamedTuple):
    """Counters right after the fault was taken away and a moment later: they must be the same."""

    first: Mapping[str, int]
    second: Mapping[str, int]


class PathFault:
    """Base of the nemeses of paths. A path (source, destination) is hit where it arrives."""

    name: str
    doc: str
    faults: tuple[str, ...]
    requires: tuple[type, ...] = (Linked,)
    requires_when: tuple[When, ...] = (When("shape", "leader", (Leadership,)),)
    options: Mapping[str, Option] = {**PATH_OPTIONS, **WINDOW_OPTIONS}
    residues: tuple[Residue, ...] = (nft.RESIDUE,)
    leader_first = False
    """Is the first fault of a run that of the leader, where the system has one? A short run has few
    faults, and this one asks most of a system."""

    looks = 1
    """So often a fault that stood is looked at before one look is taken for its end."""

    def drawn(self, rng: random.Random, options: Mapping[str, Any]) -> dict[str, Any]:
        """What else a plan says of its fault."""
        return {}

    async def clear(self, nodes: Sequence[Node]) -> None:
        """Take away what there may be of such a fault on these nodes."""
        raise NotImplementedError

    async def ready(self, ctx: NemesisContext) -> None:
        """Put on the nodes what the fault needs there."""

    def heal_command(self) -> list[str]:
        """What a node's janitor runs where we are gone."""
        raise NotImplementedError

    async def apply(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str]
    ) -> None:
        """Do it on node `name` to what `sources` send there."""
        raise NotImplementedError

    async def vanished(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, str]:
        """Affected nodes where the fault does not stand any more -> what is missing there."""
        raise NotImplementedError

    async def lift(self, ctx: NemesisContext, record: LandingRecord) -> Lifted:
        """Take the fault away from the affected nodes."""
        raise NotImplementedError

    async def residue(self, node: Node) -> list[str]:
        """What is left of such a fault on a node."""
        raise NotImplementedError

    async def probe(self, ctx: NemesisContext, token: str) -> Reached:
        """Our own datagrams on every path. `token` must be new."""
        raise NotImplementedError

    def unwhole(self, record: LandingRecord, reach: Reached) -> Iterable[str]:
        """Paths whose probe does not look as it did before the fault."""
        raise NotImplementedError

    async def evidence(
        self, ctx: NemesisContext, record: LandingRecord, token: str
    ) -> LandingRecord:
        """The record with its three signals as they are now, and `landed` decided from them."""
        raise NotImplementedError

    def patience_s(self, ctx: NemesisContext, record: LandingRecord) -> float:
        """How long this fault may take to show."""
        return LANDING_DEADLINE_S

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
                f"a {self.name} needs at least three nodes, not {len(nodes)}", remedy="--nodes 5"
            )
        shapes: list[str] = []
        begun: list[bool] = []
        given = _given(nodes, options)

        def draw() -> dict[str, Any]:
            if not shapes:
                fitting = [s for s in SHAPES if s != "majorities-ring" or len(nodes) > 3]
                shapes.extend(drawable(self.requires_when, "shape", fitting, options))
                rng.shuffle(shapes)
                if self.leader_first and not begun and "leader" in shapes:
                    shapes.sort(key=lambda shape: shape == "leader")
                begun.append(True)
            drawn = {
                "shape": shapes.pop(),
                "direction": rng.choice(("both", "both", "in", "out")),
            }
            return {
                **{k: v if options[k] == "random" else options[k] for k, v in drawn.items()},
                **given,
                **self.drawn(rng, options),
                "seed": rng.getrandbits(32),
            }

        return planned(self.name, time_limit_s, options, draw)

    async def setup(self, ctx: NemesisContext) -> None:
        """Start accounting and probe listeners; remove what a dead run may have left."""
        nodes = nodes_of(ctx)
        await self.clear(nodes)
        await asyncio.gather(*map(drop_stale_leases, nodes))
        await asyncio.gather(*(nft.delete(n, nft.ACCOUNT_TABLE) for n in nodes))

        async def account(node: Node) -> None:
            peers = [n.info for n in nodes if n.name != node.name]
            await nft.load(node, nft.account_rules(peers))

        await asyncio.gather(*map(account, nodes))
        await probes.listen(nodes)
        await self.ready(ctx)

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        """Cut, then wait until both sides show it or the deadline passes."""
        record = begun(ctx, self.name, plan)
        if record.notes:
            return record
        wanted, seed = plan.facts["shape"] == "leader", plan.facts["seed"]
        lead = await lead_when_known(ctx, wanted=wanted, seed=seed)
        try:
            cut = _grudge(plan, list(ctx.nodes), lead.leader)
        except ValueError as error:
            return msgspec.structs.replace(record, notes=[f"nothing was injected: {error}"])
        facts = {**record.facts, **lead.facts()}
        record = msgspec.structs.replace(record, targets=cut.targets, facts=facts)
        return await self._cut(ctx, record, cut)

    async def _cut(self, ctx: NemesisContext, record: LandingRecord, cut: Grudge) -> LandingRecord:
        before = await self.probe(ctx, f"{record.fault_id}-before")
        seen = await self._baseline(ctx, cut.cuts)
        by_node: dict[str, list[str]] = {}
        for source, destination in cut.cuts:
            by_node.setdefault(destination, []).append(source)
        for target in cut.targets if record.facts.get("clients") else ():
            by_node.setdefault(target, [])
        affected = sorted(by_node)
        command = self.heal_command()
        await asyncio.gather(
            *(
                ctx.node(name).arm_lease(record.fault_id, [command], ttl_s=limits.LEASE_TTL_S)
                for name in affected
            )
        )
        facts = {
            **record.facts,
            **use_of(ctx, seen),
            "affected": affected,
            "probe_before": {p: list(r) for p, r in before.items()},
            "traffic_at_inject": ctx.traffic.by_node(),
        }
        record = await ctx.epochs.open(msgspec.structs.replace(record, facts=facts))
        errors = await asyncio.gather(
            *(self.apply(ctx, record, name, by_node[name]) for name in affected),
            return_exceptions=True,
        )
        applied_ms = round((ctx.clock.now_ns() - (record.injected_at or 0)) / 1e6, 2)
        facts = {**record.facts, "requested_to_applied_ms": applied_ms}
        record = msgspec.structs.replace(
            record, facts=facts, notes=[str(e) for e in errors if isinstance(e, BaseException)]
        )
        return await self._await_landing(ctx, record)

    async def _baseline(self, ctx: NemesisContext, cuts: Sequence[Path]) -> dict[Path, int]:
        """Packets on each path that is about to be cut, until all have moved or time is up.

        A path that nobody uses cannot show a fault.
        """
        earlier = await accounts(ctx)
        deadline_ns = ctx.clock.now_ns() + int(ctx.deployment.timing.keepalive_s * 1e9)
        while True:
            now = await accounts(ctx)
            seen = {path: now.get(path, 0) - earlier.get(path, 0) for path in cuts}
            if all(seen.values()) or ctx.clock.now_ns() > deadline_ns:
                return seen
            await asyncio.sleep(POLL_S)

    async def _await_landing(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        deadline_ns = ctx.clock.now_ns() + int(self.patience_s(ctx, record) * 1e9)
        attempt = 0
        while True:
            attempt += 1
            record = await self.evidence(ctx, record, f"{record.fault_id}-during-{attempt}")
            now_ns = ctx.clock.now_ns()
            if record.landed == "yes":
                return msgspec.structs.replace(record, landed_at=now_ns)
            if now_ns > deadline_ns:
                return record
            await asyncio.sleep(POLL_S)

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Is the fault still there on every node, and does it still show?"""
        if record.injected_at is None:
            return record
        gone = await self.vanished(ctx, record)
        now_ns = ctx.clock.now_ns()
        row = {"at_ns": now_ns, "present": not gone, "gone": list(gone)}
        facts = {**record.facts, "rechecks": [*record.facts["rechecks"], row]}
        if gone:
            facts["ended_early"] = True
            said = ", ".join(f"{what} vanished from {name}" for name, what in gone.items())
            return msgspec.structs.replace(
                record,
                landed="ambiguous" if record.landed == "yes" else record.landed,
                facts=facts,
                notes=[*record.notes, f"{said} while the fault should have stood"],
            )
        record = msgspec.structs.replace(record, facts=facts)
        for look in range(self.looks):
            token = f"{record.fault_id}-recheck-{len(facts['rechecks'])}-{look}"
            record = await self.evidence(ctx, record, token)
            if record.landed == "yes":
                break
        if record.landed == "yes" and facts.get("ended_early"):
            return msgspec.structs.replace(record, landed="ambiguous")
        if record.landed == "yes" and record.landed_at is None:
            return msgspec.structs.replace(record, landed_at=now_ns)
        return record

    async def heal(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Take the fault away, show that nothing is counted any more and that probes pass."""
        if record.injected_at is None:
            return msgspec.structs.replace(record, heal_verified=True)
        nodes = [ctx.node(name) for name in record.facts["affected"]]
        record = msgspec.structs.replace(record, heal_start=ctx.clock.now_ns())
        lifted = await self.lift(ctx, record)
        left = await asyncio.gather(*map(self.residue, nodes))
        residue = [f"{n.name}: {what}" for n, row in zip(nodes, left, strict=True) for what in row]
        reach = await self._reach_again(ctx, record)
        dead = list(self.unwhole(record, reach))
        await asyncio.gather(*(node.release_lease(record.fault_id) for node in nodes))
        record = await ctx.epochs.close(record)
        notes = list(record.notes)
        still = lifted.first == lifted.second
        if not still:
            notes.append("a counter still moved after the rules were taken out")
        if dead:
            notes.append(f"probes are not as they were before on {', '.join(dead)}")
        injector, victim = record.injector, record.victim
        if injector is not None and victim is not None:
            first, second = lifted
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
            heal_verified=still and not dead and not residue,
            residue=residue,
            facts={**record.facts, "traffic_at_heal": ctx.traffic.by_node()},
            notes=notes,
        )

    async def _reach_again(self, ctx: NemesisContext, record: LandingRecord) -> Reached:
        """Probe until every path is whole or the heal's deadline passes."""
        deadline_ns = ctx.clock.now_ns() + int(HEAL_DEADLINE_S * 1e9)
        attempt = 0
        while True:
            attempt += 1
            reach = await self.probe(ctx, f"{record.fault_id}-after-{attempt}")
            if not list(self.unwhole(record, reach)) or ctx.clock.now_ns() > deadline_ns:
                return reach
            await asyncio.sleep(POLL_S)

    async def teardown(self, ctx: NemesisContext) -> None:
        """Take away the fault and the accounting wherever they are."""
        nodes = nodes_of(ctx)
        await self.clear(nodes)
        await asyncio.gather(*(nft.delete(n, nft.ACCOUNT_TABLE) for n in nodes))

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """Rules, tables, programs and leases of ours that are still on a node."""

        async def look(node: Node) -> list[str]:
            try:
                tables = await nft.tables(node)
                found = [f"table inet {t}" for t in tables if t == nft.ACCOUNT_TABLE]
                found += await self.residue(node)
            except DstestError as error:
                return [f"cannot be audited: {error.message}"]
            return found + await standing_leases(node)

        nodes = nodes_of(ctx)
        rows = await asyncio.gather(*map(look, nodes))
        return {node.name: row for node, row in zip(nodes, rows, strict=True)}


def _given(nodes: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan says of paths that the user has named; nothing where none were."""
    text = str(options.get("paths", ""))
    if not text:
        return {}
    others = [k for k in ("shape", "direction") if options[k] != "random"]
    others += ["targets"] if options["targets"] else []
    if others:
        raise ConfigError(f"-o paths leaves no choice of {others[0]}", remedy="give one of the two")
    try:
        paths = named(text, nodes)
    except ValueError as error:
        raise ConfigError(f"-o paths={text}: {error}", remedy="-o paths=n1:n2,n2:n1") from None
    if not paths:
        raise ConfigError(f"-o paths={text} names no path", remedy="-o paths=n1:n2,n2:n1")
    both = all((b, a) in paths for a, b in paths)
    return {
        "shape": "paths",
        "direction": "both" if both else "in",
        "paths": [path_name(path) for path in paths],
    }


def _grudge(plan: FaultPlan, nodes: Sequence[str], leader: str | None) -> Grudge:
    facts = plan.facts
    if facts["shape"] == "paths":
        cuts = named(",".join(facts.get("paths", ())), nodes)
        if not cuts:
            raise ValueError("no path is named")
        return Grudge(list(dict.fromkeys(destination for _, destination in cuts)), cuts)
    return grudge(
        facts["shape"],
        facts["direction"],
        nodes,
        random.Random(facts["seed"]),
        leader=leader,
        targets=facts["targets"],
    )
