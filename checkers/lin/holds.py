"""Holds of locks: which operations may be left out of a witness together.

From the moment a process begins to hold until it holds nothing again nobody else is helped by it:
without all of that a linearization stays one, as long as no refusal needs the lock to be taken.
(Of a semaphore this is so because nobody there gives back what others hold.) So a whole hold may
go, and so may an acquire of unknown outcome that no release follows. Where permits are not counted
an acquire and the release that undoes it may go from within a hold, or from around one: what is
left is held no longer than before.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from checkers._columns import I64, NEVER
from checkers.lin.encode import Coded
from dstest.core.op import Op

REFUSED: Final = -1


def holds(coded: Coded, ops: list[Op]) -> I64 | None:
    """The number of each operation's hold, REFUSED for those that were refused; `coded` has one
    key. None where a process gives back what it does not hold, or works on several things at
    once."""
    unit = np.empty(len(coded.classes), np.int64)
    held: dict[Any, list[tuple[int, int]]] = {}  # of each process: hold and permits
    ends: dict[Any, int] = {}
    for row in range(len(unit)):
        call = coded.calls[coded.classes[row]]
        process = ops[int(coded.position[row])].process_id
        if call.known and call.output is False:
            unit[row] = REFUSED
            continue
        if ends.get(process, -NEVER) >= coded.invoke[row]:
            return None
        ends[process] = int(coded.complete[row])
        mine = held.setdefault(process, [])
        if call.op_type == "acquire":
            if call.input is None or not mine:
                mine.append((row, call.input or 1))
            else:
                mine[-1] = (mine[-1][0], mine[-1][1] + call.input)
            unit[row] = mine[-1][0]
            continue
        left = mine[-1][1] - (call.input or 1) if mine else -1
        if left < 0:
            return None
        unit[row] = mine[-1][0]
        mine[-1:] = [(mine[-1][0], left)] if left else []
    return unit
