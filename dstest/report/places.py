"""When an anomaly came about, when it showed, and where both lie among the fault windows."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf
from typing import Final, NamedTuple

from msgspec import UNSET

from dstest.core.check import Anomaly
from dstest.core.history import ran_during
from dstest.core.op import NULL_IS_RESULT, Op, Outcome
from dstest.report.model import FaultView
from dstest.report.sentences import lasted_ns

LOST: Final = "lost"
OVERLAP: Final = "overlap"
"""Shapes of anomalies (`static/anomalies.toml`): something that was there and is not any more; two
that held something at the same time. All others show where one answer was given."""

_NAMED_MAX: Final = 3
"""Fault windows named in one sentence; a run can have hundreds."""

_ROUNDED_NS: Final = 1_000
"""How exactly a sentence tells a duration."""


class Place(NamedTuple):
    """`said` is a sentence or more. `told` is the operation whose answer gave it away, at
    `told_ns`. The damage was done from `from_ns` to `at_ns`, by the answer to `by`, which is
    `centre`; `word` says what it did, and is empty where that answer is `told`. `touched` are the
    faults that an operation of the witness met, `between` those that stood while none ran."""

    said: str
    told: Op
    told_ns: int
    by: Op
    from_ns: int
    at_ns: int
    centre: str
    word: str
    touched: list[FaultView]
    between: list[FaultView]


def last_ns(op: Op) -> int:
    return op.invoke_ts if op.complete_ts is None else op.complete_ts


def _stands(fault: FaultView, start_ns: int, end_ns: int) -> bool:
    if fault.start_ns is None or fault.start_ns > end_ns:
        return False
    return fault.end_ns is None or fault.end_ns >= start_ns


def touches(op: Op, fault: FaultView) -> bool:
    """Did it run while the fault stood, by its times or by what it was marked with?"""
    if fault.start_ns is None:
        return False
    return op.fault_epoch == fault.epoch or ran_during(op, fault.start_ns, fault.end_ns)


def named(faults: Sequence[FaultView]) -> str:
    """`fault window f1 (kill on n1) and fault window f2 (...)`, of many the first."""
    shown = [
        f"fault window {f.id} ({f.nemesis}{f' {f.kind}' if f.kind else ''} on {f.targets}"
        f"{'' if f.landed == 'yes' else ', not proven to have landed'})"
        for f in faults[:_NAMED_MAX]
    ]
    if more := faults[_NAMED_MAX:]:
        shown.append(f"{len(more)} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 2 else shown)


def _s(time_ns: int) -> str:
    return f"{time_ns / 1e9:.1f} s"


def _at(time_ns: int) -> str:
    return f"{time_ns / 1e9:.2f} s"


def _around(end_ns: int, faults: Sequence[FaultView]) -> list[str]:
    """How far from the fault before and the fault after."""
    healed = [f for f in faults if f.end_ns is not None and f.end_ns <= end_ns]
    coming = [f for f in faults if f.start_ns is not None and f.start_ns > end_ns]
    said = []
    if healed:
        last = max(healed, key=lambda f: f.end_ns or 0)
        said.append(f"{_s(end_ns - (last.end_ns or 0))} after {last.name} {last.ended}")
    if coming:
        first = min(coming, key=lambda f: f.start_ns or 0)
        said.append(f"{_s((first.start_ns or 0) - end_ns)} before {first.name} was injected")
    return said


def _lies(start_ns: int, end_ns: int, met: Sequence[FaultView], faults: Sequence[FaultView]) -> str:
    """Where something lies that met these of the faults."""
    inside = [f for f in faults if f in met or _stands(f, start_ns, end_ns)]
    if inside:
        return f"inside {named(inside)}"
    near = " and ".join(_around(end_ns, faults))
    return f"outside every fault window{f': {near}' if near else ''}"


def _met(op: Op, faults: Sequence[FaultView]) -> list[FaultView]:
    return [f for f in faults if touches(op, f)]


def _lost(ops: Sequence[Op]) -> tuple[Op, Op] | None:
    """(What was known to be there, by which answer; which one did not show it)."""
    known = [op for op in ops if op.outcome is Outcome.OK]
    if len(known) < 2:
        return None
    first = min(known, key=last_ns)
    seen = max(known, key=lambda op: (op.invoke_ts, last_ns(op)))
    return (first, seen) if last_ns(first) <= last_ns(seen) and first is not seen else None


def _ends(op: Op) -> list[int]:
    """When a hold may have ended that this operation tells of."""
    ttl = op.input.get("ttl_ns") if isinstance(op.input, dict) else None
    lapsed = [op.invoke_ts + ttl] if isinstance(ttl, int) and not isinstance(ttl, bool) else []
    return [op.invoke_ts, *lapsed]


def _overlap(anomaly: Anomaly, ops: Sequence[Op]) -> tuple[Op, int | None] | None:
    """(By which answer both held it, until when; None where to the end of the run)."""
    starts = [op for op in ops if op.outcome is Outcome.OK]
    if anomaly.overlap_ns is not UNSET:
        begin, end = anomaly.overlap_ns
        by = next((op for op in starts if last_ns(op) == begin), None)
        return None if by is None else (by, end)
    lasted = lasted_ns(anomaly)
    if lasted is None or len({op.process_id for op in starts}) < 2:
        return None
    second = max(_firsts(starts), key=last_ns)
    if isinf(lasted):
        return second, None
    for op in sorted((op for op in starts if last_ns(op) >= last_ns(second)), key=last_ns):
        for end in sorted(t for other in ops for t in _ends(other)):
            if abs(end - last_ns(op) - lasted) <= _ROUNDED_NS:
                return op, end
    return None


def _firsts(ops: Sequence[Op]) -> list[Op]:
    """Of each process its first."""
    first: dict[int | str, Op] = {}
    for op in sorted(ops, key=last_ns):
        first.setdefault(op.process_id, op)
    return list(first.values())


def _between(ops: Sequence[Op], faults: Sequence[FaultView]) -> list[FaultView]:
    """Windows within the time of the witness that no operation of it met."""
    begin, end = min(op.invoke_ts for op in ops), max(map(last_ns, ops))
    met = {f.id for op in ops for f in _met(op, faults)}
    return [f for f in faults if _stands(f, begin, end) and f.id not in met]


def _of_lost(ops: Sequence[Op], faults: Sequence[FaultView]) -> tuple[str, Op, Op] | None:
    """In words, with (known to be there by, missed by)."""
    pair = _lost(ops)
    if pair is None:
        return None
    known, seen = pair
    acked = [op for op in ops if op.outcome is Outcome.OK and op.op_type not in NULL_IS_RESULT]
    more = [op for op in acked if op is not seen]
    verb = "Still read" if known.op_type in NULL_IS_RESULT else "Acknowledged"
    when = f"{verb} at {_at(last_ns(known))}"
    if len(more) > 1:
        when = f"First acknowledged at {_at(last_ns(known))}"
    if not any(f.start_ns is not None for f in faults):
        said = f"{when}; seen to be missing at {_at(last_ns(seen))}."
        return f"{said} No fault was injected in this run.", known, seen
    done = _lies(known.invoke_ts, last_ns(known), _met(known, faults), faults)
    shown = _lies(seen.invoke_ts, last_ns(seen), _met(seen, faults), faults)
    shown = shown.removeprefix("outside every fault window: ")
    return f"{when}, {done}; seen to be missing at {_at(last_ns(seen))}, {shown}.", known, seen


def _of_overlap(
    anomaly: Anomaly, ops: Sequence[Op], faults: Sequence[FaultView]
) -> tuple[str, Op] | None:
    """In words, with the answer by which the overlap began."""
    found = _overlap(anomaly, ops)
    if found is None:
        return None
    op, end = found
    at = last_ns(op)
    until = "on, to the end of the run" if end is None else f"to {_at(end)}"
    said = f"Both held it from {_at(at)} {until}"
    if not any(f.start_ns is not None for f in faults):
        return f"{said}. No fault was injected in this run.", op
    began = _lies(at, at, [], faults)
    ended = "" if end is None else _lies(end, end, [], faults)
    ended = ended.removeprefix("outside every fault window: ")
    return f"{said}: it began {began}" + (f", and ended {ended}." if ended else "."), op


def _plain(culprit: Op, ops: Sequence[Op], faults: Sequence[FaultView]) -> str:
    at = f"It shows at {_at(last_ns(culprit))}"
    if not any(f.start_ns is not None for f in faults):
        return "No fault was injected in this run."
    met = _met(culprit, faults)
    said = f"{at}, {_lies(culprit.invoke_ts, last_ns(culprit), met, faults)}."
    earlier = [op for op in ops if op is not culprit]
    others = [f for f in faults if f not in met and any(touches(op, f) for op in earlier)]
    if others:
        first = all(op.invoke_ts <= culprit.invoke_ts for op in earlier)
        said += f" {'Earlier' if first else 'Other'} operations of its witness ran inside "
        said += f"{named(others)}."
    return said


def _passed(between: Sequence[FaultView]) -> str:
    """That faults stood while no operation of the witness ran."""
    if not between:
        return ""
    words, verb = named(between), "lie" if len(between) > 1 else "lies"
    return f" {words[:1].upper()}{words[1:]} {verb} between the operations of its witness."


def place_of(
    anomaly: Anomaly, shape: str, ops: Sequence[Op], culprit: Op, faults: Sequence[FaultView]
) -> Place:
    """Where an anomaly lies whose witness is `ops`, of which `culprit` gave it away as far as its
    explanation tells; `shape` is what its kind is (LOST, OVERLAP, or neither)."""
    between = _between(ops, faults)
    touched = [f for f in faults if any(touches(op, f) for op in ops)]
    told = by = culprit
    centre, word = "the answer that gave it away", ""
    said = ""
    if shape == LOST and (lost := _of_lost(ops, faults)) is not None:
        said, by, told = lost
        read = by.op_type in NULL_IS_RESULT
        centre = "the last answer that showed it" if read else "the acknowledgement"
        word = f"what is missing later was {'still read' if read else 'acknowledged'} here"
    elif shape == OVERLAP and (both := _of_overlap(anomaly, ops, faults)) is not None:
        said, told = both
        by, centre, word = told, "the begin of the overlap", "from here on both held it"
    return Place(
        said=(said or _plain(culprit, ops, faults)) + _passed(between),
        told=told,
        told_ns=last_ns(told),
        by=by,
        from_ns=by.invoke_ts,
        at_ns=last_ns(by),
        centre=centre,
        word=word,
        touched=touched,
        between=between,
    )
