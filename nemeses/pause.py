"""`pause`: server processes that are stopped (SIGSTOP) and later continued, as by a long GC pause.

Injector signal, from the node itself: all threads of the serving process are in state T in two
samples, and its CPU ticks stand still between them. Clients must run into their timeouts: a pause
that is shorter than those tests nothing. It has healed when the same process runs and serves.

Catalogue: N03.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import NemesisContext
from nemeses.process import Looks, ProcessFault
from nemeses.process_sight import Sight

__all__ = ["NEMESIS", "Pause"]

_CONTINUE: Final = (
    '[ "$(sed "s/.*) //" /proc/$0/stat 2>/dev/null | cut -d" " -f20)" = "$1" ] || exit 0; '
    "kill -CONT $0"
)
"""Continue process $0 unless another one, with another start time, has its number now."""


class Pause(ProcessFault):
    """The `pause` nemesis."""

    name = "pause"
    doc = "stops server processes with SIGSTOP and continues them"
    faults: tuple[str, ...] = ("N03",)
    outcome = "stopped"

    async def strike(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        await ctx.deployment.pause(names)

    async def undo(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        await ctx.deployment.resume(names)

    def heal_command(self, ctx: NemesisContext, record: LandingRecord, name: str) -> list[str]:
        pid, start = record.facts["pids"][name]
        return ["sh", "-c", _CONTINUE, str(pid), str(start)]

    def injector(self, record: LandingRecord, looks: Looks) -> Signal:
        """Samples in which the process that serves was stopped and used no CPU."""
        facts = record.facts
        said = []
        samples = {}
        for name in record.targets:
            pid = facts["pids"][name][0]
            first, second = looks[name]
            still = first.ticks == second.ticks
            samples[name] = sum(s.alive and s.stopped for s in looks[name]) if still else 0
            if facts["listening_before"][name] != [pid]:
                said.append(f"{name}: process {pid} was not the one that served")
            if not second.alive:
                said.append(f"{name}: process {pid} is gone")
            elif samples[name] < 2:
                said.append(f"{name}: process {pid} runs")
        return Signal(
            signal="samples of two in state T without CPU time",
            before=dict.fromkeys(record.targets, 0),
            during=samples,
            moved=bool(record.targets) and not said,
            detail="; ".join(said)
            or f"all threads of the server stand on {', '.join(record.targets)}",
        )

    def healed(self, record: LandingRecord, name: str, pid: int, sight: Sight | None) -> str | None:
        if sight is None or not sight.alive or pid != record.facts["pids"][name][0]:
            return "its server is gone"
        if sight.stopped:
            return f"process {pid} is still stopped"
        return None if sight.listener == pid else f"process {pid} does not serve"


NEMESIS = Pause()
