"""The common course of a fault of server processes: choose, prove, look again, heal, prove again.

`kill`, `stop` and `pause` say how a process is struck, how that shows on its node, and how it is
brought back. A lease that undoes the fault is armed on each target before anything is struck.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from dstest.core import limits
from dstest.core.errors import LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    FaultPlan,
    Leadership,
    NemesisContext,
    Option,
    Process,
    Processes,
    When,
)
from nemeses.base.cluster import begun, drop_stale_leases, nodes_of
from nemeses.base.leadership import lead_when_known
from nemeses.base.process_evidence import demote, gather, landed
from nemeses.base.process_heal import Proven, leaks, whole
from nemeses.base.schedule import WINDOW_OPTIONS, drawable, given_targets, planned
from nemeses.base.scopes import SCOPES, fitting, victims
from nemeses.observe.answers import ask_all, ways
from nemeses.observe.processes import (
    Sight,
    listeners,
    mains,
    ports_of,
    running,
    struck,
)

__all__ = ["SERVICE_OPTION", "ProcessFault", "Proven", "served_before"]

POLL_S: Final = 0.1
LANDING_SLACK_S: Final = 5.0
"""On top of the time after which a client gives up on an operation."""

BASELINE_S: Final = 2.0

SERVICE_OPTION: Final[Mapping[str, Option]] = {
    "service": Option(
        type=str,
        default="",
        names_service=True,
        help="strike this service of the members alone; all of them where none is named",
    )
}

Looks = Mapping[str, tuple[Sight, Sight]]
Facts = Mapping[str, Any]


def served_before(record: LandingRecord, name: str) -> list[str]:
    """What speaks against the struck processes having been those that served."""
    own = {p.pid for p in struck(record.facts, name)}
    heard = record.facts["listening_before"][name]
    if heard and {*heard} <= own:
        return []
    return [f"{name}: process {record.facts['pids'][name][0]} was not the one that served"]


class ProcessFault:
    """Base of the process nemeses. `outcome` is what becomes of a target: gone or stopped."""

    name: str
    doc: str
    faults: tuple[str, ...]
    requires: tuple[type, ...] = (Processes,)
    requires_when: tuple[When, ...] = (When("scope", "primaries", (Leadership,)),)
    outcome: ClassVar[str] = "gone"
    explains: frozenset[str] = frozenset()
    """Kinds of alarms that its targets may give while it stands: ends of processes are `exit`."""

    options: Mapping[str, Option] = {
        "scope": Option(
            type=str,
            default="random",
            choices=("random", *SCOPES),
            help="whose processes: one node's, a minority's, a majority's, all, the leader's",
        ),
        **WINDOW_OPTIONS,
    }

    async def strike(self, ctx: NemesisContext, names: Sequence[str], service: str = "") -> None:
        """Do it to the servers of these nodes."""
        raise NotImplementedError

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts | None:
        """Do what the record asks for to its targets; what the record shall say of it besides."""
        await self.strike(ctx, record.targets, record.facts.get("service", ""))
        return None

    async def undo(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        """Bring them back."""
        raise NotImplementedError

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> Facts | None:
        """Undo what the record did to its targets; what the record shall say of it besides."""
        await self.undo(ctx, record.targets)
        return None

    def heal_command(self, ctx: NemesisContext, record: LandingRecord, name: str) -> list[str]:
        """What the node's janitor runs where we are gone."""
        raise NotImplementedError

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        """The lease's commands, one after the other; a janitor gives each of them ten seconds."""
        return [self.heal_command(ctx, record, name)]

    def injector(self, record: LandingRecord, looks: Looks) -> Signal:
        """How it shows on the targets' own nodes."""
        raise NotImplementedError

    def patience_s(self, record: LandingRecord) -> float:
        """How long this fault may take to show, where that is longer than usual."""
        return 0.0

    def healed(
        self, record: LandingRecord, name: str, now: Sequence[Process], sight: Sight
    ) -> str | None:
        """What is wrong with a target's processes after the heal, None where nothing is.

        `sight` is a look at those that run `now`; there is at least one.
        """
        return None if sight.serves else f"processes {_pids(now)} do not serve"

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """Fault windows over the run; scopes in a shuffled order, so that all come in turn."""
        scopes: list[str] = []
        given, service = given_targets(options), options.get("service", "")
        chosen = {"service": service} if service else {}

        def draw() -> dict[str, Any]:
            if not scopes:
                scopes.extend(drawable(self.requires_when, "scope", fitting(len(nodes)), options))
                rng.shuffle(scopes)
            drawn = scopes.pop()
            scope = drawn if options["scope"] == "random" else options["scope"]
            named = "given" if given else scope
            return {"scope": named, "seed": rng.getrandbits(32), **chosen}

        return planned(self.name, time_limit_s, options, draw)

    async def setup(self, ctx: NemesisContext) -> None:
        """Drop what a dead run left."""
        await asyncio.gather(*map(drop_stale_leases, nodes_of(ctx)))

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        """Strike, then wait until both sides show it or the deadline passes."""
        record = begun(ctx, self.name, plan)
        if record.notes:
            return record
        scope, seed = plan.facts["scope"], plan.facts["seed"]
        lead = await lead_when_known(ctx, wanted=scope == "primaries", seed=seed)
        try:
            chosen = victims(
                scope,
                list(ctx.nodes),
                random.Random(seed),
                leader=lead.leader,
                targets=plan.facts["targets"],
            )
        except ValueError as error:
            return msgspec.structs.replace(record, notes=[f"nothing was injected: {error}"])
        found = await running(ctx, plan.facts.get("service", ""))
        facts = {
            **record.facts,
            **lead.facts(),
            "pids": mains(found),
            "processes": msgspec.to_builtins(found),
        }
        record = msgspec.structs.replace(record, targets=chosen, facts=facts)
        lacking = [n for n in ctx.nodes if n not in facts["pids"]]
        if lacking:
            note = f"nothing was injected: no server runs on {', '.join(lacking)}"
            return msgspec.structs.replace(record, notes=[note])
        return await self._strike(ctx, await self._before(ctx, record))

    async def _before(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """The record with what the servers show before: who listens, who answers."""
        names, service = list(ctx.nodes), record.facts.get("service", "")
        asked = await ask_all(ctx, ways(names, record.targets), service=service, patient=names)
        heard = await asyncio.gather(
            *(listeners(ctx.node(n), ports_of(ctx, n, service)) for n in record.targets)
        )
        facts = {
            **record.facts,
            "asked_before": asked,
            "listening_before": {
                n: sorted(pids) for n, pids in zip(record.targets, heard, strict=True)
            },
        }
        return msgspec.structs.replace(record, facts=facts)

    async def arm(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Let each target heal by itself where we are gone."""

        async def one(name: str) -> None:
            commands = self.heal_commands(ctx, record, name)
            await ctx.node(name).arm_lease(record.fault_id, commands, ttl_s=limits.LEASE_TTL_S)

        await asyncio.gather(*map(one, record.targets))

    async def disarm(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Call that off: the targets were healed."""
        await asyncio.gather(*(ctx.node(n).release_lease(record.fault_id) for n in record.targets))

    async def _strike(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        await self.arm(ctx, record)
        facts = {**record.facts, "traffic_at_inject": ctx.traffic.by_node()}
        record = await ctx.epochs.open(msgspec.structs.replace(record, facts=facts))
        notes: list[str] = []
        said: Facts | None = None
        try:
            said = await self.apply(ctx, record)
        except LabError as error:
            notes.append(f"striking failed: {error.message}")
        applied_ms = round((ctx.clock.now_ns() - (record.injected_at or 0)) / 1e6, 2)
        facts = {**record.facts, **(said or {}), "requested_to_applied_ms": applied_ms}
        record = msgspec.structs.replace(record, facts=facts, notes=notes)
        return await self._await_landing(ctx, record)

    async def _look(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        record, looks, victim, control = await gather(ctx, record, self.outcome)
        injector = self.injector(record, looks)
        return msgspec.structs.replace(
            record,
            injector=injector,
            victim=victim,
            control=control,
            landed=landed(record, injector, victim, control),
        )

    async def _await_landing(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        patience_s = float(ctx.options.get("op_timeout_s", 2.0)) + LANDING_SLACK_S
        if record.facts["scope"] == "primaries":
            patience_s = max(patience_s, ctx.deployment.timing.failover_s)
        patience_s = max(patience_s, self.patience_s(record))
        deadline_ns = ctx.clock.now_ns() + int(patience_s * 1e9)
        while True:
            record = await self._look(ctx, record)
            now_ns = ctx.clock.now_ns()
            if record.landed == "yes":
                return msgspec.structs.replace(record, landed_at=now_ns)
            if now_ns > deadline_ns:
                return record
            await asyncio.sleep(POLL_S)

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Are the targets still as they were struck, and do they still answer nobody?"""
        if record.injected_at is None:
            return record
        answered = {n: row[0] for n, row in record.facts.get("quiet", {}).items()}
        stood = record.landed_at is not None
        record = await self._look(ctx, record)
        present = record.injector is not None and record.injector.moved
        now_ns = ctx.clock.now_ns()
        looks = [*record.facts["rechecks"], {"at_ns": now_ns, "present": present}]
        record = msgspec.structs.replace(record, facts={**record.facts, "rechecks": looks})
        if not present:
            detail = record.injector.detail if record.injector else "no look could be taken"
            return demote(record, f"the fault did not stand: {detail}")
        quiet = record.facts.get("quiet", {})
        late = [n for n, ok in answered.items() if stood and quiet[n][0] != ok]
        if late:
            return demote(record, f"clients of {', '.join(late)} were answered inside the window")
        if record.landed == "yes" and record.landed_at is None:
            return msgspec.structs.replace(record, landed_at=now_ns)
        return record

    async def heal(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Bring the processes back; show that they serve, and as members of one cluster."""
        if record.injected_at is None:
            return msgspec.structs.replace(record, heal_verified=True)
        record = msgspec.structs.replace(record, heal_start=ctx.clock.now_ns())
        before = ctx.traffic.by_node()
        notes = list(record.notes)
        said: Facts | None = None
        try:
            async with asyncio.timeout(ctx.deployment.timing.restart_s):
                said = await self.revert(ctx, record)
        except TimeoutError:
            notes.append(f"not healed within {ctx.deployment.timing.restart_s:g} s")
        except LabError as error:
            notes.append(f"healing failed: {error.message}")
        record = msgspec.structs.replace(record, facts={**record.facts, **(said or {})})
        proven = await self._await_whole(ctx, record, before)
        await self.disarm(ctx, record)
        record = await ctx.epochs.close(record)
        injector, victim = record.injector, record.victim
        if injector is not None and victim is not None:
            injector = msgspec.structs.replace(injector, after=proven.injector)
            victim = msgspec.structs.replace(victim, after=dict(proven.victim))
        notes += [f"after the heal: {text}" for text in proven.missing]
        return msgspec.structs.replace(
            record,
            injector=injector,
            victim=victim,
            heal_verified=not proven.missing,
            facts={**record.facts, "traffic_at_heal": ctx.traffic.by_node()},
            notes=notes,
        )

    async def _await_whole(
        self, ctx: NemesisContext, record: LandingRecord, before: Mapping[str, Any]
    ) -> Proven:
        deadline_ns = ctx.clock.now_ns() + int(ctx.deployment.timing.rejoin_s * 1e9)
        while True:
            proven = await self._whole(ctx, record, before)
            if not proven.missing or ctx.clock.now_ns() > deadline_ns:
                return proven
            await asyncio.sleep(POLL_S)

    async def _whole(
        self, ctx: NemesisContext, record: LandingRecord, before: Mapping[str, Any]
    ) -> Proven:
        """What is missing for a proven heal; `before` are the counts of the load before it."""
        return await whole(ctx, record, before, self.healed)

    async def teardown(self, ctx: NemesisContext) -> None:
        """Nothing of ours stays on a node: a fault that stands is healed by `heal`."""

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """What else of ours may still be on the node or in its server processes."""
        return []

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """Servers that do not run, are stopped or frozen, and leases that stand."""
        return await leaks(ctx, self.extra_leaks)


def _pids(processes: Sequence[Process]) -> str:
    return ", ".join(str(p.pid) for p in processes)
