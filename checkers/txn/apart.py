"""A history of registers in which values are written to their key more than once, with the writes
told apart: each has a value id of its own.

A read of a value that one transaction can have left there is a read of that write. One that several
can have left is open (`columns.OpenReads`): from which of these *candidates* it read is for those
to find who decide. What the columns tell holds whichever it was, since a history with fewer reads
demands less. A candidate is the last write of the key by another transaction that did not fail; a
read that follows a write of its own transaction returns that one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from checkers.txn.columns import (
    FAIL,
    I64,
    NIL,
    READ,
    WRITE,
    OpenReads,
    TxnColumns,
    pairs_of,
)
from dstest.core.errors import MemorySpent

__all__ = ["told_apart"]

CANDIDATES_MAX: Final = 10_000_000
"""Of all reads together; some 50 bytes each."""


@dataclass
class _Mops:
    """Micro-ops with their transactions. `own` is the write of the key that comes before in the
    same transaction, -1 where there is none; `final` says that none comes after."""

    c: TxnColumns
    txn: I64
    own: I64
    final: np.ndarray[tuple[int], np.dtype[np.bool_]]
    reads: I64
    """Known reads of something."""


def _mops_of(c: TxnColumns) -> _Mops:
    count = len(c.mop_kind)
    txn = np.repeat(np.arange(c.txns), np.diff(c.mop_start))
    place = txn * (len(c.key_names) + 1) + c.mop_key
    order = np.argsort(place, kind="stable")
    at = np.arange(count)
    starts = np.append(True, np.diff(place[order]) != 0)[:count]
    group = np.maximum.accumulate(np.where(starts, at, 0)) if count else at
    writes = c.mop_kind[order] == WRITE
    last = np.maximum.accumulate(np.where(writes, at, -1)) if count else at
    before = np.append(-1, last[:-1])[:count]
    own = np.full(count, -1, np.int64)
    own[order] = np.where(before >= group, order[before], -1)
    final = c.mop_kind == WRITE
    final[own[(c.mop_kind == WRITE) & (own >= 0)]] = False
    reads = np.flatnonzero((c.mop_kind == READ) & (c.mop_known != 0) & (c.mop_value != NIL))
    return _Mops(c, txn, own, final, reads)


class _Written:
    """Some writes, by their key and value."""

    def __init__(self, c: TxnColumns, writes: I64) -> None:
        names = pairs_of(c.mop_key[writes], c.mop_value[writes])
        order = np.argsort(names, kind="stable")
        self._names, self.mops = names[order], writes[order]

    def span(self, names: I64) -> tuple[I64, I64]:
        """Of each name the first place in `mops`, and how many there are."""
        first = np.searchsorted(self._names, names)
        return first, np.searchsorted(self._names, names, side="right") - first


def _spread(first: I64, sizes: I64) -> tuple[I64, I64]:
    """All numbers of these spans, and which span each is of."""
    of = np.repeat(np.arange(len(sizes)), sizes)
    ends = np.cumsum(sizes)
    return np.repeat(first - (ends - sizes), sizes) + np.arange(int(sizes.sum())), of


def _candidates(m: _Mops, reads: I64) -> tuple[I64, I64]:
    """Per candidate the micro-op, and the number of the read that it is one of."""
    c = m.c
    good = np.flatnonzero(m.final & (c.outcome[m.txn] != FAIL) & (c.mop_value != NIL))
    written = _Written(c, good)
    first, sizes = written.span(pairs_of(c.mop_key[reads], c.mop_value[reads]))
    if int(sizes.sum()) > CANDIDATES_MAX:
        raise MemorySpent(
            f"its reads may be of {int(sizes.sum())} writes: {CANDIDATES_MAX} are looked at",
            remedy="a part of the history",
        )
    at, of = _spread(first, sizes)
    write = written.mops[at]
    others = m.txn[write] != m.txn[reads[of]]
    return write[others], of[others]


def _fallback(m: _Mops, reads: I64) -> I64:
    """Of reads that nobody can have left the value for: some write of it, else -1."""
    c = m.c
    written = _Written(c, np.flatnonzero((c.mop_kind == WRITE) & (c.mop_value != NIL)))
    first, sizes = written.span(pairs_of(c.mop_key[reads], c.mop_value[reads]))
    at, of = _spread(first, sizes)
    found = np.full(len(reads), -1, np.int64)
    # others' writes are put down last, so that they stay
    rank = np.argsort(m.txn[written.mops[at]] != m.txn[reads[of]], kind="stable")
    found[of[rank]] = written.mops[at[rank]]
    return found


def _unlike(m: _Mops, outer: I64, is_open: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> I64:
    """Open reads of a key that differ from another read of the same by their transaction."""
    c = m.c
    nil = np.flatnonzero((c.mop_kind == READ) & (c.mop_known != 0) & (c.mop_value == NIL))
    nil = nil[m.own[nil] < 0]
    mops = np.concatenate([outer, nil])
    open_ = np.concatenate([is_open, np.zeros(len(nil), np.bool_)])
    place = m.txn[mops] * (len(c.key_names) + 1) + c.mop_key[mops]
    _, number = np.unique(place, return_inverse=True)
    low = np.full(int(number.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    high = np.full(len(low), np.iinfo(np.int64).min)
    np.minimum.at(low, number, c.mop_value[mops])
    np.maximum.at(high, number, c.mop_value[mops])
    return np.sort(mops[open_ & (low[number] != high[number])])


def _own_value(m: _Mops, reads: I64) -> tuple[I64, I64]:
    """Of reads after an own write of the key: the last own write before them whose value they
    return, -1 for none; and which of them do not return the last one of all."""
    c = m.c
    torn = reads[c.mop_value[m.own[reads]] != c.mop_value[reads]]
    writes = np.flatnonzero(c.mop_kind == WRITE)
    both = np.concatenate([writes, reads])
    _, place = np.unique(
        m.txn[both] * (len(c.key_names) + 1) + c.mop_key[both], return_inverse=True
    )
    values = place * (int(c.mop_value.max(initial=0)) + 1) + c.mop_value[both]
    _, group = np.unique(values, return_inverse=True)
    at = group.reshape(-1) * len(c.mop_kind) + both
    written = np.sort(at[: len(writes)])
    before = np.searchsorted(written, at[len(writes) :]) - 1
    last = np.where(before >= 0, written[np.maximum(before, 0)], -1)
    same = (last >= 0) & (last // len(c.mop_kind) == group[len(writes) :])
    return np.where(same, last % len(c.mop_kind), -1), torn


def _open_reads(m: _Mops, reads: I64, write: I64, of: I64, outer: I64, torn: I64) -> OpenReads:
    """`reads` with the candidates `write` (of read number `of`); `outer` are all reads of what
    others wrote."""
    c = m.c
    sizes = np.bincount(of, minlength=len(reads))
    unlike = _unlike(m, outer, np.isin(outer, reads))
    plain = np.flatnonzero((m.own[reads] < 0) & ~np.isin(reads, unlike))
    place = m.txn[reads[plain]] * (len(c.key_names) + 1) + c.mop_key[reads[plain]]
    _, first_of = np.unique(place, return_index=True)
    return OpenReads(
        read=reads,
        value=write[np.concatenate([[0], np.cumsum(sizes)])[:-1].astype(np.int64)],
        first=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        write=write,
        once=np.sort(plain[first_of]),
        torn=torn,
        unlike=unlike,
    )


def told_apart(c: TxnColumns) -> TxnColumns | None:
    """The columns with all writes told apart, and the reads that this leaves open; None where no
    value was written to its key twice. Transactions and micro-ops stay as they are.

    Raises MemorySpent where reads have more candidates than can be looked at.
    """
    m = _mops_of(c)
    writes = np.flatnonzero((c.mop_kind == WRITE) & (c.mop_value != NIL))
    names = pairs_of(c.mop_key[writes], c.mop_value[writes])
    if len(np.unique(names)) == len(names):
        return None
    number = np.full(len(c.mop_kind) + 1, -1, np.int64)  # the value id of each write
    number[writes] = np.arange(len(writes))
    source = np.full(len(c.mop_kind), -1, np.int64)  # the write that a read returned
    inner = m.reads[m.own[m.reads] >= 0]
    source[inner], torn = _own_value(m, inner)
    outer = m.reads[source[m.reads] < 0]
    write, of = _candidates(m, outer)
    sizes = np.bincount(of, minlength=len(outer))
    source[outer[of[sizes[of] == 1]]] = write[sizes[of] == 1]
    nobody = outer[sizes == 0]
    source[nobody] = _fallback(m, nobody)
    several = sizes > 1
    rank = np.cumsum(several) - 1
    some = several[of]
    open_ = _open_reads(
        m, outer[several], write[some], rank[of[some]], outer, torn[np.isin(torn, outer[several])]
    )
    garbage = nobody[source[nobody] < 0]
    strange, which = np.unique(c.mop_value[garbage], return_inverse=True)
    value = c.mop_value.astype(np.int64)
    value[writes] = number[writes]
    value[m.reads] = number[source[m.reads]]
    value[garbage] = len(writes) + which
    value[open_.read] = NIL
    known = c.mop_known.copy()
    known[open_.read] = 0
    told = [c.value_names[v] for v in c.mop_value[writes].tolist()]
    return replace(
        c,
        mop_value=value.astype(np.int32),
        mop_known=known,
        value_names=[*told, *(c.value_names[v] for v in strange.tolist())],
        open=replace(open_, value=number[open_.value]),
    )
