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
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core import limits
from dstest.core.errors import LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import (
    FaultPlan,
    Leadership,
    NemesisContext,
    Option,
    Process,
)
from nemeses.base.cluster import begun
from nemeses.base.leadership import (
    Lead,
    lead,
    lead_when_known,
    moved_to,
    unmoved,
    voters,
)
from nemeses.base.process_evidence import demote, landed
from nemeses.base.process_fault import ProcessFault
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.observe.processes import Sight, listeners, mains, ports_of, running
from nemeses.process.kill import Kill

__all__ = ["NEMESIS", "Rolling"]

POLL_S: Final = 0.1


class Rolling(Kill):
    """The `rolling` nemesis."""

    name = "rolling"
    doc = "kills and restarts the leader, then the next leader, and the next"
    faults: tuple[str, ...] = ("N25",)
    requires = (*Kill.requires, Leadership)
    options: Mapping[str, Option] = {k: v for k, v in WINDOW_OPTIONS.items() if k != "targets"}

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """Whom it hits shows only when it is due: the leaders of that moment."""
        return super().plan(
            rng, nodes, time_limit_s, {**options, "scope": "primaries", "targets": ""}
        )

    async def choose(self, ctx: NemesisContext) -> str | None:
        """Whose turn it is: the leader's."""
        return (await lead_when_known(ctx)).leader

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        """The first step."""
        pids = mains(await running(ctx))
        record = begun(ctx, self.name, plan)
        steps = {"steps": [], "pids": pids, "traffic_at_inject": ctx.traffic.by_node()}
        record = msgspec.structs.replace(record, facts={**record.facts, **steps})
        name = await self.choose(ctx)
        lacking = [n for n in ctx.nodes if n not in pids]
        if name is None or lacking:
            why = "no leader is known" if name is None else f"no server on {', '.join(lacking)}"
            return msgspec.structs.replace(record, notes=[f"nothing was injected: {why}"])
        record = msgspec.structs.replace(record, targets=[name])
        await self._arm(ctx, record, name)
        record = await self._step(ctx, await ctx.epochs.open(record), name)
        if record.landed == "yes":
            return msgspec.structs.replace(record, landed_at=ctx.clock.now_ns())
        return record

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """The next step; it has to work as the first one did."""
        if record.injected_at is None:
            return record
        name = await self.choose(ctx)
        if name is not None:
            if name not in record.targets:
                await self._arm(ctx, record, name)
                targets = [*record.targets, name]
                record = msgspec.structs.replace(record, targets=targets)
            record = await self._step(ctx, record, name)
        now_ns = ctx.clock.now_ns()
        present = name is not None and record.landed == "yes"
        looks = [*record.facts["rechecks"], {"at_ns": now_ns, "present": present}]
        record = msgspec.structs.replace(record, facts={**record.facts, "rechecks": looks})
        if not present:
            return demote(record, "a step of the rolling restart did not take place")
        return record

    async def _arm(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        command = self.heal_command(ctx, record, name)
        await ctx.node(name).arm_lease(record.fault_id, [command], ttl_s=limits.LEASE_TTL_S)

    async def _step(self, ctx: NemesisContext, record: LandingRecord, name: str) -> LandingRecord:
        """Kill and restart one member, wait for a new term, and judge all steps so far."""
        before = await running(ctx)
        first = await lead(ctx)
        heard = await listeners(ctx.node(name), ports_of(ctx, name))
        notes = list(record.notes)
        gone, found = False, None
        try:
            await self.strike(ctx, [name])
            rows = [[p.pid, p.start_time] for p in before.get(name, ())]
            seen = await ctx.node(name).call("processes", idents=rows)
            gone = bool(seen) and not any(row["alive"] for row in seen)
            found = await self._moved(ctx, first, name)
            await self.undo(ctx, [name])
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
        facts = {**record.facts, "steps": [*record.facts["steps"], step]}
        record = msgspec.structs.replace(record, facts=facts, notes=notes)
        return await self._judge(ctx, record)

    async def _moved(self, ctx: NemesisContext, before: Lead, name: str) -> Lead | None:
        """The leader that the others have come to; None where they have not in time."""
        deadline_ns = ctx.clock.now_ns() + int(ctx.deployment.timing.failover_s * 1e9)
        while True:
            views = await ctx.need(Leadership).leaders()
            found = moved_to(before, views, voters(ctx), [name])
            if (found and found.leader) or ctx.clock.now_ns() > deadline_ns:
                return found
            await asyncio.sleep(POLL_S)

    async def _judge(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        steps: list[dict[str, Any]] = record.facts["steps"]
        pids = mains(await running(ctx))
        injector, victim = _injector(steps), _victim(ctx, record)
        others = [n for n in ctx.nodes if n not in record.targets]
        changed = [n for n in others if pids.get(n) != record.facts["pids"][n]]
        control = Signal(
            signal="pids of the members that were not restarted",
            before={n: record.facts["pids"][n][0] for n in others},
            during={n: pids.get(n, (0, 0))[0] for n in others},
            moved=bool(changed),
            detail=f"hit as well: {', '.join(changed)}" if changed else "untouched",
        )
        return msgspec.structs.replace(
            record,
            injector=injector,
            victim=victim,
            control=control,
            landed=landed(record, injector, victim, control),
        )

    def healed(
        self, record: LandingRecord, name: str, now: Sequence[Process], sight: Sight
    ) -> str | None:
        """A member that was restarted twice may have led twice."""
        return ProcessFault.healed(self, record, name, now, sight)


def _injector(steps: Sequence[Mapping[str, Any]]) -> Signal:
    said = [
        f"step {i + 1}: process {s['pid']} of {s['node']} was not killed and replaced"
        for i, s in enumerate(steps)
        if not (s["served"] and s["gone"] and s["new_pid"] not in (0, s["pid"]))
    ]
    return Signal(
        signal="pid of the leader that was restarted",
        before={f"{i + 1}: {s['node']}": s["pid"] for i, s in enumerate(steps)},
        during={f"{i + 1}: {s['node']}": s["new_pid"] for i, s in enumerate(steps)},
        moved=bool(steps) and not said,
        detail="; ".join(said) or "restarted: " + ", ".join(s["node"] for s in steps),
    )


def _victim(ctx: NemesisContext, record: LandingRecord) -> Signal:
    steps, now = record.facts["steps"], ctx.traffic.by_node()
    before = record.facts["traffic_at_inject"]
    bad = {
        n: sum(now[n][kind] - before[n][kind] for kind in ("fail", "unknown"))
        for n in record.targets
    }
    said = [
        f"step {i + 1}: {unmoved({'leader_before': s['leader'], 'term_before': s['term']})}"
        for i, s in enumerate(steps)
        if not s["moved"]
    ]
    said += [f"no client of {n} saw an operation end badly" for n, k in bad.items() if not k]
    return Signal(
        signal="term (or who leads) before and after each step",
        before={f"{i + 1}: {s['node']}": s["term"] or s["leader"] for i, s in enumerate(steps)},
        during={
            f"{i + 1}: {s['node']}": s["new_term"] or s["new_leader"] for i, s in enumerate(steps)
        },
        moved=bool(steps) and not said,
        detail="; ".join(said)
        or f"{len(steps)} elections, {sum(bad.values())} operations of clients ended badly",
    )


NEMESIS = Rolling()
