"""Processes of a simulation that are killed, stand still, or lose their power.

Injector signal, of the hosts: processes that are gone, or stand and have callbacks due; of a power
cut the bytes that their files lack since. Victim signal: clients of the targets see operations end
badly, and none end well. Control signal: processes of other hosts are as they were.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from dstest.core.details import FaultDetails, ProcessDetails
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import FaultPlan, NemesisContext
from nemeses.base.process_evidence import BAD_OUTCOMES, QUIET_NS, all_ok
from nemeses.base.scopes import victims
from nemeses.base.simulated import SimulatedDriver, followed
from nemeses.base.steps import Choice, Facts, Healing, Observed, Proven, Reverted, Standing


class SimulatedProcesses(SimulatedDriver):
    """What they have in common."""

    async def choose(self, ctx: NemesisContext, plan: FaultPlan) -> Choice:
        names, facts = list(ctx.nodes), plan.facts
        lead = await self.lead(ctx, facts)
        try:
            chosen = victims(
                facts["scope"],
                names,
                random.Random(facts["seed"]),
                leader=lead.leader if lead else None,
                voting=names,
                targets=facts["targets"],
            )
        except ValueError as error:
            return Choice(why_not=str(error))
        lacking = [name for name in names if not self.world.hosts[name].up]
        why_not = f"no server runs on {', '.join(lacking)}" if lacking else ""
        starts = {name: self.world.hosts[name].starts for name in names}
        known = {**(lead.facts() if lead else {}), "starts_before": starts}
        return Choice(targets=chosen, facts=known, why_not=why_not)

    @abstractmethod
    def fate(self, record: LandingRecord) -> Signal:
        """What the targets' processes show."""

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        victim, facts = _clients(ctx, record)
        if self.for_leader(record.facts) and len(ctx.nodes) > len(record.targets):
            victim, moved = await followed(ctx, record, victim)
            facts = {**facts, **moved}
        return Observed(
            injector=self.fate(record), victim=victim, control=self._others(record), facts=facts
        )

    def _others(self, record: LandingRecord) -> Signal:
        before = record.facts["starts_before"]
        rest = [name for name in before if name not in record.targets]
        hosts = {name: self.world.hosts[name] for name in rest}
        now = {n: h.starts if h.up and not h.process.paused else 0 for n, h in hosts.items()}
        was = {name: before[name] for name in rest}
        hit = [name for name in rest if now[name] != was[name]]
        return Signal(
            signal="starts of the processes that run on other hosts",
            before=was,
            during=now,
            moved=bool(hit),
            detail=f"hit as well: {', '.join(hit)}" if hit else "untouched",
        )

    def stands(self, earlier: LandingRecord, record: LandingRecord) -> Standing:
        injector, victim = record.injector, record.victim
        doubts = []
        if injector is None or not injector.moved:
            doubts.append(f"the fault did not stand: {injector.detail if injector else 'no look'}")
        elif earlier.landed_at is not None and victim is not None and not victim.moved:
            doubts.append(victim.detail)
        return Standing(present=injector is not None and injector.moved, doubts=doubts)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> Reverted | None:
        for name in record.targets:
            self.world.start(name)
        return None

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """Their processes run, and their clients are answered."""
        hosts = {name: self.world.hosts[name] for name in record.targets}
        missing = [f"{name}: its server does not run" for name, h in hosts.items() if not h.up]
        missing += [f"{n}: its process still stands" for n, h in hosts.items() if _stands(h)]
        before, now = healing.counts_before, ctx.traffic.by_node()
        answered = {n: all_ok(now[n]) - all_ok(before[n]) for n in record.targets}
        missing += [f"clients of {n} are not answered yet" for n, k in answered.items() if not k]
        runs = {name: int(host.up) for name, host in hosts.items()}
        return Proven(missing, runs, {f"clients->{n}": k for n, k in answered.items()})


def _stands(host: Any) -> bool:
    return bool(host.up and host.process.paused)


