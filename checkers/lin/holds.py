"""Holds of locks: which operations may be left out of a witness together.

From the moment a process begins to hold until it holds nothing again nobody else is helped by it:
without all of that a linearization stays one, as long as no refusal needs the lock to be taken.
(Of a semaphore this is so because nobody there gives back what others hold.) So a whole hold may
go, and so may an acquire of unknown outcome that no release follows.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from checkers._columns import I64, NEVER
from checkers.lin.encode import Coded
from dstest.core.op import Op

__all__ = ["LOCKS", "REFUSED", "holds"]

LOCKS: Final = ("mutex", "reentrant-mutex", "fencing-lock", "semaphore")
REFUSED: Final = -1


def holds(coded: Coded, ops: list[Op]) -> I64 | None:
    """The number of each operation's hold, REFUSED for those that were refused; `coded` has one
    key. None where a process gives back what it does not hold, or works on several things at
    once."""
    unit = np.empty(len(coded.classes), np.int64)
    depth: dict[Any, int] = {}
    hold: dict[Any, int] = {}
    ends: dict[Any, int] = {}
    fresh = 0
    for row in range(len(unit)):
        call = coded.calls[coded.classes[row]]
        process = ops[int(coded.position[row])].process_id
        if call.known and call.output is False:
            unit[row] = REFUSED
            continue
        if ends.get(process, -NEVER) >= coded.invoke[row]:
            return None
        ends[process] = int(coded.complete[row])
        amount = call.input if call.input is not None else 1
        if call.op_type == "acquire":
            if not depth.get(process):
                hold[process] = fresh
                fresh += 1
            unit[row] = hold[process]
            depth[process] = depth.get(process, 0) + amount
        else:
            depth[process] = depth.get(process, 0) - amount
            if depth[process] < 0:
                return None
            unit[row] = hold[process]
    return unit
