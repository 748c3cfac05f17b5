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
from typing import Any, Protocol, runtime_checkable

from dstest.core.errors import FaultRefused, LabError
from dstest.core.evidence import LandingRecord, ProcessDetails, Signal
from dstest.core.protocols import NemesisContext, Option, Process, When
from dstest.core.protocols import Pause as Pausable
from dstest.core.residue import Residue
from nemeses.base.driver import ENDS_TRAFFIC, Facts, Observed
from nemeses.base.process_evidence import Snapshots
from nemeses.base.process_fault import (
    SERVICE_OPTION,
    ProcessFault,
    gather_evidence,
    not_serving,
    served_before,
)
from nemeses.base.simulated import Simulated, SimulatedPause
from nemeses.observe.processes import (
    STOPPED,
    ProcessSnapshot,
    processes_before,
    running,
    signal_command,
    take_snapshots,
)
from nemeses.tools.groups import V1, version_of


@runtime_checkable
class Freezes(Protocol):
    """Services in control groups that can be frozen: they stand still, and nobody is told."""

    async def freeze(self, names: Sequence[str], service: str = "") -> None:
        """Returns when all processes stand still. LabError where they do not."""
        ...

    async def thaw(self, names: Sequence[str], service: str = "") -> None:
        """Returns when they go on."""
        ...

    def thaw_command(self, service: str = "") -> list[str]:
        """As `thaw`, on the node itself."""
        ...

    async def freezer_groups(self) -> dict[str, list[str]]:
        """The directories of each member's control groups."""
        ...


class Pause(ProcessFault):
    """The `pause` nemesis."""

    name = "pause"
    taxdc = "timing"
    doc = "stops server processes, by SIGSTOP or by the freezer, and lets them go on"
    faults: tuple[str, ...] = ("N03",)
    spares_servers = True
    requires_when = (
        *ProcessFault.requires_when,
        When("way", "signal", (Pausable,)),
        When("way", "freezer", (Freezes,), needs=("freezer-group",)),
        When("way", None, (Pausable,)),  # as schedules have it that are older than the option
    )
    residues: tuple[Residue, ...] = (STOPPED,)
    overlap = ENDS_TRAFFIC
    simulated = Simulated(
        driver=SimulatedPause,
        options=frozenset(ProcessFault.options),
        only={"service": ("",), "way": ("signal", None)},
    )
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

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """How they are stopped."""
        return {"way": options["way"]}

    async def ready(self, ctx: NemesisContext) -> None:
        """Where the freezer is asked for, see that it freezes."""
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

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """The groups that shall stand still, and of which version they are."""
        if not _freezes(record):
            return {}
        groups = await ctx.need(Freezes).freezer_groups()
        paths = [path for name in record.targets for path in groups[name]]
        node = ctx.node(record.targets[0])
        how = await version_of(node, paths[0]) if paths else V1
        return {"freezers": groups, "how": how}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        stop = self.freeze if _freezes(record) else self.pause
        await stop(ctx, record.targets, ProcessDetails.of(record).service)

    async def pause(self, ctx: NemesisContext, names: Sequence[str], service: str) -> None:
        """Stop servers by a signal; a test sabotages this."""
        await ctx.need(Pausable).pause(names, service)

    async def freeze(self, ctx: NemesisContext, names: Sequence[str], service: str) -> None:
        """Freeze servers; a test sabotages this."""
        await ctx.need(Freezes).freeze(names, service)

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        return await gather_evidence(ctx, record, standstill)

    async def in_force(self, ctx: NemesisContext, record: LandingRecord) -> Mapping[str, str]:
        """The CPU time that what stands has used: it uses none."""
        service = ProcessDetails.of(record).service
        was = {name: processes_before(record, name) for name in record.targets}
        found = await take_snapshots(ctx, was, await running(ctx, service), service)
        freezes = _freezes(record)
        return {
            name: str(one.ticks) if (_frozen(record, name, one) if freezes else one.stopped) else ""
            for name, one in found.items()
        }

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        service = ProcessDetails.of(record).service
        if _freezes(record):
            await ctx.need(Freezes).thaw(record.targets, service)
        else:
            await ctx.need(Pausable).resume(record.targets, service)

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        if _freezes(record):
            return [ctx.need(Freezes).thaw_command(ProcessDetails.of(record).service)]
        return [signal_command(processes_before(record, name), "CONT")]

    def process_problem(
        self, record: LandingRecord, name: str, now: Sequence[Process], snapshot: ProcessSnapshot
    ) -> str | None:
        old = {p for p in processes_before(record, name) if p.main}
        if not old <= {*now}:
            return "its server is gone"
        return not_serving(now, snapshot)


def standstill(record: LandingRecord, snapshots: Snapshots) -> Signal:
    """Samples in which the processes that serve stood still, all of them, and used no CPU."""
    freezes = _freezes(record)
    problems = []
    samples = {}
    for name in record.targets:
        first, second = snapshots[name]
        still = first.ticks == second.ticks and first.left == second.left
        stands = [_frozen(record, name, s) if freezes else s.stopped for s in snapshots[name]]
        samples[name] = sum(stands) if still and second.left else 0
        problems += served_before(record, name)
        main = record.facts["pids"][name][0]
        if second.lost:
            problems.append(f"{name}: process {second.lost[0]} is gone")
        elif samples[name] < 2:
            problems.append(f"{name}: process {main} {'is not frozen' if freezes else 'runs'}")
    how = "in a group that reads FROZEN" if freezes else "in state T"
    return Signal(
        signal=f"samples of two {how} without CPU time",
        before=dict.fromkeys(record.targets, 0),
        during=samples,
        moved=bool(record.targets) and not problems,
        detail="; ".join(problems)
        or f"all threads of the server stand on {', '.join(record.targets)}",
    )


def _frozen(record: LandingRecord, name: str, snapshot: ProcessSnapshot) -> bool:
    """Do all processes stand still in groups of the member's services, and in no others?"""
    groups = snapshot.frozen.split(", ")
    own = record.facts["freezers"].get(name, [])
    return bool(snapshot.frozen) and all(any(path.endswith(g) for path in own) for g in groups)


def _freezes(record: LandingRecord) -> bool:
    return record.facts.get("way") == "freezer"


NEMESIS = Pause()
