"""Faults of the disk under a server: it refuses, it is full, its power fails.

A file system of ours lies under the data (`nemeses/disk/faultfs.py`) and counts what it does.
Injector signal: calls that it refused, or bytes that the power cut took, on each target and on no
other node, and what became of the server. Victim signal: a server that is gone answers nobody, and
clients saw operations end badly. Of a server that survives a disk that refuses, far more operations
end badly than before (`nemeses/disk/survivors.py`). It has healed when the file system refuses
nothing and the servers, those that ended started again on what their disks hold, serve.

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
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import LabError
from dstest.core.evidence import LandingRecord, PageCache, Signal
from dstest.core.protocols import (
    DataDir,
    FaultPlan,
    NemesisContext,
    Option,
    Process,
    Supervised,
)
from nemeses.base.process_evidence import gather, landed
from nemeses.base.process_fault import Looks, ProcessFault, served_before
from nemeses.disk import faultfs, survivors
from nemeses.disk.on_disk import OnDisk, counter_delta, owner
from nemeses.disk.survivors import (
    BASELINE_S,
    Fate,
    client_counts,
    counts_since,
    difference,
    fate_of,
    pids_of,
    told,
    with_counts,
)
from nemeses.observe.processes import Sight, dying, struck
from nemeses.tools.calls import SYNCS, WRITES, sample

__all__ = ["DISK_FULL", "FSYNC_ERROR", "IO_ERROR", "POWER", "Power", "Refusing"]

DIRTY_DEADLINE_S: Final = 5.0
"""Members that lost their leader write their vote by then."""

INSIDE_S: Final = 0.2
"""How long the threads of a server that runs are looked at."""


class Refusing(OnDisk):
    """A disk that answers calls with an error until it is told to stop."""

    def __init__(
        self, name: str, fault: str, doc: str, setting: str, number: int, counter: str, signal: str
    ) -> None:
        self.name, self.doc, self.faults = name, doc, (fault,)
        self.setting, self.number = setting, number
        self.counter, self.signal = counter, signal

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        """It is about the service that keeps its data there: others beside it notice nothing."""
        facts = {**plan.facts, "service": owner(ctx)}
        return await super().inject(ctx, msgspec.structs.replace(plan, facts=facts))

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

    async def _before(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Watch the clients for a while, too."""
        earlier, now = client_counts(ctx, record.targets), asyncio.sleep(BASELINE_S)
        record, _ = await asyncio.gather(super()._before(ctx, record), now)
        counts = client_counts(ctx, record.targets)
        facts = {
            **record.facts,
            "clients_before": difference(counts, earlier),
            "client_rows": with_counts((), ctx.clock.now_ns(), counts),
        }
        return msgspec.structs.replace(record, facts=facts)

    async def _look_at_servers(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        counts = client_counts(ctx, record.targets)
        rows = with_counts(record.facts["client_rows"], ctx.clock.now_ns(), counts)
        facts = {**record.facts, "client_rows": rows, "clients_since": counts_since(rows)}
        record = msgspec.structs.replace(record, facts=facts)
        record, looks, victim, control = await gather(ctx, record, self.outcome)
        alive = [n for n in record.targets if not looks[n][1].lost]
        record = await self._with_fates(ctx, record, alive)
        if alive:
            victim = await self._victim(ctx, record, alive)
        injector = self.injector(record, looks)
        return msgspec.structs.replace(
            record,
            injector=injector,
            victim=victim,
            control=control,
            landed=landed(record, injector, victim, control),
        )

    async def _with_fates(
        self, ctx: NemesisContext, record: LandingRecord, alive: Sequence[str]
    ) -> LandingRecord:
        folder = ctx.need(DataDir).data_dir()
        calls = SYNCS if self.counter == "refused_syncs" else WRITES
        found = await asyncio.gather(
            *(sample(ctx.node(n), pids_of(record, n), folder, calls, INSIDE_S) for n in alive)
        )
        inside = {n: samples.share for n, samples in zip(alive, found, strict=True)}
        before, since = record.facts["clients_before"], record.facts["clients_since"]
        fates: dict[str, Fate] = dict.fromkeys(record.targets, "gone")
        fates |= {n: fate_of(before[n], since[n], share) for n, share in inside.items()}
        # Clients of a survivor may be answered while the fault stands: what it need not write.
        quiet = {n: row for n, row in record.facts["quiet"].items() if n not in alive}
        facts = {**record.facts, "fates": fates, "inside": inside, "quiet": quiet}
        return msgspec.structs.replace(record, facts=facts)

    async def _victim(
        self, ctx: NemesisContext, record: LandingRecord, alive: Sequence[str]
    ) -> Signal:
        """Of survivors, and of those beside them that are gone."""
        signal = survivors.victim(record, alive)
        gone = [n for n in record.targets if n not in alive]
        if not gone:
            return signal
        _, _, silent, _ = await gather(
            ctx, msgspec.structs.replace(record, targets=gone), self.outcome
        )
        return Signal(
            signal=f"{silent.signal}; {signal.signal}",
            before={**silent.before, **signal.before},
            during={**silent.during, **signal.during},
            moved=silent.moved and signal.moved,
            detail=f"{silent.detail}; {signal.detail}",
        )

    def fate(self, record: LandingRecord, looks: Looks) -> Signal:
        """Gone, or it survives and that shows; it must be the process that served."""
        fates: dict[str, Fate] = record.facts["fates"]
        gone = [n for n in record.targets if fates[n] == "gone"]
        rest = [n for n in record.targets if fates[n] != "gone"]
        ended = super().fate(msgspec.structs.replace(record, targets=gone), looks)
        said = [ended.detail] if gone and not ended.moved else []
        for name in rest:
            pid = pids_of(record, name)[0]
            said += served_before(record, name)
            if not looks[name][1].serves:
                said.append(f"{name}: process {pid} runs and does not listen")
            if fates[name] == "unharmed":
                said.append(f"{name}: process {pid} is still there, and serves as before")
        shown = [*([ended.detail] if gone else []), *(told(record, n) for n in rest)]
        return msgspec.structs.replace(
            ended, moved=bool(record.targets) and not said, detail="; ".join(said or shown)
        )

    def healed(
        self, record: LandingRecord, name: str, now: Sequence[Process], sight: Sight
    ) -> str | None:
        """A survivor need not have been started again."""
        if record.facts.get("fates", {}).get(name, "gone") == "gone":
            return super().healed(record, name, now, sight)
        return ProcessFault.healed(self, record, name, now, sight)


class Power(OnDisk):
    """The `power` nemesis."""

    name = "power"
    doc = "kills servers and takes from their disks all that was not synced, then starts them again"
    faults: tuple[str, ...] = ("N17",)
    # What was promised is on the disk: after a cut nothing is corrupt, and nobody panics.
    explains: frozenset[str] = frozenset({"exit"})
    page_cache: PageCache = "lost"
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
        try:
            # What a server appends after the cut would leave a hole, which no power cut does.
            await asyncio.gather(*(dying(ctx.node(n), struck(record.facts, n)) for n in losers))
        finally:
            await self.cut(ctx, record)
            await killing

    async def cut(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Take what was not synced; a test sabotages it."""
        seed = record.facts["torn_seed"]
        words: list[str | int] = ["cut", seed] if seed else ["cut"]

        await asyncio.gather(*(faultfs.ask(ctx.node(n), *words) for n in record.facts["losers"]))

    def missing(self, record: LandingRecord, name: str) -> str | None:
        """Servers that only went down lose nothing, and must not."""
        lost = counter_delta(record, self.counter)[name]
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
