"""`rolling`: restarts leader after leader, against the order that an operator would choose.

One fault is three steps, spread over its window: the member that leads is killed and started again
at once, then the others must have moved to a new term. Injector signal: at each step the process
that led is gone and another one serves in its place. Victim signal: a new term at each step, and
clients that saw operations end badly. Control: the processes of the other members are those that
they were. It has healed when all members serve and agree on one leader.

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
    Probed,
    Processes,
)
from nemeses.base.cluster import ELECTION_DEADLINE_S, begun, leader_and_term, leader_now
from nemeses.base.process_evidence import demote, landed
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.observe.processes import Sight, listeners
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
        return (await leader_now(ctx, wanted=True))[0]

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        """The first step."""
        pids = {n: list(p) for n, p in (await ctx.need(Processes).processes()).items()}
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
        port = ctx.need(Probed).service_port
        before = (await ctx.need(Processes).processes()).get(name, (0, 0))
        _, term = await leader_and_term(ctx)
        heard = sorted(await listeners(ctx.node(name), port))
        notes = list(record.notes)
        try:
            await self.strike(ctx, [name])
            gone = not (await ctx.node(name).call("procinfo", pid=before[0]))["alive"]
            new_term = await self._new_term(ctx, term)
            await self.undo(ctx, [name])
        except LabError as error:
            notes.append(f"{name}: {error.message}")
            gone, new_term = False, term
        after = (await ctx.need(Processes).processes()).get(name, (0, 0))
        step = {
            "node": name,
            "pid": before[0],
            "served": heard == [before[0]],
            "gone": gone,
            "new_pid": after[0],
            "term": term,
            "new_term": new_term,
        }
        facts = {**record.facts, "steps": [*record.facts["steps"], step]}
        record = msgspec.structs.replace(record, facts=facts, notes=notes)
        return await self._judge(ctx, record)

    async def _new_term(self, ctx: NemesisContext, term: int) -> int:
        deadline_ns = ctx.clock.now_ns() + int(ELECTION_DEADLINE_S * 1e9)
        while True:
            leader, now = await leader_and_term(ctx)
            if (leader is not None and now > term) or ctx.clock.now_ns() > deadline_ns:
                return now
            await asyncio.sleep(POLL_S)

    async def _judge(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        steps: list[dict[str, Any]] = record.facts["steps"]
        pids = await ctx.need(Processes).processes()
        injector, victim = _injector(steps), _victim(ctx, record)
        others = [n for n in ctx.nodes if n not in record.targets]
        changed = [n for n in others if list(pids.get(n, ())) != record.facts["pids"][n]]
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

    def healed(self, record: LandingRecord, name: str, pid: int, sight: Sight | None) -> str | None:
        if sight is None or not sight.alive:
            return "its server does not run"
        return None if sight.listener == pid else f"process {pid} does not serve"


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
        f"step {i + 1}: no new term after {s['term']}"
        for i, s in enumerate(steps)
        if s["new_term"] <= s["term"]
    ]
    said += [f"no client of {n} saw an operation end badly" for n, k in bad.items() if not k]
    return Signal(
        signal="term before and after each step",
        before={f"{i + 1}: {s['node']}": s["term"] for i, s in enumerate(steps)},
        during={f"{i + 1}: {s['node']}": s["new_term"] for i, s in enumerate(steps)},
        moved=bool(steps) and not said,
        detail="; ".join(said)
        or f"{len(steps)} elections, {sum(bad.values())} operations of clients ended badly",
    )


NEMESIS = Rolling()
