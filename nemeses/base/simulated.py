"""Faults on simulated hosts: what a simulation shows of them, as records of the same steps.

A nemesis that can be simulated says `simulated = Simulated(...)`. It plans its faults itself; what
makes them there is a `SimulatedDriver`, which goes the way of any fault (`driver.py`) and asks the
world (`dstest.sim.world.World`) where others ask nodes. There is nobody who could die behind us, so
no lease is armed.

Links of a simulation that let nothing through.

Injector signal: messages that were held up on each link that was cut, by the count of the network.
Victim signal: messages that arrived on it, which must stand still from the cut on. Control signal:
messages held up on links that were not to be cut. A link is used where a message has arrived on it
in the second before.

Processes of a simulation that are killed, stand still, or lose their power.

Injector signal, of the hosts: processes that are gone, or stand and have callbacks due; of a power
cut the bytes that their files lack since. Victim signal: clients of the targets see operations end
badly, and none end well. Control signal: processes of other hosts are as they were.
"""

from __future__ import annotations

import asyncio
import random
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from dstest.core.evidence import (
    FaultDetails,
    Landed,
    LandingRecord,
    LeadDetails,
    PathDetails,
    ProcessDetails,
    Signal,
)
from dstest.core.node import CLIENTS_HOST, Node
from dstest.core.protocols import FaultPlan, Leadership, Nemesis, NemesisContext, When
from nemeses.base.driver import (
    Choice,
    Driver,
    Facts,
    Healing,
    Observed,
    Overlap,
    Proven,
    Reverted,
    Standing,
)
from nemeses.base.leadership import Lead, lead_when_known, new_lead, no_failover
from nemeses.base.path_fault import cuts_of
from nemeses.base.paths import Path, landed_on_used_paths, path_name, path_of, used_paths
from nemeses.base.process_evidence import BAD_OUTCOMES, QUIET_NS, all_ok
from nemeses.base.process_fault import victims

LANDING_S: Final = 5.0
"""Besides the time after which clients give up."""

REJOIN_S: Final = 15.0


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """`dstest.core.protocols.SimulatedFaults` of a nemesis: by which driver, which of its options
    mean the same, which are `fixed` for its plan, and which values of planned facts are `only`
    possible. `requires` are capabilities that all of its faults ask of the simulated system,
    `requires_when` those that some do."""

    driver: Callable[[Nemesis, Any], Nemesis]
    options: frozenset[str]
    fixed: Mapping[str, Any] = {}
    only: Mapping[str, tuple[Any, ...]] = {}
    requires: tuple[type, ...] = ()
    requires_when: tuple[When, ...] = (
        When("shape", "leader", (Leadership,)),
        When("scope", "primaries", (Leadership,)),
    )

    def problem(self, facts: Mapping[str, Any]) -> str | None:
        """Which fact cannot be simulated."""
        wrong = [k for k, values in self.only.items() if k in facts and facts[k] not in values]
        return f"{wrong[0]}={facts[wrong[0]]}" if wrong else None

    def made(self, nemesis: Nemesis, world: Any) -> Nemesis:
        """What makes the faults of this nemesis in a world."""
        return self.driver(nemesis, world)


