"""Fold the segments of a run into operations, however the run ended.

An invocation without completion becomes an unknown outcome with error `unfinished`; it is never
truncated away (discipline 1.2). Times, ids and epochs are taken as the workers wrote them; the
lints compare them with what is recomputed here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dstest.core.evidence import LandingRecord
from dstest.core.history import Window
from dstest.core.op import Op
from dstest.store.segment import Damage, read_segment

__all__ = ["Folded", "fold", "operation", "windows_of"]


class Folded(NamedTuple):
    """What the segments hold. `process_nodes` maps each process to the node it was bound to."""

    ops: list[Op]
    records: list[LandingRecord]
    notes: list[dict[str, Any]]
    headers: list[dict[str, Any]]
    process_nodes: dict[int | str, str]
    counters: dict[str, int]


def operation(invoke: list[Any], done: list[Any] | None, epoch_of_open: str | None) -> Op:
    """One operation of its two events; None = it was never completed."""
    _, op_id, process_id, time_ns, op_type, key, input_, _node = invoke
    common = {
        "op_id": op_id,
        "process_id": process_id,
        "invoke_ts": time_ns,
        "op_type": op_type,
        "key": key,
        "input": input_,
    }
    if done is None:
        return Op(**common, error="unfinished", timeout_marker=True, fault_epoch=epoch_of_open)
    if done[0] == "u":
        # The worker saw the windows up to its timeout; the operation may last to the run's end.
        epoch = done[4] or epoch_of_open
        return Op(**common, error=done[3], timeout_marker=True, fault_epoch=epoch)
    if done[0] == "f":
        return Op(
            **common, complete_ts=done[2], error=done[3], node_seen=done[4], fault_epoch=done[5]
        )
    return Op(**common, complete_ts=done[2], output=done[3], node_seen=done[4], fault_epoch=done[5])


def windows_of(records: list[LandingRecord]) -> list[Window]:
    """Fault windows of the records whose injection began, in order of time."""
    return sorted(
        (
            Window(
                epoch=r.epoch,
                nemesis=r.nemesis,
                inject_start=r.injected_at,
                landed_at=r.landed_at,
                heal_start=r.heal_start,
                healed_at=r.healed_at,
            )
            for r in records
            if r.injected_at is not None
        ),
        key=lambda w: w.inject_start,
    )


def _epoch_of_open(invoke_ns: int, windows: list[Window]) -> str | None:
    """An open operation lasts until the end of the run: the first window not yet healed then."""
    for window in windows:
        if window.healed_at is None or window.healed_at >= invoke_ns:
            return window.epoch
    return None


def fold(segments: Path) -> Folded:
    """Read all segments of a run directory. Damaged lines are counted, never guessed."""
    damage: list[Damage] = []
    invokes: list[list[Any]] = []
    done: dict[Any, list[Any]] = {}
    faults: dict[str, LandingRecord] = {}
    notes: list[dict[str, Any]] = []
    headers: list[dict[str, Any]] = []
    duplicates = completions = 0
    for path in sorted(segments.glob("*.seg")):
        for event in read_segment(path, damage):
            kind = event[0]
            if kind == "i":
                invokes.append(event)
            elif kind in ("o", "f", "u"):
                completions += 1
                duplicates += event[1] in done
                done[event[1]] = event
            elif kind == "fault":
                record = msgspec.convert(event[1], LandingRecord)
                faults[record.fault_id] = record
            elif kind == "note":
                notes.append({"time_ns": event[1], **event[2]})
            elif kind == "h":
                headers.append(event[1])
    records = sorted(faults.values(), key=lambda r: r.scheduled_at)
    windows = windows_of(records)
    invokes.sort(key=lambda e: (e[3], e[1]))
    ops = [operation(e, done.get(e[1]), _epoch_of_open(e[3], windows)) for e in invokes]
    known = {e[1] for e in invokes}
    counters = {
        "invokes": len(invokes),
        "completions": completions,
        "duplicate_completions": duplicates,
        "orphan_completions": sum(1 for op_id in done if op_id not in known),
        "damaged_lines": sum(len(d.lines) for d in damage),
        "torn_tails": sum(d.torn_tail for d in damage),
    }
    return Folded(ops, records, notes, headers, {e[2]: e[7] for e in invokes}, counters)
