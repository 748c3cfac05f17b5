"""How one read of one key was wrong, where the history tells without any search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from dstest.core.op import Op, Outcome

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
        return "did not show a confirmed write that others still read (stale read)"
    if any(op.invoke_ts > last_ns for op in reads):
        return "forgot a confirmed write: a read found nothing, and no later one found it"
    return "did not show a confirmed write: a later read found nothing"


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
