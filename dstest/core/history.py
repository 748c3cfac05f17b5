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

__all__ = ["INITIAL", "SCHEMA", "ClockSource", "Header", "History", "Window", "epochs_of"]

SCHEMA = "dstest.history/1"

INITIAL = "initial"
"""The option of a header that says what the objects start with, null included; where it is not
there they start as usual."""


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
    last = op.complete_ts if op.complete_ts is not None else end_ns
    return [
        w.epoch
        for w in windows
        if op.invoke_ts <= (end_ns if w.healed_at is None else w.healed_at)
        and last >= w.inject_start
    ]
