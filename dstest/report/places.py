"""When an anomaly came about, when it showed, where both lie among the fault windows, and how one
read of one key was wrong, where the history tells without any search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isinf
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from dstest.core.check import Anomaly
from dstest.core.history import FaultWindow
from dstest.core.op import NULL_IS_RESULT, Op, Outcome, last_ns
from dstest.report.meanings import lasted_ns
from dstest.report.numbers import tenths

LOST: Final = "lost"
OVERLAP: Final = "overlap"
"""Shapes of anomalies (`static/anomalies.toml`): something that was there and is not any more; two
that held something at the same time. All others show where one answer was given."""

_NAMED_MAX: Final = 3
"""Fault windows named in one sentence; a run can have hundreds."""

_OUTSIDE: Final = "outside every fault: "

_ROUNDED_NS: Final = 1_000
"""How exactly a sentence tells a duration."""


class Damage(NamedTuple):
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
    touched: list[FaultWindow]
    between: list[FaultWindow]


def fault_names(faults: Sequence[FaultWindow]) -> str:
    """`fault window f1 (kill on n1) and fault window f2 (...)`, of many the first."""
    shown = [
        f"fault window {f.id} ({f.nemesis}{f' {f.kind}' if f.kind else ''} on {f.targets}"
        f"{'' if f.landed == 'yes' else ', not proven to have landed'})"
        for f in faults[:_NAMED_MAX]
    ]
    if more := faults[_NAMED_MAX:]:
        shown.append(f"{len(more)} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 2 else shown)


def _at(time_ns: int) -> str:
    return f"{time_ns / 1e9:.2f} s"


def _around(end_ns: int, faults: Sequence[FaultWindow]) -> list[str]:
    """How far from the fault before and the fault after."""
    healed = [f for f in faults if f.healed_ns is not None and f.healed_ns <= end_ns]
    coming = [f for f in faults if f.start_ns > end_ns]
    said = []
    if healed:
        last = max(healed, key=lambda f: f.healed_ns or 0)
        said.append(f"{tenths(end_ns - (last.healed_ns or 0))} after {last.name} {last.ended}")
    if coming:
        first = min(coming, key=lambda f: f.start_ns)
        said.append(f"{tenths(first.start_ns - end_ns)} before {first.name} was injected")
    return said


def last_shown(faults: Sequence[FaultWindow], start_ns: int, end_ns: int) -> FaultWindow | None:
    """Of those that may have landed and were healed by then the one healed last, where its effects
    may still have lasted."""
    healed = [f for f in faults if f.landed != "no" and f.healed_ns is not None]
    shown = [f for f in healed if (f.healed_ns or 0) <= end_ns]
    last = max(shown, key=lambda f: (f.healed_ns or 0, f.epoch), default=None)
    return last if last is not None and last.shows(start_ns, end_ns) else None


def _lies(
    start_ns: int, end_ns: int, met: Sequence[FaultWindow], faults: Sequence[FaultWindow]
) -> str:
    """Where something lies that met these of the faults."""
    inside = [f for f in faults if f in met or f.stands(start_ns, end_ns)]
    if inside:
        return f"inside {fault_names(inside)}"
    last = last_shown(faults, start_ns, end_ns)
    if last is not None:
        until = "to the end" if last.until_ns is None else f"until {tenths(last.until_ns)}"
        after = f"{tenths(end_ns - (last.healed_ns or 0))} after {last.name} {last.ended}"
        return f"{after}, while its effects may have lasted ({until})"
    near = " and ".join(_around(end_ns, faults))
    return f"{_OUTSIDE}{near}" if near else _OUTSIDE.rstrip(": ")


def _met(op: Op, faults: Sequence[FaultWindow]) -> list[FaultWindow]:
    return [f for f in faults if f.met_by(op)]


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


def _between(ops: Sequence[Op], faults: Sequence[FaultWindow]) -> list[FaultWindow]:
    """Windows within the time of the witness that no operation of it met."""
    begin, end = min(op.invoke_ts for op in ops), max(map(last_ns, ops))
    met = {f.id for op in ops for f in _met(op, faults)}
    return [f for f in faults if f.stands(begin, end) and f.id not in met]


def _of_lost(ops: Sequence[Op], faults: Sequence[FaultWindow]) -> tuple[str, Op, Op] | None:
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
    if not faults:
        said = f"{when}; seen to be missing at {_at(last_ns(seen))}."
        return f"{said} No fault was injected in this run.", known, seen
    done = _lies(known.invoke_ts, last_ns(known), _met(known, faults), faults)
    shown = _lies(seen.invoke_ts, last_ns(seen), _met(seen, faults), faults)
    shown = shown.removeprefix(_OUTSIDE)
    return f"{when}, {done}; seen to be missing at {_at(last_ns(seen))}, {shown}.", known, seen


def _of_overlap(
    anomaly: Anomaly, ops: Sequence[Op], faults: Sequence[FaultWindow]
) -> tuple[str, Op] | None:
    """In words, with the answer by which the overlap began."""
    found = _overlap(anomaly, ops)
    if found is None:
        return None
    op, end = found
    at = last_ns(op)
    until = "on, to the end of the run" if end is None else f"to {_at(end)}"
    said = f"Both held it from {_at(at)} {until}"
    if not faults:
        return f"{said}. No fault was injected in this run.", op
    began = _lies(at, at, [], faults)
    ended = "" if end is None else _lies(end, end, [], faults)
    ended = ended.removeprefix(_OUTSIDE)
    return f"{said}: it began {began}" + (f", and ended {ended}." if ended else "."), op


def _plain(culprit: Op, ops: Sequence[Op], faults: Sequence[FaultWindow]) -> str:
    at = f"It shows at {_at(last_ns(culprit))}"
    if not faults:
        return "No fault was injected in this run."
    met = _met(culprit, faults)
    said = f"{at}, {_lies(culprit.invoke_ts, last_ns(culprit), met, faults)}."
    earlier = [op for op in ops if op is not culprit]
    others = [f for f in faults if f not in met and any(f.met_by(op) for op in earlier)]
    if others:
        first = all(op.invoke_ts <= culprit.invoke_ts for op in earlier)
        said += f" {'Earlier' if first else 'Other'} operations of its witness ran inside "
        said += f"{fault_names(others)}."
    return said


def _passed(between: Sequence[FaultWindow]) -> str:
    """That faults stood while no operation of the witness ran."""
    if not between:
        return ""
    words, verb = fault_names(between), "lie" if len(between) > 1 else "lies"
    return f" {words[:1].upper()}{words[1:]} {verb} between the operations of its witness."


def damage_of(
    anomaly: Anomaly, shape: str, ops: Sequence[Op], culprit: Op, faults: Sequence[FaultWindow]
) -> Damage:
    """Where an anomaly lies whose witness is `ops`, of which `culprit` gave it away as far as its
    explanation tells; `shape` is what its kind is (LOST, OVERLAP, or neither)."""
    between = _between(ops, faults)
    touched = [f for f in faults if any(f.met_by(op) for op in ops)]
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
    return Damage(
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


_READS: Final = frozenset({"read", "get"})
_WRITES: Final = frozenset({"write", "put"})


def _token(value: Any) -> str:
    """The same for values that checkers take for one: 1 and 1.0 are."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True, default=repr)


