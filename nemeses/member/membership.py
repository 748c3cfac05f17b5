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

import msgspec

from dstest.core.errors import LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    Leadership,
    NemesisContext,
    Option,
    Process,
    ReplacesMembers,
    Supervised,
)
from nemeses.base.driver import Facts, Healing, Observed, with_facts
from nemeses.base.leadership import agreement
from nemeses.base.process_evidence import Snapshots
from nemeses.base.process_fault import ProcessFault, gather_evidence
from nemeses.base.schedule import WINDOW_OPTIONS, drawable, given_targets
from nemeses.base.simulated import Simulated, SimulatedProcesses, absence
from nemeses.member.asked import Members
from nemeses.observe.processes import ProcessSnapshot
from nemeses.observe.servers import leaders_of
from nemeses.process.absence import gone_signal, old_processes

Listing = dict[str, dict[str, list[Any]] | None]
"""node -> what it lists: identity (as text, for JSON) -> [name, is it a learner?]."""


def plain(members: Mapping[str, Mapping[int, tuple[str, bool]] | None]) -> Listing:
    """What each node lists, as JSON can say it."""
    return {
        n: None if row is None else {f"{i:x}": [*m] for i, m in row.items()}
        for n, row in members.items()
    }


def _identity(listing: Listing, name: str) -> dict[str, str | None]:
    """Under which identity each node lists a member."""
    return {
        n: next((i for i, (known, _) in (row or {}).items() if known == name), None)
        for n, row in listing.items()
    }


def incomplete(listing: Listing, names: Sequence[str]) -> list[str]:
    """What keeps each node's list from being one voter for each name."""
    problems = []
    for node, row in listing.items():
        if row is None:
            problems.append(f"{node} does not list the members")
        elif sorted(known for known, _ in row.values()) != sorted(names):
            problems.append(f"{node} lists {sorted(known for known, _ in row.values())}")
        elif learners := [known for known, learner in row.values() if learner]:
            problems.append(f"{node} lists {', '.join(learners)} as a learner")
    return problems


def absence_from_lists(record: LandingRecord, gone: Signal) -> Signal:
    """No other node lists the record's targets any more, and their servers are `gone`."""
    before, now = record.facts["members_before"], record.facts["members"]
    others = [n for n in before if n not in record.targets]
    problems = [] if gone.moved else [gone.detail]
    for target in record.targets:
        known = _identity(before, target)
        problems += [f"{n} listed no {target} before" for n in others if known.get(n) is None]
        problems += [f"{n} does not answer" for n in others if now[n] is None]
        problems += [
            f"{n} still lists {target}" for n in others if now[n] and known.get(n) in now[n]
        ]
    return Signal(
        signal="members as each other node lists them",
        before={n: len(before[n] or ()) for n in others},
        during={n: len(now[n] or ()) for n in others},
        moved=bool(record.targets) and not problems,
        detail="; ".join(problems)
        or f"{', '.join(record.targets)} removed, as {len(others)} others say",
    )


def old_identities(record: LandingRecord, now: Listing) -> list[str]:
    """The nodes that list a target under the identity that it had before the fault."""
    was, found = record.facts.get("members_before", {}), list[str]()
    for target in record.targets:
        old = set(_identity(was, target).values())
        same = [n for n, known in _identity(now, target).items() if known in old]
        found += [f"{n} lists {target} under its old identity" for n in same]
    return found


class SimulatedMembership(SimulatedProcesses):
    """One member goes, and another one comes at its host.

    Injector signal: the members as each other host lists them, and processes that are gone. Victim
    signal: clients of the targets see operations end badly, and none end well; where the member
    led, the others follow another one as well. Control signal: processes of other hosts are as they
    were.
    """

    tolerated = (TimeoutError, LabError)

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return {"members_before": await _listed(ctx)}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await self.expel(ctx, record.targets)

    async def expel(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        """A test sabotages this."""
        for name in names:
            await ctx.need(ReplacesMembers).expel(name)

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        known = {"members": await _listed(ctx)}
        seen = await super().observe(ctx, with_facts(record, known))
        return msgspec.structs.replace(seen, facts={**known, **seen.facts})

    def fate(self, record: LandingRecord) -> Signal:
        runs = {name: int(self.world.hosts[name].up) for name in record.targets}
        return absence_from_lists(record, absence(runs))

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            learner = record.facts.get("join") == "learner"
            await ctx.need(ReplacesMembers).rejoin(name, learner=learner)

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        now, names = await _listed(ctx), list(ctx.nodes)
        problems = [*incomplete(now, names), *old_identities(record, now)]
        led = ctx.offered(Leadership)
        if led is not None:
            problems += agreement(await leaders_of(ctx, led), names)
        return problems

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """What stands, and a cluster that is not of all hosts."""
        found, listed = await super().audit(ctx), await _listed(ctx)
        return {
            name: [*rows, *incomplete({name: listed[name]}, list(ctx.nodes))]
            for name, rows in found.items()
        }


async def _listed(ctx: NemesisContext) -> Listing:
    return plain(await ctx.need(ReplacesMembers).listed())


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
        return old_processes(record, name, now, snapshot)

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        now = plain(await ctx.need(Members).listed())
        return [*incomplete(now, list(ctx.nodes)), *old_identities(record, now)]

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """A cluster that is not of all nodes."""
        listed = plain(await ctx.need(Members).listed())
        return incomplete({node.name: listed[node.name]}, list(ctx.nodes))


def removed_signal(record: LandingRecord, snapshots: Snapshots) -> Signal:
    """No other node lists the member any more, and its server has gone."""
    return absence_from_lists(record, gone_signal(record, snapshots))


NEMESIS = Membership()
