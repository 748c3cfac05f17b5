"""`slow-disk`: every sync of a server's disk takes longer.

Injector signal: syncs that the file system under the data delayed, on each target and on no other
node. Victim signal: the server itself, by its own measure, waited at least 0.7 of the delay per
sync; where it has no measure, its threads are sampled, and the time that they were seen inside a
sync (or a write, which syncs by itself where the file was opened so) is divided by the number of
syncs. Control: the other servers did not. It has healed when nothing is delayed and syncs are short
again.

Catalogue: N18.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import DataDir, NemesisContext, Option, Process, Ticks
from dstest.core.residue import Residue
from nemeses.base.driver import (
    SHOWS_IN_ITS_OWN_TRAFFIC,
    Facts,
    Healing,
    Observed,
    Proven,
    with_facts,
)
from nemeses.base.process_fault import ProcessFault
from nemeses.base.schedule import check_range
from nemeses.disk import disk_fault
from nemeses.disk.disk_fault import clear_disks, counted_on, faults_in, pids_of, readings
from nemeses.observe.servers import health_of
from nemeses.tools.compiled import TOOLS
from nemeses.tools.groups import SYNCS, WRITES, sample


@runtime_checkable
class SyncStats(Protocol):
    """Measures its own syncs to disk."""

    async def sync_stats(self) -> dict[str, tuple[int, float]]:
        """Syncs and their seconds in all since each server started; without those that are mute."""
        ...


FELT_MIN: Final = 0.7
SPARED_MAX: Final = 0.2
"""Shares of the delay that a sync takes on a target at least, on another node at most."""

SYNCS_MIN: Final = 5
SAMPLED_S: Final = 1.0

HEALED_GAP_S: Final = 0.5

Stats = Mapping[str, Sequence[float]]
"""Syncs and their seconds in all."""


async def sync_stats(
    ctx: NemesisContext, record: LandingRecord, known: Stats | None
) -> tuple[Stats, str]:
    """Stats of each server, and from whom; sampled ones go on from those that are `known`."""
    measured = ctx.offered(SyncStats)
    if measured is not None:
        return await measured.sync_stats(), "as the server measures them"
    return await _sampled(ctx, record, known), "by samples of its threads"


async def _sampled(ctx: NemesisContext, record: LandingRecord, known: Stats | None) -> Stats:
    """Syncs are counted by the file system; a thread that is seen inside one waits for it."""
    if known is None:
        return dict.fromkeys(ctx.nodes, (0, 0.0))
    folder = ctx.need(DataDir).data_dir()

    async def one(name: str) -> tuple[float, float]:
        pids = pids_of(record, name)
        seen = await sample(
            ctx.node(name),
            pids,
            folder,
            SYNCS,
            SAMPLED_S,
            synced=WRITES,
            control_socket=disk_fault.SOCKET,
        )
        return known[name][0] + seen.syncs, known[name][1] + seen.inside_s

    found = await asyncio.gather(*map(one, ctx.nodes))
    return dict(zip(ctx.nodes, found, strict=True))


class SlowDisk(ProcessFault):
    """The `slow-disk` nemesis."""

    name = "slow-disk"
    taxdc = "timing"
    disturbs_host: frozenset[str] = frozenset({"disk-stall"})
    doc = "makes every sync of a server's disk take longer"
    faults: tuple[str, ...] = ("N18",)
    overlap = SHOWS_IN_ITS_OWN_TRAFFIC
    requires = (*ProcessFault.requires, DataDir)
    residues: tuple[Residue, ...] = (disk_fault.RESIDUE, TOOLS)
    needs: tuple[str, ...] = ("fuse", "x86-64")
    options: Mapping[str, Option] = {
        "delay_ms": Option(
            type=int, default=100, least=1, most=60_000, help="how much longer each sync takes"
        ),
        **ProcessFault.options,
    }

    def check_options(self, options: Mapping[str, Any], nodes: Sequence[str]) -> None:
        check_range(options, "delay_ms", 20, 2000)

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        return {"delay_ms": options["delay_ms"]}

    async def prepare(self, ctx: NemesisContext) -> None:
        """Lay the file system."""
        await disk_fault.lay(ctx, self.name)

    async def withdraw(self, ctx: NemesisContext) -> None:
        """Take it away with the data."""
        await disk_fault.take_away(ctx, list(ctx.nodes))

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [disk_fault.asking("clear")]

    def patience_s(self, record: LandingRecord) -> float:
        """A server may sync once a second."""
        return 2 * SYNCS_MIN * (1 + float(record.facts["delay_ms"]) / 1000)

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return {"disk_before": await readings(ctx)}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        delay_us = record.facts["delay_ms"] * 1000
        await asyncio.gather(
            *(disk_fault.ask(ctx.node(n), "set", "sync_delay_us", delay_us) for n in record.targets)
        )

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await clear_disks(ctx, record.targets)

    async def ticks(self, ctx: NemesisContext, record: LandingRecord) -> Ticks | None:
        return Ticks("syncs delayed", await counted_on(ctx, record, "delayed"))

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        stats, how = await sync_stats(ctx, record, record.facts.get("syncs"))
        now = await readings(ctx)
        # Syncs from before the delay do not count: the first time they are seen comes after it.
        since = record.facts.get("syncs_since", stats)
        record = with_facts(record, {"syncs_since": since, "syncs": stats, "syncs_from": how})
        took_ms = _took_ms(since, stats)
        return Observed(
            injector=_injector(record, now),
            victim=_victim(record, took_ms),
            control=_control(record, now, took_ms),
            facts=record.facts,
        )

    async def in_force(self, ctx: NemesisContext, record: LandingRecord) -> Mapping[str, str]:
        now, wanted_us = await readings(ctx), record.facts["delay_ms"] * 1000
        stands = {n: now[n]["sync_delay_us"] == wanted_us for n in record.targets if n in now}
        return {n: "stands" if stands.get(n) else "" for n in record.targets}

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """Nothing is delayed any more, by our word and by the servers' own, and they serve."""
        earlier, _ = await sync_stats(ctx, record, None)
        await asyncio.sleep(HEALED_GAP_S)
        now, _ = await sync_stats(ctx, record, earlier)
        found = await readings(ctx)
        took_ms = _took_ms(earlier, now, syncs_min=1)
        limit_ms = SPARED_MAX * record.facts["delay_ms"]
        missing = [f"{n}: the file system has {f}" for n, r in found.items() for f in faults_in(r)]
        missing += [
            f"{n}: a sync takes {took_ms.get(n, -1):.1f} ms"
            for n in record.targets
            if not 0 <= took_ms.get(n, -1) <= limit_ms
        ]
        healthy = await health_of(ctx)
        missing += [f"{n} does not serve" for n in ctx.nodes if not healthy.get(n)]
        left = {n: found[n]["sync_delay_us"] for n in record.targets}
        return Proven(missing, left, {n: took_ms.get(n, -1.0) for n in record.targets})

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """Faults that the file system still makes."""
        return [f"its file system has {f}" for f in faults_in(await disk_fault.ask(node, "get"))]


