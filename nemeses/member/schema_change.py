"""`schema-change`: the tables that clients use gain a column and an index while they use them.

Injector signal: every table has been changed by the system, one after the other, and clients were
answered between the first and the last of them. Victim signal: the own catalogue of every member
says so of all tables, and clients of every member were answered after it. No server is left out,
so there is no control but the processes, which are those that they were. It has healed when no
member's catalogue says so of any table.

Catalogue: N34.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dstest.core.details import ProcessDetails
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import ChangesSchema, NemesisContext, Option, Process
from nemeses.base.member_fault import WITHOUT_TARGETS, MemberFault, signal
from nemeses.base.process_evidence import with_clients
from nemeses.base.process_heal import not_serving
from nemeses.base.steps import Facts, Healing, Observed
from nemeses.observe.processes import ProcessSnapshot, mains, running

__all__ = ["NEMESIS", "SchemaChange"]


class SchemaChange(MemberFault):
    """The `schema-change` nemesis."""

    name = "schema-change"
    doc = "changes all tables while clients use them: a column and an index come, and go again"
    faults: tuple[str, ...] = ("N34",)
    scope = "all"
    requires = (*MemberFault.requires, ChangesSchema)
    options: Mapping[str, Option] = dict(WITHOUT_TARGETS)

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [["true"]]  # the tables go with the run's data

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return {"changed_before": await ctx.need(ChangesSchema).changed_tables()}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """Change them, and count the clients' answers meanwhile."""
        began = _answers(ctx)
        tables = await self.change(ctx, record)
        ended = _answers(ctx)
        return {
            "tables": tables,
            "served_meanwhile": {n: ended[n] - began.get(n, 0) for n in ended},
            "answers_after": ended,
        }

    async def change(self, ctx: NemesisContext, record: LandingRecord) -> int:
        """Change the tables; a test sabotages this."""
        return await ctx.need(ChangesSchema).change_schema()

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        facts, now = record.facts, await ctx.need(ChangesSchema).changed_tables()
        tables, meanwhile = facts["tables"], facts["served_meanwhile"]
        idle = [] if any(meanwhile.values()) else ["no client was answered meanwhile"]
        return Observed(
            injector=signal(
                "answers to clients while the tables were changed",
                dict.fromkeys(meanwhile, 0),
                meanwhile,
                idle if tables else ["no table was changed", *idle],
                f"{tables} tables changed, {sum(meanwhile.values())} operations answered meanwhile",
            ),
            victim=_victim(ctx, facts, now),
            control=await _control(ctx, record),
        )

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await ctx.need(ChangesSchema).restore_schema()

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        now = await ctx.need(ChangesSchema).changed_tables()
        return [f"{n} still has {k} changed tables" for n, k in now.items() if k != 0]

    def process_problem(
        self, record: LandingRecord, name: str, now: Sequence[Process], snapshot: ProcessSnapshot
    ) -> str | None:
        if mains({name: now})[name] != ProcessDetails.of(record).pids[name]:
            return f"process {now[0].pid} is another one"
        return not_serving(now, snapshot)


def _answers(ctx: NemesisContext) -> dict[str, int]:
    """Operations that ended well, by the node of their client."""
    return {n: row["ok"] for n, row in ctx.traffic.by_node().items()}


def _victim(ctx: NemesisContext, facts: Facts, now: Mapping[str, int | None]) -> Signal:
    before, answers = facts["changed_before"], _answers(ctx)
    tables, was = facts["tables"], facts["answers_after"]
    problems = [f"{n} had {k} changed tables before" for n, k in before.items() if k != 0]
    problems += [f"{n} says {k} of {tables} tables" for n, k in now.items() if k != tables]
    later = {n: k - was.get(n, 0) for n, k in answers.items()}
    own = [n for n in with_clients(ctx, {}) if n in later]
    problems += [f"clients of {n} were not answered afterwards" for n in own if later[n] <= 0]
    problems += [] if any(later.values()) else ["no client was answered afterwards"]
    return signal(
        "changed tables, by each member's own catalogue",
        before,
        now,
        problems,
        f"every member says {tables} tables; {sum(later.values())} operations answered since",
    )


async def _control(ctx: NemesisContext, record: LandingRecord) -> Signal:
    pids, was = mains(await running(ctx)), ProcessDetails.of(record).pids
    other = [n for n in ctx.nodes if pids.get(n) != was[n]]
    return Signal(
        signal="pids of all servers",
        before={n: was[n][0] for n in ctx.nodes},
        during={n: pids.get(n, (0, 0))[0] for n in ctx.nodes},
        moved=bool(other),
        detail=f"not the same: {', '.join(other)}" if other else "untouched",
    )


NEMESIS = SchemaChange()
