"""Faults of the disk under a server: it refuses, it is full, its power fails.

A file system of ours lies under the data (`nemeses/disk/faultfs.py`) and counts what it does.
Injector signal: calls that it refused, or bytes that the power cut took, on each target and on no
other node. Victim signal: the server is gone and answers nobody, and clients saw operations end
badly. It has healed when the file system refuses nothing and the servers, started again on what
their disks hold, serve.

    power         N17  the process is killed and all that it had not synced is gone; torn=true keeps
                       some unsynced sectors and loses others, in no order
    disk-full     N16  every write fails with ENOSPC, as on a full file system that never overwrites
    fsync-error   N20  every fsync fails with EIO, and what it should have made safe is not safe
    io-error      N21  every write fails with EIO

kill -9 alone loses nothing that reached the page cache: only `power` tests durability.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import random
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import DataDir, FaultPlan, NemesisContext, Option, Process, Supervised
from dstest.core.residue import Residue
from nemeses.base.process_fault import Looks, Proven
from nemeses.disk import faultfs
from nemeses.process.kill import Kill
from nemeses.tools.compiled import TOOLS

__all__ = [
    "DISK_FULL", "FSYNC_ERROR", "IO_ERROR", "POWER", "OnDisk", "Power", "Refusing", "faulty",
    "readings",
]  # fmt: skip

DIRTY_DEADLINE_S: Final = 5.0
"""Members that lost their leader write their vote by then."""

KILL_FIRST_S: Final = 0.05

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
    residues: tuple[Residue, ...] = (faultfs.RESIDUE, TOOLS)
    # A server whose disk refuses ends by its own decision, with loud last words.
    explains: frozenset[str] = frozenset({"exit", "alarm", "fatal", "panic"})

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
        record = await super()._look(ctx, msgspec.structs.replace(record, facts=facts))
        felt = _felt(record, self.counter)
        hit = [n for n, count in felt.items() if count and n not in record.targets]
        if not hit or record.control is None:
            return record
        said = f"the disk of {', '.join(hit)} was hit as well"
        control = msgspec.structs.replace(record.control, moved=True, detail=said)
        landed = "ambiguous" if record.landed == "yes" else record.landed
        return msgspec.structs.replace(record, control=control, landed=landed)

    def missing(self, record: LandingRecord, name: str) -> str | None:
        """Why the counters of a target do not show the fault, None where they do."""
        return None if _felt(record, self.counter)[name] else f"{name}: nothing was {self.signal}"

    def injector(self, record: LandingRecord, looks: Looks) -> Signal:
        """What the file systems of the targets did, and their servers are gone."""
        gone = super().injector(record, looks)
        said = [wrong for name in record.targets if (wrong := self.missing(record, name))]
        felt = _felt(record, self.counter)
        return Signal(
            signal=f"{self.signal} by the file system",
            before=dict.fromkeys(record.targets, 0),
            during={n: felt[n] for n in record.targets},
            moved=gone.moved and not said,
            detail="; ".join([*said, *([] if gone.moved else [gone.detail])])
            or f"{sum(felt.values()):,} {self.signal}; {gone.detail}",
        )

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


def _felt(record: LandingRecord, counter: str) -> dict[str, int]:
    """By how much a counter of each node's file system has risen since before the fault."""
    now, before = record.facts["disk"], record.facts["disk_before"]
    return {n: now[n][counter] - before[n][counter] for n in now}


class Refusing(OnDisk):
    """A disk that answers calls with an error until it is told to stop."""

    def __init__(
        self, name: str, fault: str, doc: str, setting: str, number: int, counter: str, signal: str
    ) -> None:
        self.name, self.doc, self.faults = name, doc, (fault,)
        self.setting, self.number = setting, number
        self.counter, self.signal = counter, signal

    async def strike(self, ctx: NemesisContext, names: Sequence[str], service: str = "") -> None:
        """The calls fail from now on; that the servers do not survive it shows in `_look`."""
        await asyncio.gather(
            *(faultfs.ask(ctx.node(n), "set", self.setting, self.number) for n in names)
        )

    def missing(self, record: LandingRecord, name: str) -> str | None:
        """The setting must stand, too."""
        if record.facts["disk"][name][self.setting] != self.number:
            return f"{name}: its file system refuses nothing"
        return super().missing(record, name)


