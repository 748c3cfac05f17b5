"""A list-append history as one of registers, for what decides models of registers; and the smallest
part of a history of registers that still shows what the whole shows.

A read of a list is a read of its last element that the transaction itself had not appended: that
element is the version it saw. It shows the elements before as well, and so whoever appended them:
each of these is a register of its own, written once. What the lists say besides are pairs of
transactions: whose element stands before whose, and that an append which no read shows comes after
the longest one. All this holds only where the lists agree and every element has a writer, so where
the analysis of the lists has found nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from checkers.txn.columns import (
    I64,
    INFO,
    NIL,
    NO_OPEN,
    NULL_READ,
    OK,
    READ,
    WRITE,
    OpenReads,
    TxnColumns,
    pairs_of,
)
from checkers.txn.weak_models import Known
from dstest.core.clock import monotonic_ns

BYTES_PER_ELEMENT: Final = 100
"""Of memory that `registers_of` takes for each element of a read list."""

Shows = Callable[[TxnColumns], bool]

CHECKS_MAX: Final = 4000
"""Parts that are tried."""


class _Writers:
    """The transaction that appended a value to a key, -1 where nobody did."""

    def __init__(self, c: TxnColumns, txn_of: I64) -> None:
        appends = np.flatnonzero(c.mop_kind == WRITE)
        names = pairs_of(c.mop_key[appends], c.mop_value[appends])
        order = np.argsort(names, kind="stable")
        self._names = names[order]
        self._txns = txn_of[appends][order]

    def of(self, key: np.ndarray, value: np.ndarray) -> I64:
        if not len(self._names):
            return np.full(len(key), -1, np.int64)
        names = pairs_of(key, value)
        at = np.minimum(np.searchsorted(self._names, names), len(self._names) - 1)
        found: I64 = np.where(self._names[at] == names, self._txns[at], -1)
        return found


def _last_of_others(c: TxnColumns, reads: I64, txn: I64, writers: _Writers) -> I64:
    """Per read the element that it ends with, besides those that its transaction appended; -1 where
    there is none."""
    at = c.elem_start[reads + 1] - 1
    while True:
        here = np.flatnonzero(at >= c.elem_start[reads])
        own = writers.of(c.mop_key[reads[here]], c.elem[at[here]]) == txn[here]
        if not own.any():
            break
        at[here[own]] -= 1
    return np.where(at >= c.elem_start[reads], at, -1)


class _Spines:
    """The longest read of each key, one after the other: per element its key, its value, who
    appended it and whether the one before is of the same key. `ends` has the last writer by key, -1
    where no read shows any."""

    def __init__(self, c: TxnColumns, reads: I64, writers: _Writers) -> None:
        lengths = c.elem_start[reads + 1] - c.elem_start[reads]
        order = np.lexsort((lengths, c.mop_key[reads]))
        last_of_key = np.append(c.mop_key[reads[order]][1:] != c.mop_key[reads[order]][:-1], True)
        longest = reads[order[last_of_key]] if len(reads) else reads
        longest = longest[c.elem_start[longest + 1] > c.elem_start[longest]]
        sizes = c.elem_start[longest + 1] - c.elem_start[longest]
        starts = np.repeat(c.elem_start[longest] - np.append(0, np.cumsum(sizes)[:-1]), sizes)
        at = starts + np.arange(int(sizes.sum()))
        self.key = np.repeat(c.mop_key[longest], sizes)
        self.value = c.elem[at]
        self.writer = writers.of(self.key, self.value)
        self.goes_on = np.append(False, self.key[1:] == self.key[:-1])[: len(self.key)]
        self.ends = np.full(len(c.key_names), -1, np.int64)
        self.ends[c.mop_key[longest]] = self.writer[np.cumsum(sizes) - 1] if len(longest) else -1

    def shows(self, names: I64) -> np.ndarray:
        """Which of these appends it has."""
        shown = np.sort(pairs_of(self.key, self.value))
        if not len(shown):
            return np.zeros(len(names), np.bool_)
        place = np.minimum(np.searchsorted(shown, names), len(shown) - 1)
        there: np.ndarray = shown[place] == names
        return there


def _order_of_versions(c: TxnColumns, spines: _Spines, txn_of: I64) -> Known:
    """Neighbours in the longest read of each key; its last one and each append that it lacks, of
    transactions that took effect."""
    here = np.flatnonzero(spines.goes_on)
    first, then = spines.writer[here - 1], spines.writer[here]
    happened = c.outcome == OK
    happened[spines.writer[spines.writer >= 0]] = True
    appends = np.flatnonzero((c.mop_kind == WRITE) & happened[txn_of])
    there = spines.shows(pairs_of(c.mop_key[appends], c.mop_value[appends]))
    unseen = appends[~there & (spines.ends[c.mop_key[appends]] >= 0)]
    first = np.concatenate([first, spines.ends[c.mop_key[unseen]]])
    then = np.concatenate([then, txn_of[unseen]])
    sure = (first != then) & (first >= 0) & (then >= 0)
    pairs = np.unique(np.stack([first, then], axis=1)[sure], axis=0)
    return pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32)


class _Lists:
    """What both kinds of registers are made of."""

    def __init__(self, c: TxnColumns) -> None:
        self.c = c
        self.txn_of = np.repeat(np.arange(c.txns), np.diff(c.mop_start))
        self.writers = _Writers(c, self.txn_of)
        known = (c.mop_kind == READ) & (c.mop_known != 0) & (c.outcome[self.txn_of] == OK)
        self.reads = np.flatnonzero(known)
        self.spines = _Spines(c, self.reads, self.writers)
        self.last = _last_of_others(c, self.reads, self.txn_of[self.reads], self.writers)

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """Per micro-operation its value as a register's, and what is known of it."""
        c, reads, last = self.c, self.reads, self.last
        value, told = c.mop_value.copy(), c.mop_known.copy()
        value[reads] = np.where(last >= 0, c.elem[np.maximum(last, 0)] if len(c.elem) else NIL, NIL)
        told[reads] = np.where(last >= 0, 1, NULL_READ)
        return value, told


