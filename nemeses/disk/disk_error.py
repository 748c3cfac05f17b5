"""`disk-full`, `fsync-error`, `io-error`: the disk under a server refuses.

A file system of ours lies under the data (`nemeses/disk/disk_fault.py`) and counts what it does.
Injector signal: calls that it refused, on each target and on no other node, and what became of the
server. Victim signal: a server that is gone answers nobody, and clients saw operations end badly.
Of a server that survives, far more operations end badly than before (`nemeses/disk/disk_fault.py`).
It has healed when the file system refuses nothing and the servers serve: those that ended are
started again, and those that stay stuck (`Service.stuck_after`) are killed before.

    disk-full     N16  every write fails with ENOSPC, as on a full file system that never overwrites
    fsync-error   N20  every fsync fails with EIO, and what it should have made safe is not safe
    io-error      N21  every write fails with EIO
"""

from __future__ import annotations

import asyncio
import errno
import shlex
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import DataDir, FaultPlan, NemesisContext, Process, Supervised, Ticks
from nemeses.base.driver import Choice, Facts, Healing, Observed, Proven, Reverted, with_facts
from nemeses.base.process_evidence import Snapshots, gather, with_clients
from nemeses.base.process_fault import choose_processes, not_serving, served_before, start_again
from nemeses.disk import disk_fault
from nemeses.disk.disk_fault import (
    BASELINE_S,
    DiskFault,
    Fate,
    clear_disks,
    client_counts,
    counted_on,
    counter_delta,
    counts_since,
    difference,
    disk_control,
    disk_signal,
    fate_of,
    fate_text,
    owner,
    pids_of,
    readings,
    with_counts,
)
from nemeses.observe.processes import (
    ProcessSnapshot,
    processes_before,
    running,
    signal_command,
)
from nemeses.observe.servers import services_of
from nemeses.process.absence import gone_signal, old_processes
from nemeses.tools.groups import SYNCS, WRITES, sample

ENDS_WITHIN_S: Final = 8.0
"""After the heal, of a server that has found out about its disk; PostgreSQL waits 5 s for what it
has asked to end."""

INSIDE_S: Final = 0.2
"""How long the threads of a server that runs are looked at."""


