"""Brute force on small histories: is there an order of the operations that explains all answers?

Every order is tried in which each operation has its place inside its interval, with what was seen
before left out. For minimal histories: the work grows with the number of sets of operations.
"""

from __future__ import annotations

from typing import Any

from checkers.second.objects import effective, object_of, outcomes, tokens_of
from dstest.core.op import Op


def explains(
    model: str, ops: list[Op], *, permits: int = 0, steps_max: int | None = None
) -> bool | None:
    """Is there an order of all ok and some unknown operations? Failed ones had no effect. An
    unknown operation with an output can only have had that one. None after `steps_max` steps."""
    run, first = object_of(model, permits)
    ops = effective(ops)
    count = len(ops)
    never = 1 << 60
    ends = [never if op.timeout_marker or op.complete_ts is None else op.complete_ts for op in ops]
    must = sum(1 << i for i, op in enumerate(ops) if not op.timeout_marker)
    before = [sum(1 << j for j in range(count) if ends[j] < ops[i].invoke_ts) for i in range(count)]
    tokens = tokens_of(ops)
    seen = set()
    agenda: list[tuple[int, Any]] = [(0, first)]
    while agenda:
        done, state = agenda.pop()
        if done & must == must:
            return True
        if (mark := (done, repr(state))) in seen:
            continue
        seen.add(mark)
        if steps_max is not None and len(seen) > steps_max:
            return None
        for i, op in enumerate(ops):
            if not done >> i & 1 and not before[i] & ~done:
                agenda += [(done | 1 << i, s) for s in outcomes(model, run, state, op, tokens)]
    return False
