"""The family of faults of paths between nodes: what a node receives from others is not what it was.

`partition`, `loss` and the faults of a queue say what they do at the node where a path arrives, how
that shows, and how it is taken away. A path (source, destination) is named `source->destination`.
Which of them a planned fault cuts, the user has named, or a shape draws them.
"""

from __future__ import annotations

import asyncio
import random
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from dstest.core.errors import ConfigError
from dstest.core.evidence import Landed, LandingRecord, PathDetails
from dstest.core.node import Node
from dstest.core.protocols import (
    FaultPlan,
    Leadership,
    Linked,
    NemesisContext,
    Option,
    PlanOptions,
    When,
    lacking_of,
)
from dstest.core.residue import Residue
from nemeses.base.driver import (
    ApplyFailed,
    Choice,
    Driver,
    Facts,
    Healing,
    Proven,
    Reverted,
    audit_each,
    nodes_of,
)
from nemeses.base.leadership import lead_when_known
from nemeses.base.paths import (
    DIRECTIONS,
    NO_TALK,
    SHAPES,
    TARGETED,
    CutSet,
    Reached,
    accounts,
    cuts_for,
    landed_on_used_paths,
    packets_before,
    path_name,
    path_of,
    paths_in,
    use_of,
)
from nemeses.base.schedule import WINDOW_OPTIONS, drawable, given_targets, planned
from nemeses.observe import probes
from nemeses.observe.servers import links_of
from nemeses.tools import nft

__all__ = [
    "LANDING_DEADLINE_S",
    "PATH_OPTIONS",
    "STILL_S",
    "CountersAfterRemoval",
    "PathFault",
    "landing_s",
    "sources_by_node",
]

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


def drawing(
    rng: random.Random,
    nodes: Sequence[str],
    options: Mapping[str, Any],
    requires_when: Sequence[When],
    draw_params: Callable[[], Mapping[str, Any]],
    *,
    leader_first: bool,
) -> Callable[[], dict[str, Any]]:
    """What draws the facts of one plan after the other; shapes in a shuffled order, so that all
    come in turn."""
    shapes: list[str] = []
    shuffled: list[bool] = []
    given = {**_apart(options), **_given(nodes, options)}

    def draw() -> dict[str, Any]:
        if not shapes:
            fitting = [s for s in SHAPES if s != "majorities-ring" or len(nodes) > 3]
            shapes.extend(drawable(requires_when, "shape", fitting, options))
            rng.shuffle(shapes)
            if leader_first and not shuffled and "leader" in shapes:
                shapes.sort(key=lambda shape: shape == "leader")
            shuffled.append(True)
        drawn = {"shape": shapes.pop(), "direction": rng.choice(("both", "both", "in", "out"))}
        return {
            **{k: v if options[k] == "random" else options[k] for k, v in drawn.items()},
            **given,
            **draw_params(),
            "seed": rng.getrandbits(32),
        }

    return draw


def _apart(options: Mapping[str, Any]) -> dict[str, Any]:
    """The shape that cuts the targets which the user has named off, nothing where none were."""
    targets, shape = given_targets(options), options["shape"]
    if not targets or shape in TARGETED:
        return {}
    if shape != "random":
        raise ConfigError(
            f"-o targets leaves no choice of shape={shape}",
            remedy=f"-o shape={' or shape='.join(TARGETED)}, or no -o targets",
        )
    return {"shape": "one" if len(targets) == 1 else "halves"}


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
        paths = paths_in(text, nodes)
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


def cuts_of(plan: FaultPlan, nodes: Sequence[str], leader: str | None) -> CutSet:
    """The paths that a plan is about, as things are now. ValueError where there are none."""
    facts = plan.facts
    if facts["shape"] == "paths":
        cuts = paths_in(",".join(facts.get("paths", ())), nodes)
        if not cuts:
            raise ValueError("no path is named")
        return CutSet(list(dict.fromkeys(destination for _, destination in cuts)), cuts)
    return cuts_for(
        facts["shape"],
        facts["direction"],
        nodes,
        random.Random(facts["seed"]),
        leader=leader,
        targets=facts["targets"],
    )


