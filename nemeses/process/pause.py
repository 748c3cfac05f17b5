"""`pause`: server processes that stand still and later go on, as by a long GC pause.

`-o way=signal` stops them with SIGSTOP, which their parent may notice; `way=freezer` puts them into
a freezer control group of ours on their node, as container runtimes pause, of which nobody is told.
Injector signal, from the node itself, in two samples: all threads of the serving process are in
state T, or the group that it is in is ours and reads FROZEN (FREEZING is not enough), and its CPU
ticks stand still between them. Clients must run into their timeouts: a pause that is shorter than
those tests nothing. It has healed when the same process runs and serves, and the group is gone.

Catalogue: N03.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import FaultRefused, LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import FaultPlan, NemesisContext, Option, Probed, When
from dstest.core.protocols import Pause as Pausable
from dstest.core.residue import Residue
from nemeses.base.cluster import nodes_of
from nemeses.base.process_fault import Looks, ProcessFault, Proven
from nemeses.base.schedule import carrying
from nemeses.observe.processes import STOPPED, Sight, look, signal_command
from nemeses.tools import freezer

__all__ = ["NEMESIS", "Pause"]

TRIES: Final = 20
TRY_GAP_S: Final = 0.05
"""A process that sleeps is frozen at once; a busy node may need a moment."""


class Pause(ProcessFault):
    """The `pause` nemesis. `kinds` lets a test choose a version of control groups."""

    name = "pause"
    doc = "stops server processes, by SIGSTOP or by the freezer, and lets them go on"
    faults: tuple[str, ...] = ("N03",)
    requires_when = (
        *ProcessFault.requires_when,
        When("way", "signal", (Pausable,)),
        When("way", None, (Pausable,)),  # as schedules have it that are older than the option
    )
    residues: tuple[Residue, ...] = (freezer.RESIDUE, STOPPED)
    outcome = "stopped"
    options: Mapping[str, Option] = {
        "way": Option(
            type=str,
            default="signal",
            choices=("signal", "freezer"),
            help="SIGSTOP, or a freezer control group on the node",
        ),
        **ProcessFault.options,
    }

    def __init__(self, *, kinds: Sequence[str] = freezer.KINDS) -> None:
        self._kinds = kinds

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
        await asyncio.gather(*map(freezer.clear, nodes_of(ctx)))
        if ctx.options.get("way") == "freezer":
            await asyncio.gather(*(self._try_out(ctx, node) for node in nodes_of(ctx)))

    async def _try_out(self, ctx: NemesisContext, node: Node) -> None:
        """Freeze and thaw a process of our own. FaultRefused where that cannot be done or seen."""
        remedy = "-o way=signal, or nodes whose freezer control group may be written"
        found = await freezer.find(node, self._kinds)
        if found is None:
            raise FaultRefused(
                f"{self.name}: {node.name} has no freezer mounted for writing", remedy=remedy
            )
        sleeper = await node.call("spawn", argv=["/bin/sleep", "60"])
        where = await freezer.home(node, found, sleeper["pid"])
        port, sights = ctx.need(Probed).service_port, []
        try:
            try:
                await freezer.freeze(node, where, sleeper["pid"])
                for _ in range(TRIES):
                    sights.append(await look(node, sleeper["pid"], sleeper["start_time"], port))
                    if sights[-1].frozen == freezer.GROUP:
                        break
                    await asyncio.sleep(TRY_GAP_S)
            finally:
                await node.run(freezer.thaw_command(where), timeout_s=10.0)
                await node.call("signal", **sleeper, signum=9)
        except LabError as error:
            raise FaultRefused(
                f"{self.name}: {node.name} cannot freeze: {error.message}", remedy=remedy
            ) from None
        if sights[-1].frozen != freezer.GROUP:
            raise FaultRefused(
                f"{self.name}: on {node.name} a group that shall freeze does not", remedy=remedy
            )

    async def _before(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """The record with the groups that the targets' servers are in."""
        record = await super()._before(ctx, record)
        if record.facts.get("way") != "freezer":
            return record

        async def one(name: str) -> dict[str, str]:
            found = await freezer.find(ctx.node(name), self._kinds)
            if found is None:
                raise LabError(f"{name} has no freezer any more")
            where = await freezer.home(ctx.node(name), found, record.facts["pids"][name][0])
            return dict(msgspec.to_builtins(where))

        homes = await asyncio.gather(*map(one, record.targets))
        facts = {**record.facts, "freezers": dict(zip(record.targets, homes, strict=True))}
        return msgspec.structs.replace(record, facts=facts)

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        homes = _homes(record)
        if homes is None:
            await self.strike(ctx, record.targets)
            return
        pids = record.facts["pids"]
        await asyncio.gather(*(self.freeze(ctx.node(n), homes[n], pids[n][0]) for n in homes))

    async def strike(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        await ctx.need(Pausable).pause(names)

    async def freeze(self, node: Node, where: freezer.Home, pid: int) -> None:
        """Freeze a server; a test sabotages this."""
        await freezer.freeze(node, where, pid)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        homes = _homes(record)
        if homes is None:
            await self.undo(ctx, record.targets)
            return

        async def thaw(name: str) -> None:
            await ctx.node(name).run(freezer.thaw_command(homes[name]), timeout_s=10.0)

        await asyncio.gather(*map(thaw, homes))

    async def undo(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        await ctx.need(Pausable).resume(names)

    def heal_command(self, ctx: NemesisContext, record: LandingRecord, name: str) -> list[str]:
        homes = _homes(record)
        if homes is not None:
            return freezer.thaw_command(homes[name])
        pid, start = record.facts["pids"][name]
        return signal_command(pid, start, "CONT")

    def injector(self, record: LandingRecord, looks: Looks) -> Signal:
        """Samples in which the process that serves stood still and used no CPU."""
        facts = record.facts
        freezes = _homes(record) is not None
        said = []
        samples = {}
        for name in record.targets:
            pid = facts["pids"][name][0]
            first, second = looks[name]
            still = first.ticks == second.ticks
            stands = [s.frozen == freezer.GROUP if freezes else s.stopped for s in looks[name]]
            samples[name] = sum(stands) if still and second.alive else 0
            if facts["listening_before"][name] != [pid]:
                said.append(f"{name}: process {pid} was not the one that served")
            if not second.alive:
                said.append(f"{name}: process {pid} is gone")
            elif samples[name] < 2:
                said.append(f"{name}: process {pid} {'is not frozen' if freezes else 'runs'}")
        how = "in a group that reads FROZEN" if freezes else "in state T"
        return Signal(
            signal=f"samples of two {how} without CPU time",
            before=dict.fromkeys(record.targets, 0),
            during=samples,
            moved=bool(record.targets) and not said,
            detail="; ".join(said)
            or f"all threads of the server stand on {', '.join(record.targets)}",
        )

    def healed(self, record: LandingRecord, name: str, pid: int, sight: Sight | None) -> str | None:
        if sight is None or not sight.alive or pid != record.facts["pids"][name][0]:
            return "its server is gone"
        if sight.stopped:
            return f"process {pid} is still stopped"
        if sight.frozen:
            return f"process {pid} is still frozen in {sight.frozen}"
        return None if sight.listener == pid else f"process {pid} does not serve"

    async def _whole(
        self, ctx: NemesisContext, record: LandingRecord, before: Mapping[str, Any]
    ) -> Proven:
        """As for any fault of processes, and no group of ours is left."""
        proven = await super()._whole(ctx, record, before)
        if _homes(record) is None:
            return proven
        left = await asyncio.gather(*(freezer.groups(ctx.node(n)) for n in record.targets))
        named = zip(record.targets, left, strict=True)
        missing = [f"{n}: control group {g.group} is left" for n, found in named for g in found]
        return msgspec.structs.replace(proven, missing=[*proven.missing, *missing])

    async def teardown(self, ctx: NemesisContext) -> None:
        """Thaw whatever a fault left frozen."""
        await asyncio.gather(*map(freezer.clear, nodes_of(ctx)))

    async def extra_leaks(self, ctx: NemesisContext, node: Node, pid: int, start: int) -> list[str]:
        """A freezer group of ours, whatever is in it."""
        return [f"control group {found.group}" for found in await freezer.groups(node)]


def _homes(record: LandingRecord) -> dict[str, freezer.Home] | None:
    """Per target the group that its server was taken from; None where it got a signal."""
    homes = record.facts.get("freezers")
    return None if homes is None else {n: freezer.Home(**row) for n, row in homes.items()}


NEMESIS = Pause()
