"""A sealed history: a header and the operations in order of invocation.

The header names what the operations alone cannot tell: model, seed, clock source, fault windows and
the recorder's own counters. `windows` are the fault epochs:
`{"epoch": "f1", "nemesis": "partition", "inject_start": ns, "landed_at": ns, "heal_start": ns,
"healed_at": ns}`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dstest.core.op import Op

__all__ = [
    "INITIAL",
    "RUN_END_NS",
    "SCHEMA",
    "ClockSource",
    "Header",
    "History",
    "Window",
    "epochs_of",
    "ran_during",
]

SCHEMA = "dstest.history/1"

INITIAL = "initial"
"""The option of a header that says what the objects start with, null included; where it is not
there they start as usual."""


RUN_END_NS = 2**63 - 1
"""The end of a run of which nobody knows when it ended: later than any time."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """One fault window, in run nanoseconds. `healed_at` is None while the fault stands."""

    epoch: str
    nemesis: str
    inject_start: int
    landed_at: int | None = None
    heal_start: int | None = None
    healed_at: int | None = None


class ClockSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time stamps come from."""

    name: str = "CLOCK_MONOTONIC"
    resolution_ns: int = 1
    boot_id: str = ""
    host: str = ""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """First line of `history.jsonl`. Unknown facts of an imported history stay None."""

    schema: str = SCHEMA
    run: str | None = None
    workload: str | None = None
    model: str | None = None
    checkers: list[str] = msgspec.field(default_factory=list)
    system: str | None = None
    system_version: str | None = None
    nodes: list[str] = msgspec.field(default_factory=list)
    concurrency: int | None = None
    seed: int | None = None
    vantage: str = "client"
    clock: ClockSource | None = None
    rate: float | None = None
    time_limit_s: float | None = None
    windows: list[Window] = msgspec.field(default_factory=list)
    counters: dict[str, int] = msgspec.field(default_factory=dict)
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    source: str | None = None


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Operations ordered by `invoke_ts`, with what is known about how they were recorded."""

    header: Header
    ops: list[Op]


def epochs_of(op: Op, windows: list[Window], end_ns: int) -> list[str]:
    """Epochs whose window `[inject_start, healed_at]` the operation overlaps, in window order.

    An operation without completion lasts until `end_ns`, the end of the run (discipline 1.5).
    """
    return [w.epoch for w in windows if ran_during(op, w.inject_start, w.healed_at, end_ns)]


def ran_during(op: Op, start_ns: int, end_ns: int | None, run_end_ns: int = RUN_END_NS) -> bool:
    """Whether an operation overlaps `[start_ns, end_ns]`: what "inside a fault window" means, whose
    first one `Op.fault_epoch` names. What never completed, and a window without an end, last until
    `run_end_ns`."""
    last = run_end_ns if op.complete_ts is None else op.complete_ts
    return op.invoke_ts <= (run_end_ns if end_ns is None else end_ns) and last >= start_ns