class _Mops(NamedTuple):
    """Micro-operations in any order."""

    txn: np.ndarray
    kind: np.ndarray
    key: np.ndarray
    value: np.ndarray
    known: np.ndarray

    def and_these(self, *more: np.ndarray) -> _Mops:
        """With others after them."""
        return _Mops(*(np.concatenate(both) for both in zip(self, more, strict=True)))


def _columns(c: TxnColumns, mops: _Mops, place: I64) -> TxnColumns:
    """The transactions with other micro-operations, in the order of their places, but reads before
    writes, for each tells what others had left."""
    order = np.lexsort((place, mops.kind == WRITE, mops.txn))
    counts = np.bincount(mops.txn, minlength=c.txns)
    return TxnColumns(
        outcome=c.outcome,
        process=c.process,
        invoke_pos=c.invoke_pos,
        complete_pos=c.complete_pos,
        op_index=c.op_index,
        mop_start=np.append(0, np.cumsum(counts)).astype(np.int64),
        mop_kind=mops.kind[order],
        mop_key=mops.key[order].astype(np.int32),
        mop_value=mops.value[order].astype(np.int32),
        mop_known=mops.known[order].astype(np.uint8),
        elem_start=np.zeros(len(order) + 1, np.int64),
        elem=np.empty(0, np.int32),
        key_names=c.key_names,
        value_names=c.value_names,
    )


def _sights(lists: _Lists) -> tuple[_Mops, _Mops, I64, list[Any]]:
    """A register for each append that some read shows before the element it ends with: reads of
    them, their writes, the places of the reads, and the names of their keys."""
    c, reads, writers = lists.c, lists.reads, lists.writers
    sizes = c.elem_start[reads + 1] - c.elem_start[reads]
    read = np.repeat(reads, sizes)
    first = np.repeat(c.elem_start[reads] - np.append(0, np.cumsum(sizes)[:-1]), sizes)
    at = first + np.arange(len(read))
    value = c.elem[at]
    key, txn = c.mop_key[read], lists.txn_of[read]
    writer = writers.of(key, value)
    same_next = np.append((read[1:] == read[:-1]) & (writer[1:] == writer[:-1]), False)[: len(read)]
    of_others = (writer >= 0) & (writer != txn) & ~same_next & (at != np.repeat(lists.last, sizes))
    names, which = np.unique(pairs_of(key[of_others], value[of_others]), return_inverse=True)
    keys, values = names >> 32, (names & 0xFFFFFFFF) - 1
    mark = len(c.key_names) + np.arange(len(names))
    seen = _Mops(
        txn[of_others],
        np.full(len(which), READ, c.mop_kind.dtype),
        mark[which],
        value[of_others],
        np.ones(len(which), c.mop_known.dtype),
    )
    written = _Mops(
        writers.of(keys, values),
        np.full(len(names), WRITE, c.mop_kind.dtype),
        mark,
        values,
        np.ones(len(names), c.mop_known.dtype),
    )
    return seen, written, read[of_others], [c.key_names[k] for k in keys]


def registers_of(c: TxnColumns) -> tuple[TxnColumns, Known]:
    """The columns of registers, transactions as they are, and what is known of their versions. The
    keys of the history come first; those after them are of single elements, named as their lists
    are."""
    lists = _Lists(c)
    value, told = lists.values()
    seen, written, read, names = _sights(lists)
    mops = _Mops(lists.txn_of, c.mop_kind, c.mop_key, value, told).and_these(*seen)
    place = np.concatenate([np.arange(len(c.mop_kind)), read, np.zeros(len(names), np.int64)])
    registers = _columns(c, mops.and_these(*written), place)
    registers = replace(registers, key_names=[*c.key_names, *names])
    return registers, _order_of_versions(c, lists.spines, lists.txn_of)


