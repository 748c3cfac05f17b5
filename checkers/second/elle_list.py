"""The oracle's list-append: version orders, edges and the anomalies that are no cycles."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

from checkers.second.clojure_hash import path
from checkers.second.elle_txn import Edges, Txn, read_then_written


def _internal(txn: Txn) -> bool:
    """Reads disagree with what the transaction itself read and appended before."""
    known: dict[Any, list[Any] | None] = {}
    suffix: dict[Any, list[Any]] = {}
    for f, k, v in txn.mops:
        if f != "r":
            if k in known:
                known[k] = [*(known[k] or []), v]
            else:
                suffix[k] = [*suffix.get(k, []), v]
            continue
        seen = None if v is None else list(v)
        if k in known and seen != known[k]:
            return True
        tail = suffix.get(k, [])
        if k not in known and tail and (seen or [])[-len(tail) :] != tail:
            return True
        known[k] = seen
    return False


def _future(txn: Txn) -> bool:
    """A read holds an element that the same transaction appends only later."""
    for i, (f, k, v) in enumerate(txn.mops):
        later = {w for g, j, w in txn.mops[i + 1 :] if g != "r" and j == k}
        if f == "r" and later & set(v or ()):
            return True
    return False


def _writers(txns: list[Txn]) -> dict[tuple[Any, Any], Txn]:
    return {kv: t for t in txns for kv in t.writes()}


def _versions(txns: list[Txn]) -> dict[Any, list[Any]]:
    """Longest read of each key, each element once; of several the last in Elle's hash set."""
    longest: dict[Any, tuple[Any, ...]] = {}
    for t in txns:
        for k, v in t.reads():
            held = longest.get(k, ())
            if len(v or ()) > len(held) or (v and len(v) == len(held) and path(v) > path(held)):
                longest[k] = v
    return {k: list(dict.fromkeys(v)) for k, v in longest.items()}


def _incompatible(txns: list[Txn]) -> bool:
    reads: dict[Any, set[tuple[Any, ...]]] = defaultdict(set)
    for t in txns:
        for k, v in t.reads():
            reads[k].add(v or ())
    for values in reads.values():
        ordered = sorted(values, key=len)
        if any(b[: len(a)] != a for a, b in pairwise(ordered)):
            return True
    return False


def _dirty(versions: dict[Any, list[Any]], writers: dict[tuple[Any, Any], Txn]) -> bool:
    for k, order in versions.items():
        outcomes = [writers[k, v].outcome for v in order if (k, v) in writers]
        decided = [o for o in outcomes if o != "info"]
        if any(a == "fail" and b == "ok" for a, b in pairwise(decided)):
            return True
    return False


def _lost(txns: list[Txn]) -> bool:
    groups: dict[Any, int] = defaultdict(int)
    for t in txns:
        for k, v in read_then_written(t):
            groups[k, v] += 1
    return any(n > 1 for n in groups.values())


def _reads_of_others(txns: list[Txn], writers: dict[tuple[Any, Any], Txn]) -> set[str]:
    found = set()
    final = {(t.id, k): v for t in txns for k, v in t.writes()}
    for t in txns:
        for k, read in t.reads():
            v: tuple[Any, ...] = read or ()
            if len(set(v)) < len(v):
                found.add("duplicate-elements")
            if any((k, e) not in writers for e in v):
                found.add("garbage-read")
            if any((k, e) in writers and writers[k, e].outcome == "fail" for e in v):
                found.add("G1a")
            writer = writers.get((k, v[-1])) if v else None
            if writer and writer.id != t.id and final[writer.id, k] != v[-1]:
                found.add("G1b")
    return found


def anomalies(txns: list[Txn]) -> set[str]:
    """The anomalies that are no cycles."""
    writers, versions = _writers(txns), _versions(txns)
    found = _reads_of_others(txns, writers)
    ok = [t for t in txns if t.ok]
    tests = {
        "internal": any(map(_internal, ok)),
        "future-read": any(map(_future, ok)),
        "incompatible-order": _incompatible(txns),
        "dirty-update": _dirty(versions, writers),
        "lost-update": _lost(ok),
    }
    return found | {name for name, yes in tests.items() if yes}


def dependencies(txns: list[Txn]) -> Edges:
    """ww, wr and rw edges between transactions that did, or may have, take effect."""
    edges: Edges = defaultdict(set)
    writers = {kv: t for kv, t in _writers(txns).items() if t.possible}
    versions = _versions(txns)
    appends: dict[Any, list[Any]] = defaultdict(list)
    for (k, v), t in _writers(txns).items():
        if t.possible:
            appends[k].append(v)
    readers: dict[tuple[Any, Any], list[int]] = defaultdict(list)
    for t in txns:
        for k, v in t.reads():
            readers[k, v[-1] if v else None].append(t.id)

    def link(a: int, b: int, kind: str) -> None:
        if a != b:
            edges[a, b].add(kind)

    def follow(k: Any, before: Any, after: Any) -> None:
        writer = writers.get((k, after))
        if writer is None:
            return
        if (k, before) in writers and before is not None:
            link(writers[k, before].id, writer.id, "ww")
        for reader in readers[k, before]:
            link(reader, writer.id, "rw")

    for (k, v), ids in list(readers.items()):
        if v is not None and (k, v) in writers:
            for reader in ids:
                link(writers[k, v].id, reader, "wr")
    for k in set(versions) | set(appends):
        order = versions.get(k, [])
        for before, after in pairwise([None, *order]):
            follow(k, before, after)
        last = order[-1] if order else None
        unread = [v for v in appends[k] if v not in order]
        for v in unread:
            follow(k, last, v)
    return edges
