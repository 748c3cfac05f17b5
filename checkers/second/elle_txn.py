"""Transactions out of Jepsen op maps, and what both workloads of the oracle share.

An op map is `{"type", "process", "f", "value", "index", ...}`; a history is a list of them. Slow on
purpose: plain objects, no columns.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Edges = dict[tuple[int, int], set[str]]
"""Kinds (`ww`, `wr`, `rw`, `process`, `realtime`) by pair of transactions."""


@dataclass(frozen=True)
class Txn:
    """One transaction. `id` counts invocations; positions are those of the events, or None."""

    id: int
    outcome: str
    process: Any
    index: int
    begin: int | None
    end: int | None
    mops: tuple[tuple[str, Any, Any], ...]

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def possible(self) -> bool:
        """It took effect, or nobody knows."""
        return self.outcome != "fail"

    def reads(self) -> Iterator[tuple[Any, Any]]:
        """(key, value) of the reads of an ok transaction; of others nothing is known."""
        if self.ok:
            yield from ((k, v) for f, k, v in self.mops if f == "r")

    def writes(self) -> Iterator[tuple[Any, Any]]:
        yield from ((k, v) for f, k, v in self.mops if f != "r")


def _mops(value: Any, workload: str) -> tuple[tuple[str, Any, Any], ...]:
    mops = []
    for mop in value or ():
        f, k, v = (*mop, None)[:3]
        if f == "r" and workload == "list-append":
            v = None if v is None else tuple(v)
        mops.append((f, k, v))
    return tuple(mops)


def transactions(history: list[dict[str, Any]], workload: str) -> list[Txn]:
    """Transactions in order of invocation (of completion where the history holds nothing else)."""
    rows: list[dict[str, Any]] = []
    pending: dict[Any, dict[str, Any]] = {}
    for position, event in enumerate(history):
        process = event.get("process")
        if process is not None and not isinstance(process, int):
            continue
        if event["type"] == "invoke":
            begun: dict[str, Any] = {
                "first": event,
                "last": None,
                "begin": position,
                "end": None,
            }
            rows.append(begun)
            pending[process] = begun
            continue
        row = pending.pop(process, None) if process is not None else None
        if row is None:
            row = {"first": event, "begin": None}
            rows.append(row)
        row["last"], row["end"] = event, position
    found = []
    for number, row in enumerate(rows):
        last = row["last"] or {**row["first"], "type": "info"}
        source = last if last.get("value") is not None else row["first"]
        found.append(
            Txn(
                id=number,
                outcome=last["type"],
                process=last.get("process"),
                index=last.get("index", row["begin"]),
                begin=row["begin"],
                end=row["end"] if last["type"] != "info" else None,
                mops=_mops(source.get("value"), workload),
            )
        )
    return found


def external(txn: Txn) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """First reads of keys not touched before, and last writes, by key."""
    reads: dict[Any, Any] = {}
    writes: dict[Any, Any] = {}
    touched = set()
    for f, k, v in txn.mops:
        if f != "r":
            writes[k] = v
        elif k not in touched and txn.ok:
            reads[k] = v
        touched.add(k)
    return reads, writes


def read_then_written(txn: Txn) -> Iterator[tuple[Any, Any]]:
    """(key, first read) of the keys that an ok transaction reads and later writes."""
    first: dict[Any, Any] = {}
    written = set()
    for f, k, v in txn.mops if txn.ok else ():
        if f == "r":
            first.setdefault(k, v)
        elif k in first and k not in written:
            written.add(k)
            yield k, first[k]


def _realtime(txns: list[Txn]) -> Iterator[tuple[int, int]]:
    """Completed ok before begun, without the pairs that a third ok transaction lies between."""
    before = [
        (a, b)
        for a in txns
        for b in txns
        if a.ok and a.end is not None and b.begin is not None and a.end < b.begin
    ]
    pairs = {(a.id, b.id) for a, b in before}
    for a, b in before:
        if not any((a.id, c.id) in pairs and (c.id, b.id) in pairs for c in txns if c.ok):
            yield a.id, b.id


def order_edges(txns: list[Txn], kind: str) -> Iterator[tuple[int, int]]:
    """Pairs in process order (each with the next ok one) or in realtime order."""
    if kind == "realtime":
        yield from _realtime(txns)
        return
    by_process: dict[Any, list[Txn]] = defaultdict(list)
    for t in txns:
        if t.ok and t.process is not None:
            by_process[t.process].append(t)
    for run in by_process.values():
        ordered = sorted(run, key=lambda t: t.end if t.end is not None else 0)
        yield from ((a.id, b.id) for a, b in itertools.pairwise(ordered))
