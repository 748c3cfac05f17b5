"""From what the analysis found to something that a newcomer understands: anomalies with witnesses,
why one transaction comes before another, and which of them order a key's versions in a circle.

The C core decides and names transactions; this file tells why. Like Elle we keep the two apart
(Kingsbury and Alvaro, VLDB 2020, section 6): an edge is found a million times and explained a few
times, so its reason is looked up again from the micro-ops of its two transactions.

Each anomaly's witness holds the transactions as records of our twelve keys, with event positions
(`invoke_event`, `complete_event`) instead of times; those of a cycle in its order and with

    "edge": {"to": 7, "reason": "rw", "key": "x", "text": "T3 read x as [1] and ..."}

T3 is the transaction that the history names 3: Jepsen's `:index`, or our `op_id`.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from checkers.txn._native import SOURCES, Analysis, Cycle, Finding
from checkers.txn.columns import (
    FAIL,
    I32,
    I64,
    INFO,
    KINDS,
    NIL,
    OK,
    READ,
    WRITE,
    TxnColumns,
    name_of,
    read_value,
    text_of,
)
from dstest.core.check import Anomaly

TXNS_MAX: Final = 2000
"""Transactions on a key among which a circle is looked for."""

EXPLAINED_MAX: Final = 200
"""Anomalies of one type that are written out; the rest is counted. Nobody reads more."""

_CYCLES: Final = {
    "G0": "writes overwrite one another in a circle",
    "G1c": "information flows in a circle: each transaction depends on what the next one wrote",
    "G-single": "one transaction missed what it should have seen (read skew)",
    "G-nonadjacent": "transactions missed writes of one another, never two in a row",
    "G2": "transactions missed one another's writes (write skew)",
}

_OF_TWO: Final = frozenset({"incompatible-order", "lost-update"})
"""Kinds in which neither of two transactions is wrong by itself."""


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
        return text_of(name_of(self.c, value))

    def _read(self, mop: int) -> str:
        return text_of(read_value(self.c, self.workload, mop))

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
            lost = (
                ": it came later, or was lost"
                if self._missed(edge[1], k)
                else ", so that it came later"
            )
            why = f"{two} appended {self._name(v)}, which no read shows{lost}"
        else:
            reader = self._t(self.txn_of(int(self._longest[k])))
            why = f"{two} appended {self._name(v)} right after that, as {reader}'s read shows"
        return Reason(key, f"{start} and {why}")

    def _missed(self, t: int, key: int) -> bool:
        """Is there a read of the key that began after `t` had ended, and should show it?"""
        c, end = self.c, self.c.complete_pos[t]
        reads = np.flatnonzero((c.mop_kind == READ) & (c.mop_key == key) & (c.mop_known > 0))
        readers = np.searchsorted(c.mop_start, reads, side="right") - 1
        return bool(end >= 0 and (c.invoke_pos[readers] > end).any())

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


class Step(NamedTuple):
    """Why the versions of a key stand in a circle, of which the core tells two: version `before`
    comes before `after`, as `first` left the one, and `second` found the other, which `source` (of
    `_native.SOURCES`) puts behind it; both are one transaction where it replaced what it had read.
    """

    before: int
    after: int
    first: int
    second: int
    source: str


class _Use(NamedTuple):
    """What a transaction did to the key: the version that it read first, before it wrote, and the
    one that it left; None where there is none."""

    txn: int
    read: int | None
    wrote: int | None

    @property
    def found(self) -> int | None:
        plain = self.read is None or (self.read == NIL and self.wrote is not None)
        return self.wrote if plain else self.read

    @property
    def left(self) -> int | None:
        return self.read if self.wrote is None else self.wrote


def _uses(c: TxnColumns, key: int) -> list[_Use]:
    uses: dict[int, _Use] = {}
    txn = 0
    for mop in (c.mop_key == key).nonzero()[0].tolist():
        while c.mop_start[txn + 1] <= mop:
            txn += 1
        known = c.mop_kind[mop] == WRITE or (c.outcome[txn] == OK and bool(c.mop_known[mop]))
        if c.outcome[txn] == FAIL or not known:
            continue
        value = int(c.mop_value[mop])
        use = uses.get(txn)
        if c.mop_kind[mop] == READ:
            uses[txn] = use or _Use(txn, value, None)
        else:
            uses[txn] = _Use(txn, None if use is None else use.read, value)
    return list(uses.values())


def _steps(c: TxnColumns, uses: list[_Use], sources: int, order: I64) -> Iterator[Step]:
    """All that the sources say."""
    acknowledged = [u for u in uses if c.outcome[u.txn] == OK]
    if sources & SOURCES["wfr-keys?"]:
        for u in uses:
            yield from _step(u, u, u.read, u.wrote, "wfr-keys?")
    if sources & SOURCES["sequential-keys?"]:
        last: dict[int, _Use] = {}
        for u in sorted(acknowledged, key=lambda u: int(c.complete_pos[u.txn])):
            process = int(c.process[u.txn])
            if process >= 0:
                if process in last:
                    yield from _step(
                        last[process], u, last[process].left, u.found, "sequential-keys?"
                    )
                last[process] = u
    if sources & SOURCES["linearizable-keys?"]:
        for a in acknowledged:
            for b in uses:
                if c.complete_pos[a.txn] < c.invoke_pos[b.txn]:
                    yield from _step(a, b, a.left, b.found, "linearizable-keys?")
    if sources & SOURCES["transaction-order"] and len(order):
        ranked = [u for u in uses if u.wrote is not None and order[u.txn] >= 0]
        ranked.sort(key=lambda u: int(order[u.txn]))
        for a, b in itertools.pairwise(ranked):
            yield from _step(a, b, a.wrote, b.wrote, "transaction-order")


def _step(a: _Use, b: _Use, before: int | None, after: int | None, source: str) -> Iterator[Step]:
    if before is not None and after is not None and before != after:
        yield Step(before, after, a.txn, b.txn, source)


def circle(
    c: TxnColumns, key: int, version: int, other: int, sources: int, order: I64
) -> list[Step]:
    """Steps from `version` by way of `other` back to it; empty where none were found."""
    uses = _uses(c, key)
    if len(uses) > TXNS_MAX:
        return []
    after: dict[int, list[Step]] = {}
    for step in _steps(c, uses, sources, order):
        after.setdefault(step.before, []).append(step)
    there, back = _path(after, version, other), _path(after, other, version)
    return [*there, *back] if there and back else []


def _path(after: dict[int, list[Step]], start: int, goal: int) -> list[Step]:
    """The fewest steps from one version to another; empty where there is no way."""
    came: dict[int, Step | None] = {start: None}
    waiting = deque([start])
    while waiting and goal not in came:
        for step in after.get(waiting.popleft(), ()):
            if step.after not in came:
                came[step.after] = step
                waiting.append(step.after)
    steps: list[Step] = []
    at = came.get(goal)
    while at is not None:
        steps.append(at)
        at = came[at.before]
    return steps[::-1]


def _micro_ops(c: TxnColumns, workload: str, t: int, *, results: bool) -> list[list[Any]]:
    write = KINDS[workload].write
    return [
        ["r", c.key_names[c.mop_key[i]], read_value(c, workload, i) if results else None]
        if c.mop_kind[i] == READ
        else [write, c.key_names[c.mop_key[i]], name_of(c, int(c.mop_value[i]))]
        for i in range(int(c.mop_start[t]), int(c.mop_start[t + 1]))
    ]


def record_of(c: TxnColumns, workload: str, t: int) -> dict[str, Any]:
    """A transaction as a witness holds it."""
    outcome = int(c.outcome[t])
    process = int(c.process[t])
    return {
        "op_id": int(c.op_index[t]),
        "process_id": None if process < 0 else process,
        "invoke_ts": None,
        "complete_ts": None,
        "invoke_event": None if c.invoke_pos[t] < 0 else int(c.invoke_pos[t]),
        "complete_event": None if c.complete_pos[t] < 0 else int(c.complete_pos[t]),
        "op_type": "txn",
        "key": None,
        "input": _micro_ops(c, workload, t, results=False),
        "output": _micro_ops(c, workload, t, results=True) if outcome == OK else None,
        "error": "fail" if outcome == FAIL else None,
        "timeout_marker": outcome == INFO,
        "node_seen": None,
        "fault_epoch": None,
    }


def records_of(
    c: TxnColumns, workload: str, txns: Iterable[int], edges: Mapping[int, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Transactions as a witness holds them; `edges` by their place among these."""
    records = [record_of(c, workload, t) for t in txns]
    return [{**r, "edge": edges[n]} if n in edges else r for n, r in enumerate(records)]


