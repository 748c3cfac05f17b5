"""`schema-change`: the tables that clients use gain a column and an index while they use them.

Injector signal: the system has made all changes, one after the other, and clients were answered
between the first and the last of them. Victim signal: the own catalogue of every member shows all
of the columns and indexes, and clients of every member were answered after it. No server is left
out, so there is no control but the processes, which are those that they were. It has healed when
no member's catalogue shows any of them.

Databases take the lock of a table for a moment, so what waits is asked again. Our statements name
their columns and go on; what a `SELECT *` would do is not tried.

Catalogue: N34.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final, Protocol, runtime_checkable

from dstest.core.evidence import LandingRecord, ProcessDetails, Signal
from dstest.core.protocols import NemesisContext, Option, Process
from nemeses.base.driver import Facts, Healing, Observed
from nemeses.base.member_fault import WITHOUT_TARGETS, MemberFault, signal
from nemeses.base.process_evidence import all_ok, with_clients
from nemeses.base.process_fault import not_serving
from nemeses.observe.processes import ProcessSnapshot, mains, replacements, running


@runtime_checkable
class ChangesSchema(Protocol):
    """Has tables that can be changed while clients use them."""

    def change_schema(self) -> AsyncGenerator[str]:
        """Add a column and then an index of ours to every table of the clients, one change after
        the other; yields each one's name when it is made. LabError where the system refuses."""
        ...

    async def restore_schema(self) -> None:
        """Take all of them away again."""
        ...

    async def schema_changes(self) -> dict[str, int | None]:
        """How many such columns and indexes there are, by each member's own catalogue; None of one
        that does not say."""
        ...


GAP_S: Final = 0.03
"""After each change, so that clients come in between."""


class SchemaChange(MemberFault):
    """The `schema-change` nemesis."""

    name = "schema-change"
    taxdc = "upgrade"
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
        return {"changed_before": await ctx.need(ChangesSchema).schema_changes()}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """Change them, and count the clients' answers after the first change, before the last."""
        made, first, latest, meanwhile = 0, dict[str, int](), dict[str, int](), dict[str, int]()
        async with aclosing(self.changes(ctx)) as changes:
            async for _ in changes:
                made += 1
                meanwhile = {n: k - first.get(n, 0) for n, k in latest.items()}
                first = first or _answers(ctx)
                await asyncio.sleep(GAP_S)
                latest = _answers(ctx)
        return {"changes": made, "served_meanwhile": meanwhile, "answers_after": _answers(ctx)}

    def changes(self, ctx: NemesisContext) -> AsyncGenerator[str]:
        """Each change when it is made; a test sabotages this."""
        return ctx.need(ChangesSchema).change_schema()

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        facts, now = record.facts, await ctx.need(ChangesSchema).schema_changes()
        made, meanwhile = facts["changes"], facts["served_meanwhile"]
        idle = [] if any(meanwhile.values()) else ["no client was answered meanwhile"]
        return Observed(
            injector=signal(
                "answers to clients after the first change and before the last",
                dict.fromkeys(meanwhile, 0),
                meanwhile,
                idle if made else ["nothing was changed", *idle],
                f"{made} changes made, {sum(meanwhile.values())} operations answered between them",
            ),
            victim=_victim(ctx, record, now),
            control=await _control(ctx, record),
        )

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await ctx.need(ChangesSchema).restore_schema()

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        now = await ctx.need(ChangesSchema).schema_changes()
        return [f"{n} still shows {k} changes" for n, k in now.items() if k != 0]

    def process_problem(
        self, record: LandingRecord, name: str, now: Sequence[Process], snapshot: ProcessSnapshot
    ) -> str | None:
        if replacements(record, {name: now}, [name]):
            return f"process {now[0].pid} is another one"
        return not_serving(now, snapshot)


def _answers(ctx: NemesisContext) -> dict[str, int]:
    """Operations that ended well, by the node of their client."""
    return {n: all_ok(row) for n, row in ctx.traffic.by_node().items()}


def _victim(ctx: NemesisContext, record: LandingRecord, now: Mapping[str, int | None]) -> Signal:
    facts = record.facts
    before, answers = facts["changed_before"], _answers(ctx)
    made, was = facts["changes"], facts["answers_after"]
    problems = [f"{n} showed {k} changes before" for n, k in before.items() if k != 0]
    problems += [f"{n} shows {k} of {made} changes" for n, k in now.items() if k != made]
    later = {n: k - was.get(n, 0) for n, k in answers.items()}
    own = [n for n in with_clients(ctx, record) if n in later]
    problems += [f"clients of {n} were not answered afterwards" for n in own if later[n] <= 0]
    problems += [] if any(later.values()) else ["no client was answered afterwards"]
    return signal(
        "new columns and indexes, by each member's own catalogue",
        before,
        now,
        problems,
        f"every member shows {made} changes; {sum(later.values())} operations answered since",
    )


async def _control(ctx: NemesisContext, record: LandingRecord) -> Signal:
    now = await running(ctx)
    pids, was, other = (
        mains(now),
        ProcessDetails.of(record).pids,
        replacements(record, now, ctx.nodes),
    )
    return Signal(
        signal="pids of all servers",
        before={n: was[n][0] for n in ctx.nodes},
        during={n: pids.get(n, (0, 0))[0] for n in ctx.nodes},
        moved=bool(other),
        detail=f"not the same: {', '.join(other)}" if other else "untouched",
    )


NEMESIS = SchemaChange()
