"""`kill`: server processes that end at once.

Injector signal, from the node itself: all processes of the services, among them those that listened
at their ports, are gone and nobody listens there. Processes that were not those that served do not
count, nor does it where something brought them back.

Catalogue: N01 (kill -9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dstest.core import protocols
from dstest.core.evidence import LandingRecord, PageCache, ProcessDetails
from dstest.core.protocols import NemesisContext, Option, Process, Restartable, Supervised
from nemeses.base.driver import ENDS_TRAFFIC, Observed
from nemeses.base.process_fault import SERVICE_OPTION, ProcessFault, gather_evidence
from nemeses.base.simulated import Simulated, SimulatedKill
from nemeses.observe.processes import ProcessSnapshot
from nemeses.process.absence import gone_signal, nobody_runs, old_processes


class Kill(ProcessFault):
    """The `kill` nemesis."""

    name = "kill"
    taxdc = "crash-recovery"
    doc = "kills server processes with SIGKILL and starts them again on the data they have"
    faults: tuple[str, ...] = ("N01",)
    spares_servers = True
    requires: tuple[type, ...] = (Supervised,)
    counts_pids = True
    explains: frozenset[str] = frozenset({"exit"})
    page_cache: PageCache = "kept"
    overlap = ENDS_TRAFFIC
    simulated = Simulated(
        driver=SimulatedKill,
        options=frozenset(ProcessFault.options),
        only={"service": ("",)},
    )
    options: Mapping[str, Option] = {**ProcessFault.options, **SERVICE_OPTION}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await ctx.need(protocols.Kill).kill(record.targets, ProcessDetails.of(record).service)

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        return await gather_evidence(ctx, record, gone_signal)

    async def in_force(self, ctx: NemesisContext, record: LandingRecord) -> Mapping[str, str]:
        return await nobody_runs(ctx, record)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await ctx.need(protocols.Kill).restart(record.targets)

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [ctx.need(Restartable).restart_command(name)]

    def process_problem(
        self, record: LandingRecord, name: str, now: Sequence[Process], snapshot: ProcessSnapshot
    ) -> str | None:
        return old_processes(record, name, now, snapshot)


NEMESIS = Kill()