class SimulatedDriver(Driver):
    """Base of them. `world` is asked for what a nemesis of nodes asks these for."""

    tolerated: ClassVar[tuple[type[Exception], ...]] = (TimeoutError,)
    missing_prefix = "after the heal: "

    def __init__(self, of: Any, world: Any) -> None:
        self._of = of
        self.name = of.name
        self.doc = of.doc
        self.faults = of.faults
        self.options = of.options
        self.world = world

    @property
    def overlap(self) -> Overlap:  # type: ignore[override]
        """As on nodes."""
        overlap: Overlap = self._of.overlap
        return overlap

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """As the nemesis itself."""
        plans: list[FaultPlan] = self._of.plan(rng, nodes, time_limit_s, options)
        return plans

    def for_leader(self, facts: Mapping[str, Any]) -> bool:
        """Is a fault that is planned so for whoever leads?"""
        return facts.get("shape") == "leader" or facts.get("scope") == "primaries"

    async def lead(self, ctx: NemesisContext, facts: Mapping[str, Any]) -> Lead | None:
        """Who leads, for a fault that is for the leader. No other one asks: a question is a
        message, and what a seed has shown without it would be another simulation with it."""
        if not self.for_leader(facts):
            return None
        return await lead_when_known(ctx, seed=facts["seed"])

    async def clear(self, nodes: Sequence[Node]) -> None:
        """There is nothing of a dead run."""

    def lease_nodes(self, record: LandingRecord) -> list[str]:
        return []

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return []

    def usual_patience_s(self, ctx: NemesisContext, record: LandingRecord) -> float:
        clients_s = float(ctx.options.get("op_timeout_s", 2.0)) + LANDING_S
        led = self.for_leader(record.facts)
        return max(clients_s, ctx.deployment.timing.failover_s if led else 0.0)

    def heal_within_s(self, ctx: NemesisContext) -> float:
        return max(REJOIN_S, ctx.deployment.timing.rejoin_s)

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """By host."""
        return {name: self.world.standing(name) for name in ctx.nodes}


async def victim_of_leader(
    ctx: NemesisContext, record: LandingRecord, victim: Signal
) -> tuple[Signal, Facts]:
    """The victim signal of a fault that is for the leader: those whom it left alone must follow
    another one, or the same in a newer term. With what the record says of that."""
    lead = LeadDetails.of(record)
    if lead.moved:
        return victim, {}
    facts = await new_lead(ctx, lead, record.targets)
    if facts:
        return victim, facts
    detail = f"{victim.detail}; {no_failover(lead)}"
    return msgspec.structs.replace(victim, moved=False, detail=detail), {}


BEFORE_S: Final = 1.0
STILL_S: Final = 0.15