CANDIDATES_TOLD_MAX: Final = 4
"""Reads, and writers of each, that a sentence names."""


def with_candidates(c: TxnColumns, anomaly: Anomaly) -> Anomaly:
    """An anomaly that says which of its reads several transactions can have been read from."""
    if not c.open or not anomaly.ops:
        return anomaly
    of = c.op_index[np.searchsorted(c.mop_start, c.open.read, side="right") - 1]
    reads = np.flatnonzero(np.isin(of, anomaly.ops))
    said = []
    for n in reads[:CANDIDATES_TOLD_MAX].tolist():
        mop = int(c.open.read[n])
        txns = np.searchsorted(c.mop_start, c.open.candidates(n), side="right") - 1
        names = [f"T{name}" for name in c.op_index[txns[:CANDIDATES_TOLD_MAX]].tolist()]
        if len(txns) > CANDIDATES_TOLD_MAX:
            names.append(f"{len(txns) - CANDIDATES_TOLD_MAX} more")
        said.append(
            f"T{int(of[n])} read {text_of(name_of(c, int(c.open.value[n])))} in key "
            f"{text_of(c.key_names[c.mop_key[mop]])}, which {', '.join(names)} wrote"
        )
    if not said:
        return anomaly
    more = f"; {len(reads) - len(said)} more" if len(reads) > len(said) else ""
    text = f"{anomaly.explanation or ''} Reads with several writers: {'; '.join(said)}{more}."
    return replace(anomaly, explanation=text.strip())


