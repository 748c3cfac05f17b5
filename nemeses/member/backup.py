"""`backup`: members go back to an earlier copy of their own data, in mid-load.

Their data is copied under load, while all stand still together: of copies made one after the other,
one may know an entry as committed that no majority of them has, and its member never serves again.
The copies are of data directories, not snapshots in a format of the system's. The load goes on for
`age_s`; then they are killed, the copies take the place of what they have since written, and they
are started. That breaks a promise: a member has forgotten entries and votes that it had answered
for.

With `scope=one` it is one member, and the rest of the cluster has all that it forgot: no client may
notice, and the member itself may find out and refuse to go on. It is not the way to restore a
member: the heal is, which removes it, and lets its node join anew and empty. With `scope=all` the
whole cluster goes back: what was acknowledged in between is lost, and a checker that does not say
so is blind. The heal then is to serve again.

Injector signal: the checksum of the store is the copy's, and was another one just before. Victim
signal: each restored server says in its log from which entry it starts, which is one that it had
long passed; with `scope=all` also the revision, which is lower than before at the first answer.
Control: the other servers are the processes they were, and their clients are answered.

Catalogue: N22.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    NemesisContext,
    Option,
    Process,
    Replication,
    ServerLogs,
    Supervised,
)
from dstest.core.residue import Residue
from nemeses.base.driver import Facts, Healing, Observed, with_facts
from nemeses.base.member_fault import WITHOUT_TARGETS, MemberFault, bystanders, signal
from nemeses.member.asked import Members, Revisions, Snapshots
from nemeses.member.membership import incomplete, plain
from nemeses.observe.processes import STOPPED
from nemeses.observe.servers import only_log

REJOIN_TRIES: Final = 3
FIRST_ANSWER_S: Final = 10.0
POLL_S: Final = 0.02


class Backup(MemberFault):
    """The `backup` nemesis."""

    name = "backup"
    taxdc = "crash-recovery"
    doc = "puts an earlier copy of its data back under one member, or under all (which loses data)"
    faults: tuple[str, ...] = ("N22",)
    explains: frozenset[str] = frozenset({"exit", "alarm", "fatal", "panic", "corruption"})
    residues: tuple[Residue, ...] = (STOPPED,)
    requires = (
        Supervised, Members, Replication, Revisions, ServerLogs, Snapshots,
    )  # fmt: skip
    options: Mapping[str, Option] = {
        "scope": Option(
            type=str,
            default="one",
            choices=("one", "all"),
            help="one member, which no client may notice; all of them, which loses what was "
            "acknowledged since and has to fail",
        ),
        "age_s": Option(
            type=float, default=2.0, least=0, most=3600, help="load between the copy and its return"
        ),
        **WITHOUT_TARGETS,
    }

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """The age of the copy."""
        return {"age_s": options["age_s"]}

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        if record.facts["scope"] == "all":
            return [ctx.need(Snapshots).put_back_command()]
        return [ctx.need(Members).rejoin_command(False)] * REJOIN_TRIES

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return {"log_bytes": await ctx.need(ServerLogs).log_sizes(), "restore": {}}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, Any]:
        """Copy, let time pass, put back, see what the cluster has at its first answer."""
        names, found = record.targets, dict[str, Any]()
        if record.facts["scope"] != "all":
            for name in names:
                await ctx.need(Members).doom(name)
        found["backup_at"] = ctx.clock.now_ns()
        found["copies"] = await ctx.need(Snapshots).back_up(names)
        await asyncio.sleep(record.facts["age_s"])
        found["applied_before"] = only_log(await ctx.need(Replication).progress())
        found["revisions_before"] = await ctx.need(Revisions).revisions()
        found["restore_at"] = ctx.clock.now_ns()
        found["stores"] = await self.put_back(ctx, names)
        found["restored_at"] = ctx.clock.now_ns()
        if record.facts["scope"] == "all":
            found["revisions"] = await self._first_answers(ctx)
        return {"restore": found}

    async def put_back(
        self, ctx: NemesisContext, names: Sequence[str]
    ) -> dict[str, tuple[str, str]]:
        """The copies take the place of the data; a test sabotages this."""
        return await ctx.need(Snapshots).put_back(names)

    async def _first_answers(self, ctx: NemesisContext) -> dict[str, int]:
        """The first revision that each member reports."""
        found: dict[str, int] = {}
        deadline_ns = ctx.clock.now_ns() + int(FIRST_ANSWER_S * 1e9)
        while len(found) < len(ctx.nodes) and ctx.clock.now_ns() < deadline_ns:
            for name, revision in (await ctx.need(Revisions).revisions()).items():
                if revision is not None:
                    found.setdefault(name, revision)
            await asyncio.sleep(POLL_S)
        return found

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        if record.facts["scope"] != "all":
            for name in record.targets:
                await ctx.need(Members).rejoin(name, learner=False)
        await ctx.need(Supervised).restart(record.targets)
        await ctx.need(Snapshots).drop_backups()

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        starts = await ctx.need(Snapshots).commits_at_start(record.facts["log_bytes"])
        record = with_facts(record, {"starts": starts})
        others = [n for n in ctx.nodes if n not in record.targets]
        hit = [f"{n} has started anew" for n in others if starts[n]]
        return Observed(
            injector=_injector(record),
            victim=_victim(record),
            control=await bystanders(ctx, record, hit),
            facts=record.facts,
        )

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        return incomplete(plain(await ctx.need(Members).listed()), list(ctx.nodes))

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """A cluster that is not of all nodes."""
        listed = plain(await ctx.need(Members).listed())
        return incomplete({node.name: listed[node.name]}, list(ctx.nodes))


def _injector(record: LandingRecord) -> Signal:
    found = record.facts["restore"]
    copies, stores = found.get("copies", {}), found.get("stores", {})
    problems = []
    for name in record.targets:
        if name not in copies or name not in stores:
            problems.append(f"{name}: nothing was put back")
            continue
        was, now = stores[name]
        problems += [] if now == copies[name] else [f"{name}: its store is not the copy"]
        problems += [] if was != now else [f"{name}: its store was the same before"]
    return signal(
        "checksum of each store just before and after the restore",
        {n: sums[0][:12] for n, sums in stores.items()},
        {n: sums[1][:12] for n, sums in stores.items()} or dict.fromkeys(record.targets, ""),
        problems,
        f"{', '.join(record.targets)} went back to a copy of its data",
    )


def _victim(record: LandingRecord) -> Signal:
    found, starts = record.facts["restore"], record.facts["starts"]
    applied = found.get("applied_before", {})
    problems, lost = [], {}
    for name in record.targets:
        passed, first = applied.get(name), next(iter(starts[name]), None)
        if passed is None or first is None:
            problems.append(f"{name} has not said from where it starts")
            continue
        lost[name] = passed - first
        problems += [] if lost[name] > 0 else [f"{name} starts from entry {first} of {passed}"]
    if record.facts["scope"] == "all":
        was, now = found.get("revisions_before", {}), found.get("revisions", {})
        problems += [f"{n} has not answered" for n in record.targets if n not in now]
        problems += [
            f"{n} is at revision {now[n]}, was at {was[n]}"
            for n in now
            if was.get(n) is None or now[n] >= was[n]
        ]
    return signal(
        "entry of the log that each server had applied, and that it starts from",
        {n: applied.get(n) for n in record.targets},
        {n: next(iter(starts[n]), None) for n in record.targets},
        problems,
        f"{sum(lost.values()):,} entries forgotten",
    )


NEMESIS = Backup()
