"""`power`: the power of servers fails: processes are killed, and what they had not synced is gone.

The file system under the data (`nemeses/disk/disk_fault.py`) counts the bytes that the cut took.
Injector signal: those bytes, on each target that is to lose something and on no other node, and
servers that are gone. Victim and control signal: as for `kill`. It has healed when the servers,
started again on what their disks hold, serve. With torn=true some unsynced sectors are kept and
others lost, in no order.

kill -9 alone loses nothing that reached the page cache: only `power` tests durability.

Catalogue: N17.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import LabError
from dstest.core.evidence import LandingRecord, PageCache, Signal
from dstest.core.protocols import NemesisContext, Option, Process, Supervised
from nemeses.base.driver import Facts, Observed, with_facts
from nemeses.base.leadership import voters
from nemeses.base.process_evidence import Snapshots
from nemeses.base.process_fault import gather_evidence
from nemeses.base.simulated import Simulated, SimulatedPower
from nemeses.disk import disk_fault
from nemeses.disk.disk_fault import (
    DiskFault,
    clear_disks,
    counter_delta,
    disk_control,
    disk_signal,
    readings,
)
from nemeses.observe.processes import ProcessSnapshot, dying, processes_before
from nemeses.process.absence import gone_signal, old_processes

DIRTY_DEADLINE_S: Final = 5.0
"""Members that lost their leader write their vote by then."""

DISCARDED: Final = "discarded_bytes"
"""The counter of the file system that says what a cut took."""

WHAT: Final = "unsynced bytes discarded"


class Power(DiskFault):
    """The `power` nemesis."""

    name = "power"
    taxdc = "crash-recovery"
    taxdc_tags: frozenset[str] = frozenset({"durability"})
    doc = "kills servers and takes from their disks all that was not synced, then starts them again"
    faults: tuple[str, ...] = ("N17",)
    # What was promised is on the disk: after a cut nothing is corrupt, and nobody panics.
    explains: frozenset[str] = frozenset({"exit"})
    page_cache: PageCache = "lost"
    simulated = Simulated(
        driver=SimulatedPower,
        options=frozenset(DiskFault.options),
        only={"torn_seed": (0,), "lose": ("targets",)},
    )
    options: Mapping[str, Option] = {
        **DiskFault.options,
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

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """How much of the unsynced is lost."""
        return {
            "torn_seed": 1 + rng.getrandbits(31) if options["torn"] else 0,
            "writeback_ms": int(options["writeback_s"] * 1000),
            "lose": options["lose"],
        }

    async def ready(self, ctx: NemesisContext) -> None:
        after_ms = int(float(ctx.options.get("writeback_s", 2.0)) * 1000)
        await asyncio.gather(
            *(disk_fault.ask(ctx.node(n), "set", "writeback_ms", after_ms) for n in ctx.nodes)
        )

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return {"disk_before": await readings(ctx), "losers": losers(record, voters(ctx))}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Stall all syncs until each target has something unsynced, then kill and cut.

        A sync that waited fails when the power does, so that nothing of it was promised.
        """
        losers = record.facts["losers"]
        nodes = [ctx.node(name) for name in losers]
        await asyncio.gather(*(disk_fault.ask(n, "set", "stall", 1) for n in nodes))
        deadline_ns = ctx.clock.now_ns() + int(DIRTY_DEADLINE_S * 1e9)
        while ctx.clock.now_ns() < deadline_ns:
            found = await asyncio.gather(*(disk_fault.ask(n, "get") for n in nodes))
            if all(row["dirty_bytes"] for row in found):
                break
        killing = asyncio.create_task(ctx.need(Supervised).kill(record.targets))
        try:
            # What a server appends after the cut would leave a hole, which no power cut does.
            await asyncio.gather(*(dying(ctx.node(n), processes_before(record, n)) for n in losers))
        finally:
            await self.cut(ctx, record)
            await killing

    async def cut(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Take what was not synced; a test sabotages it."""
        seed = record.facts["torn_seed"]
        words: list[str | int] = ["cut", seed] if seed else ["cut"]

        await asyncio.gather(*(disk_fault.ask(ctx.node(n), *words) for n in record.facts["losers"]))

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        record = with_facts(record, {"disk": await readings(ctx)})
        seen = await gather_evidence(ctx, record, cut_signal)
        control = disk_control(record, seen.control, DISCARDED)
        return msgspec.structs.replace(seen, control=control)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Those that lost something come first: they must serve without the memory of others."""
        losers = record.facts["losers"]
        if len(losers) < len(record.targets):
            with contextlib.suppress(LabError):
                await ctx.need(Supervised).restart(losers)
        await clear_disks(ctx, record.targets)
        await ctx.need(Supervised).restart(record.targets)

    def process_problem(
        self, record: LandingRecord, name: str, now: Sequence[Process], snapshot: ProcessSnapshot
    ) -> str | None:
        return old_processes(record, name, now, snapshot)


def losers(record: LandingRecord, voting: Sequence[str]) -> list[str]:
    """The targets that lose what they had not synced: all, or a majority of those that vote."""
    if record.facts["lose"] != "majority":
        return list(record.targets)
    order = [*record.targets]
    random.Random(record.facts["seed"]).shuffle(order)
    return sorted([name for name in order if name in voting][: len(voting) // 2 + 1])


def _counted_wrong(record: LandingRecord, name: str) -> str | None:
    """Servers that only went down lose nothing, and must not."""
    lost = counter_delta(record, DISCARDED)[name]
    if name in record.facts["losers"]:
        return None if lost else f"{name}: nothing was {WHAT}"
    return f"{name}: lost {lost} bytes as well" if lost else None


def cut_signal(record: LandingRecord, snapshots: Snapshots) -> Signal:
    """Injector: the bytes that the cut took, and servers that are gone."""
    problems = [wrong for name in record.targets if (wrong := _counted_wrong(record, name))]
    return disk_signal(record, gone_signal(record, snapshots), DISCARDED, WHAT, problems)


NEMESIS = Power()
