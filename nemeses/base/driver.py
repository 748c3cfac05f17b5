"""How every fault is driven: choose, arm, apply, observe, look again, revert, prove the heal.

`Driver` alone knows the order: a lease that undoes the fault is armed on each node before anything
is done to it, the epoch is opened before the fault is applied, and the lease is released only when
the heal has been proven or its time is up. It asks public steps in that order. A family
(`ProcessFault`, `PathFault`, `MemberFault`; `NodeFault` for files of users' own) gives the steps
that its nemeses have in common, a nemesis its own; a step that does not apply stays as it is here.
No step calls the one that it replaces: what two have in common is a function.

Steps get a record and return facts, which the driver puts into the next record.

Two faults overlap only where each can still be proven: a rule that drops packets needs a living
sender, a killed server needs nobody else to restart it. So faults are in lanes, at most one of a
lane stands, and what is not in a lane stands alone: faults that reach into the system compare its
members, faults of the disk wait for writes, and both take for granted that the others are whole.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from dstest.core import limits
from dstest.core.errors import DstestError, LabError
from dstest.core.evidence import FaultDetails, Landed, LandingRecord, Signal, TaxDC
from dstest.core.node import Node
from dstest.core.protocols import FaultPlan, Nemesis, NemesisContext, Option, When
from dstest.core.residue import GUARD_LEASES, Residue
from nemeses.base import moment
from nemeses.base.schedule import WINDOW_OPTIONS


def nodes_of(ctx: NemesisContext) -> list[Node]:
    """All nodes of the cluster."""
    return [ctx.node(name) for name in ctx.nodes]


def new_record(ctx: NemesisContext, nemesis: str, plan: FaultPlan) -> LandingRecord:
    """The record of a fault that begins; with a note where it names nodes that are not there."""
    strangers = [t for t in plan.facts["targets"] if t not in ctx.nodes]
    note = f"not in the cluster: {', '.join(strangers)}; nothing was injected"
    return LandingRecord(
        fault_id=plan.fault_id,
        nemesis=nemesis,
        targets=list(plan.facts["targets"]),
        scheduled_at=plan.start_ns,
        epoch=plan.fault_id,
        facts={**plan.facts, "rechecks": []},
        notes=[note] if strangers else [],
    )


async def drop_stale_leases(node: Node) -> None:
    """A dead run's lease would heal a fault of ours when it runs out."""
    standing = await node.call("lease_list")
    for lease_id in [*standing["armed"], *standing["firing"]]:
        if lease_id in GUARD_LEASES:
            continue
        await node.call("lease_release", id=lease_id, timeout_s=40.0)


async def standing_leases(node: Node) -> list[str]:
    """Leaks: `lease ID` for each one that is armed or firing, or why nobody could tell."""
    try:
        leases = await node.call("lease_list")
    except DstestError as error:
        return [f"cannot be audited: {error.message}"]
    standing = [*leases["armed"], *leases["firing"]]
    return [f"lease {lease}" for lease in standing if lease not in GUARD_LEASES]


async def audit_each(
    ctx: NemesisContext, check: Callable[[Node], Awaitable[Sequence[str]]]
) -> dict[str, list[str]]:
    """Per node what `check` finds there, and leases; or why nobody could look."""

    async def one(node: Node) -> list[str]:
        try:
            found = await check(node)
        except DstestError as error:
            return [f"cannot be audited: {error.message}"]
        return [*found, *await standing_leases(node)]

    rows = await asyncio.gather(*map(one, nodes_of(ctx)))
    return dict(zip(ctx.nodes, rows, strict=True))


Facts = Mapping[str, Any]
Counts = Mapping[str, Mapping[str, int]]
"""Operations of clients by node and outcome."""


