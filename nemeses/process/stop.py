"""`stop`: server processes that end by their own leave.

Injector signal: as for `kill`; the main processes have ended by themselves, and where a service
says what it logs then, its log says so.

Catalogue: N02 (SIGTERM).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec

from dstest.core.evidence import LandingRecord, PageCache, ProcessDetails, Signal
from dstest.core.protocols import (
    Kill,
    NemesisContext,
    Option,
    Process,
    Restartable,
    ServerLogs,
    Service,
    Supervised,
)
from nemeses.base.driver import ENDS_TRAFFIC, Facts, Observed, with_facts
from nemeses.base.process_evidence import Snapshots
from nemeses.base.process_fault import SERVICE_OPTION, ProcessFault, gather_evidence
from nemeses.observe.processes import ProcessSnapshot, processes_before, running, signal_command
from nemeses.observe.servers import services_of
from nemeses.process.absence import gone_signal, old_processes


@runtime_checkable
class Terminate(Protocol):
    """Servers that end in good order when they are asked to.

    An orderly end leaves what `LogWords.shutdown` of the service lists in its log.
    """

    async def terminate(self, names: Sequence[str], service: str = "") -> None:
        """The signal of its `ending` to each main process; does not wait."""
        ...

    async def exits(self) -> dict[str, dict[str, int | None]]:
        """Per node and service the exit status of its last main process, below zero for a signal;
        None while it runs, or where nobody knows."""
        ...


POLL_S: Final = 0.02


class Stop(ProcessFault):
    """The `stop` nemesis."""

    name = "stop"
    taxdc = "crash-recovery"
    doc = "has server processes end in good order (SIGTERM, or their own way), starts them again"
    faults: tuple[str, ...] = ("N02",)
    requires = (Supervised, Terminate, ServerLogs)
    counts_pids = True
    explains: frozenset[str] = frozenset({"exit"})
    page_cache: PageCache = "kept"
    overlap = ENDS_TRAFFIC
    options: Mapping[str, Option] = {**ProcessFault.options, **SERVICE_OPTION}

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """How long the logs are, as what was written before speaks for nothing; which statuses tell
        of a good order."""
        service = ProcessDetails.of(record).service
        found = {s.name: s for n in ctx.nodes for s in services_of(ctx, n, service)}
        return {
            "log_bytes_before": {s: await ctx.need(ServerLogs).log_sizes(s) for s in sorted(found)},
            "orderly_statuses": {name: [*s.ending.statuses] for name, s in found.items()},
        }

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Ask the processes to end, and wait until they have or will not."""
        service = ProcessDetails.of(record).service
        await ctx.need(Terminate).terminate(record.targets, service)
        deadline_ns = ctx.clock.now_ns() + int(ctx.deployment.timing.stop_s * 1e9)
        while ctx.clock.now_ns() < deadline_ns:
            left = await running(ctx, service)
            if not any(name in left for name in record.targets):
                return
            await asyncio.sleep(POLL_S)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Start them again; first kill those that have not ended yet, since they still would."""
        service = ProcessDetails.of(record).service
        now = await running(ctx, service)
        late = [n for n in record.targets if {*now.get(n, ())} & {*processes_before(record, n)}]
        if late:
            await ctx.need(Kill).kill(late, service)
        await ctx.need(Kill).restart(record.targets)

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [
            signal_command(processes_before(record, name), "KILL"),
            ctx.need(Restartable).restart_command(name),
        ]

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        if "shutdown_lines" not in record.facts or not all(record.facts["shutdown_lines"].values()):
            exits = await ctx.need(Terminate).exits()
            rows = await asyncio.gather(*(_logged(ctx, record, n) for n in record.targets))
            record = with_facts(
                record,
                {
                    "shutdown_lines": dict(zip(record.targets, rows, strict=True)),
                    "exits": {n: exits.get(n, {}) for n in record.targets},
                },
            )
        return await gather_evidence(ctx, record, orderly_signal)

    def process_problem(
        self, record: LandingRecord, name: str, now: Sequence[Process], snapshot: ProcessSnapshot
    ) -> str | None:
        return old_processes(record, name, now, snapshot)


async def _logged(ctx: NemesisContext, record: LandingRecord, name: str) -> int:
    """Has the log of each service that was hit what an orderly end leaves there, since then?"""

    async def orderly(service: Service) -> bool:
        since = record.facts["log_bytes_before"][service.name][name]
        text = await ctx.need(ServerLogs).log_since(name, since, service.name)
        return all(words in text for words in service.words.shutdown)

    services = services_of(ctx, name, ProcessDetails.of(record).service)
    return int(all(await asyncio.gather(*map(orderly, services))))


def orderly_signal(record: LandingRecord, snapshots: Snapshots) -> Signal:
    """As for `kill`; the status tells of an orderly end, and where it is to say so, the log."""
    signal = gone_signal(record, snapshots)
    lines: dict[str, int] = record.facts["shutdown_lines"]
    silent = [name for name, found in lines.items() if not found]
    problems = [f"no orderly end in the log of {', '.join(silent)}"] if silent else []
    for name in record.targets:
        wanted = {p.service for p in processes_before(record, name) if p.main}
        found = record.facts["exits"][name]
        orderly = record.facts["orderly_statuses"]
        bad = {s: found.get(s) for s in sorted(wanted) if found.get(s) not in orderly[s]}
        problems += [f"{name}: {s} ended with status {status}" for s, status in bad.items()]
    if not problems:
        return msgspec.structs.replace(
            signal, detail=f"{signal.detail}; each tells of an orderly end"
        )
    detail = "; ".join(problems if signal.moved else [signal.detail, *problems])
    return msgspec.structs.replace(signal, moved=False, detail=detail)


NEMESIS = Stop()
