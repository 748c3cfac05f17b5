"""A transactional history as integer columns: what readers fill and analyses take.

Every array is contiguous, little-endian and read-only by contract. A *transaction* is one logical
operation (an invocation with its completion, if any), a *micro-op* one of its reads or writes, an
*element* one value of a list that a read returned.

Keys and values are dense ids: `key_names[id]` and `value_names[id]` give the scalars back (int,
str, float, bool). Ids of values are shared by all keys. `NIL` stands for null.

Event positions count invocations and completions together in the order of the history, from 0:
they, not the clock, define real time (ties are broken by the recorder's order).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray


class UnfitError(ValueError):
    """Columns that cannot be judged: they break the rules of csrc/txn/txn.h, write a value twice,
    or are of another kind of object."""


OK: Final = 0
FAIL: Final = 1
INFO: Final = 2
"""Outcome of a transaction; INFO is unknown, open invocations included."""

READ: Final = 0
WRITE: Final = 1
"""Kind of a micro-op; WRITE is `append` in list-append and `w` in rw-register."""

NIL: Final = -1

NULL_READ: Final = 2

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class TxnColumns:
    """`n` transactions in order of invocation, `m` micro-ops, `e` elements.

    outcome        u8[n]    OK, FAIL or INFO
    process        i64[n]   dense process id, -1 where the history names none
    invoke_pos     i64[n]   event position; -1 where the history holds only the completion
    complete_pos   i64[n]   event position; -1 for open transactions
    op_index       i64[n]   how the history names the transaction: Jepsen `:index` of the
                            completion (of the invocation where open), or our op_id
    mop_start      i64[n+1] micro-ops of transaction t are mop_start[t] .. mop_start[t+1]
    mop_kind       u8[m]    READ or WRITE
    mop_key        i32[m]   key id
    mop_value      i32[m]   WRITE: value id. READ: a register's value id or NIL; NIL for a list
    mop_known      u8[m]    READ: 0 where the result is not known (all but ok transactions), 1
                            where it is, NULL_READ where it is known to be null: Elle tells null
                            from an empty list for `internal` and `lost-update`. WRITE: not 0
    elem_start     i64[m+1] elements of list read i are elem_start[i] .. elem_start[i+1]
    elem           i32[e]   value ids

    `skipped` counts events that are no part of the history, `weak` what keeps a clean history from
    being valid. `named` is set where ids are strings, for which positions stand in `op_index`.
    `writes` is how its micro-ops write, `append` or `w`; empty where nobody knows. `unread` counts
    events by the fields that nobody reads.
    """

    outcome: U8
    process: I64
    invoke_pos: I64
    complete_pos: I64
    op_index: I64
    mop_start: I64
    mop_kind: U8
    mop_key: I32
    mop_value: I32
    mop_known: U8
    elem_start: I64
    elem: I32
    key_names: list[Any] = field(default_factory=list)
    value_names: list[Any] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    weak: dict[str, int] = field(default_factory=dict)
    named: bool = False
    writes: str = ""
    unread: dict[str, int] = field(default_factory=dict)

    @property
    def txns(self) -> int:
        """How many transactions."""
        return len(self.outcome)
