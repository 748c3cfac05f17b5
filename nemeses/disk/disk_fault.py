"""What faults of a server's disk share: the file system under the data, its counters, its leaks."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import DataDir, NemesisContext, Process, Supervised
from dstest.core.residue import Residue
from nemeses.base.process_fault import ProcessFault
from nemeses.base.steps import Facts, Healing, Reverted
from nemeses.disk import faultfs
from nemeses.tools.compiled import TOOLS

FAULT_SETTINGS: Final = (
    "sync_delay_us", "write_delay_us", "sync_errno", "write_errno", "read_errno", "stall",
)  # fmt: skip


async def readings(ctx: NemesisContext) -> dict[str, dict[str, int]]:
    """What the file system of each node says of itself."""
    answers = await asyncio.gather(*(faultfs.ask(ctx.node(n), "get") for n in ctx.nodes))
    return dict(zip(ctx.nodes, answers, strict=True))


async def counted_on(ctx: NemesisContext, record: LandingRecord, counter: str) -> int:
    """How far this counter of the targets' file systems has come since before the fault."""
    now = await asyncio.gather(*(faultfs.ask(ctx.node(n), "get") for n in record.targets))
    before = record.facts["disk_before"]
    names = record.targets
    return sum(row[counter] - before[n][counter] for n, row in zip(names, now, strict=True))


def faulty(reading: Mapping[str, int]) -> list[str]:
    """Settings of a file system that still make a fault."""
    return [f"{name}={reading[name]}" for name in FAULT_SETTINGS if reading[name]]


def disk_signal(
    record: LandingRecord, fate: Signal, counter: str, what: str, problems: Sequence[str]
) -> Signal:
    """Injector: what the file systems of the targets did, and what became of their servers.

    `problems` speak against the counters; `fate` is the signal of the servers.
    """
    deltas = counter_delta(record, counter)
    return Signal(
        signal=f"{what} by the file system",
        before=dict.fromkeys(record.targets, 0),
        during={n: deltas[n] for n in record.targets},
        moved=fate.moved and not problems,
        detail="; ".join([*problems, *([] if fate.moved else [fate.detail])])
        or f"{sum(deltas.values()):,} {what}; {fate.detail}",
    )


def disk_control(record: LandingRecord, control: Signal, counter: str) -> Signal:
    """The control signal; the disk of another node that was hit moves it."""
    deltas = counter_delta(record, counter)
    hit = [n for n, count in deltas.items() if count and n not in record.targets]
    if not hit:
        return control
    detail = f"the disk of {', '.join(hit)} was hit as well"
    return msgspec.structs.replace(control, moved=True, detail=detail)


class DiskFault(ProcessFault):
    """Base: the file system under the data, its counters before and now, its leaks."""

    requires = (Supervised, DataDir)
    residues: tuple[Residue, ...] = (faultfs.RESIDUE, TOOLS)
    needs: tuple[str, ...] = ("fuse", "x86-64")

    async def prepare(self, ctx: NemesisContext) -> None:
        """Lay the file system."""
        await faultfs.lay(ctx, self.name)

    async def withdraw(self, ctx: NemesisContext) -> None:
        """Take it away with the data."""
        await faultfs.take_away(ctx, list(ctx.nodes))

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return {"disk_before": await readings(ctx)}

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        clear = shlex.join(faultfs.asking("clear"))
        restart = shlex.join(ctx.need(Supervised).restart_command(name))
        return [["sh", "-c", f"{clear}; exec {restart}"]]

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> Reverted | None:
        await clear_disks(ctx, record.targets)
        await ctx.need(Supervised).restart(record.targets)
        return None

    async def left(self, ctx: NemesisContext, record: LandingRecord) -> Mapping[str, int]:
        """How many faults each file system makes."""
        found = await readings(ctx)
        return {name: len(faulty(found[name])) for name in record.targets}

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        return await still_faulty(ctx)

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """Faults that the file system still makes."""
        return [f"its file system has {f}" for f in faulty(await faultfs.ask(node, "get"))]


async def clear_disks(ctx: NemesisContext, names: Sequence[str]) -> None:
    """The file systems of these nodes make no more faults."""
    await asyncio.gather(*(faultfs.ask(ctx.node(n), "clear") for n in names))


async def still_faulty(ctx: NemesisContext) -> list[str]:
    """Settings of any node's file system that still make a fault."""
    found = await readings(ctx)
    return [f"{n}: the file system has {f}" for n, row in found.items() for f in faulty(row)]


def owner(ctx: NemesisContext) -> str:
    """The service that keeps its data on the disk; empty, which means all, where several do."""
    folder = ctx.need(DataDir).data_dir()
    services = [s for member in ctx.deployment.members.values() for s in member.services]
    found = {s.name for s in services if any(f"{p}/".startswith(f"{folder}/") for p in s.data)}
    return found.pop() if len(found) == 1 else ""


def counter_delta(record: LandingRecord, counter: str) -> dict[str, int]:
    """By how much a counter of each node's file system has risen since before the fault."""
    now, before = record.facts["disk"], record.facts["disk_before"]
    return {n: now[n][counter] - before[n][counter] for n in now}
