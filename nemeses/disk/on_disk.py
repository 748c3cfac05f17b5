"""What faults of a server's disk share: the file system under the data, its counters, its leaks."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.evidence import LandingRecord, PageCache, Signal
from dstest.core.node import Node
from dstest.core.protocols import DataDir, NemesisContext, Option, Process, Supervised
from dstest.core.residue import Residue
from nemeses.base.process_fault import Looks, ProcessFault, Proven
from nemeses.disk import faultfs
from nemeses.process.kill import Kill
from nemeses.tools.compiled import TOOLS

__all__ = ["OnDisk", "counter_delta", "faulty", "owner", "readings"]

FAULT_SETTINGS: Final = (
    "sync_delay_us", "write_delay_us", "sync_errno", "write_errno", "read_errno", "stall",
)  # fmt: skip


async def readings(ctx: NemesisContext) -> dict[str, dict[str, int]]:
    """What the file system of each node says of itself."""
    answers = await asyncio.gather(*(faultfs.ask(ctx.node(n), "get") for n in ctx.nodes))
    return dict(zip(ctx.nodes, answers, strict=True))


def faulty(reading: Mapping[str, int]) -> list[str]:
    """Settings of a file system that still make a fault."""
    return [f"{name}={reading[name]}" for name in FAULT_SETTINGS if reading[name]]


class OnDisk(Kill):
    """Base: the file system under the data, its counters before and now, its leaks."""

    requires = (*Kill.requires, DataDir)
    options: Mapping[str, Option] = ProcessFault.options
    residues: tuple[Residue, ...] = (faultfs.RESIDUE, TOOLS)
    # A server whose disk refuses ends by its own decision, with loud last words.
    explains: frozenset[str] = frozenset({"exit", "alarm", "fatal", "panic"})
    page_cache: PageCache = ""

    counter: str
    """Which of its counters says that the fault was felt."""

    signal: str

    async def prepare(self, ctx: NemesisContext) -> None:
        """Lay the file system."""
        await faultfs.lay(ctx, self.name)

    async def withdraw(self, ctx: NemesisContext) -> None:
        """Take it away with the data."""
        await faultfs.take_away(ctx, list(ctx.nodes))

    def heal_command(self, ctx: NemesisContext, record: LandingRecord, name: str) -> list[str]:
        clear = shlex.join(faultfs.asking("clear"))
        restart = shlex.join(ctx.need(Supervised).restart_command(name))
        return ["sh", "-c", f"{clear}; exec {restart}"]

    async def undo(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        await asyncio.gather(*(faultfs.ask(ctx.node(n), "clear") for n in names))
        await super().undo(ctx, names)

    async def _before(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        record = await super()._before(ctx, record)
        facts = {**record.facts, "disk_before": await readings(ctx)}
        return msgspec.structs.replace(record, facts=facts)

    async def _look(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        facts = {**record.facts, "disk": await readings(ctx)}
        record = await self._look_at_servers(ctx, msgspec.structs.replace(record, facts=facts))
        felt = counter_delta(record, self.counter)
        hit = [n for n, count in felt.items() if count and n not in record.targets]
        if not hit or record.control is None:
            return record
        said = f"the disk of {', '.join(hit)} was hit as well"
        control = msgspec.structs.replace(record.control, moved=True, detail=said)
        landed = "ambiguous" if record.landed == "yes" else record.landed
        return msgspec.structs.replace(record, control=control, landed=landed)

    async def _look_at_servers(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        return await super()._look(ctx, record)

    def missing(self, record: LandingRecord, name: str) -> str | None:
        """Why the counters of a target do not show the fault, None where they do."""
        return (
            None
            if counter_delta(record, self.counter)[name]
            else f"{name}: nothing was {self.signal}"
        )

    def injector(self, record: LandingRecord, looks: Looks) -> Signal:
        """What the file systems of the targets did, and what became of their servers."""
        fate = self.fate(record, looks)
        said = [wrong for name in record.targets if (wrong := self.missing(record, name))]
        felt = counter_delta(record, self.counter)
        return Signal(
            signal=f"{self.signal} by the file system",
            before=dict.fromkeys(record.targets, 0),
            during={n: felt[n] for n in record.targets},
            moved=fate.moved and not said,
            detail="; ".join([*said, *([] if fate.moved else [fate.detail])])
            or f"{sum(felt.values()):,} {self.signal}; {fate.detail}",
        )

    def fate(self, record: LandingRecord, looks: Looks) -> Signal:
        """Are the servers of the targets gone?"""
        return super().injector(record, looks)

    async def _whole(
        self, ctx: NemesisContext, record: LandingRecord, before: Mapping[str, Any]
    ) -> Proven:
        proven = await super()._whole(ctx, record, before)
        found = await readings(ctx)
        left = [f"{n}: the file system has {f}" for n, row in found.items() for f in faulty(row)]
        return msgspec.structs.replace(proven, missing=[*left, *proven.missing])

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """Faults that the file system still makes."""
        return [f"its file system has {f}" for f in faulty(await faultfs.ask(node, "get"))]


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
