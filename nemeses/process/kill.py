"""`kill` and `stop`: server processes that end, at once or by their own leave.

Injector signal, from the node itself: the process that listened at the service port is gone and
nobody listens there. A process that is not the one that served does not count, nor does one that a
supervisor brought back. `stop` wants the server's own word on it in its log as well.

Catalogue: N01 (kill -9), N02 (SIGTERM).
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import (
    FaultPlan,
    LogFiles,
    NemesisContext,
    Probed,
    Processes,
    Restartable,
    Supervised,
    Terminate,
)
from dstest.core.protocols import Kill as Killable
from nemeses.base.process_fault import Looks, ProcessFault
from nemeses.observe.processes import Sight, signal_command

__all__ = ["KILL", "STOP", "Kill", "Stop"]

LOG_BYTES_MAX: Final = 1 << 20
EXIT_DEADLINE_S: Final = 20.0
"""etcd without a quorum waits for requests in flight before it goes."""
POLL_S: Final = 0.02


class Kill(ProcessFault):
    """The `kill` nemesis."""

    name = "kill"
    doc = "kills server processes with SIGKILL and starts them again on the data they have"
    faults: tuple[str, ...] = ("N01",)
    requires: tuple[type, ...] = (Supervised, Probed)
    explains: frozenset[str] = frozenset({"exit"})

    async def strike(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        await ctx.need(Killable).kill(names)

    async def undo(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        await ctx.need(Killable).restart(names)

    def heal_command(self, ctx: NemesisContext, record: LandingRecord, name: str) -> list[str]:
        return ctx.need(Restartable).restart_command(name)

    def injector(self, record: LandingRecord, looks: Looks) -> Signal:
        """Gone is the process that served, and nobody serves in its place."""
        facts = record.facts
        said = []
        for name in record.targets:
            pid = facts["pids"][name][0]
            if facts["listening_before"][name] != [pid]:
                said.append(f"{name}: process {pid} was not the one that served")
            sight = looks[name][1]
            if sight.alive:
                said.append(f"{name}: process {pid} is still there")
            elif sight.listener is not None:
                said.append(f"{name}: process {sight.listener} serves in its place")
        return Signal(
            signal="pid that listens at the service port",
            before={n: min(facts["listening_before"][n], default=0) for n in record.targets},
            during={n: looks[n][1].listener or 0 for n in record.targets},
            moved=bool(record.targets) and not said,
            detail="; ".join(said) or f"the server is gone on {', '.join(record.targets)}",
        )

    def healed(self, record: LandingRecord, name: str, pid: int, sight: Sight | None) -> str | None:
        if sight is None or not sight.alive:
            return "its server does not run"
        if pid == record.facts["pids"][name][0]:
            return f"process {pid} is the old one: it was never gone"
        return None if sight.listener == pid else f"process {pid} does not serve"


class Stop(Kill):
    """The `stop` nemesis."""

    name = "stop"
    doc = "ends server processes in good order with SIGTERM and starts them again"
    faults: tuple[str, ...] = ("N02",)
    requires = (*Kill.requires, Terminate, LogFiles)

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        """Remember how long the logs are: what was written before speaks for nothing."""
        (path,) = ctx.need(LogFiles).log_files()
        sizes = await asyncio.gather(*(ctx.node(n).call("stat", path=path) for n in ctx.nodes))
        found = {n: row.get("size", 0) for n, row in zip(ctx.nodes, sizes, strict=True)}
        facts = {**plan.facts, "log": path, "log_bytes_before": found}
        return await super().inject(ctx, msgspec.structs.replace(plan, facts=facts))

    async def strike(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        """SIGTERM, and wait until the processes have ended or will not."""
        await ctx.need(Terminate).terminate(names)
        deadline_ns = ctx.clock.now_ns() + int(EXIT_DEADLINE_S * 1e9)
        while ctx.clock.now_ns() < deadline_ns:
            running = await ctx.need(Processes).processes()
            if not any(name in running for name in names):
                return
            await asyncio.sleep(POLL_S)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Start them again; first kill those that have not ended yet, since they still would."""
        pids = record.facts["pids"]
        running = await ctx.need(Processes).processes()
        late = [n for n in record.targets if n in running and running[n][0] == pids[n][0]]
        if late:
            await ctx.need(Killable).kill(late)
        await self.undo(ctx, record.targets)

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        pid, start = record.facts["pids"][name]
        return [
            signal_command(pid, start, "KILL"),
            *super().heal_commands(ctx, record, name),
        ]

    async def _look(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        if "shutdown_lines" not in record.facts or not all(record.facts["shutdown_lines"].values()):
            lines = await asyncio.gather(*(self._lines(ctx, record, n) for n in record.targets))
            found = dict(zip(record.targets, lines, strict=True))
            facts = {**record.facts, "shutdown_lines": found}
            record = msgspec.structs.replace(record, facts=facts)
        return await super()._look(ctx, record)

    async def _lines(self, ctx: NemesisContext, record: LandingRecord, name: str) -> int:
        """Of the markers of an orderly end, how many has the log since the fault?"""
        facts: dict[str, Any] = record.facts
        grown = await ctx.node(name).call(
            "read",
            path=facts["log"],
            offset=facts["log_bytes_before"][name],
            bytes_max=LOG_BYTES_MAX,
        )
        text = base64.b64decode(grown["data"]).decode("utf-8", "replace")
        markers = ctx.need(Terminate).shutdown_markers
        return int(all(marker in text for marker in markers))

    def injector(self, record: LandingRecord, looks: Looks) -> Signal:
        """As for `kill`, and the log tells of an orderly end."""
        signal = super().injector(record, looks)
        lines: dict[str, int] = record.facts["shutdown_lines"]
        mute = [name for name, found in lines.items() if not found]
        if not mute:
            return msgspec.structs.replace(
                signal, detail=f"{signal.detail}; each log tells of an orderly end"
            )
        said = f"no orderly end in the log of {', '.join(mute)}"
        detail = said if signal.moved else f"{signal.detail}; {said}"
        return msgspec.structs.replace(signal, moved=False, detail=detail)


KILL = Kill()
STOP = Stop()
