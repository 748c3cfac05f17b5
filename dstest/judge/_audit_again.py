"""Was anything that a fault could have destroyed looked at again?

A workload that leaves its keys behind passes whatever becomes of them: a cluster that forgot all
that it had acknowledged would serve new keys without fault. So for each fault that landed some keys
must have an acknowledged write from before it and a completed read from after its heal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dstest.core.op import Op, Outcome
from dstest.judge.facts import RunFacts

KEYS_MIN: Final = 5
_READ: Final = frozenset({"read"})
_WRITE: Final = frozenset({"write", "cas"})
_MICRO_READS: Final = frozenset({"r", "rp"})


def _keys_of(op: Op) -> Iterator[tuple[Any, bool]]:
    """(key, was it read) of each access, groups of keys as a whole; nothing for operations that are
    no reads or writes."""
    if op.op_type in _READ | _WRITE:
        yield op.key, op.op_type in _READ
    elif op.op_type == "watch" and isinstance(op.output, dict):
        for event in op.output.get("events") or ():
            yield event.get("key"), True
    elif op.op_type == "txn":
        for function, key, *_ in op.input or ():
            yield key if op.key is None else op.key, function in _MICRO_READS


def not_read_again(facts: RunFacts) -> list[str]:
    """Ids of landed faults of which fewer than `KEYS_MIN` keys tell what they left behind.

    Empty where the workload's operations are not reads and writes of keys.
    """
    landed = [r for r in facts.records if r.landed == "yes" and r.healed_at is not None]
    written: dict[Any, int] = {}
    read: dict[Any, int] = {}
    for op in facts.history.ops:
        if op.outcome is not Outcome.OK or op.complete_ts is None:
            continue
        for key, was_read in _keys_of(op):
            if was_read:
                read[key] = max(read.get(key, 0), op.invoke_ts)
            else:
                written[key] = min(written.get(key, op.complete_ts), op.complete_ts)
    if not written:
        return []
    return [
        r.fault_id
        for r in landed
        if sum(
            first < (r.injected_at or 0) and read.get(key, 0) > (r.healed_at or 0)
            for key, first in written.items()
        )
        < min(KEYS_MIN, len(written))
    ]
