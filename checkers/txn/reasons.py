"""Why one transaction comes before another: the reason of a single edge, as a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from checkers.txn._native import SOURCES
from checkers.txn._values import name_of, read_value, shown
from checkers.txn.columns import I32, I64, NIL, OK, READ, WRITE, TxnColumns
from checkers.txn.workloads import KINDS


@dataclass(frozen=True, slots=True)
class Reason:
    """The key that an edge is about (None for process and realtime) and a sentence."""

    key: Any
    text: str


class Reasons:
    """Looks up reasons in one history. The longest read of each key is found once."""

    def __init__(self, c: TxnColumns, workload: str, sources: int) -> None:
        self.c = c
        self.workload = workload
        self.lists = KINDS[workload].lists
        self.sources = sources

    def txn_of(self, mop: int) -> int:
        """The transaction of a micro-op."""
        return int(np.searchsorted(self.c.mop_start, mop, side="right")) - 1

    def source(self, bits: int) -> str:
        """Names of sources of version orders."""
        return ", ".join(name for name, bit in SOURCES.items() if bits & bit) or "nil coming first"

    @cached_property
    def _longest(self) -> I64:
        """Per key the micro-op of its longest read, the first of them; -1 where there is none."""
        c = self.c
        found = np.full(len(c.key_names), -1, np.int64)
        lengths = np.diff(c.elem_start)
        reads = np.flatnonzero((c.mop_kind == READ) & (lengths > 0))
        order = reads[np.lexsort((-reads, lengths[reads]))]
        found[c.mop_key[order]] = order
        return found

    def _order(self, key: int) -> list[int]:
        """Version order of a list: value ids."""
        mop = self._longest[key]
        return list(dict.fromkeys(self._elems(mop).tolist())) if mop >= 0 else []

    def _elems(self, mop: int) -> I32:
        return self.c.elem[self.c.elem_start[mop] : self.c.elem_start[mop + 1]]

    def _mops(self, t: int, kind: int) -> Iterator[tuple[int, int, int]]:
        """(micro-op, key, value) of one kind, known ones only."""
        c = self.c
        for i in range(int(c.mop_start[t]), int(c.mop_start[t + 1])):
            if c.mop_kind[i] == kind and (kind == WRITE or (c.outcome[t] == OK and c.mop_known[i])):
                yield i, int(c.mop_key[i]), int(c.mop_value[i])

    def _t(self, t: int) -> str:
        return f"T{int(self.c.op_index[t])}"

    def _name(self, value: int) -> str:
        return shown(name_of(self.c, value))

    def _read(self, mop: int) -> str:
        return shown(read_value(self.c, self.workload, mop))

    def of(self, a: int, b: int, label: str) -> Reason:
        """Why `a` comes before `b`, by an edge of that label."""
        one, two = self._t(a), self._t(b)
        if label == "process":
            return Reason(
                None, f"process {self.c.process[a]} completed {one} before it began {two}"
            )
        if label == "realtime":
            return Reason(
                None,
                f"{one} had completed (event {self.c.complete_pos[a]}) before {two} was invoked "
                f"(event {self.c.invoke_pos[b]})",
            )
        find = self._of_list if self.lists else self._of_register
        return find(a, b, label) or Reason(None, f"{one} comes before {two} by a {label} edge")

    def _of_list(self, a: int, b: int, label: str) -> Reason | None:
        one, two = self._t(a), self._t(b)
        if label == "wr":
            written = {(k, v) for _, k, v in self._mops(a, WRITE)}
            for i, k, _ in self._mops(b, READ):
                elems = self._elems(i)
                if len(elems) and (k, int(elems[-1])) in written:
                    key = self.c.key_names[k]
                    return Reason(
                        key,
                        f"{two} read key {key} as {self._read(i)}, whose last element {one} "
                        "had appended",
                    )
            return None
        for i, k, before in self._ends(a, label):
            order = self._order(k)
            at = order.index(before) + 1 if before in order else 0 if before == NIL else -1
            for _, j, v in self._mops(b, WRITE):
                if j != k or at < 0:
                    continue
                follows = at < len(order) and order[at] == v
                unseen = at == len(order) and v not in order
                if follows or unseen:
                    return self._list_text((a, b), label, i, k, v, unseen=unseen)
        return None

    def _ends(self, a: int, label: str) -> Iterator[tuple[int, int, int]]:
        """(micro-op, key, version) that `a` wrote (ww) or read (rw)."""
        if label == "ww":
            yield from self._mops(a, WRITE)
        elif self.lists:
            for i, k, _ in self._mops(a, READ):
                elems = self._elems(i)
                yield i, k, int(elems[-1]) if len(elems) else NIL
        else:
            yield from self._mops(a, READ)

    def _list_text(
        self, edge: tuple[int, int], label: str, i: int, k: int, v: int, *, unseen: bool
    ) -> Reason:
        one, two, key = self._t(edge[0]), self._t(edge[1]), self.c.key_names[k]
        if label == "ww":
            start = f"{one} appended {self._name(int(self.c.mop_value[i]))} to key {key}"
        else:
            start = f"{one} read key {key} as {self._read(i)}"
        if unseen:
            why = f"{two} appended {self._name(v)}, which no read shows, so that it came later"
        else:
            reader = self._t(self.txn_of(int(self._longest[k])))
            why = f"{two} appended {self._name(v)} right after that, as {reader}'s read shows"
        return Reason(key, f"{start} and {why}")

    def _of_register(self, a: int, b: int, label: str) -> Reason | None:
        one, two = self._t(a), self._t(b)
        if label == "wr":
            written = {(k, v) for _, k, v in self._mops(a, WRITE)}
            for _, k, v in self._mops(b, READ):
                if (k, v) in written:
                    key = self.c.key_names[k]
                    return Reason(
                        key, f"{two} read {self._name(v)} in key {key}, which {one} wrote"
                    )
            return None
        last = {k: v for _, k, v in self._mops(b, WRITE)}
        reads = {k: v for _, k, v in reversed(list(self._mops(b, READ)))}
        ends = {k: v for _, k, v in self._ends(a, label) if k in last}
        if label == "rw":
            read = reversed(list(self._ends(a, label)))
            ends = {k: v for _, k, v in read if k in last and v != last[k]}
        verb = "wrote" if label == "ww" else "read"
        ranked = sorted(ends.items(), key=lambda kv: kv[1] != NIL and reads.get(kv[0]) != kv[1])
        for k, v in ranked:
            key = self.c.key_names[k]
            if v == NIL:
                why = "nil is the initial value"
            elif reads.get(k) == v and self.sources & SOURCES["wfr-keys?"]:
                why = f"{two} had read {self._name(v)} itself"
            else:
                why = f"by {self.source(self.sources & ~SOURCES['wfr-keys?'])}"
            return Reason(
                key,
                f"{one} {verb} {self._name(v)} in key {key} and {two} wrote {self._name(last[k])}, "
                f"a later version: {why}",
            )
        return None