class DiskErrorFault(DiskFault):
    """A disk that answers calls with an error until it is told to stop."""

    # A server whose disk refuses ends by its own decision, with loud last words.
    explains: frozenset[str] = frozenset({"exit", "alarm", "fatal", "panic"})
    taxdc = "crash-recovery"
    taxdc_tags: frozenset[str] = frozenset({"durability"})

    def __init__(
        self, name: str, fault: str, doc: str, setting: str, number: int, counter: str, signal: str
    ) -> None:
        self.name, self.doc, self.faults = name, doc, (fault,)
        self.setting, self.number = setting, number
        self.counter, self.signal = counter, signal

    @property
    def refuses(self) -> Literal["write", "sync"]:
        """The calls that fail."""
        return "sync" if self.setting == "sync_errno" else "write"

    async def choose(self, ctx: NemesisContext, plan: FaultPlan) -> Choice:
        """It is about the service that keeps its data there: others beside it notice nothing."""
        return await choose_processes(ctx, plan, service=owner(ctx))

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """Watch the clients for a while, too."""
        own = with_clients(ctx)
        earlier = client_counts(ctx, record.targets, own)
        await asyncio.sleep(BASELINE_S)
        counts = client_counts(ctx, record.targets, own)
        return {
            "answering": own,
            "disk_before": await readings(ctx),
            "clients_before": difference(counts, earlier),
            "client_rows": with_counts((), ctx.clock.now_ns(), counts),
        }

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """The calls fail from now on; that the servers do not survive it is observed later."""
        names = record.targets
        await asyncio.gather(
            *(disk_fault.ask(ctx.node(n), "set", self.setting, self.number) for n in names)
        )

    async def ticks(self, ctx: NemesisContext, record: LandingRecord) -> Ticks | None:
        return Ticks(self.signal, await counted_on(ctx, record, self.counter))

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        disk = await readings(ctx)
        counts = client_counts(ctx, record.targets, record.facts["answering"])
        rows = with_counts(record.facts["client_rows"], ctx.clock.now_ns(), counts)
        facts = {"disk": disk, "client_rows": rows, "clients_since": counts_since(rows)}
        record = with_facts(record, facts)
        record, snapshots, victim, control = await gather(ctx, record)
        alive = [n for n in record.targets if not snapshots[n][1].lost]
        serving = [n for n in alive if snapshots[n][1].serves]
        found = await self.fates(ctx, record, serving)
        closed = {n: "closed" for n in alive if n not in serving}
        record = with_facts(record, {**found, "fates": {**found["fates"], **closed}})
        if serving:
            victim = await self._victim(ctx, record, serving)
        return Observed(
            injector=self.injector(record, snapshots),
            victim=victim,
            control=disk_control(record, control, self.counter),
            facts=record.facts,
        )

    async def fates(
        self, ctx: NemesisContext, record: LandingRecord, alive: Sequence[str]
    ) -> Facts:
        """What became of the servers, those that serve (`alive`) by what their threads do."""
        folder = ctx.need(DataDir).data_dir()
        calls = SYNCS if self.refuses == "sync" else WRITES
        found = await asyncio.gather(
            *(sample(ctx.node(n), pids_of(record, n), folder, calls, INSIDE_S) for n in alive)
        )
        inside = {n: samples.share for n, samples in zip(alive, found, strict=True)}
        before, since = record.facts["clients_before"], record.facts["clients_since"]
        fates: dict[str, Fate] = dict.fromkeys(record.targets, "gone")
        apart = record.targets if len(record.targets) == 1 else record.facts["answering"]
        fates |= {
            n: fate_of(before[n], since[n], share, own=n in apart) for n, share in inside.items()
        }
        # Clients of a survivor may be answered while the fault stands: what it need not write.
        quiet = {n: row for n, row in record.facts["quiet"].items() if n not in alive}
        return {"fates": fates, "inside": inside, "quiet": quiet}

    async def _victim(
        self, ctx: NemesisContext, record: LandingRecord, alive: Sequence[str]
    ) -> Signal:
        """Of survivors, and of those beside them that are gone."""
        signal = disk_fault.victim(record, alive)
        gone = [n for n in record.targets if n not in alive]
        if not gone:
            return signal
        _, _, silent, _ = await gather(ctx, msgspec.structs.replace(record, targets=gone))
        return Signal(
            signal=f"{silent.signal}; {signal.signal}",
            before={**silent.before, **signal.before},
            during={**silent.during, **signal.during},
            moved=silent.moved and signal.moved,
            detail=f"{silent.detail}; {signal.detail}",
        )

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        """As `revert` and `prove`: it may end after it was found to run."""
        start = ctx.need(Supervised).restart_command(name)
        kill = [signal_command(processes_before(record, name), "KILL")]
        return [
            disk_fault.asking("clear"),
            *(kill if self._stays_stuck(ctx, name) else []),
            start,
            ["sh", "-c", f"sleep {ENDS_WITHIN_S:g}; exec {shlex.join(start)}"],
        ]

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> Reverted:
        await clear_disks(ctx, record.targets)
        service = owner(ctx)
        found = await running(ctx, service)
        fates = record.facts.get("fates", {})
        stuck = [
            name
            for name in record.targets
            if self._stays_stuck(ctx, name)
            and fates.get(name) != "unharmed"
            and any(process.main for process in found.get(name, ()))
        ]
        if stuck:
            await ctx.need(Supervised).kill(stuck, service)
        await ctx.need(Supervised).restart(record.targets)
        return Reverted(facts={"killed_when_healed": stuck})

    def _stays_stuck(self, ctx: NemesisContext, name: str) -> bool:
        services = services_of(ctx, name, owner(ctx))
        return any(self.refuses in service.stuck_after for service in services)

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """It stays: one that ends after the heal is started again, but not for ever."""
        starts = await start_again(ctx, record)
        proven = await super().prove(ctx, record, healing)
        return msgspec.structs.replace(proven, facts={"started_again": starts})

    def injector(self, record: LandingRecord, snapshots: Snapshots) -> Signal:
        """Calls that were refused, by a setting that stands; and the servers' fates."""
        problems = []
        for name in record.targets:
            if record.facts["disk"][name][self.setting] != self.number:
                problems.append(f"{name}: its file system refuses nothing")
            elif not counter_delta(record, self.counter)[name]:
                problems.append(f"{name}: nothing was {self.signal}")
        return disk_signal(
            record, fate_signal(record, snapshots), self.counter, self.signal, problems
        )

    def process_problem(
        self, record: LandingRecord, name: str, now: Sequence[Process], snapshot: ProcessSnapshot
    ) -> str | None:
        """A survivor need not have been started again."""
        if record.facts.get("fates", {}).get(name, "gone") == "gone":
            return old_processes(record, name, now, snapshot)
        return not_serving(now, snapshot)


def fate_signal(record: LandingRecord, snapshots: Snapshots) -> Signal:
    """Gone, or it survives and that shows; it must be the process that served."""
    fates: dict[str, Fate] = record.facts["fates"]
    gone = [n for n in record.targets if fates[n] == "gone"]
    rest = [n for n in record.targets if fates[n] != "gone"]
    ended = gone_signal(msgspec.structs.replace(record, targets=gone), snapshots)
    problems = [ended.detail] if gone and not ended.moved else []
    for name in rest:
        pid = pids_of(record, name)[0]
        problems += served_before(record, name)
        if fates[name] == "unharmed":
            problems.append(f"{name}: process {pid} is still there, and serves as before")
    shown = [*([ended.detail] if gone else []), *(fate_text(record, n) for n in rest)]
    return msgspec.structs.replace(
        ended, moved=bool(record.targets) and not problems, detail="; ".join(problems or shown)
    )


DISK_FULL = DiskErrorFault(
    "disk-full", "N16", "fails every write of a server's disk with ENOSPC",
    "write_errno", errno.ENOSPC, "refused_writes", "writes refused for lack of space",
)  # fmt: skip
FSYNC_ERROR = DiskErrorFault(
    "fsync-error", "N20", "fails every fsync of a server's disk with EIO",
    "sync_errno", errno.EIO, "refused_syncs", "syncs refused",
)  # fmt: skip
IO_ERROR = DiskErrorFault(
    "io-error", "N21", "fails every write of a server's disk with EIO",
    "write_errno", errno.EIO, "refused_writes", "writes refused",
)  # fmt: skip