def replacing(c: TxnColumns) -> tuple[TxnColumns, int]:
    """Registers whose writers have read what they replace, as the lists show it. Where a store
    executes transactions as one of registers would, under serializability or snapshot isolation,
    one of lists would, too, and the other way round: an append stands where its predecessor is the
    last, and one that no list shows comes after all reads.

    Unknown transactions of which something is shown have happened; they end after all others. Where
    the history has no invocation of one, real time says nothing of it: how many there are comes
    with the columns, which have it begin where the history names it.
    """
    lists = _Lists(c)
    value, told = lists.values()
    told[(c.mop_kind == READ) & (c.outcome[lists.txn_of] == INFO)] = 0
    spines = lists.spines
    before = np.where(spines.goes_on, np.roll(spines.writer, 1), -1)
    new = np.flatnonzero((spines.writer >= 0) & (before != spines.writer))
    replaced = np.where(spines.goes_on, np.roll(spines.value, 1), NIL)[new]
    mops = _Mops(lists.txn_of, c.mop_kind, c.mop_key, value, told).and_these(
        spines.writer[new],
        np.full(len(new), READ, c.mop_kind.dtype),
        spines.key[new],
        replaced,
        np.where(replaced == NIL, NULL_READ, 1),
    )
    happened = np.unique(spines.writer[new])
    happened = happened[c.outcome[happened] == INFO]
    silent = happened[c.invoke_pos[happened] < 0]
    outcome, invoke, complete = c.outcome.copy(), c.invoke_pos.copy(), c.complete_pos.copy()
    outcome[happened] = OK
    invoke[silent] = complete[silent]
    end = max(int(c.invoke_pos.max(initial=-1)), int(complete.max(initial=-1))) + 1
    complete[happened] = end + np.arange(len(happened))
    columns = _columns(c, mops, np.arange(len(mops.txn)))
    columns = replace(columns, outcome=outcome, invoke_pos=invoke, complete_pos=complete)
    return columns, len(silent)


def mops_of(c: TxnColumns, txns: Sequence[int]) -> I64:
    """All micro-ops of these transactions."""
    spans = [np.arange(c.mop_start[t], c.mop_start[t + 1]) for t in txns]
    return np.concatenate([np.empty(0, np.int64), *spans])


