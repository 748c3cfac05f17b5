"""Servers that are gone: how that shows on their nodes, and whether others serve afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from dstest.core.evidence import LandingRecord, ProcessDetails, Signal
from dstest.core.protocols import NemesisContext, Process
from nemeses.base.process_evidence import Snapshots
from nemeses.base.process_fault import not_serving, served_before
from nemeses.observe.processes import ProcessSnapshot, processes_before, running


def gone_signal(record: LandingRecord, snapshots: Snapshots) -> Signal:
    """Injector: the processes that served are gone, all of them, and nobody serves instead."""
    facts = record.facts
    problems = []
    for name in record.targets:
        problems += served_before(record, name)
        snapshot = snapshots[name][1]
        if snapshot.left:
            problems.append(f"{name}: process {_few(snapshot.left)} is still there")
        elif snapshot.more or snapshot.listener is not None:
            serving = snapshot.more or sorted(snapshot.listening)
            problems.append(f"{name}: process {_few(serving)} serves in its place")
    count = sum(len(processes_before(record, name)) for name in record.targets)
    return Signal(
        signal="pid that listens at the service port",
        before={n: min(facts["listening_before"][n], default=0) for n in record.targets},
        during={n: snapshots[n][1].listener or 0 for n in record.targets},
        moved=bool(record.targets) and not problems,
        detail="; ".join(problems)
        or f"the server is gone on {', '.join(record.targets)}, {count} processes in all",
    )


async def nobody_runs(ctx: NemesisContext, record: LandingRecord) -> dict[str, str]:
    """Targets on which no server runs; empty where one does."""
    there = await running(ctx, ProcessDetails.of(record).service)
    return {name: "" if there.get(name) else "gone" for name in record.targets}


def old_processes(
    record: LandingRecord, name: str, now: Sequence[Process], snapshot: ProcessSnapshot
) -> str | None:
    """That old processes are among those that run after the heal, or that these do not serve."""
    old = {(p.pid, p.start_time) for p in processes_before(record, name)}
    left = [p.pid for p in now if (p.pid, p.start_time) in old]
    if left:
        return f"process {_few(left)} is the old one: it was never gone"
    return not_serving(now, snapshot)


def _few(pids: Sequence[int]) -> str:
    """`7`, or `7 and 3 more`."""
    return f"{pids[0]}" if len(pids) == 1 else f"{pids[0]} and {len(pids) - 1} more"