def with_facts(record: LandingRecord, facts: Facts) -> LandingRecord:
    """The record that says this besides."""
    return msgspec.structs.replace(record, facts={**record.facts, **facts})


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a fault is about, and what the record says of that; or why nothing is injected.

    Without `targets` they are those of the plan.
    """

    targets: list[str] | None = None
    facts: Facts = {}
    why_not: str = ""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """The three signals as they are now, and what the record says besides."""

    injector: Signal
    victim: Signal
    control: Signal
    facts: Facts = {}


def with_signals(record: LandingRecord, seen: Observed) -> LandingRecord:
    """The record with the signals as they were observed, and what they say besides; that of the
    injector with the moment at which the fault began, where it waited for one."""
    injector = seen.injector
    if FaultDetails.of(record).moment:
        parts = (injector.detail, moment.sentence(FaultDetails.of(record).moment))
        injector = msgspec.structs.replace(injector, detail="; ".join(filter(None, parts)))
    return msgspec.structs.replace(
        with_facts(record, seen.facts),
        injector=injector,
        victim=seen.victim,
        control=seen.control,
    )


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Does a fault still stand? `doubts` are reasons why it has not stood for its whole window."""

    present: bool = True
    doubts: Sequence[str] = ()
    facts: Facts = {}


class Reverted(msgspec.Struct, frozen=True, kw_only=True):
    """What taking a fault away has shown. `facts` are for the record, the rest for the proof.

    `first` and `second` are counters right afterwards and a moment later; `residue` is what is
    still on a node.
    """

    facts: Facts = {}
    first: Mapping[str, int] = {}
    second: Mapping[str, int] = {}
    residue: Sequence[str] = ()


class Healing(msgspec.Struct, frozen=True, kw_only=True):
    """What the proof of a heal compares with: counts of the load just before the fault was taken
    away and right after, and what taking it away has shown."""

    counts_before: Counts
    counts_after: Counts
    reverted: Reverted


class Proven(msgspec.Struct, frozen=True):
    """What is still missing for a proven heal (nothing: proven), the figures afterwards, what is
    still on a node, and facts for the record."""

    missing: Sequence[str]
    injector: Mapping[str, Any] = {}
    victim: Mapping[str, Any] = {}
    residue: Sequence[str] = ()
    facts: Facts = {}


class ApplyFailed(Exception):
    """Applying a fault failed, in part or whole: what the record is to say of it."""

    def __init__(self, notes: Sequence[str], facts: Facts | None = None) -> None:
        self.notes, self.facts = notes, facts or {}


def landing(record: LandingRecord) -> Landed:
    """`yes` needs both sides and untouched others; a fault that ended early stays in doubt."""
    injector = record.injector is not None and record.injector.shown
    victim = record.victim is not None and record.victim.shown
    control = record.control is not None and record.control.moved
    if not injector and not victim:
        return "no"
    whole = injector and victim and not control
    return "yes" if whole and not FaultDetails.of(record).ended_early else "ambiguous"


def only_others_hit(record: LandingRecord) -> bool:
    """Both sides show the fault, and somebody else seems to be hit as well.

    Asked once more before that is believed: one late datagram on a busy host hits nobody.
    """
    signals = (record.injector, record.victim)
    both = all(signal is not None and signal.shown for signal in signals)
    return both and record.control is not None and record.control.moved


def demote(record: LandingRecord, why: str) -> LandingRecord:
    """The fault did not stand for its whole window: never `yes` from here on."""
    was = record.landed == "yes" or record.landed_at is not None
    notes = record.notes if why in record.notes else [*record.notes, why]
    return msgspec.structs.replace(
        with_facts(record, {"ended_early": True}),
        landed="ambiguous" if was else record.landed,
        notes=notes,
    )


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """How a nemesis gets on with others in one run.

    `lane`: at most one of a lane stands; empty for a fault that stands alone. Faults due together
    are injected by `inject_order` and healed by `heal_order`, lower ones first.
    `may_lose_leader`: there may be no leader under it, so that a fault that is for the leader
    cannot follow.
    """

    lane: str = ""
    inject_order: int = 0
    heal_order: int = 0
    may_lose_leader: bool = False


SHOWS_IN_ITS_OWN_TRAFFIC: Final = Overlap(lane="node", inject_order=0, heal_order=1)
"""Of faults that slow a server down or change its clock: what it goes on doing proves them."""

NEEDS_TRAFFIC: Final = Overlap(lane="network", inject_order=1)
"""Of faults that need traffic on every path that they touch."""

ENDS_TRAFFIC: Final = Overlap(lane="node", inject_order=2, heal_order=1)
"""Of faults that end the traffic of their targets. A server that comes back needs its peers, so the
network is healed before it."""

