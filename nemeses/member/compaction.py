"""`compaction`: all members drop old versions while clients read and write.

Versions of keys of ours are written first, so that there is something to drop and it takes a while;
then the cluster is told to compact, again in mid-window and at its end. Injector signal: each
member has finished a compaction and says up to which revision. Victim signal: a revision that each
member served before is refused as compacted, versions were dropped, and clients of each member were
answered between the request and the last look at which it had not ended everywhere. A compaction
with nothing to drop does not count, nor does one that was over before a client was answered.
No server is left out, so there is no control but the processes, which are those that they were. It
has healed when the counters stand still and all members have one hash over one revision.

Catalogue: N32.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import (
    NemesisContext,
    Option,
    Process,
)
from nemeses.base.driver import Facts, Healing, Observed, with_facts
from nemeses.base.member_fault import WITHOUT_TARGETS, MemberFault, signal
from nemeses.base.process_fault import not_serving
from nemeses.member.asked import Compacts, Digests, Revisions
from nemeses.observe.processes import ProcessSnapshot, mains, running

WATCHED_S: Final = 10.0
HEAD_DEADLINE_S: Final = 5.0
"""A member that is slow to answer is not one that is ahead."""

WATCH_GAP_S: Final = 0.01
STILL_S: Final = 0.3
"""Between two looks that must agree; a batch takes hundredths of a second."""


class Compaction(MemberFault):
    """The `compaction` nemesis."""

    name = "compaction"
    taxdc = "config"
    doc = "makes all members drop old versions while clients read and write"
    faults: tuple[str, ...] = ("N32",)
    scope = "all"
    requires = (*MemberFault.requires, Compacts, Digests, Revisions)
    options: Mapping[str, Option] = {
        "history": Option(
            type=int,
            default=10_000,
            least=1,
            most=10_000_000,
            help="versions of keys of ours to drop, besides the load's",
        ),
        "keep": Option(
            type=int, default=20, least=0, most=10_000_000, help="newest revisions that are kept"
        ),
        **WITHOUT_TARGETS,
    }

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """How much there is to drop."""
        return {"history": options["history"], "keep": options["keep"]}

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [["true"]]  # a compaction ends by itself

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        await ctx.need(Compacts).make_history(record.facts["history"])
        head = await _head(ctx)
        facts = {
            "head": head,
            "old_reads_before": await ctx.need(Compacts).old_reads(head),
            "compactions_before": await ctx.need(Compacts).compactions(),
            "served_meanwhile": {},
        }
        # What was just read must itself be old by the time of the compaction.
        await ctx.need(Compacts).make_history(record.facts["history"] // 2)
        return facts

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """Ask for it, and count the clients' answers for as long as it goes on."""
        earlier: dict[str, int] = record.facts["served_meanwhile"]
        meanwhile = dict(earlier)
        before = await ctx.need(Compacts).compactions()
        began = ctx.traffic.by_node()
        await self.compact(ctx, await _head(ctx) - record.facts["keep"])
        deadline_ns = ctx.clock.now_ns() + int(WATCHED_S * 1e9)
        while ctx.clock.now_ns() < deadline_ns:
            now = ctx.traffic.by_node()
            if all(_ended(before, await ctx.need(Compacts).compactions()).values()):
                break
            for name, counts in now.items():
                meanwhile[name] = earlier.get(name, 0) + counts["ok"] - began[name]["ok"]
            await asyncio.sleep(WATCH_GAP_S)
        return {"served_meanwhile": meanwhile}

    async def compact(self, ctx: NemesisContext, revision: int) -> None:
        """Ask for it; a test sabotages this."""
        await ctx.need(Compacts).compact(revision)

    async def repeat(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        try:
            await ctx.need(Compacts).make_history(record.facts["history"] // 2)
            return with_facts(record, await self.apply(ctx, record))
        except LabError as error:
            notes = [*record.notes, f"not compacted once more: {error.message}"]
            return msgspec.structs.replace(record, notes=notes)

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        facts, before = record.facts, record.facts["compactions_before"]
        now = await ctx.need(Compacts).compactions()
        ended = _ended(before, now)
        reads = await ctx.need(Compacts).old_reads(facts["head"])
        return Observed(
            injector=signal(
                "compactions that each member has finished",
                {n: row and row["runs"] for n, row in before.items()},
                {n: row and row["runs"] for n, row in now.items()},
                [f"{n} has finished none" for n, done in ended.items() if not done],
                f"all up to revision {min(row['revision'] if row else 0 for row in now.values())}",
            ),
            victim=_victim(facts, now, reads),
            control=await _control(ctx, record),
        )

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Wait until nothing is being dropped any more."""
        last = None
        while (now := await ctx.need(Compacts).compactions()) != last:
            last = now
            await asyncio.sleep(STILL_S)

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        hashes = await ctx.need(Digests).hashes(await _head(ctx))
        agree = len(set(hashes.values())) == 1 and None not in hashes.values()
        return [] if agree else [f"members differ in hash or compacted revision: {hashes}"]

    def process_problem(
        self, record: LandingRecord, name: str, now: Sequence[Process], snapshot: ProcessSnapshot
    ) -> str | None:
        if mains({name: now})[name] != record.facts["pids"][name]:
            return f"process {now[0].pid} is another one"
        return not_serving(now, snapshot)


async def _head(ctx: NemesisContext) -> int:
    """The newest revision that every member has reached, of those that say so in time."""
    deadline_ns = ctx.clock.now_ns() + int(HEAD_DEADLINE_S * 1e9)
    while True:
        found = await ctx.need(Revisions).revisions()
        if None not in found.values() or ctx.clock.now_ns() > deadline_ns:
            return min((r for r in found.values() if r is not None), default=0)
        await asyncio.sleep(WATCH_GAP_S)


async def _control(ctx: NemesisContext, record: LandingRecord) -> Signal:
    pids = mains(await running(ctx))
    other = [n for n in ctx.nodes if pids.get(n) != record.facts["pids"][n]]
    return Signal(
        signal="pids of all servers",
        before={n: record.facts["pids"][n][0] for n in ctx.nodes},
        during={n: pids.get(n, (0, 0))[0] for n in ctx.nodes},
        moved=bool(other),
        detail=f"not the same: {', '.join(other)}" if other else "untouched",
    )


Counts = Mapping[str, Mapping[str, int] | None]
"""Per member its `runs`, `dropped` and `revision`."""


def _ended(before: Counts, now: Counts) -> dict[str, bool]:
    """Has each member finished a compaction since?"""
    return {
        n: bool(row and (was := before.get(n)) and row["runs"] > was["runs"])
        for n, row in now.items()
    }


def _victim(
    facts: Mapping[str, Any], now: Mapping[str, Mapping[str, int] | None], reads: Mapping[str, str]
) -> Signal:
    before, was = facts["compactions_before"], facts["old_reads_before"]
    dropped = {
        n: (row or {"dropped": 0})["dropped"] - (before[n] or row)["dropped"] if row else 0
        for n, row in now.items()
    }
    problems = [
        f"{n} did not serve the old revision before: {t}" for n, t in was.items() if t != "served"
    ]
    problems += [f"{n} says of the old revision: {t}" for n, t in reads.items() if t != "compacted"]
    problems += [f"{n} has dropped nothing" for n, k in dropped.items() if k <= 0]
    served = facts["served_meanwhile"]
    problems += [f"no client of {n} was answered meanwhile" for n in now if not served.get(n)]
    return signal(
        "versions dropped; reads at a revision before it",
        {**dict.fromkeys(now, 0), **{f"read@{n}": t for n, t in was.items()}},
        {**dropped, **{f"read@{n}": t for n, t in reads.items()}},
        problems,
        f"{sum(dropped.values()):,} versions dropped, {sum(served.values())} operations"
        " answered meanwhile, the old revision is refused everywhere",
    )


NEMESIS = Compaction()