class Power(OnDisk):
    """The `power` nemesis."""

    name = "power"
    doc = "kills servers and takes from their disks all that was not synced, then starts them again"
    faults: tuple[str, ...] = ("N17",)
    # What was promised is on the disk: after a cut nothing is corrupt, and nobody panics.
    explains: frozenset[str] = frozenset({"exit"})
    counter = "discarded_bytes"
    signal = "unsynced bytes discarded"
    options: Mapping[str, Option] = {
        **OnDisk.options,
        "torn": Option(
            type=bool, default=False, help="some unsynced sectors survive, others do not"
        ),
        "lose": Option(
            type=str,
            default="targets",
            choices=("targets", "majority"),
            help="whose unsynced data is lost: all targets', or only a majority's of the cluster, "
            "who then start first (with scope=all)",
        ),
        "writeback_s": Option(
            type=float,
            default=2.0,
            least=0,
            most=3600,
            help="what nobody synced is safe after this time",
        ),
    }

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """As for any fault of nodes, with how much of the unsynced is lost."""
        return [
            msgspec.structs.replace(
                plan,
                facts={
                    **plan.facts,
                    "torn_seed": 1 + rng.getrandbits(31) if options["torn"] else 0,
                    "writeback_ms": int(options["writeback_s"] * 1000),
                    "lose": options["lose"],
                },
            )
            for plan in super().plan(rng, nodes, time_limit_s, options)
        ]

    async def setup(self, ctx: NemesisContext) -> None:
        await super().setup(ctx)
        after_ms = int(float(ctx.options.get("writeback_s", 2.0)) * 1000)
        await asyncio.gather(
            *(faultfs.ask(ctx.node(n), "set", "writeback_ms", after_ms) for n in ctx.nodes)
        )

    async def _before(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        record = await super()._before(ctx, record)
        losers = list(record.targets)
        if record.facts["lose"] == "majority":
            random.Random(record.facts["seed"]).shuffle(losers)
            losers = sorted(losers[: len(ctx.nodes) // 2 + 1])
        return msgspec.structs.replace(record, facts={**record.facts, "losers": losers})

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Stall all syncs until each target has something unsynced, then kill and cut.

        A sync that waited fails when the power does, so that nothing of it was promised.
        """
        losers = record.facts["losers"]
        nodes = [ctx.node(name) for name in losers]
        await asyncio.gather(*(faultfs.ask(n, "set", "stall", 1) for n in nodes))
        deadline_ns = ctx.clock.now_ns() + int(DIRTY_DEADLINE_S * 1e9)
        while ctx.clock.now_ns() < deadline_ns:
            found = await asyncio.gather(*(faultfs.ask(n, "get") for n in nodes))
            if all(row["dirty_bytes"] for row in found):
                break
        killing = asyncio.create_task(ctx.need(Supervised).kill(record.targets))
        await asyncio.sleep(KILL_FIRST_S)
        await self.cut(ctx, record)
        await killing

    async def cut(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Take what was not synced; a test sabotages it."""
        seed = record.facts["torn_seed"]
        words: list[str | int] = ["cut", seed] if seed else ["cut"]

        await asyncio.gather(*(faultfs.ask(ctx.node(n), *words) for n in record.facts["losers"]))

    def missing(self, record: LandingRecord, name: str) -> str | None:
        """Servers that only went down lose nothing, and must not."""
        lost = _felt(record, self.counter)[name]
        if name in record.facts["losers"]:
            return super().missing(record, name)
        return f"{name}: lost {lost} bytes as well" if lost else None

    async def heal(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Those that lost something come first: they must serve without the memory of others."""
        if record.injected_at is not None and len(record.facts["losers"]) < len(record.targets):
            with contextlib.suppress(LabError):
                await ctx.need(Supervised).restart(record.facts["losers"])
        return await super().heal(ctx, record)


POWER = Power()
DISK_FULL = Refusing(
    "disk-full", "N16", "fails every write of a server's disk with ENOSPC",
    "write_errno", errno.ENOSPC, "refused_writes", "writes refused for lack of space",
)  # fmt: skip
FSYNC_ERROR = Refusing(
    "fsync-error", "N20", "fails every fsync of a server's disk with EIO",
    "sync_errno", errno.EIO, "refused_syncs", "syncs refused",
)  # fmt: skip
IO_ERROR = Refusing(
    "io-error", "N21", "fails every write of a server's disk with EIO",
    "write_errno", errno.EIO, "refused_writes", "writes refused",
)  # fmt: skip
