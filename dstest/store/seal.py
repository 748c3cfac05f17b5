"""Fold the segments of a run into operations, however the run ended.

An invocation without completion becomes an unknown outcome with error `unfinished`; it is never
truncated away (discipline 1.2). Times, ids and epochs are taken as the workers wrote them; the
lints compare them with what is recomputed here. What cannot be read is counted, never guessed:
`dstest.runner.reconcile` says what the counts are worth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core.evidence import LandingRecord
from dstest.core.history import Window
from dstest.core.op import Op
from dstest.store.segment import Damage, read_segment

__all__ = ["Folded", "Segment", "fold", "operation", "windows_of"]


class Segment(NamedTuple):
    """How one file reads. `lines` counts those that could be read, header and end included.

    `header` is None where the file does not begin with one. `end` is how many lines its writer
    says stand before the last one, None where the writer did not get to say so.
    """

    name: str
    header: dict[str, Any] | None
    lines: int
    end: int | None
    damaged: list[int]
    torn_tail: bool


class Folded(NamedTuple):
    """What the segments hold. `process_nodes` maps each process to the node it was bound to.

    `by_node` counts per node as the board does: `invoked`, `ok`, `fail`, `unknown`.
    """

    ops: list[Op]
    records: list[LandingRecord]
    notes: list[dict[str, Any]]
    headers: list[dict[str, Any]]
    process_nodes: dict[int | str, str]
    counters: dict[str, int]
    segments: list[Segment]
    by_node: dict[str, dict[str, int]]


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
        _, _, _, error, epoch = done
        # The worker saw the windows up to its timeout; the operation may last to the run's end.
        return Op(**common, error=error, timeout_marker=True, fault_epoch=epoch or epoch_of_open)
    kind, _, complete_ns, answer, node, epoch = done
    if kind == "f":
        return Op(
            **common, complete_ts=complete_ns, error=answer, node_seen=node, fault_epoch=epoch
        )
    return Op(**common, complete_ts=complete_ns, output=answer, node_seen=node, fault_epoch=epoch)


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


def _int(value: Any) -> bool:
    return type(value) is int


def _text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _any(_: Any) -> bool:
    return True


def _id(value: Any) -> bool:
    return type(value) in (int, str)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _key(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))


_ENDED: Final = (_int, _int, _any, _text_or_none, _text_or_none)
_SHAPES: Final[dict[str, tuple[Callable[[Any], bool], ...]]] = {
    "i": (_int, _id, _int, _text, _key, _any, _text),
    "o": _ENDED,
    "f": (_int, _int, _text, _text_or_none, _text_or_none),
    "u": (_int, _int, _text, _text_or_none),
    "fault": (_any,),
    "note": (_int, lambda v: isinstance(v, dict)),
    "h": (lambda v: isinstance(v, dict),),
    "e": (_int,),
}
"""What stands behind the kind of each event."""


def _well_formed(event: list[Any]) -> bool:
    shape = _SHAPES.get(event[0]) if isinstance(event[0], str) else None
    return (
        shape is not None
        and len(event) == len(shape) + 1
        and all(fits(value) for fits, value in zip(shape, event[1:], strict=True))
    )


class _Fold:
    """Events as they come; `events` reads one segment after the other."""

    def __init__(self) -> None:
        self.invokes: list[list[Any]] = []
        self.done: dict[Any, list[Any]] = {}
        self.faults: dict[str, LandingRecord] = {}
        self.notes: list[dict[str, Any]] = []
        self.segments: list[Segment] = []
        self.counts: Counter[str] = Counter()

    def read(self, path: Path) -> None:
        damage: list[Damage] = []
        header: dict[str, Any] | None = None
        end: int | None = None
        lines = 0
        for event in read_segment(path, damage):
            lines += 1
            if not _well_formed(event) or end is not None:
                self.counts["malformed"] += 1
            elif event[0] == "h":
                if lines > 1:
                    self.counts["malformed"] += 1
                else:
                    header = event[1]
            elif event[0] == "e":
                end = event[1]
            else:
                self._take(event)
        (found,) = damage
        self.segments.append(
            Segment(path.name, header, lines, end, list(found.lines), found.torn_tail)
        )

    def _take(self, event: list[Any]) -> None:
        kind = event[0]
        if kind == "i":
            self.invokes.append(event)
        elif kind in ("o", "f", "u"):
            self.counts["completions"] += 1
            self.counts["duplicates"] += event[1] in self.done
            self.done[event[1]] = event
        elif kind == "note":
            self.notes.append({"time_ns": event[1], **event[2]})
        else:
            try:
                record = msgspec.convert(event[1], LandingRecord)
            except msgspec.ValidationError:
                self.counts["malformed"] += 1
            else:
                self.faults[record.fault_id] = record


_COUNTED: Final = {"o": "ok", "f": "fail", "u": "unknown"}


def _by_node(invokes: list[list[Any]], done: dict[Any, list[Any]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for event in invokes:
        row = found.setdefault(event[7], {"invoked": 0, "ok": 0, "fail": 0, "unknown": 0})
        row["invoked"] += 1
        end = done.get(event[1])
        if end is not None:
            row[_COUNTED[end[0]]] += 1
    return found


def fold(segments: Path) -> Folded:
    """Read all segments of a run directory. Damaged lines are counted, never guessed."""
    read = _Fold()
    for path in sorted(segments.glob("*.seg")):
        read.read(path)
    records = sorted(read.faults.values(), key=lambda r: r.scheduled_at)
    windows = windows_of(records)
    invokes, done = read.invokes, read.done
    invokes.sort(key=lambda e: (e[3], e[1]))
    ops = [operation(e, done.get(e[1]), _epoch_of_open(e[3], windows)) for e in invokes]
    known = {e[1] for e in invokes}
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
        {e[2]: e[7] for e in invokes},
        counters,
        read.segments,
        _by_node(invokes, done),
    )
