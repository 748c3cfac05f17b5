"""Runs that never asked for anything, as `dstest run` leaves them: their servers did not start, or
their lab never came up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gate_store import GIVEN, recorded_at
from real_run import change_facts

from dstest.history.layout import RunDir

_LATER = (
    *("system_version", "members", "workers", "node_clocks_start_ns", "clock_start_ns"),
    *(
        "origin_ns",
        "members_at",
        "settled_ns",
        "recoveries",
        "load_s",
        "healthy",
        "load_end_ns",
    ),
    *("worker_exits", "load", "traffic", "clock_end_ns", "node_clocks_end_ns", "cpu_s", "replicas"),
    *("processes", "logs"),
)
"""Facts that a run has noted only when its servers have started."""
_OF_A_LAB = ("host", "lab", "cleaned", "residue")


def never_began(store: Path, seed: int, given: Sequence[str] = GIVEN, **how: Any) -> RunDir:
    """A server did not start: nobody asked it for its version, nobody read a clock, no load worker
    was there."""
    wanted = {name: how.pop(name) for name in ("tier_wanted",) if name in how}
    run = recorded_at(store, seed, given=given, **how)
    for path in run.segments.iterdir():
        path.unlink()
    later: dict[str, Any] = dict.fromkeys(_LATER, ...)
    change_facts(run, **later, **wanted, ended_by="n2: etcd did not start within 60 s")
    return run


def never_judged(store: Path, seed: int, given: Sequence[str], status: str) -> RunDir:
    """No lab came up: there is what was to be run, and a word of what went wrong."""
    run = never_began(store, seed, given)
    change_facts(run, **dict.fromkeys((*_OF_A_LAB, "ended_by"), ...))
    if status:
        run.write_status(status)
    return run