LANDING_DEADLINE_S: Final = 5.0
IDLE_TOLD: Final = 4
STILL_S: Final = 0.15
"""Between two readings of counters that must stand still."""

HEAL_DEADLINE_S: Final = 10.0
"""Of rules and of probes of our own, which no system answers: of its timing only how slow the nodes
are matters."""


def landing_s(ctx: NemesisContext) -> float:
    """Until each path that is in use has been used again, and probes have been sent on it."""
    timing = ctx.deployment.timing
    return timing.slowness * max(LANDING_DEADLINE_S, 2 * timing.keepalive_s)


class CountersAfterRemoval(NamedTuple):
    """Counters right after the fault was taken away and a moment later: they must be the same."""

    first: Mapping[str, int]
    second: Mapping[str, int]


def sources_by_node(record: LandingRecord) -> dict[str, list[str]]:
    """Each affected node -> whose packets to it are hit."""
    paths = PathDetails.of(record)
    found: dict[str, list[str]] = {name: [] for name in paths.affected}
    for source, destination in map(path_of, paths.cuts or ()):
        found.setdefault(destination, []).append(source)
    return found


class PathFault(Driver):
    """Base of the nemeses of paths. A path is hit where it arrives."""

    requires: tuple[type, ...] = (Linked,)
    spares_servers = True
    requires_when: tuple[When, ...] = (When("shape", "leader", (Leadership,)),)
    options: Mapping[str, Option] = {**PATH_OPTIONS, **WINDOW_OPTIONS}
    residues: tuple[Residue, ...] = (nft.RESIDUE,)
    needs: tuple[str, ...] = ("nft",)
    leader_first: ClassVar[bool] = False
    """Is the first fault of a run the leader's? It asks most of a system, and runs may be short."""

    # Steps of its nemeses.

    def check_options(self, options: Mapping[str, Any]) -> None:
        """ConfigError where no fault can be made of them."""

    def plan_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options that a plan is made with: some are not the user's to choose."""
        return options

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """What else a plan says of its fault."""
        return {}

    @abstractmethod
    async def apply_to(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str]
    ) -> None:
        """Do it on node `name` to what `sources` send there."""

    @abstractmethod
    def heal_command(self) -> list[str]:
        """What a node's janitor runs where we are gone."""

    @abstractmethod
    async def remove(self, ctx: NemesisContext, record: LandingRecord) -> CountersAfterRemoval:
        """Take the fault away from the affected nodes."""

    @abstractmethod
    async def residue(self, node: Node) -> list[str]:
        """What is left of such a fault on a node."""

    @abstractmethod
    async def probe(self, ctx: NemesisContext, token: str) -> Reached:
        """Our own datagrams on every path. `token` must be new."""

    @abstractmethod
    def impaired_paths(self, record: LandingRecord, reach: Reached) -> Iterable[str]:
        """Paths whose probe does not look as it did before the fault."""

    # What they have in common.

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """Fault windows over the run."""
        self.check_options(options)
        options = PlanOptions(self.plan_options(options), lacking_of(options))
        if len(nodes) < 3:
            raise ConfigError(
                f"a {self.name} needs at least three nodes, not {len(nodes)}",
                remedy="--nodes 5, and as many members where the system takes fewer",
            )
        draw = drawing(
            rng,
            nodes,
            options,
            self.requires_when,
            lambda: self.draw_params(rng, options),
            leader_first=self.leader_first,
        )
        return planned(self.name, time_limit_s, options, draw)

    async def instrument(self, ctx: NemesisContext) -> None:
        """Accounts of what each peer sends, and listeners for our probes."""
        nodes = nodes_of(ctx)
        await self.remove_instruments(ctx)

        async def account(node: Node) -> None:
            peers = [n.info for n in nodes if n.name != node.name]
            await nft.load(node, nft.account_rules(peers))

        await asyncio.gather(*map(account, nodes))
        await probes.listen(nodes)

    async def foresee(self, ctx: NemesisContext) -> str:
        """Which of the paths that members are said to use have carried nothing so far."""
        listed = links_of(ctx, ctx.need(Linked))
        counted = await accounts(ctx)
        idle = [path_name(p) for p in (counted if listed is None else listed) if not counted.get(p)]
        if not idle:
            return ""
        more = f" and {len(idle) - IDLE_TOLD} more" if len(idle) > IDLE_TOLD else ""
        return (
            f"{', '.join(idle[:IDLE_TOLD])}{more} carried nothing so far, and a {self.name} of such"
            f" a path cannot be proven; {NO_TALK}"
        )

    async def remove_instruments(self, ctx: NemesisContext) -> None:
        await asyncio.gather(*(nft.delete(n, nft.ACCOUNT_TABLE) for n in nodes_of(ctx)))

    async def choose(self, ctx: NemesisContext, plan: FaultPlan) -> Choice:
        wanted, seed = plan.facts["shape"] == "leader", plan.facts["seed"]
        lead = await lead_when_known(ctx, wanted=wanted, seed=seed)
        try:
            cut = cuts_of(plan, list(ctx.nodes), lead.leader)
        except ValueError as error:
            return Choice(why_not=str(error))
        cuts = [path_name(path) for path in cut.cuts]
        return Choice(targets=cut.targets, facts={**lead.facts(), "cuts": cuts})

    async def baseline(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """What probes find and how many packets each path carries before it is cut."""
        before = await self.probe(ctx, f"{record.fault_id}-before")
        paths = PathDetails.of(record)
        cuts = [path_of(name) for name in paths.cuts or ()]
        packets = await packets_before(ctx, cuts)
        clients_of = record.targets if paths.clients else []
        affected = {*(destination for _, destination in cuts), *clients_of}
        return {
            **use_of(ctx, packets),
            "affected": sorted(affected),
            "probe_before": {p: list(r) for p, r in before.items()},
        }

    def lease_nodes(self, record: LandingRecord) -> list[str]:
        return PathDetails.of(record).affected

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [self.heal_command()]

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        by_node = sources_by_node(record)
        errors = await asyncio.gather(
            *(self.apply_to(ctx, record, name, sources) for name, sources in by_node.items()),
            return_exceptions=True,
        )
        notes = [str(error) for error in errors if isinstance(error, BaseException)]
        if notes:
            raise ApplyFailed(notes)

    def usual_patience_s(self, ctx: NemesisContext, record: LandingRecord) -> float:
        return landing_s(ctx)

    def landed(self, record: LandingRecord) -> Landed:
        return landed_on_used_paths(record)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> Reverted:
        counters = await self.remove(ctx, record)
        nodes = [ctx.node(name) for name in PathDetails.of(record).affected]
        left = await asyncio.gather(*map(self.residue, nodes))
        return Reverted(
            first=counters.first,
            second=counters.second,
            residue=[
                f"{n.name}: {what}" for n, row in zip(nodes, left, strict=True) for what in row
            ],
        )

    def heal_within_s(self, ctx: NemesisContext) -> float:
        return HEAL_DEADLINE_S * ctx.deployment.timing.slowness

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """Nothing is counted any more, and probes pass on every path."""
        reach = await self.probe(ctx, f"{record.fault_id}-after-{ctx.clock.now_ns()}")
        impaired = list(self.impaired_paths(record, reach))
        first, second = healing.reverted.first, healing.reverted.second
        missing = []
        if first != second:
            missing.append("a counter still moved after the rules were taken out")
        if impaired:
            missing.append(f"probes are not as they were before on {', '.join(impaired)}")
        counted = record.injector.during if record.injector else ()
        probed = record.victim.during if record.victim else ()
        return Proven(
            missing,
            {p: [first.get(p, 0), second.get(p, 0)] for p in counted},
            {p: list(reach[p]) for p in probed},
        )

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """Rules, tables, programs and leases of ours that are still on a node."""

        async def check(node: Node) -> list[str]:
            tables = await nft.tables(node)
            found = [f"table inet {t}" for t in tables if t == nft.ACCOUNT_TABLE]
            return found + await self.residue(node)

        return await audit_each(ctx, check)
