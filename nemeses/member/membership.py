"""`membership`: a member is removed under load, and its node joins again, empty, as another one.

While the fault stands the cluster is smaller by the member, whose server has gone and whose data is
wiped. The heal, under load too, adds a member of a new identity at the same address, at once as a
voter or first as a learner, and waits until it has caught up and votes. Injector signal: the
members as each other node lists them: the old identity was among them and is not. Victim signal:
the node answers nobody and its clients saw operations end badly, while clients of others were
answered. Control: the other servers are the processes they were. It has healed when every node
lists as many voters as there are nodes, one leader for all, and the target under a new identity.

Catalogue: N33.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    Members,
    NemesisContext,
    Option,
    Process,
    ReplacesMembers,
    Supervised,
)
from nemeses.base.process_evidence import Snapshots
from nemeses.base.process_fault import ProcessFault, gather_evidence
from nemeses.base.schedule import WINDOW_OPTIONS, drawable, given_targets
from nemeses.base.simulated import Simulated
from nemeses.base.steps import Facts, Healing, Observed, with_facts
from nemeses.member.listings import incomplete, plain, unchanged, unlisted
from nemeses.member.simulated_members import SimulatedMembership
from nemeses.observe.processes import ProcessSnapshot
from nemeses.process.gone import gone_signal, not_replaced

JOINS: Final = ("voter", "learner")
REJOIN_TRIES: Final = 3
"""A janitor gives a command ten seconds; joining may take longer."""


class Membership(ProcessFault):
    """The `membership` nemesis."""

    name = "membership"
    taxdc = "config"
    doc = "removes a member under load, wipes its data and lets its node join anew"
    faults: tuple[str, ...] = ("N33",)
    requires = (Supervised, Members)
    explains: frozenset[str] = frozenset({"exit"})
    options: Mapping[str, Option] = {
        "scope": Option(
            type=str,
            default="random",
            choices=("random", "one", "primaries"),
            help="which member: any one, the leader",
        ),
        "join": Option(
            type=str,
            default="random",
            choices=("random", *JOINS),
            help="how it joins again: at once as a voter, or as a learner first",
        ),
        **WINDOW_OPTIONS,
    }
    simulated = Simulated(
        driver=SimulatedMembership, options=frozenset(options), requires=(ReplacesMembers,)
    )

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """Scopes and ways to join, of those that it has."""
        scopes = drawable(self.requires_when, "scope", ("one", "primaries"), options)
        scope, join = rng.choice(scopes), rng.choice(JOINS)
        scope = scope if options["scope"] == "random" else options["scope"]
        return {
            "scope": "given" if given_targets(options) else scope,
            "join": join if options["join"] == "random" else options["join"],
        }

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            await ctx.need(Members).expel(name)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Join as the plan says."""
        for name in record.targets:
            await ctx.need(Members).rejoin(name, learner=record.facts.get("join") == "learner")
        await ctx.need(Supervised).restart(record.targets)

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        command = ctx.need(Members).rejoin_command(record.facts["join"] == "learner")
        return [command] * REJOIN_TRIES

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return {"members_before": plain(await ctx.need(Members).listed())}

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        record = with_facts(record, {"members": plain(await ctx.need(Members).listed())})
        return await gather_evidence(ctx, record, removed_signal)

    def process_problem(
        self, record: LandingRecord, name: str, now: Sequence[Process], snapshot: ProcessSnapshot
    ) -> str | None:
        return not_replaced(record, name, now, snapshot)

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        now = plain(await ctx.need(Members).listed())
        return [*incomplete(now, list(ctx.nodes)), *unchanged(record, now)]

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """A cluster that is not of all nodes."""
        listed = plain(await ctx.need(Members).listed())
        return incomplete({node.name: listed[node.name]}, list(ctx.nodes))


def removed_signal(record: LandingRecord, snapshots: Snapshots) -> Signal:
    """No other node lists the member any more, and its server has gone."""
    return unlisted(record, gone_signal(record, snapshots))


NEMESIS = Membership()
