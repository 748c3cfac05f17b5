"""A transactional history as integer columns: what readers fill and analyses take; with the values
behind its ids, the values that its keys start with, and what makes it unfit or vacuous.

Every array is contiguous, little-endian and read-only by contract. A *transaction* is one logical
operation (an invocation with its completion, if any), a *micro-op* one of its reads or writes, an
*element* one value of a list that a read returned.

Keys and values are dense ids: `key_names[id]` and `value_names[id]` give the scalars back (int,
str, float, bool). Ids of values are shared by all keys. `NIL` stands for null.

Event positions count invocations and completions together in the order of the history, from 0:
they, not the clock, define real time (ties are broken by the recorder's order).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkers._findings import USUAL, Start
from dstest.core.errors import ConfigError, HistoryError

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

_LIST_SHOWN_MAX: Final = 12
"""Elements of a list that a sentence shows, from its end."""

_AS_USUAL: Final = -2
"""Stands for the first value of a key that starts with null."""

_UNSEEN: Final = -3
"""Stands for a first value that occurs nowhere."""

_SCALARS: Final = (int, float, str, bool)

ONCE = "each value may be written to a key only once"

VACUOUS: Final = "nothing was tested: no transaction read what another one wrote"

_FIRST_TXNS: Final = 4096
"""Nearly every history shows it in its first transactions."""


class UnfitError(ValueError):
    """Columns that cannot be judged: they break the rules of csrc/txn/txn.h, append a value twice,
    or are of another kind of object."""


class RepeatedError(UnfitError):
    """A value is written to its key by two transactions."""


@dataclass(frozen=True, slots=True)
class OpenReads:
    """Reads of a value that several transactions wrote. The columns do not tell their results:
    `mop_known` is 0, and each write has a value id of its own.

    read     i64[q]    micro-op, ascending
    value    i64[q]    an id of the value that it returned
    first    i64[q+1]  its candidates are write[first[i]] .. write[first[i + 1]]
    write    i64[..]   micro-op: the last write of the key by another transaction that did not fail
    once     i64[..]   of these reads, the first of each transaction and key
    torn     i64[..]   reads that contradict what their transaction wrote itself
    unlike   i64[..]   reads unlike an earlier one of their transaction and key
    """

    read: I64
    value: I64
    first: I64
    write: I64
    once: I64
    torn: I64
    unlike: I64

    def __bool__(self) -> bool:
        return len(self.read) > 0

    def candidates(self, i: int) -> I64:
        """Of read number i."""
        return self.write[self.first[i] : self.first[i + 1]]

    def value_of(self, mop: int) -> int | None:
        """What a micro-op returned, None where it is no open read."""
        at = int(np.searchsorted(self.read, mop))
        found = at < len(self.read) and self.read[at] == mop
        return int(self.value[at]) if found else None

    def some(self, which: I64) -> tuple[I64, I64, I64]:
        """`read`, `first` and `write` of these alone."""
        sizes = np.diff(self.first)[which]
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        at = np.repeat(self.first[which] - first[:-1], sizes) + np.arange(int(first[-1]))
        return self.read[which], first, self.write[at]


_NONE: Final = np.empty(0, np.int64)

NO_OPEN: Final = OpenReads(_NONE, _NONE, np.zeros(1, np.int64), _NONE, _NONE, _NONE, _NONE)


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
    events by the fields that nobody reads. `open` are reads of which several writes may be what was
    read (apart.py); no reader makes any.
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
    key_names: Sequence[Any] = field(default_factory=list)
    value_names: Sequence[Any] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    weak: dict[str, int] = field(default_factory=dict)
    named: bool = False
    writes: str = ""
    unread: dict[str, int] = field(default_factory=dict)
    open: OpenReads = NO_OPEN

    @property
    def txns(self) -> int:
        """How many transactions."""
        return len(self.outcome)


class Kind(NamedTuple):
    """`code` is its number in csrc/txn. `lists`: reads return lists, to which the micro-operation
    `write` appends; else single values. `starts` is what the value that a key starts with is given
    as; empty where all start alike, with `first`."""

    code: int
    lists: bool
    write: str
    first: str
    starts: str = ""


REGISTERS: Final = "rw-register"

KINDS: Final[Mapping[str, Kind]] = {
    "list-append": Kind(0, True, "append", "[]"),
    REGISTERS: Kind(1, False, "w", "null", "a scalar"),
}

WORKLOADS: Final = tuple(KINDS)


def text_of(value: Any) -> str:
    """A value in a sentence; long lists by their end."""
    if isinstance(value, list):
        dots = "... " if len(value) > _LIST_SHOWN_MAX else ""
        return "[" + dots + " ".join(text_of(v) for v in value[-_LIST_SHOWN_MAX:]) + "]"
    return "nil" if value is None else value if isinstance(value, str) else repr(value)


def pairs_of(key: np.ndarray, value: np.ndarray) -> I64:
    """A number for each key with its value, the same for the same two; NIL is a value like any."""
    pairs: I64 = key.astype(np.int64) << 32 | (value.astype(np.int64) + 1)
    return pairs


def name_of(c: TxnColumns, value: int) -> Any:
    """The scalar behind a value id."""
    return None if value == NIL else c.value_names[value]


def read_value(c: TxnColumns, workload: str, i: int) -> Any:
    """What micro-op i read: a list of scalars, a scalar, or None."""
    if not c.mop_known[i]:
        shown = c.open.value_of(i)
        return None if shown is None else name_of(c, shown)
    if not KINDS[workload].lists:
        return name_of(c, int(c.mop_value[i]))
    if c.mop_known[i] == 2:
        return None
    return [name_of(c, int(v)) for v in c.elem[c.elem_start[i] : c.elem_start[i + 1]]]


def _first(c: TxnColumns, start: Start) -> Any:
    """By key, the id of its first value."""
    ids: dict[tuple[type, Any], int] = {
        (type(value), value): i for i, value in enumerate(c.value_names)
    }
    found = []
    for key in c.key_names:
        value = start.of(key)
        if value is USUAL or value is None:
            found.append(_AS_USUAL)
            continue
        if not isinstance(value, _SCALARS):
            raise ConfigError(
                f"the initial value {str(value)[:40]!r} of key {key!r} is no scalar",
                remedy="--initial 0, or a scalar by key",
            )
        found.append(ids.get((type(value), value), _UNSEEN))
    return np.array(found, np.int64)


def start_at_null(c: TxnColumns, workload: str, start: Start) -> TxnColumns:
    """The columns, their keys starting with null instead of what they start with: the analyses know
    no other initial state. So a read of the value that its key starts with is a read of null, and
    what was null before is a value that nobody has written, unless somebody wrote null.

    Raises ConfigError for what no key can start with, HistoryError where a key's first value is
    written to it.
    """
    kind = KINDS[workload]
    if not kind.starts:
        values = [start.every] if start.by_key is None else list(start.by_key.values())
        if any(value not in (None, json.loads(kind.first)) for value in values):
            raise ConfigError(
                f"{workload} has no initial state but {kind.first}",
                remedy="leave --initial out, and let a first transaction append what was there",
            )
        return c
    start.require_named(c.key_names)
    first = _first(c, start)[c.mop_key] if len(c.mop_key) else np.empty(0, np.int64)
    value = c.mop_value.astype(np.int64)
    reads = (c.mop_kind == READ) & (c.mop_known != 0)
    same = (value == first) & (value >= 0)
    written = np.flatnonzero(same & (c.mop_kind == WRITE))
    if len(written):
        at = int(written[0])
        what, where = c.value_names[value[at]], c.key_names[int(c.mop_key[at])]
        txn = int(np.searchsorted(c.mop_start, at, side="right")) - 1
        raise HistoryError(
            f"operation {c.op_index[txn]} writes {what!r} to key {where!r}, which starts with it: "
            "a read does not tell which it saw",
            remedy="--initial is a value that nobody writes",
        )
    null = (value == NIL) & (first != _AS_USUAL) & (reads | (c.mop_kind == WRITE))
    from_start = same & reads
    known = np.where(from_start, NULL_READ, np.where(null & reads, 1, c.mop_known))
    value = np.where(null, len(c.value_names), np.where(from_start, NIL, value))
    return replace(
        c,
        mop_value=value.astype(np.int32),
        mop_known=known.astype(np.uint8),
        value_names=[*c.value_names, None] if null.any() else c.value_names,
    )


def double_writers(c: TxnColumns) -> str | None:
    """Which transactions write the same value to one key, so that nobody can tell which of the
    writes a read saw; None where none do.
    """
    writes = np.flatnonzero(c.mop_kind == WRITE)
    pairs = pairs_of(c.mop_key[writes], c.mop_value[writes])
    order = np.argsort(pairs, kind="stable")
    again = np.flatnonzero(pairs[order][1:] == pairs[order][:-1])
    if not len(again):
        return None
    at = again[np.argmin(order[again + 1])]
    first, then = int(writes[order[at]]), int(writes[order[at + 1]])
    one, other = (int(np.searchsorted(c.mop_start, i, side="right")) - 1 for i in (first, then))
    key, value = c.key_names[c.mop_key[first]], name_of(c, int(c.mop_value[first]))
    twice = f"transaction {c.op_index[one]} writes {value!r} to key {key!r} twice"
    who = f"transactions {c.op_index[one]} and {c.op_index[other]}"
    return twice if one == other else f"{who} both write {value!r} to key {key!r}"


def reads_test(c: TxnColumns) -> bool:
    """Could any read of a committed transaction have been refuted?

    It could where another transaction writes its key. One that returned what another wrote is
    enough; of reads that returned nothing it takes those of two transactions, because a single one
    is right wherever it is put in the order.
    """
    if c.open:
        return True
    return _in_first(c, min(c.txns, _FIRST_TXNS)) or (c.txns > _FIRST_TXNS and _in_first(c, c.txns))


def _in_first(c: TxnColumns, txns: int) -> bool:
    mops = int(c.mop_start[txns]) if txns else 0
    kind, key = c.mop_kind[:mops], c.mop_key[:mops]
    txn = np.repeat(np.arange(txns), np.diff(c.mop_start[: txns + 1]))
    writes = np.flatnonzero((kind == WRITE) & (c.outcome[txn] != FAIL))
    first = np.full(len(c.key_names), np.iinfo(np.int64).max)
    last = np.full(len(c.key_names), -1)
    np.minimum.at(first, key[writes], txn[writes])
    np.maximum.at(last, key[writes], txn[writes])
    reads = np.flatnonzero((kind == READ) & (c.outcome[txn] == OK) & (c.mop_known[:mops] != 0))
    who, what = txn[reads], key[reads]
    reads = reads[(last[what] >= 0) & ((first[what] != who) | (last[what] != who))]
    if not len(reads):
        return False
    told = (c.elem_start[reads + 1] > c.elem_start[reads]) | (c.mop_value[reads] != NIL)
    return bool(told.any() or (txn[reads] != txn[reads[0]]).any())