class SimulatedCut(SimulatedDriver):
    """The nemesis of simulated links."""

    async def choose(self, ctx: NemesisContext, plan: FaultPlan) -> Choice:
        lead = await self.lead(ctx, plan.facts)
        try:
            cut = cuts_of(plan, list(ctx.nodes), lead.leader if lead else None)
        except ValueError as error:
            return Choice(why_not=str(error))
        cuts = [path_name(path) for path in cut.cuts]
        known = lead.facts() if lead else {}
        return Choice(targets=cut.targets, facts={**known, "cuts": cuts})

    async def baseline(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """Which links are in use."""
        names = list(ctx.nodes)
        every = [(a, b) for a in names for b in names if a != b]
        before = self._carried(every)
        await asyncio.sleep(BEFORE_S)
        now = self._carried(every)
        seen = {path: now[path] - before[path] for path in now}
        cuts = PathDetails.of(record).cuts or []
        return {
            "baseline_packets": {path: seen[path] for path in cuts},
            "links": [path for path, count in seen.items() if count],
            "idle_paths": [path for path in cuts if not seen[path]],
            "affected": sorted({path_of(path)[1] for path in cuts}),
        }

    def _carried(self, paths: Sequence[Path]) -> dict[str, int]:
        return {path_name(path): self.world.net.carried[path] for path in paths}

    def _held(self) -> dict[str, int]:
        return {path_name(path): count for path, count in sorted(self.world.net.dropped.items())}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        links = links_of(record)
        facts = {"held_before": self._held(), "carried_before": self._carried(links)}
        self.cut(links)
        return facts

    def cut(self, links: Sequence[Path]) -> None:
        """A test sabotages this."""
        self.world.cut(links)

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        links = [path_name(path) for path in links_of(record)]
        held = _since(self._held(), record.facts["held_before"])
        arrived = _since(self._carried(links_of(record)), record.facts["carried_before"])
        before = PathDetails.of(record).baseline_packets or {}
        victim = _victim(before, {path: arrived[path] for path in before})
        facts: Facts = {}
        if self.for_leader(record.facts):
            victim, facts = await victim_of_leader(ctx, record, victim)
        return Observed(
            injector=_injector(record, {path: held.get(path, 0) for path in links}),
            victim=victim,
            control=_control({p: n for p, n in held.items() if p not in links}),
            facts=facts,
        )

    def landed(self, record: LandingRecord) -> Landed:
        return landed_on_used_paths(record)

    def stands(self, earlier: LandingRecord, record: LandingRecord) -> Standing:
        gone = [path_name(p) for p in links_of(record) if p not in self.world.net.cut]
        doubts = [f"messages pass on {', '.join(gone)} inside the window"] if gone else []
        return Standing(present=not gone, doubts=doubts)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> Reverted:
        links = links_of(record)
        self.world.mend(links)
        first = self._held()
        await asyncio.sleep(STILL_S)
        left = [path_name(path) for path in links if path in self.world.net.cut]
        return Reverted(first=first, second=self._held(), residue=[f"{p}: still cut" for p in left])

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """Nothing is held up there any more, and messages arrive where they did before."""
        first, second = healing.reverted.first, healing.reverted.second
        links = [path_name(path) for path in links_of(record)]
        moved = [path for path in links if first.get(path, 0) != second.get(path, 0)]
        missing = [f"messages are still held up on {', '.join(moved)}"] if moved else []
        now = self._carried(links_of(record))
        arrived = _since(now, record.facts["carried_before"])
        if not any(arrived[path] for path in used_paths(record)):
            missing.append("no message has arrived yet on a link that was cut")
        return Proven(
            missing,
            {path: [first.get(path, 0), second.get(path, 0)] for path in links},
            {path: arrived[path] for path in PathDetails.of(record).baseline_packets or {}},
        )


def links_of(record: LandingRecord) -> list[Path]:
    """All links that a record's fault cuts, those of clients included."""
    paths = PathDetails.of(record)
    found = [path_of(name) for name in paths.cuts or ()]
    for name in record.targets if paths.clients else ():
        found += [(CLIENTS_HOST, name), (name, CLIENTS_HOST)]
    return found


def _since(now: Mapping[str, int], before: Mapping[str, Any]) -> dict[str, int]:
    return {path: count - before.get(path, 0) for path, count in now.items()}


def _injector(record: LandingRecord, held: Mapping[str, int]) -> Signal:
    used = used_paths(record)
    silent = [path for path in used if not held[path]]
    told = f"no message yet on {', '.join(silent)}" if silent else f"all {len(used)} used ones held"
    return Signal(
        signal="messages held up per link",
        before=dict.fromkeys(held, 0),
        during=dict(held),
        moved=bool(used) and not silent,
        detail=f"{sum(held.values())} messages held up on {len(held)} links ({told})",
    )


def _victim(before: Mapping[str, int], arrived: Mapping[str, int]) -> Signal:
    passing = [path for path, count in arrived.items() if count]
    return Signal(
        signal="messages that arrived per link, in the second before and since",
        before=dict(before),
        during=dict(arrived),
        moved=bool(arrived) and not passing,
        detail=f"messages pass on {', '.join(passing)}"
        if passing
        else "no message arrives on any link that was cut",
    )


def _control(held: Mapping[str, int]) -> Signal:
    hit = [path for path, count in held.items() if count]
    return Signal(
        signal="messages held up on links that were not to be cut",
        before=dict.fromkeys(held, 0),
        during=dict(held),
        moved=bool(hit),
        detail=f"hit as well: {', '.join(hit)}" if hit else "untouched",
    )


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
            victim, moved = await victim_of_leader(ctx, record, victim)
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
        return absence(runs)


def absence(runs: Mapping[str, int]) -> Signal:
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
        ended = absence({name: int(self.world.hosts[name].up) for name in record.targets})
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
