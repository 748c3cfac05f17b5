"""Fold the segments of a run into operations, however the run ended.

An invocation without completion becomes an unknown outcome with error `unfinished`; it is never
truncated away (discipline 1.2). Times, ids and epochs are taken as the workers wrote them; the
lints compare them with what is recomputed here. Only while the control process says that it told
the workers late of a window's edge, the times decide alone. What cannot be read is counted, never
guessed: `dstest.runner.reconcile` says what the counts are worth.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core.evidence import LandingRecord
from dstest.core.history import Window
from dstest.core.op import Op
from dstest.store.events import (
    Completion,
    End,
    Failed,
    Fault,
    Header,
    Invoked,
    Late,
    Note,
    Succeeded,
    Unknown,
    Writer,
    event_of,
)
from dstest.store.segment import Damage, read_lines

_LATE_MAX_NS: Final = 1_000_000_000
"""A process that stood for longer is a host in trouble, and H08 is to tell."""


class Segment(NamedTuple):
    """How one file reads. `lines` counts those that could be read, header and end included.

    `header` is None where the file does not begin with one. `end` is how many lines its writer
    says stand before the last one, None where the writer did not get to say so.
    """

    name: str
    header: Writer | None
    lines: int
    end: int | None
    damaged: list[int]
    torn_tail: bool


class Folded(NamedTuple):
    """What the segments hold. `process_nodes` maps each process to the node it was bound to.

    `by_node` counts per node as the board does: `invoked`, `ok`, `fail`, `unknown`. `late` are the
    edges of windows of which the workers were told when they had passed.
    """

    ops: list[Op]
    records: list[LandingRecord]
    notes: list[dict[str, Any]]
    headers: list[Writer]
    process_nodes: dict[int | str, str]
    counters: dict[str, int]
    segments: list[Segment]
    by_node: dict[str, dict[str, int]]
    late: list[Late] = []


def operation(invoke: Invoked, done: Completion | None, epoch_of_open: str | None) -> Op:
    """One operation of its two events; None = it was never completed."""
    known = None if done is None or isinstance(done, Unknown) else done
    epoch = None if done is None else done.epoch
    if known is None:
        # The worker saw the windows up to its timeout; the operation may last to the run's end.
        epoch = epoch or epoch_of_open
    return Op(
        op_id=invoke.op_id,
        process_id=invoke.process_id,
        invoke_ts=invoke.time_ns,
        complete_ts=None if known is None else known.time_ns,
        op_type=invoke.op_type,
        key=invoke.key,
        input=invoke.input,
        output=known.output if isinstance(known, Succeeded) else None,
        error=_error(done),
        timeout_marker=known is None,
        node_seen=None if known is None else known.node_seen,
        fault_epoch=epoch,
        due_ts=msgspec.UNSET if invoke.due_ns is None else invoke.due_ns,
    )


def _error(done: Completion | None) -> str | None:
    if done is None:
        return "unfinished"
    return None if isinstance(done, Succeeded) else done.error


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


def _is_edge(said: Late, windows: list[Window]) -> bool:
    """Is it one of a window that there was, told of soon after it had passed? One that was given up
    for a later one, or that nobody came to write down, corrects nothing."""
    return 0 <= said.told_ns - said.edge_ns <= _LATE_MAX_NS and any(
        window.epoch == said.epoch and said.edge_ns in (window.inject_start, window.healed_at)
        for window in windows
    )


def _timed(op: Op, windows: list[Window], late: list[Late]) -> Op:
    """The operation, by its times where its worker may have stamped it by an old view: a stamp is
    made when an operation ends, and one without an end has its timeout's."""
    last = op.complete_ts
    if last is None:
        stale = any(op.invoke_ts <= edge.told_ns for edge in late)
    else:
        stale = any(edge.edge_ns <= last <= edge.told_ns for edge in late)
    if not stale or op.fault_epoch not in (None, *(w.epoch for w in windows)):
        return op
    begun = windows if last is None else [w for w in windows if w.inject_start <= last]
    epoch = _epoch_of_open(op.invoke_ts, begun)
    return msgspec.structs.replace(op, fault_epoch=epoch)


class _Fold:
    """Events as they come; `read` reads one segment after the other."""

    def __init__(self) -> None:
        self.invokes: list[Invoked] = []
        self.done: dict[int, Completion] = {}
        self.faults: dict[str, LandingRecord] = {}
        self.notes: list[dict[str, Any]] = []
        self.late: list[Late] = []
        self.segments: list[Segment] = []
        self.counts: Counter[str] = Counter()

    def read(self, path: Path) -> None:
        damage: list[Damage] = []
        header: Writer | None = None
        end: int | None = None
        lines = 0
        for text in read_lines(path, damage):
            lines += 1
            event = event_of(text)
            if event is None or end is not None:
                self.counts["malformed"] += 1
            elif isinstance(event, Header):
                if lines > 1:
                    self.counts["malformed"] += 1
                else:
                    header = event.facts
            elif isinstance(event, End):
                end = event.lines
            elif isinstance(event, Late) and (header is None or not header.control):
                self.counts["malformed"] += 1
            else:
                self._take(event)
        (found,) = damage
        self.segments.append(
            Segment(path.name, header, lines, end, list(found.lines), found.torn_tail)
        )

    def _take(self, event: Invoked | Completion | Fault | Late | Note) -> None:
        if isinstance(event, Invoked):
            self.invokes.append(event)
        elif isinstance(event, Note):
            self.notes.append({**event.facts, "time_ns": event.time_ns})
        elif isinstance(event, Late):
            self.late.append(event)
        elif isinstance(event, Fault):
            self.faults[event.record.fault_id] = event.record
        else:
            self.counts["completions"] += 1
            self.counts["duplicates"] += event.op_id in self.done
            self.done[event.op_id] = event


_COUNTED: Final = {Succeeded: "ok", Failed: "fail", Unknown: "unknown"}


def _by_node(invokes: list[Invoked], done: dict[int, Completion]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for event in invokes:
        row = found.setdefault(event.node, {"invoked": 0, "ok": 0, "fail": 0, "unknown": 0})
        row["invoked"] += 1
        end = done.get(event.op_id)
        if end is not None:
            row[_COUNTED[type(end)]] += 1
    return found


def fold(segments: Path) -> Folded:
    """Read all segments of a run directory. Damaged lines are counted, never guessed."""
    read = _Fold()
    for path in sorted(segments.glob("*.seg")):
        read.read(path)
    records = sorted(read.faults.values(), key=lambda r: r.scheduled_at)
    windows = windows_of(records)
    invokes, done = read.invokes, read.done
    invokes.sort(key=lambda e: (e.time_ns, e.op_id))
    ops = [operation(e, done.get(e.op_id), _epoch_of_open(e.time_ns, windows)) for e in invokes]
    late = [said for said in dict.fromkeys(read.late) if _is_edge(said, windows)]
    if late:
        ops = [_timed(op, windows, late) for op in ops]
    known = {e.op_id for e in invokes}
    counters = {
        "invokes": len(invokes),
        "completions": read.counts["completions"],
        "duplicate_completions": read.counts["duplicates"],
        "orphan_completions": sum(1 for op_id in done if op_id not in known),
        "damaged_lines": sum(len(s.damaged) for s in read.segments),
        "malformed_events": read.counts["malformed"],
        "torn_tails": sum(s.torn_tail for s in read.segments),
    }
    return Folded(
        ops,
        records,
        read.notes,
        [s.header for s in read.segments if s.header is not None],
        {e.process_id: e.node for e in invokes},
        counters,
        read.segments,
        _by_node(invokes, done),
        late,
    )