def _ended(op: Op) -> int | None:
    """When an operation was confirmed, None where it was not."""
    return op.complete_ts if op.outcome is Outcome.OK else None


def read_wrongly(read: Op, ops: Sequence[Op]) -> str:
    """What was wrong with the answer of `read`, as it follows the name of a system; empty where it
    takes more than its own key's writes to say so, or where it is no read of a key."""
    if read.op_type not in _READS or read.key is None or isinstance(read.output, list | dict):
        return ""
    same = [op for op in ops if op.key == read.key]
    changes = [op for op in same if op.op_type not in _READS]
    if any(op.op_type not in _WRITES for op in changes):
        return ""
    reads = [
        op
        for op in same
        if op.op_type in _READS and op.outcome is Outcome.OK and op.op_id != read.op_id
    ]
    value = _token(read.output)
    wrote = [op for op in changes if _token(op.input) == value]
    before = [op for op in changes if (end := _ended(op)) is not None and end < read.invoke_ts]
    if read.output is None and not wrote:
        return _nothing(read, before, reads) if before else ""
    return _something(read, wrote, before, reads, changes)


def aged_ns(read: Op, ops: Sequence[Op]) -> int | None:
    """How long the value that a read of a register shows had been overwritten when it was asked;
    None where it had not been, or nobody can tell."""
    changes = [op for op in ops if op.key == read.key and op.op_type not in _READS]
    writes = [op for op in changes if op.op_type in _WRITES]
    if len(writes) < len(changes):
        return None  # what a compare-and-set has written depends on what was there
    if read.op_type not in _READS or read.outcome is not Outcome.OK:
        return None
    value = _token(read.output)
    ends = [_ended(op) for op in writes if _token(op.input) == value]
    if None in ends or not (ends or read.output is None):
        return None
    last = max((end for end in ends if end is not None), default=-1)  # nothing was there at first
    over = [end for op in writes if op.invoke_ts > last and (end := _ended(op)) is not None]
    aged = read.invoke_ts - min(over, default=read.invoke_ts)
    return aged if aged > 0 else None