class Place(NamedTuple):
    """Where an anomaly lies: its `ops`, by the numbers of the columns, and the one of them that
    gave it away, None where that is not known."""

    type: str
    key: Any
    ops: tuple[int, ...]
    by: int | None


class _Writer:
    """Writes the anomalies of one history."""

    def __init__(self, c: TxnColumns, workload: str, sources: int, order: I64) -> None:
        self.c = c
        self.workload = workload
        self.order = order
        self.reasons = Reasons(c, workload, sources)

    def _t(self, t: int) -> str:
        return f"T{int(self.c.op_index[t])}"

    def _anomaly(
        self, kind: str, key: Any, txns: Iterable[int], records: list[dict[str, Any]], text: str,
        *, minimal: bool,
    ) -> Anomaly:  # fmt: skip
        return Anomaly(
            type=kind,
            key=key,
            ops=[int(self.c.op_index[t]) for t in sorted(set(txns))],
            witness=records,
            minimal=minimal,
            explanation=text,
        )

    def cycle(self, cycle: Cycle) -> Anomaly:
        """A cycle, each edge with its reason."""
        records = []
        sentences = []
        keys = set()
        for at, (a, label) in enumerate(zip(cycle.txns, cycle.labels, strict=True)):
            b = cycle.txns[(at + 1) % len(cycle.txns)]
            reason = self.reasons.of(a, b, label)
            keys.add(reason.key)
            sentences.append(reason.text)
            edge = {
                "to": int(self.c.op_index[b]),
                "reason": label,
                "key": reason.key,
                "text": reason.text,
            }
            records.append({**record_of(self.c, self.workload, a), "edge": edge})
        base = cycle.type.removesuffix("-process").removesuffix("-realtime").removesuffix("-item")
        first = self._t(cycle.txns[0])
        text = f"{_CYCLES[base][0].upper()}{_CYCLES[base][1:]}. " + "; ".join(sentences)
        text += f". So {first} would have to come before itself."
        key = keys.pop() if len(keys) == 1 else None
        return self._anomaly(cycle.type, key, cycle.txns, records, text, minimal=cycle.minimal)

    def _pair(self, f: Finding) -> tuple[int, int]:
        """Its transactions, -1 where it has less than two."""
        first, second = f.txn, f.txn2
        if f.type != "cyclic-versions":
            first = first if first >= 0 else self.reasons.txn_of(f.mop)
            second = self.reasons.txn_of(f.mop2) if second < 0 <= f.mop2 else second
        return first, second

    def place(self, f: Finding) -> Place:
        """Where it lies."""
        first, second = self._pair(f)
        by = -1 if f.type == "cyclic-versions" else self._by(f.type, first, second)
        ops = self.c.op_index
        key = None if f.key < 0 else self.c.key_names[f.key]
        found = tuple(int(ops[t]) for t in (first, second) if t >= 0)
        return Place(f.type, key, found, int(ops[by]) if by >= 0 else None)

    def place_of_cycle(self, cycle: Cycle) -> Place:
        """Where it lies: it is there with the last answer of all that were committed."""
        c = self.c
        sure = [t for t in cycle.txns if c.outcome[t] == OK and c.complete_pos[t] >= 0]
        last = max(sure, key=lambda t: (int(c.complete_pos[t]), t), default=None)
        ops = tuple(int(c.op_index[t]) for t in cycle.txns)
        return Place(cycle.type, None, ops, None if last is None else int(c.op_index[last]))

    def finding(self, f: Finding) -> Anomaly:
        """An anomaly that needs no cycle."""
        c = self.c
        key = None if f.key < 0 else c.key_names[f.key]
        first, second = self._pair(f)
        txns = [t for t in (first, second) if t >= 0]
        text = self._sentence(f, text_of(key), first, second)
        if f.type == "cyclic-versions":
            steps = circle(c, f.key, f.value, f.value2, self.reasons.sources, self.order)
            txns = [t for step in steps for t in (step.first, step.second)]
            text = " ".join([text, *(self._step(step) for step in steps)])
        records = [record_of(c, self.workload, t) for t in sorted(set(txns))]
        made = self._anomaly(f.type, key, txns, records, text, minimal=f.type != "cyclic-versions")
        by = self._by(f.type, first, second)
        if f.type == "cyclic-versions" or by < 0:
            return made
        value = name_of(c, f.value) if f.value >= 0 else UNSET
        return replace(made, culprit=int(c.op_index[by]), element=value)

    def _step(self, step: Step) -> str:
        """Why one version comes before another."""
        one, two = self._t(step.first), self._t(step.second)
        before, after = (text_of(name_of(self.c, v)) for v in (step.before, step.after))
        if step.first == step.second:
            return f"{one} read {before} and wrote {after}."
        why = {
            "sequential-keys?": f"in its process after {one}",
            "linearizable-keys?": f"which began after {one} had ended",
            "transaction-order": f"which the given order has after {one}",
        }[step.source]
        wrote = any(
            self.c.mop_kind[i] == WRITE and self.c.mop_value[i] == step.after
            for i in range(
                int(self.c.mop_start[step.second]), int(self.c.mop_start[step.second + 1])
            )
        )
        return f"{one} left {before}, and {two}, {why}, {'wrote' if wrote else 'read'} {after}."

    def _by(self, kind: str, first: int, second: int) -> int:
        """The transaction that gave it away: of two that exclude each other the later answer."""
        if kind == "dirty-update":
            return second
        if kind in _OF_TWO and second >= 0:
            return max(first, second, key=lambda t: (int(self.c.complete_pos[t]), t))
        return first

    def _sentence(self, f: Finding, key: str, first: int, second: int) -> str:
        c, v = self.c, text_of(name_of(self.c, f.value) if f.value >= 0 else None)
        one = self._t(first) if first >= 0 else ""
        two = self._t(second) if second >= 0 else ""
        plain = f.type != "cyclic-versions"
        is_read = plain and f.mop >= 0 and c.mop_kind[f.mop] == READ
        read = text_of(read_value(c, self.workload, f.mop)) if is_read else ""
        if f.type == "internal":
            return (
                f"{one} read key {key} as {read}, which does not fit what {one} itself had read "
                "or written there before."
            )
        if f.type == "lost-update":
            return (
                f"{one} and {two} both read key {key} as {read} and both wrote it, neither "
                "knowing of the other."
            )
        if f.type == "incompatible-order" and c.mop_kind[f.mop] != READ:
            other = text_of(read_value(c, self.workload, f.mop2))
            later = text_of(name_of(c, int(c.mop_value[f.mop])))
            return (
                f"{one} appended {v} to key {key} before {later}, and {two} read {other}: no "
                "version of the list can hold the later element of a transaction without the "
                "earlier one before it."
            )
        if f.type == "incompatible-order":
            other = text_of(read_value(c, self.workload, f.mop2))
            return (
                f"{one} read key {key} as {read} and {two} read it as {other}: neither is a prefix "
                "of the other, so elements were lost or reordered."
            )
        if f.type == "cyclic-versions":
            return (
                f"Of key {key}, version {v} comes before {text_of(name_of(c, f.value2))} and after "
                f"it, by {self.reasons.source(f.mop)}; that source of version orders was dropped."
            )
        wrote = "appended" if KINDS[self.workload].lists else "wrote"
        return {
            "future-read": f"{one} read {v} in key {key}, which it {wrote} only later.",
            "garbage-read": f"{one} read {v} in key {key}, and nobody ever wrote that.",
            "G1a": f"{one} read {v} in key {key}, which {two} wrote; but {two} failed.",
            "G1b": f"{one} read {v} in key {key}, which was not the last that {two} wrote there.",
            "duplicate-elements": f"{one} read key {key} as {read}, where {v} occurs twice.",
            "dirty-update": (
                f"{two} appended to key {key} on top of an element of {one}; but {one} failed."
            ),
        }[f.type]


