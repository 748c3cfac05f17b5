"""`rolling`: restarts leader after leader, against the order that an operator would choose.

One fault is three steps, spread over its window: the member that leads is killed and started again
at once, then the others must have moved to a new leader. Injector signal: at each step the
processes that led are gone and others serve in their place. Victim signal: a new term at each step
(another leader where there are no terms), and clients that saw operations end badly. Control: the
processes of the other members are those that they were. It has healed when all members serve and
agree on one leader.

Catalogue: N25.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import LabError
from dstest.core.evidence import LandingRecord, LeadDetails, PageCache, Signal
from dstest.core.protocols import (
    FaultPlan,
    Leadership,
    NemesisContext,
    Option,
    Supervised,
)
from nemeses.base.driver import ApplyFailed, Choice, Facts, Observed, Standing, demote, with_facts
from nemeses.base.leadership import (
    Lead,
    lead,
    lead_when_known,
    moved_to,
    no_failover,
    voters,
)
from nemeses.base.process_evidence import with_clients
from nemeses.base.process_fault import ProcessFault
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.observe.processes import listeners, mains, probes_of, running
from nemeses.observe.servers import leaders_of

POLL_S: Final = 0.1

NOT_TAKEN: Final = "a step of the rolling restart did not take place"


class Rolling(ProcessFault):
    """The `rolling` nemesis. Whose turn it is shows at each step: the leader of that moment."""

    name = "rolling"
    taxdc = "crash-recovery"
    doc = "kills and restarts the leader, then the next leader, and the next"
    faults: tuple[str, ...] = ("N25",)
    requires = (Supervised, Leadership)
    explains: frozenset[str] = frozenset({"exit"})
    page_cache: PageCache = "kept"
    options: Mapping[str, Option] = {k: v for k, v in WINDOW_OPTIONS.items() if k != "targets"}

    def plan_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**options, "scope": "primaries", "targets": ""}

    async def next_target(self, ctx: NemesisContext) -> str | None:
        """Whose turn it is; a test sabotages this."""
        return (await lead_when_known(ctx)).leader

    async def choose(self, ctx: NemesisContext, plan: FaultPlan) -> Choice:
        pids = mains(await running(ctx))
        facts = {"steps": [], "pids": pids}
        name = await self.next_target(ctx)
        lacking = [n for n in ctx.nodes if n not in pids]
        if name is None:
            return Choice(facts=facts, why_not="no leader is known")
        if lacking:
            return Choice(facts=facts, why_not=f"no server on {', '.join(lacking)}")
        return Choice(targets=[name], facts=facts)

    async def baseline(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """Each step has its own."""
        return {}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """The first step."""
        step, notes = await self.step(ctx, record.targets[0])
        if notes:
            raise ApplyFailed(notes, {"steps": [step]})
        return {"steps": [step]}

    def usual_patience_s(self, ctx: NemesisContext, record: LandingRecord) -> float:
        """A step waits by itself."""
        return 0.0

    async def repeat(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """The next step; it has to work as the first one did."""
        name = await self.next_target(ctx)
        if name is None:
            return demote(record, NOT_TAKEN)
        if name not in record.targets:
            await self.arm(ctx, msgspec.structs.replace(record, targets=[name]))
            record = msgspec.structs.replace(record, targets=[*record.targets, name])
        step, notes = await self.step(ctx, name)
        record = with_facts(record, {"steps": [*record.facts["steps"], step]})
        return msgspec.structs.replace(record, notes=[*record.notes, *notes])

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        pids = mains(await running(ctx))
        others = [n for n in ctx.nodes if n not in record.targets]
        changed = [n for n in others if pids.get(n) != record.facts["pids"][n]]
        return Observed(
            injector=_injector(record.facts["steps"]),
            victim=_victim(ctx, record),
            control=Signal(
                signal="pids of the members that were not restarted",
                before={n: record.facts["pids"][n][0] for n in others},
                during={n: pids.get(n, (0, 0))[0] for n in others},
                moved=bool(changed),
                detail=f"hit as well: {', '.join(changed)}" if changed else "untouched",
            ),
        )

    def stands(self, earlier: LandingRecord, record: LandingRecord) -> Standing:
        present = record.landed == "yes"
        return Standing(present=present, doubts=[] if present else [NOT_TAKEN])

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await self.start(ctx, record.targets)

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [ctx.need(Supervised).restart_command(name)]

    async def kill(self, ctx: NemesisContext, name: str) -> None:
        """End a member; a test sabotages this."""
        await ctx.need(Supervised).kill([name])

    async def start(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        """Start members again."""
        await ctx.need(Supervised).restart(names)

    async def step(self, ctx: NemesisContext, name: str) -> tuple[dict[str, Any], list[str]]:
        """Kill and restart one member, wait for a new term: what came of it, and what failed."""
        before = await running(ctx)
        first = await lead(ctx)
        heard = await listeners(ctx.node(name), probes_of(ctx, name))
        notes: list[str] = []
        gone, found = False, None
        try:
            await self.kill(ctx, name)
            rows = [[p.pid, p.start_time] for p in before.get(name, ())]
            seen = await ctx.node(name).call("processes", idents=rows)
            gone = bool(seen) and not any(row["alive"] for row in seen)
            found = await _moved(ctx, first, name)
            await self.start(ctx, [name])
        except LabError as error:
            notes.append(f"{name}: {error.message}")
        after = mains(await running(ctx)).get(name, [0, 0])
        step = {
            "node": name,
            "pid": mains(before).get(name, [0, 0])[0],
            "served": bool(heard) and heard <= {p.pid for p in before.get(name, ())},
            "gone": gone,
            "new_pid": after[0],
            "leader": first.leader,
            "term": first.epoch,
            "new_leader": found.leader if found else None,
            "new_term": found.epoch if found else first.epoch,
            "moved": found is not None,
        }
        return step, notes


async def _moved(ctx: NemesisContext, before: Lead, name: str) -> Lead | None:
    """The leader that the others have come to; None where they have not in time."""
    deadline_ns = ctx.clock.now_ns() + int(ctx.deployment.timing.failover_s * 1e9)
    while True:
        views = await leaders_of(ctx, ctx.need(Leadership))
        found = moved_to(before, views, voters(ctx), [name])
        if found or ctx.clock.now_ns() > deadline_ns:
            return found
        await asyncio.sleep(POLL_S)


def _injector(steps: Sequence[Mapping[str, Any]]) -> Signal:
    problems = [
        f"step {i + 1}: process {s['pid']} of {s['node']} was not killed and replaced"
        for i, s in enumerate(steps)
        if not (s["served"] and s["gone"] and s["new_pid"] not in (0, s["pid"]))
    ]
    return Signal(
        signal="pid of the leader that was restarted",
        before={f"{i + 1}: {s['node']}": s["pid"] for i, s in enumerate(steps)},
        during={f"{i + 1}: {s['node']}": s["new_pid"] for i, s in enumerate(steps)},
        moved=bool(steps) and not problems,
        detail="; ".join(problems) or "restarted: " + ", ".join(s["node"] for s in steps),
    )


def _victim(ctx: NemesisContext, record: LandingRecord) -> Signal:
    steps, now = record.facts["steps"], ctx.traffic.by_node()
    before = record.facts["traffic_at_inject"]
    own = with_clients(ctx, record)
    bad = {
        n: sum(now[n][kind] - before[n][kind] for kind in ("fail", "unknown"))
        for n in record.targets
        if n in own
    }
    leads = [LeadDetails(leader_before=s["leader"], term_before=s["term"]) for s in steps]
    problems = [
        f"step {i + 1}: {no_failover(leads[i])}" for i, s in enumerate(steps) if not s["moved"]
    ]
    problems += [f"no client of {n} saw an operation end badly" for n, k in bad.items() if not k]
    return Signal(
        signal="term (or who leads) before and after each step",
        before={f"{i + 1}: {s['node']}": s["term"] or s["leader"] for i, s in enumerate(steps)},
        during={
            f"{i + 1}: {s['node']}": s["new_term"] or s["new_leader"] for i, s in enumerate(steps)
        },
        moved=bool(steps) and not problems,
        detail="; ".join(problems)
        or f"{len(steps)} elections, {sum(bad.values())} operations of clients ended badly",
    )


NEMESIS = Rolling()