def _something(
    read: Op, wrote: Sequence[Op], before: Sequence[Op], reads: Sequence[Op], changes: Sequence[Op]
) -> str:
    """A read of a value; `wrote` are all writes of it, those that were refused as well."""
    if not wrote:
        return "returned a value that nobody had written"
    if all(read.complete_ts is not None and op.invoke_ts > read.complete_ts for op in wrote):
        return "returned a value before anybody wrote it"
    if all(op.outcome is Outcome.FAIL for op in wrote):
        return "showed a write that it had refused"
    ends = [_ended(op) for op in wrote]
    if None in ends:
        return ""  # it may have taken effect late
    last = max(end for end in ends if end is not None)
    if any(op.invoke_ts > last for op in before):
        return "returned an old value after a newer one had been confirmed (stale read)"
    return _back(read, last, reads, changes)


def _nothing(read: Op, before: Sequence[Op], reads: Sequence[Op]) -> str:
    """A read that found nothing: is what had been confirmed gone, or was it not shown?"""
    values = {_token(op.input) for op in before}
    last_ns = read.invoke_ts if read.complete_ts is None else read.complete_ts
    saw = [op for op in reads if _token(op.output) in values]
    if any((end := _ended(op)) is not None and end > read.invoke_ts for op in saw):
        return "returned nothing after a write had been confirmed (stale read)"
    if any(op.invoke_ts > last_ns and op.output is None for op in reads):
        return "forgot a confirmed write: a read found nothing, and neither did a later one"
    return "returned nothing after a write had been confirmed"


def _back(read: Op, last_ns: int, reads: Sequence[Op], changes: Sequence[Op]) -> str:
    """A read of a value that had been confirmed by `last_ns`, after another read of another value
    that began later than that."""
    value = _token(read.output)
    for op in reads:
        newer = _token(op.output)
        ended = _ended(op)
        if newer == value or ended is None or not last_ns < op.invoke_ts <= ended < read.invoke_ts:
            continue
        wrote = [w for w in changes if _token(w.input) == newer]
        if any(w.outcome is Outcome.OK for w in wrote):
            return "returned an old value after a newer one had been read (stale read)"
        if wrote:
            return "showed a write that was never confirmed, and then what was there before it"
    return ""