def _clients(ctx: NemesisContext, record: LandingRecord) -> tuple[Signal, Facts]:
    """Operations of the targets' clients since the fault, and since when none ended well."""
    now_ns, traffic = ctx.clock.now_ns(), ctx.traffic.by_node()
    before = FaultDetails.of(record).traffic_at_inject
    known = ProcessDetails.of(record).counted
    counted, bad, problems = dict[str, list[int]](), dict[str, int](), list[str]()
    for name in record.targets:
        ok, then = traffic[name]["ok"], known.get(name)
        counted[name] = then if then is not None and then[0] == ok else [ok, now_ns]
        bad[name] = sum(traffic[name][kind] - before[name][kind] for kind in BAD_OUTCOMES)
        if not before[name]["ok"]:
            problems.append(f"{name} answered no client before")
        if not bad[name]:
            problems.append(f"no client of {name} saw an operation end badly yet")
        if now_ns - counted[name][1] < QUIET_NS:
            problems.append(f"clients of {name} were answered a moment ago")
    signal = Signal(
        signal="bad operations of clients since",
        before={f"clients->{name}": 0 for name in bad},
        during={f"clients->{name}": count for name, count in bad.items()},
        moved=bool(bad) and not problems,
        detail="; ".join(problems)
        or f"nobody gets an answer, {sum(bad.values())} operations of clients ended badly",
    )
    return signal, {"counted": counted, "quiet": counted}


class SimulatedKill(SimulatedProcesses):
    """Processes end at once; what they have written stays."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        self.kill(record.targets)

    def kill(self, names: Sequence[str]) -> None:
        """A test sabotages this."""
        for name in names:
            self.world.kill(name)

    def fate(self, record: LandingRecord) -> Signal:
        runs = {name: int(self.world.hosts[name].up) for name in record.targets}
        return gone(runs)


def gone(runs: Mapping[str, int]) -> Signal:
    """Injector: of each target, does its process run? None may."""
    alive = [name for name, one in runs.items() if one]
    return Signal(
        signal="processes that serve",
        before=dict.fromkeys(runs, 1),
        during=dict(runs),
        moved=bool(runs) and not alive,
        detail=f"still runs: {', '.join(alive)}" if alive else f"{len(runs)} processes are gone",
    )


class SimulatedPause(SimulatedProcesses):
    """Processes stand still, and go on."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            self.world.pause(name)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            self.world.resume(name)

    def fate(self, record: LandingRecord) -> Signal:
        hosts = {name: self.world.hosts[name] for name in record.targets}
        due = {n: len(h.process.held) if _stands(h) else 0 for n, h in hosts.items()}
        runs = [name for name, count in due.items() if not count]
        return Signal(
            signal="callbacks that were due and did not run",
            before=dict.fromkeys(due, 0),
            during=due,
            moved=bool(due) and not runs,
            detail=f"runs, or had nothing to do: {', '.join(runs)}"
            if runs
            else f"{sum(due.values())} callbacks were due on {', '.join(due)}",
        )


class SimulatedPower(SimulatedProcesses):
    """Processes end, and what they had not synced is gone. Syncs wait until each target has
    something that can be lost, as on nodes.

    What was lost is told by the files: they were looked at when the power went, and are read again
    at each look. `written` has those of the targets before, `others_changed` the other hosts whose
    files were others when the power had gone, with no time in between."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        await self.world.until_dirty(record.targets)
        before = {name: self.world.written(name) for name in ctx.nodes}
        for name in record.targets:
            self.world.lose_power(name, least=1)
        others = [name for name in ctx.nodes if name not in record.targets]
        return {
            "written": {name: before[name] for name in record.targets},
            "others_changed": [n for n in others if self.world.written(n) != before[n]],
        }

    def fate(self, record: LandingRecord) -> Signal:
        before, others = record.facts["written"], record.facts["others_changed"]
        lost = {name: self.world.lost_bytes(name, before[name]) for name in record.targets}
        torn = {name: self.world.damaged(name, before[name]) for name in record.targets}
        ended = gone({name: int(self.world.hosts[name].up) for name in record.targets})
        problems = [
            *(f"{name}: nothing was lost" for name, count in lost.items() if not count),
            *(
                f"{n}: what was synced does not stand in {', '.join(t)}"
                for n, t in torn.items()
                if t
            ),
            *(f"{name}: files changed as well" for name in others),
            *([] if ended.moved else [ended.detail]),
        ]
        return Signal(
            signal="bytes that were not synced and are lost",
            before=dict.fromkeys(lost, 0),
            during=lost,
            moved=ended.moved and not problems,
            detail="; ".join(problems) or f"{sum(lost.values())} bytes lost; {ended.detail}",
        )
