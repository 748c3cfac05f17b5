"""Faults of the clock of a whole node: `clock-step` and `clock-steer`.

Only where the lab says that its nodes have clocks of their own, and where that is seen: a node
whose kernel is that of this machine, or of another node, is refused by its boot id, and where the
clock of this machine moves as a node's is set, the fault is undone and the run told.

Injector signal: the node's wall clock against its raw monotonic clock, which nobody can set. Victim
signal: the time in the answers of the server there, minus ours. Control: servers and agents of the
other nodes tell the right time, and so does this machine. It has healed when the node's clock is
the distance from the raw one that it was, runs at its own pace, and its server tells our time.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from dstest.core import clock
from dstest.core.errors import FaultRefused, LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node, OwnClocks
from dstest.core.protocols import Clocked, NemesisContext, Process
from dstest.core.residue import Residue
from nemeses.base.driver import (
    SHOWS_IN_ITS_OWN_TRAFFIC,
    Facts,
    Healing,
    Observed,
    Proven,
    Standing,
    nodes_of,
)
from nemeses.base.process_fault import ProcessFault, process_standing
from nemeses.clock import clock_evidence
from nemeses.observe.servers import Skew, health_of, skews_of
from nemeses.tools import node_clock
from nemeses.tools.node_clock import Reading

OURS_MAX_S: Final = 0.2
"""Our own wall clock does not move this far against our monotonic one, unless somebody sets it."""


def _ours_ns() -> int:
    return clock.wall_ns() - clock.monotonic_ns()


class NodeClockFault(ProcessFault):
    """Base. What is done is `skew_s` at once, and `rate` times as fast from then on."""

    requires: tuple[type, ...] = (*ProcessFault.requires, Clocked)
    requires_lab: tuple[type, ...] = (OwnClocks,)
    residues: tuple[Residue, ...] = (node_clock.RESIDUE,)
    overlap = SHOWS_IN_ITS_OWN_TRAFFIC

    @abstractmethod
    async def wrong(self, node: Node, record: LandingRecord) -> Reading:
        """Do it to the clock of a node."""

    @abstractmethod
    def problems(self, record: LandingRecord, name: str, now: Reading) -> list[str]:
        """What speaks against the clock of a node being wrong as asked for."""

    async def clear(self, nodes: Sequence[Node]) -> None:
        await asyncio.gather(*map(node_clock.remove, nodes))

    async def ready(self, ctx: NemesisContext) -> None:
        """Refuse clocks that are not of one node alone; put the program on the nodes."""
        nodes = nodes_of(ctx)
        boots = {n.name: (await n.call("marker"))["boot_id"] for n in nodes}
        ours = node_clock.control_boot_id()
        for name, boot in boots.items():
            sharing = [n for n, other in boots.items() if other == boot and n != name]
            whose = "this machine" if boot == ours else ", ".join(sharing)
            if whose:
                raise FaultRefused(
                    f"{self.name}: the kernel of {name} is that of {whose}, and so is its clock",
                    remedy="--nemesis clock, which shifts it for processes; or --lab vm",
                )
        await asyncio.gather(*map(node_clock.install, nodes))

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [[*node_clock.BACK]]

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        names = record.targets
        readings = await _readings(ctx, names)
        skews = await skews_of(ctx, names)
        return {
            "how": "adjtimex" if record.facts["rate"] != 1.0 else "clock_settime",
            "ours_ns": _ours_ns(),
            "clock_before": {n: msgspec.to_builtins(r) for n, r in readings.items()},
            "skew_before_s": {n: clock_evidence.number(s) for n, s in skews.items()},
        }

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        found = await asyncio.gather(*(self.wrong(ctx.node(n), record) for n in record.targets))
        moved_s = abs(_ours_ns() - record.facts["ours_ns"]) / 1e9
        if moved_s > OURS_MAX_S:
            await self._right(ctx, record.targets)
            raise LabError(f"the clock of this machine moved by {moved_s:.2f} s as well")
        applied = {n: msgspec.to_builtins(r) for n, r in zip(record.targets, found, strict=True)}
        return {"clock_applied": applied, "applied_ns": ctx.clock.now_ns()}

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        readings = await _readings(ctx, record.targets)
        hosts = dict(
            zip(
                ctx.nodes,
                await asyncio.gather(*map(clock_evidence.host_skew, nodes_of(ctx))),
                strict=True,
            )
        )
        at_ns = ctx.clock.now_ns()
        skews = await skews_of(ctx, list(ctx.nodes))
        middle_ns = (at_ns + ctx.clock.now_ns()) // 2
        others = {n: skew for n, skew in hosts.items() if n not in record.targets}
        control = clock_evidence.control(record, skews, others)
        moved_s = (_ours_ns() - record.facts["ours_ns"]) / 1e9
        if abs(moved_s) > OURS_MAX_S:
            detail = f"hit as well: this machine, by {moved_s:.2f} s"
            control = msgspec.structs.replace(control, moved=True, detail=detail)
        # A rate is from when it was applied on.
        timed = msgspec.structs.replace(record, injected_at=record.facts.get("applied_ns"))
        return Observed(
            injector=self._injector(record, readings),
            victim=clock_evidence.victim(timed, skews, middle_ns),
            control=control,
            facts={"clock": {n: msgspec.to_builtins(r) for n, r in readings.items()}},
        )

    def _injector(self, record: LandingRecord, readings: Mapping[str, Reading]) -> Signal:
        problems = []
        for name, now in readings.items():
            if now.boot != record.facts["clock_before"][name]["boot"]:
                problems.append(f"{name} has booted anew")
            elif now.true_ns is None:
                problems.append(f"{name}: its clock was set right meanwhile")
            else:
                problems += [f"{name}: {why}" for why in self.problems(record, name, now)]
        shown = {n: round(r.ahead_s, 3) for n, r in readings.items() if r.ahead_s is not None}
        said = ", ".join(f"{value:+.3f} s on {n}" for n, value in shown.items())
        return Signal(
            signal="seconds that the node's wall clock has moved against its raw clock",
            before=dict.fromkeys(record.targets, 0.0),
            during=shown,
            moved=bool(readings) and not problems,
            detail="; ".join(problems) or f"moved by {said}",
        )

    def stands(self, earlier: LandingRecord, record: LandingRecord) -> Standing:
        return process_standing(earlier, record)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await self._right(ctx, record.targets)

    async def _right(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        """By what each node knows of its clock; by the lab where that leaves it wrong."""
        await asyncio.gather(*(node_clock.ask(ctx.node(n), "back") for n in names))
        found = await asyncio.gather(*(clock_evidence.host_skew(ctx.node(n)) for n in names))
        wrong = [n for n, s in zip(names, found, strict=True) if _is_wrong(s)]
        lab = ctx.lab_as(OwnClocks)
        if wrong and lab is not None:
            await asyncio.to_thread(lab.set_clocks, ctx.lab.lab_id, wrong)

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """The right time on the node and from its server, at its own pace, and all serve."""
        names = record.targets
        readings, skews = await _readings(ctx, names), await skews_of(ctx, names)
        missing = []
        for name, now in readings.items():
            was = msgspec.convert(record.facts["clock_before"][name], Reading)
            if now.true_ns is not None or now.tick != node_clock.TICK or now.freq != was.freq:
                missing.append(f"{name}: its clock is still steered or kept")
            away_s = (now.distance_ns - was.distance_ns) / 1e9
            if now.boot == was.boot and abs(away_s) > clock_evidence.tolerance_s(0):
                missing.append(f"{name}: its clock is {away_s:+.2f} s from what it was")
            skew = skews[name]
            if skew is None or _is_wrong(skew):
                missing.append(f"{name}: its server is off by {clock_evidence.number(skew)} s")
        healthy = await health_of(ctx)
        missing += [f"{n} does not serve" for n in names if not healthy.get(n)]
        left = {n: 0 if r.true_ns is None else 1 for n, r in readings.items()}
        return Proven(missing, left, {n: clock_evidence.number(s) or 0.0 for n, s in skews.items()})

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """What the clock was is still kept: nobody has set it right."""
        found = await node.run(["sh", "-c", node_clock.RESIDUE.look], timeout_s=5.0, check=False)
        return [f"{line.removeprefix('ours ')}" for line in found.stdout.splitlines()]


def _is_wrong(skew: Skew) -> bool:
    return abs(skew.seconds) > clock_evidence.tolerance_s(0) + skew.doubt_s


async def _readings(ctx: NemesisContext, names: Sequence[str]) -> dict[str, Reading]:
    found = await asyncio.gather(*(node_clock.ask(ctx.node(n), "read") for n in names))
    return dict(zip(names, found, strict=True))
