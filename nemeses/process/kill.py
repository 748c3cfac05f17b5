"""`kill` and `stop`: server processes that end, at once or by their own leave.

Injector signal, from the node itself: all processes of the services, among them those that listened
at their ports, are gone and nobody listens there. Processes that were not those that served do not
count, nor does it where something brought them back. `stop` also wants the main processes to have
ended by themselves, and where a service says what it logs then, its log to say so.

Catalogue: N01 (kill -9), N02 (SIGTERM).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from dstest.core.evidence import LandingRecord, PageCache, Signal
from dstest.core.protocols import (
    FaultPlan,
    NemesisContext,
    Option,
    Process,
    Restartable,
    ServerLogs,
    Service,
    Supervised,
    Terminate,
)
from dstest.core.protocols import Kill as Killable
from nemeses.base.process_fault import SERVICE_OPTION, Looks, ProcessFault, served_before
from nemeses.observe.answers import services_of
from nemeses.observe.processes import Sight, running, signal_command, struck

__all__ = ["KILL", "STOP", "Kill", "Stop"]

ORDERLY: Final = (0, -15)
"""Exit statuses of main processes that ended on SIGTERM: by themselves, or by its default action,
which many servers restore and send to themselves when they have cleaned up."""

POLL_S: Final = 0.02


class Kill(ProcessFault):
    """The `kill` nemesis."""

    name = "kill"
    doc = "kills server processes with SIGKILL and starts them again on the data they have"
    faults: tuple[str, ...] = ("N01",)
    requires: tuple[type, ...] = (Supervised,)
    explains: frozenset[str] = frozenset({"exit"})
    page_cache: PageCache = "kept"
    options: Mapping[str, Option] = {**ProcessFault.options, **SERVICE_OPTION}

    async def strike(self, ctx: NemesisContext, names: Sequence[str], service: str = "") -> None:
        await ctx.need(Killable).kill(names, service)

    async def undo(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        await ctx.need(Killable).restart(names)

    def heal_command(self, ctx: NemesisContext, record: LandingRecord, name: str) -> list[str]:
        return ctx.need(Restartable).restart_command(name)

    def injector(self, record: LandingRecord, looks: Looks) -> Signal:
        """Gone are the processes that served, all of them, and nobody serves in their place."""
        facts = record.facts
        said = []
        for name in record.targets:
            said += served_before(record, name)
            sight = looks[name][1]
            if sight.left:
                said.append(f"{name}: process {_few(sight.left)} is still there")
            elif sight.more or sight.listener is not None:
                serving = sight.more or sorted(sight.listening)
                said.append(f"{name}: process {_few(serving)} serves in its place")
        count = sum(len(struck(facts, name)) for name in record.targets)
        return Signal(
            signal="pid that listens at the service port",
            before={n: min(facts["listening_before"][n], default=0) for n in record.targets},
            during={n: looks[n][1].listener or 0 for n in record.targets},
            moved=bool(record.targets) and not said,
            detail="; ".join(said)
            or f"the server is gone on {', '.join(record.targets)}, {count} processes in all",
        )

    def healed(
        self, record: LandingRecord, name: str, now: Sequence[Process], sight: Sight
    ) -> str | None:
        old = {(p.pid, p.start_time) for p in struck(record.facts, name)}
        left = [p.pid for p in now if (p.pid, p.start_time) in old]
        if left:
            return f"process {_few(left)} is the old one: it was never gone"
        return super().healed(record, name, now, sight)


class Stop(Kill):
    """The `stop` nemesis."""

    name = "stop"
    doc = "ends server processes in good order with SIGTERM and starts them again"
    faults: tuple[str, ...] = ("N02",)
    requires = (*Kill.requires, Terminate, ServerLogs)

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        """Remember how long the logs are: what was written before speaks for nothing."""
        service = plan.facts.get("service", "")
        names = {s.name for n in ctx.nodes for s in services_of(ctx, n, service)}
        sizes = {s: await ctx.need(ServerLogs).log_sizes(s) for s in sorted(names)}
        facts = {**plan.facts, "log_bytes_before": sizes}
        return await super().inject(ctx, msgspec.structs.replace(plan, facts=facts))

    async def strike(self, ctx: NemesisContext, names: Sequence[str], service: str = "") -> None:
        """SIGTERM, and wait until the processes have ended or will not."""
        await ctx.need(Terminate).terminate(names, service)
        deadline_ns = ctx.clock.now_ns() + int(ctx.deployment.timing.stop_s * 1e9)
        while ctx.clock.now_ns() < deadline_ns:
            left = await running(ctx, service)
            if not any(name in left for name in names):
                return
            await asyncio.sleep(POLL_S)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Start them again; first kill those that have not ended yet, since they still would."""
        service = record.facts.get("service", "")
        now = await running(ctx, service)
        late = [n for n in record.targets if {*now.get(n, ())} & {*struck(record.facts, n)}]
        if late:
            await ctx.need(Killable).kill(late, service)
        await self.undo(ctx, record.targets)

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [
            signal_command(struck(record.facts, name), "KILL"),
            *super().heal_commands(ctx, record, name),
        ]

    async def _look(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        if "shutdown_lines" not in record.facts or not all(record.facts["shutdown_lines"].values()):
            exits = await ctx.need(Terminate).exits()
            rows = await asyncio.gather(*(self._lines(ctx, record, n) for n in record.targets))
            facts = {
                **record.facts,
                "shutdown_lines": dict(zip(record.targets, rows, strict=True)),
                "exits": {n: exits.get(n, {}) for n in record.targets},
            }
            record = msgspec.structs.replace(record, facts=facts)
        return await super()._look(ctx, record)

    async def _lines(self, ctx: NemesisContext, record: LandingRecord, name: str) -> int:
        """Has the log of each struck service what an orderly end leaves there, since the fault?"""

        async def orderly(service: Service) -> bool:
            since = record.facts["log_bytes_before"][service.name][name]
            text = await ctx.need(ServerLogs).log_since(name, since, service.name)
            return all(words in text for words in service.words.shutdown)

        services = services_of(ctx, name, record.facts.get("service", ""))
        return int(all(await asyncio.gather(*map(orderly, services))))

    def injector(self, record: LandingRecord, looks: Looks) -> Signal:
        """As for `kill`; the status tells of an orderly end, and where it is to say so, the log."""
        signal = super().injector(record, looks)
        lines: dict[str, int] = record.facts["shutdown_lines"]
        mute = [name for name, found in lines.items() if not found]
        said = [f"no orderly end in the log of {', '.join(mute)}"] if mute else []
        for name in record.targets:
            wanted = {p.service for p in struck(record.facts, name) if p.main}
            found = record.facts["exits"][name]
            bad = {s: found.get(s) for s in sorted(wanted) if found.get(s) not in ORDERLY}
            said += [f"{name}: {s} ended with status {status}" for s, status in bad.items()]
        if not said:
            return msgspec.structs.replace(
                signal, detail=f"{signal.detail}; each tells of an orderly end"
            )
        detail = "; ".join(said if signal.moved else [signal.detail, *said])
        return msgspec.structs.replace(signal, moved=False, detail=detail)


def _few(pids: Sequence[int]) -> str:
    """`7`, or `7 and 3 more`."""
    return f"{pids[0]}" if len(pids) == 1 else f"{pids[0]} and {len(pids) - 1} more"


KILL = Kill()
STOP = Stop()
