"""`pause`: server processes that stand still and later go on, as by a long GC pause.

`-o way=signal` stops them with SIGSTOP, which their parent may notice; `way=freezer` freezes the
control group of their service, as container runtimes pause, of which nobody is told. Injector
signal, from the node itself, in two samples: all threads of all processes of the services are in
state T, or the groups that they are in read FROZEN (FREEZING is not enough), and their CPU ticks
stand still between them. Clients must run into their timeouts: a pause that is shorter than those
tests nothing. It has healed when the same processes run and serve.

Catalogue: N03.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dstest.core.errors import FaultRefused, LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import FaultPlan, Freezes, NemesisContext, Option, Process, When
from dstest.core.protocols import Pause as Pausable
from dstest.core.residue import Residue
from nemeses.base.process_fault import SERVICE_OPTION, Looks, ProcessFault, served_before
from nemeses.base.schedule import carrying
from nemeses.observe.processes import STOPPED, Sight, signal_command, struck

__all__ = ["NEMESIS", "Pause"]


class Pause(ProcessFault):
    """The `pause` nemesis."""

    name = "pause"
    doc = "stops server processes, by SIGSTOP or by the freezer, and lets them go on"
    faults: tuple[str, ...] = ("N03",)
    requires_when = (
        *ProcessFault.requires_when,
        When("way", "signal", (Pausable,)),
        When("way", "freezer", (Freezes,)),
        When("way", None, (Pausable,)),  # as schedules have it that are older than the option
    )
    residues: tuple[Residue, ...] = (STOPPED,)
    outcome = "stopped"
    options: Mapping[str, Option] = {
        "way": Option(
            type=str,
            default="signal",
            choices=("signal", "freezer"),
            help="SIGSTOP, or the freezer of the control group on the node",
        ),
        **ProcessFault.options,
        **SERVICE_OPTION,
    }

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """As for any fault of nodes, with how they are stopped."""
        plans = super().plan(rng, nodes, time_limit_s, options)
        return carrying(plans, way=options["way"])

    async def setup(self, ctx: NemesisContext) -> None:
        """Drop what a dead run left; where the freezer is asked for, see that it freezes."""
        await super().setup(ctx)
        if ctx.options.get("way") == "freezer":
            freezes, names = ctx.need(Freezes), list(ctx.nodes)
            try:
                try:
                    await freezes.freeze(names)
                finally:
                    await freezes.thaw(names)
            except LabError as error:
                raise FaultRefused(
                    f"{self.name}: servers cannot be frozen: {error.message}",
                    remedy="-o way=signal, or nodes whose freezer control group may be written",
                ) from None

    async def _before(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """The record with the groups that shall stand still."""
        record = await super()._before(ctx, record)
        if not _freezes(record):
            return record
        groups = await ctx.need(Freezes).freezer_groups()
        return msgspec.structs.replace(record, facts={**record.facts, "freezers": groups})

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        if _freezes(record):
            await self.freeze(ctx, record.targets, record.facts.get("service", ""))
        else:
            await super().apply(ctx, record)

    async def strike(self, ctx: NemesisContext, names: Sequence[str], service: str = "") -> None:
        await ctx.need(Pausable).pause(names, service)

    async def freeze(self, ctx: NemesisContext, names: Sequence[str], service: str) -> None:
        """Freeze servers; a test sabotages this."""
        await ctx.need(Freezes).freeze(names, service)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        service = record.facts.get("service", "")
        if _freezes(record):
            await ctx.need(Freezes).thaw(record.targets, service)
        else:
            await ctx.need(Pausable).resume(record.targets, service)

    def heal_command(self, ctx: NemesisContext, record: LandingRecord, name: str) -> list[str]:
        if _freezes(record):
            return ctx.need(Freezes).thaw_command(record.facts.get("service", ""))
        return signal_command(struck(record.facts, name), "CONT")

    def injector(self, record: LandingRecord, looks: Looks) -> Signal:
        """Samples in which the processes that serve stood still, all of them, and used no CPU."""
        freezes = _freezes(record)
        said = []
        samples = {}
        for name in record.targets:
            first, second = looks[name]
            still = first.ticks == second.ticks and first.left == second.left
            stands = [_frozen(record, name, s) if freezes else s.stopped for s in looks[name]]
            samples[name] = sum(stands) if still and second.left else 0
            said += served_before(record, name)
            main = record.facts["pids"][name][0]
            if second.lost:
                said.append(f"{name}: process {second.lost[0]} is gone")
            elif samples[name] < 2:
                said.append(f"{name}: process {main} {'is not frozen' if freezes else 'runs'}")
        how = "in a group that reads FROZEN" if freezes else "in state T"
        return Signal(
            signal=f"samples of two {how} without CPU time",
            before=dict.fromkeys(record.targets, 0),
            during=samples,
            moved=bool(record.targets) and not said,
            detail="; ".join(said)
            or f"all threads of the server stand on {', '.join(record.targets)}",
        )

    def healed(
        self, record: LandingRecord, name: str, now: Sequence[Process], sight: Sight
    ) -> str | None:
        old = {p for p in struck(record.facts, name) if p.main}
        if not old <= {*now}:
            return "its server is gone"
        if sight.stopped:
            return f"process {now[0].pid} is still stopped"
        if sight.frozen:
            return f"process {now[0].pid} is still frozen in {sight.frozen}"
        return super().healed(record, name, now, sight)


def _frozen(record: LandingRecord, name: str, sight: Sight) -> bool:
    """Do all processes stand still in groups of the member's services, and in no others?"""
    groups = sight.frozen.split(", ")
    own = record.facts["freezers"].get(name, [])
    return bool(sight.frozen) and all(any(path.endswith(g) for path in own) for g in groups)


def _freezes(record: LandingRecord) -> bool:
    return record.facts.get("way") == "freezer"


NEMESIS = Pause()