def places_of(
    c: TxnColumns, workload: str, analysis: Analysis, types: Iterable[str], sources: int, order: I64
) -> Iterator[Place]:
    """Where all anomalies of the given types lie, those that are not written out as well. One that
    a transaction shows twice is one."""
    writer, wanted = _Writer(c, workload, sources, order), frozenset(types)
    before: dict[str, Place] = {}
    for f in analysis.findings:
        if f.type in wanted and before.get(f.type) != (place := writer.place(f)):
            before[f.type] = place
            yield place
    yield from (writer.place_of_cycle(one) for one in analysis.cycles if one.type in wanted)


def anomalies_of(
    c: TxnColumns, workload: str, analysis: Analysis, types: Iterable[str], sources: int, order: I64
) -> dict[str, list[Anomaly]]:
    """The anomalies of the given types, at most EXPLAINED_MAX of each, by when all of the witness
    was there; first what makes the order of versions doubtful. One that a transaction shows twice
    is told once."""
    writer = _Writer(c, workload, sources, order)
    first = sorted(types, key=lambda kind: kind != "incompatible-order")
    anomalies: dict[str, list[Anomaly]] = {t: [] for t in first}
    for f in analysis.findings:
        if f.type in anomalies and len(anomalies[f.type]) < EXPLAINED_MAX:
            made = writer.finding(f)
            if not anomalies[f.type] or anomalies[f.type][-1] != made:
                anomalies[f.type].append(made)
    for cycle in analysis.cycles:
        if cycle.type in anomalies and len(anomalies[cycle.type]) < EXPLAINED_MAX:
            anomalies[cycle.type].append(writer.cycle(cycle))
    return _in_time(c, anomalies)


def _in_time(c: TxnColumns, anomalies: dict[str, list[Anomaly]]) -> dict[str, list[Anomaly]]:
    told = {int(op) for group in anomalies.values() for one in group for op in one.ops}
    rows = np.flatnonzero(np.isin(c.op_index, np.fromiter(told, np.int64, len(told))))
    ended = {int(c.op_index[row]): int(c.complete_pos[row]) for row in rows}

    def shown(one: Anomaly) -> int:
        return max((ended[int(op)] for op in one.ops), default=0)

    return {kind: sorted(group, key=shown) for kind, group in anomalies.items()}
