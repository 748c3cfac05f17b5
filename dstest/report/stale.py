"""How one read of one key was wrong, where the history tells without any search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from dstest.core.op import Op, Outcome

__all__ = ["read_wrongly"]

_READS: Final = frozenset({"read", "get"})
_WRITES: Final = frozenset({"write", "put"})


def _token(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)


def _ended(op: Op) -> int | None:
    """When a write was confirmed, None where it was not."""
    return op.complete_ts if op.outcome is Outcome.OK else None


def read_wrongly(read: Op, ops: Sequence[Op]) -> str:
    """What was wrong with the answer of `read`, as it follows the name of a system; empty where it
    takes more than its own key's writes to say so, or where it is no read of a key."""
    if read.op_type not in _READS or read.key is None or isinstance(read.output, list | dict):
        return ""
    same = [op for op in ops if op.key == read.key and op.outcome is not Outcome.FAIL]
    changes = [op for op in same if op.op_type not in _READS]
    if any(op.op_type not in _WRITES for op in changes):
        return ""
    before = [op for op in changes if (end := _ended(op)) is not None and end < read.invoke_ts]
    reads = [op for op in same if op.op_type in _READS and op.outcome is Outcome.OK]
    if read.output is None:
        return _nothing(read, before, reads) if before else ""
    wrote = [op for op in changes if _token(op.input) == _token(read.output)]
    if not wrote:
        return "returned a value that nobody had written"
    if all(read.complete_ts is not None and op.invoke_ts > read.complete_ts for op in wrote):
        return "returned a value before anybody wrote it"
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
    if any(op.invoke_ts >= read.invoke_ts and _token(op.output) in values for op in reads):
        return "did not show a confirmed write that others still read (stale read)"
    return "forgot a confirmed write: a later read found nothing"


def _back(read: Op, last_ns: int, reads: Sequence[Op], changes: Sequence[Op]) -> str:
    """A read of a value that had been confirmed by `last_ns`, after another read of another value
    that began later than that."""
    value = _token(read.output)
    for op in reads:
        newer = _token(op.output)
        ended = _ended(op)
        if newer == value or ended is None or not last_ns < op.invoke_ts <= ended < read.invoke_ts:
            continue
        if any(_token(w.input) == newer and w.outcome is Outcome.OK for w in changes):
            return "returned an old value after a newer one had been read (stale read)"
        return "showed a write that was never confirmed, and then what was there before it"
    return ""