def _dense(names: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.where(values == NIL, NIL, np.searchsorted(names, values))


def part_of(c: TxnColumns, mops: I64) -> TxnColumns:
    """The columns of some micro-ops (in ascending order) and their transactions. Their keys and
    values get ids of their own; `op_index` says which transactions of `c` they are."""
    of = np.searchsorted(c.mop_start, mops, side="right") - 1
    txns, counts = np.unique(of, return_counts=True)
    key, value, kind = c.mop_key[mops], c.mop_value[mops], c.mop_kind[mops]
    keys, values = np.unique(key), np.unique(value[value != NIL])
    return TxnColumns(
        outcome=c.outcome[txns],
        process=c.process[txns],
        invoke_pos=c.invoke_pos[txns],
        complete_pos=c.complete_pos[txns],
        op_index=txns.astype(np.int64),
        mop_start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        mop_kind=kind,
        mop_key=_dense(keys, key).astype(np.int32),
        mop_value=_dense(values, value).astype(np.int32),
        mop_known=c.mop_known[mops],
        elem_start=np.zeros(len(mops) + 1, np.int64),
        elem=np.empty(0, np.int32),
        key_names=[c.key_names[k] for k in keys],
        value_names=[c.value_names[v] for v in values],
        open=_open_of(c, mops, values) if c.open else NO_OPEN,
    )


def _open_of(c: TxnColumns, mops: I64, values: np.ndarray) -> OpenReads:
    """The open reads of a part of which all candidates are in it, too."""
    reads = c.open
    here = np.zeros(len(c.mop_kind), np.bool_)
    here[mops] = True
    missing = np.add.reduceat(~here[reads.write], reads.first[:-1])
    kept = np.flatnonzero(here[reads.read] & (missing == 0))
    read, first, write = reads.some(kept)
    at = np.searchsorted(kept, reads.once)
    at = np.minimum(at, max(0, len(kept) - 1))
    return OpenReads(
        read=np.searchsorted(mops, read),
        value=np.searchsorted(values, reads.value[kept]),
        first=first,
        write=np.searchsorted(mops, write),
        once=at[kept[at] == reads.once] if len(kept) else NO_OPEN.once,
        torn=np.searchsorted(mops, reads.torn[np.isin(reads.torn, read)]),
        unlike=NO_OPEN.unlike,
    )


class Writers:
    """Who wrote which value of which key."""

    def __init__(self, c: TxnColumns) -> None:
        self._c = c
        writes = np.flatnonzero(c.mop_kind == WRITE)
        names = _names(c, writes)
        order = np.argsort(names)
        self._names, self._mops = names[order], writes[order]

    def of(self, mops: I64) -> I64:
        """The transactions that wrote what these micro-ops read."""
        c = self._c
        reads = mops[(c.mop_kind[mops] == READ) & (c.mop_value[mops] != NIL)]
        _, _, several = c.open.some(np.flatnonzero(np.isin(c.open.read, mops)))
        candidates = np.searchsorted(c.mop_start, several, side="right") - 1
        return np.concatenate([self._of_known(reads), candidates])

    def _of_known(self, reads: I64) -> I64:
        c = self._c
        if not len(self._names):
            return np.empty(0, np.int64)
        wanted = _names(c, reads)
        at = np.minimum(np.searchsorted(self._names, wanted), len(self._names) - 1)
        found = self._mops[at[self._names[at] == wanted]]
        of: I64 = np.searchsorted(c.mop_start, found, side="right") - 1
        return of

    def wrote(self, names: I64) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which of these were written at all."""
        at = np.minimum(np.searchsorted(self._names, names), max(0, len(self._names) - 1))
        return self._names[at] == names if len(self._names) else np.zeros(len(names), np.bool_)


def _names(c: TxnColumns, mops: I64) -> I64:
    return pairs_of(c.mop_key[mops], c.mop_value[mops])


def neighbourhood(c: TxnColumns, writers: Writers, txns: Iterable[int], radius: int) -> I64:
    """The micro-ops of transactions invoked within `radius` of these, and of those that wrote what
    these read. Reads of others go."""
    near: set[int] = set()
    for txn in txns:
        near.update(range(max(0, txn - radius), min(c.txns, txn + radius + 1)))
    near.update(writers.of(mops_of(c, sorted(near))).tolist())
    mops = mops_of(c, sorted(near))
    return _closed(c, mops, writers)


def _closed(c: TxnColumns, mops: I64, writers: Writers) -> I64:
    """Without the reads of what was written, but not in this part."""
    told = (c.mop_kind[mops] == READ) & (c.mop_value[mops] != NIL)
    names = _names(c, mops)
    here = np.isin(names, names[c.mop_kind[mops] == WRITE])
    kept: I64 = mops[~told | here | ~writers.wrote(names)]
    return kept


class _Parts:
    """Tries parts of one history."""

    def __init__(self, c: TxnColumns, shows: Shows, deadline_ns: int) -> None:
        self._c, self._shows, self._deadline_ns = c, shows, deadline_ns
        self.over = False
        self._left = CHECKS_MAX
        self._writers = Writers(c)

    def closed(self, mops: I64) -> I64:
        return _closed(self._c, np.sort(mops), self._writers)

    def show(self, mops: I64) -> bool:
        self._left -= 1
        self.over = self.over or self._left < 0 or monotonic_ns() > self._deadline_ns
        return not self.over and len(mops) > 0 and self._shows(part_of(self._c, mops))

    def fewer(self, groups: Sequence[I64]) -> list[I64]:
        """As few of these as may be."""
        kept, step = list(groups), max(1, len(groups) // 2)
        while step and not self.over:
            at = 0
            while at < len(kept) and not self.over:
                rest = kept[:at] + kept[at + step :]
                if rest and self.show(self.closed(np.concatenate(rest))):
                    kept = rest
                else:
                    at += step
            step //= 2
        return kept


class Shrunk(NamedTuple):
    """Micro-ops of which no single one can go, where that is `minimal`; else time was over."""

    mops: I64
    minimal: bool


def shrink(c: TxnColumns, txns: Iterable[int], shows: Shows, deadline_ns: int) -> Shrunk | None:
    """A part of these transactions that `shows` accepts, as small as time allows; None where it
    does not accept them all together.

    Some transactions with some of their micro-ops. A read whose writer is left out goes as well:
    that only takes demands away, so that what a part violates the whole does. First transactions
    are taken out, in halves, then single ones, then micro-ops.
    """
    parts = _Parts(c, shows, deadline_ns)
    chosen = sorted(set(txns))
    if not parts.show(parts.closed(mops_of(c, chosen))):
        return None
    groups = parts.fewer([mops_of(c, [t]) for t in chosen])
    mops = parts.closed(np.concatenate(groups))
    left = parts.fewer([mops[i : i + 1] for i in range(len(mops))])
    return Shrunk(parts.closed(np.concatenate(left)), not parts.over)