POLL_S: Final = 0.1
LOOK_S_MAX: Final = 60.0
"""For one look at a fault, or at its heal: a step that does not come back shows nothing."""


class Driver(Nemesis, ABC):
    """Base of all nemeses. A run works with a copy of its own."""

    name: str
    doc: str
    faults: tuple[str, ...] = ()
    requires: tuple[type, ...] = ()
    requires_when: tuple[When, ...] = ()
    options: Mapping[str, Option] = WINDOW_OPTIONS
    residues: tuple[Residue, ...] = ()
    explains: frozenset[str] = frozenset()
    """Kinds of alarms that its targets may give while it stands: ends of processes are `exit`."""

    taxdc: TaxDC = ""
    taxdc_tags: frozenset[str] = frozenset()
    disturbs_host: frozenset[str] = frozenset()
    """What a violation under its faults shows, and what they do to a host that nodes share."""

    overlap: ClassVar[Overlap] = Overlap()
    observations: ClassVar[int] = 1
    """So often a fault that stood is observed before one observation is taken for its end."""

    settle_s: ClassVar[float] = 0.0
    """How long after it was applied a fault is first observed."""

    tolerated: ClassVar[tuple[type[Exception], ...]] = ()
    """Errors of `revert` that leave the verdict to the proof of the heal."""

    missing_prefix: ClassVar[str] = ""
    """Before each reason in the notes why a heal is not proven."""

    # Steps before a run and after it.

    async def clear(self, nodes: Sequence[Node]) -> None:
        """Take away what there may be of such a fault on these nodes."""
        return

    async def instrument(self, ctx: NemesisContext) -> None:
        """Lay what the fault is measured with."""
        return

    async def remove_instruments(self, ctx: NemesisContext) -> None:
        """Take that away."""
        return

    async def ready(self, ctx: NemesisContext) -> None:
        """Put on the nodes what the fault needs there; FaultRefused where that cannot work."""
        return

    # Steps of an injection, in their order.

    @abstractmethod
    async def choose(self, ctx: NemesisContext, plan: FaultPlan) -> Choice:
        """Whom the fault is about, as things are now."""

    async def baseline(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """What faults of this family compare with, before anything is done."""
        return {}

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """What this fault compares with besides, or needs to know of its targets."""
        return {}

    def lease_nodes(self, record: LandingRecord) -> list[str]:
        """The nodes that heal by themselves where we are gone."""
        return record.targets

    @abstractmethod
    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        """What a node's janitor runs then, one after the other."""

    def heal_step_s(self, ctx: NemesisContext) -> float:
        """How long each of these may take."""
        return limits.HEAL_STEP_S

    @abstractmethod
    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts | None:
        """Do what the record asks for to its targets. LabError or ApplyFailed become notes."""

    async def after_apply(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """What has to follow before the fault can have landed."""
        return record

    @abstractmethod
    def usual_patience_s(self, ctx: NemesisContext, record: LandingRecord) -> float:
        """How long faults of this family may take to show."""

    def patience_s(self, record: LandingRecord) -> float:
        """How long this fault may take, where that is longer."""
        return 0.0

    @abstractmethod
    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        """The signals as they are now. A control that moved was hit as well."""

    def landed(self, record: LandingRecord) -> Landed:
        """What the record's signals come to."""
        return landing(record)

    # Steps of another look, in mid-window and at its end.

    async def repeat(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Do it once more, where that is part of the fault."""
        return record

    async def vanished(
        self, ctx: NemesisContext, record: LandingRecord
    ) -> Mapping[str, str] | None:
        """Nodes where the fault is gone -> what is missing there; None: only `stands` tells."""
        return None

    def stands(self, earlier: LandingRecord, record: LandingRecord) -> Standing:
        """By what the record said before this observation, and says now."""
        return Standing()

    # Steps of a heal.

    @abstractmethod
    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> Reverted | None:
        """Undo what the record did to its targets."""

    def revert_within_s(self, ctx: NemesisContext) -> float | None:
        """How long that may take; None: as long as it takes."""
        return None

    @abstractmethod
    def heal_within_s(self, ctx: NemesisContext) -> float:
        """How long after it all must be whole."""

    @abstractmethod
    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """Is all as it was? Asked until nothing is missing, or the time is up."""

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        """What of this fault's own is missing for a proven heal."""
        return ()

    async def after_heal(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """What is left to do, and to say, when the epoch is closed."""
        return {}

    @abstractmethod
    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """Leaks per node after the end."""

    # The order in which they are asked.

    async def setup(self, ctx: NemesisContext) -> None:
        """Take away what a dead run may have left; get ready."""
        nodes = nodes_of(ctx)
        await self.clear(nodes)
        await asyncio.gather(*map(drop_stale_leases, nodes))
        await self.instrument(ctx)
        await self.ready(ctx)

    async def teardown(self, ctx: NemesisContext) -> None:
        """Nothing of ours stays on a node."""
        await self.clear(nodes_of(ctx))
        await self.remove_instruments(ctx)

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        """Apply the fault, then wait until both sides show it or its time is up."""
        record = new_record(ctx, self.name, plan)
        if record.notes:
            return record
        choice = await self.choose(ctx, plan)
        if choice.targets is not None:
            record = msgspec.structs.replace(record, targets=choice.targets)
        record = with_facts(record, choice.facts)
        if choice.why_not:
            notes = [f"nothing was injected: {choice.why_not}"]
            return msgspec.structs.replace(record, notes=notes)
        record = with_facts(record, await self.baseline(ctx, record))
        record = with_facts(record, await self.before(ctx, record))
        await self.arm(ctx, record)
        if ctx.trigger is not None:
            record = await ctx.trigger.wait(record)
            if record.notes:
                await self.disarm(ctx, record)
                return record
        record = with_facts(record, {"traffic_at_inject": ctx.traffic.by_node()})
        record = await self._applied(ctx, await ctx.epochs.open(record))
        if ctx.trigger is not None:
            record, late = await ctx.trigger.let_go(record)
            record = demote(record, late) if late else record
        await asyncio.sleep(self.settle_s)
        return await self._landing(ctx, await self.after_apply(ctx, record))

    async def arm(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Let each node heal by itself where we are gone."""
        step_s = self.heal_step_s(ctx)

        async def one(name: str) -> None:
            commands = self.heal_commands(ctx, record, name)
            await ctx.node(name).arm_lease(
                record.fault_id, commands, ttl_s=limits.LEASE_TTL_S, step_s=step_s
            )

        await asyncio.gather(*map(one, self.lease_nodes(record)))

    async def disarm(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Call that off: the fault was healed."""
        names = self.lease_nodes(record)
        await asyncio.gather(*(ctx.node(n).release_lease(record.fault_id) for n in names))

    async def _applied(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        notes: list[str] = []
        facts: Facts | None = None
        try:
            facts = await self.apply(ctx, record)
        except ApplyFailed as failed:
            notes, facts = [*failed.notes], failed.facts
        except LabError as error:
            notes.append(f"apply failed: {error.message}")
        applied_ms = round((ctx.clock.now_ns() - (record.injected_at or 0)) / 1e6, 2)
        record = with_facts(record, {**(facts or {}), "requested_to_applied_ms": applied_ms})
        return msgspec.structs.replace(record, notes=notes)

    async def observed(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """The record as it is now."""
        try:
            async with asyncio.timeout(LOOK_S_MAX):
                record = with_signals(record, await self.observe(ctx, record))
        except TimeoutError:
            return demote(record, f"no look at it could be taken within {LOOK_S_MAX:g} s")
        return msgspec.structs.replace(record, landed=self.landed(record))

    async def _landing(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        patience_s = max(self.usual_patience_s(ctx, record), self.patience_s(record))
        deadline_ns = ctx.clock.now_ns() + int(patience_s * 1e9)
        while True:
            record = await self.observed(ctx, record)
            now_ns = ctx.clock.now_ns()
            if record.landed == "yes":
                return msgspec.structs.replace(record, landed_at=now_ns)
            if now_ns > deadline_ns:
                return record
            await asyncio.sleep(POLL_S)

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Is the fault still there, and does it still show?"""
        if record.injected_at is None:
            return record
        record = await self.repeat(ctx, record)
        gone = await self.vanished(ctx, record)
        known: Facts = {} if gone is None else {"gone": list(gone)}
        if gone:
            record = _recheck(ctx, record, present=False, known=known)
            what = ", ".join(f"{what} vanished from {name}" for name, what in gone.items())
            return demote(record, f"{what} while the fault should have stood")
        earlier = record
        for _ in range(self.observations):
            record = await self.observed(ctx, record)
            if record.landed == "yes":
                break
        if only_others_hit(record):
            doubt = record.control.detail if record.control is not None else ""
            record, known = await self.observed(ctx, record), {**known, "asked_again": doubt}
        standing = self.stands(earlier, record)
        record = with_facts(record, standing.facts)
        record = _recheck(ctx, record, present=standing.present, known=known)
        for doubt in standing.doubts:
            record = demote(record, doubt)
        if record.landed == "yes" and record.landed_at is None:
            return msgspec.structs.replace(record, landed_at=ctx.clock.now_ns())
        return record

    async def heal(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Take the fault away; show that it is gone and that all is as it was before."""
        if record.injected_at is None:
            return msgspec.structs.replace(record, heal_verified=True)
        record = msgspec.structs.replace(record, heal_start=ctx.clock.now_ns())
        counts_before = ctx.traffic.by_node()
        record, reverted = await self._reverted(ctx, record)
        healing = Healing(
            counts_before=counts_before, counts_after=ctx.traffic.by_node(), reverted=reverted
        )
        record, proven = await self._proven(ctx, record, healing)
        await self.disarm(ctx, record)
        record = await ctx.epochs.close(record)
        injector, victim = record.injector, record.victim
        if injector is not None and victim is not None:
            injector = msgspec.structs.replace(injector, after=dict(proven.injector))
            victim = msgspec.structs.replace(victim, after=dict(proven.victim))
        notes = [f"{self.missing_prefix}{reason}" for reason in proven.missing]
        residue = [*reverted.residue, *proven.residue]
        record = msgspec.structs.replace(
            with_facts(record, {"traffic_at_heal": ctx.traffic.by_node()}),
            injector=injector,
            victim=victim,
            heal_verified=not proven.missing and not residue,
            residue=residue,
            notes=[*record.notes, *notes],
        )
        return with_facts(record, await self.after_heal(ctx, record))

    async def _reverted(
        self, ctx: NemesisContext, record: LandingRecord
    ) -> tuple[LandingRecord, Reverted]:
        within_s, notes = self.revert_within_s(ctx), list(record.notes)
        reverted: Reverted | None = None
        try:
            async with asyncio.timeout(within_s):
                reverted = await self.revert(ctx, record)
        except self.tolerated as error:
            late = isinstance(error, TimeoutError)
            why = error.message if isinstance(error, LabError) else str(error)
            notes.append(f"not healed within {within_s:g} s" if late else f"healing failed: {why}")
        reverted = reverted or Reverted()
        record = msgspec.structs.replace(with_facts(record, reverted.facts), notes=notes)
        return record, reverted

    async def _proven(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> tuple[LandingRecord, Proven]:
        deadline_ns = ctx.clock.now_ns() + int(self.heal_within_s(ctx) * 1e9)
        while True:
            try:
                async with asyncio.timeout(LOOK_S_MAX):
                    proven = await self.prove(ctx, record, healing)
                    own = await self.missing(ctx, record, healing)
                record = with_facts(record, proven.facts)
                proven = msgspec.structs.replace(proven, missing=[*own, *proven.missing])
            except TimeoutError:
                proven = Proven([f"no look at its heal could be taken within {LOOK_S_MAX:g} s"])
            if not proven.missing or ctx.clock.now_ns() > deadline_ns:
                return record, proven
            await asyncio.sleep(POLL_S)


def _recheck(
    ctx: NemesisContext, record: LandingRecord, *, present: bool, known: Facts
) -> LandingRecord:
    row: dict[str, Any] = {"at_ns": ctx.clock.now_ns(), "present": present, **known}
    return with_facts(record, {"rechecks": [*FaultDetails.of(record).rechecks, row]})