def _took_ms(before: Stats, now: Stats, syncs_min: int = SYNCS_MIN) -> dict[str, float]:
    """Milliseconds per sync meanwhile, of the servers that synced often enough to tell."""
    found = {}
    for name, (count, seconds) in now.items():
        syncs = int(count - before[name][0]) if name in before else 0
        if syncs >= syncs_min:
            found[name] = round((seconds - before[name][1]) / syncs * 1000, 2)
    return found


def _injector(record: LandingRecord, now: Mapping[str, Mapping[str, int]]) -> Signal:
    before = record.facts["disk_before"]
    delayed = {n: now[n]["delayed"] - before[n]["delayed"] for n in record.targets}
    problems = [f"{n}: no sync was delayed" for n, count in delayed.items() if not count]
    wanted_us = record.facts["delay_ms"] * 1000
    problems += [
        f"{n}: its file system delays by {now[n]['sync_delay_us'] / 1000:g} ms"
        for n in record.targets
        if now[n]["sync_delay_us"] != wanted_us
    ]
    return Signal(
        signal="syncs delayed by the file system",
        before=dict.fromkeys(record.targets, 0),
        during=delayed,
        moved=bool(delayed) and not problems,
        detail="; ".join(problems) or f"{sum(delayed.values()):,} syncs delayed",
    )


def _victim(record: LandingRecord, took_ms: Mapping[str, float]) -> Signal:
    wanted_ms = record.facts["delay_ms"]
    problems = []
    for name in record.targets:
        if name not in took_ms:
            problems.append(f"{name} has not measured {SYNCS_MIN} syncs yet")
        elif took_ms[name] < FELT_MIN * wanted_ms:
            problems.append(f"{name} measured {took_ms[name]:g} ms per sync")
    measured = {n: took_ms.get(n, 0.0) for n in record.targets}
    return Signal(
        signal=f"milliseconds per sync {record.facts['syncs_from']}",
        before=dict.fromkeys(record.targets, 0),
        during=measured,
        moved=bool(measured) and not problems,
        detail="; ".join(problems)
        or ", ".join(f"{n} measured {v:g} ms" for n, v in measured.items()),
    )


def _control(
    record: LandingRecord, now: Mapping[str, Mapping[str, int]], took_ms: Mapping[str, float]
) -> Signal:
    before, others = record.facts["disk_before"], [n for n in now if n not in record.targets]
    limit_ms = SPARED_MAX * record.facts["delay_ms"]
    hit = [
        n
        for n in others
        if now[n]["delayed"] != before[n]["delayed"] or took_ms.get(n, 0.0) > limit_ms
    ]
    return Signal(
        signal="milliseconds per sync on the other nodes",
        before=dict.fromkeys(others, 0),
        during={n: took_ms.get(n, 0.0) for n in others},
        moved=bool(hit),
        detail=f"hit as well: {', '.join(hit)}"
        if hit
        else ("untouched" if others else "no server was left out"),
    )


NEMESIS = SlowDisk()
