"""The oracle's rw-register: what is known of each key's version order, and what follows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import networkx as nx

from checkers.second.elle_txn import Edges, Txn, external, order_edges, read_then_written

Versions = dict[Any, nx.DiGraph]
"""Per key a graph of values, older before newer."""


def _internal(txn: Txn) -> bool:
    known: dict[Any, Any] = {}
    for f, k, v in txn.mops:
        if f == "r" and k in known and known[k] != v:
            return True
        known[k] = v
    return False


def _writers(txns: list[Txn]) -> dict[tuple[Any, Any], Txn]:
    return {kv: t for t in txns for kv in t.writes()}


def _plain(txns: list[Txn]) -> set[str]:
    """Anomalies that need no version order."""
    found = set()
    writers = _writers(txns)
    final = {(t.id, k): v for t in txns for k, v in t.writes()}
    groups: dict[Any, int] = defaultdict(int)
    for t in txns:
        if t.ok and _internal(t):
            found.add("internal")
        for k, v in t.reads():
            writer = writers.get((k, v))
            if writer is None:
                found |= {"garbage-read"} if v is not None else set()
            elif writer.outcome == "fail":
                found.add("G1a")
            if writer and writer.id != t.id and final[writer.id, k] != v:
                found.add("G1b")
        for k, v in read_then_written(t):
            groups[k, v] += 1
    if any(n > 1 for n in groups.values()):
        found.add("lost-update")
    return found


def _initial(txns: list[Txn]) -> Iterator[tuple[Any, Any, Any]]:
    """nil comes before every value that was written or read."""
    for t in txns:
        if t.possible:
            reads, writes = external(t)
            for k, v in [*reads.items(), *writes.items()]:
                if v is not None:
                    yield k, None, v


def _wfr(txns: list[Txn]) -> Iterator[tuple[Any, Any, Any]]:
    """A transaction that read k and then wrote it put its own version later."""
    for t in txns:
        reads, writes = external(t)
        if t.ok:
            yield from ((k, v, writes[k]) for k, v in reads.items() if k in writes)


def _by_order(txns: list[Txn], pairs: list[tuple[int, int]]) -> Iterator[tuple[Any, Any, Any]]:
    """Versions of a key in the order of the transactions that touch it next to one another."""
    touched = {t.id: external(t) for t in txns if t.possible}
    order = nx.transitive_closure_dag(nx.DiGraph(pairs)) if pairs else nx.DiGraph()
    keys = {k for reads, writes in touched.values() for k in (*reads, *writes)}
    for t in (t for t in txns if t.ok):
        reads, writes = touched[t.id]
        for k in reads.keys() & writes.keys():  # the order goes on past it; Elle's breaks there
            if reads[k] not in (None, writes[k]):
                yield k, reads[k], writes[k]
    for k in keys:
        on = [t for t, (reads, writes) in touched.items() if k in reads or k in writes]
        near = nx.transitive_reduction(order.subgraph(on)) if order else order
        for a, b in near.edges:
            before = touched[a][1].get(k, touched[a][0].get(k))
            after = touched[b][0].get(k)
            if after is None:  # a read of nil tells less than the write after it
                after = touched[b][1].get(k)
            if before != after:
                yield k, before, after


def _given(ordered: list[Txn]) -> Iterator[tuple[Any, Any, Any]]:
    """Writes of a key in the order that the caller knows."""
    last: dict[Any, Any] = {}
    for t in ordered:
        for k, v in external(t)[1].items():
            if k in last:
                yield k, last[k], v
            last[k] = v


def _sources(txns: list[Txn], opts: dict[str, Any]) -> list[list[tuple[Any, Any, Any]]]:
    sources: list[Iterator[tuple[Any, Any, Any]]] = [_initial(txns)]
    if opts.get("wfr-keys?"):
        sources.append(_wfr(txns))
    if opts.get("sequential-keys?"):
        sources.append(_by_order(txns, list(order_edges(txns, "process"))))
    if opts.get("linearizable-keys?"):
        sources.append(_by_order(txns, list(order_edges(txns, "realtime"))))
    if opts.get("transaction-order"):
        place = {int(k): v for k, v in opts["transaction-order"].items()}
        ordered = sorted((t for t in txns if t.index in place), key=lambda t: place[t.index])
        sources.append(_given(ordered))
    return [list(s) for s in sources]


def _union(sources: list[list[tuple[Any, Any, Any]]]) -> Versions:
    graphs: Versions = defaultdict(nx.DiGraph)
    for source in sources:
        for k, a, b in source:
            graphs[k].add_edge((a,), (b,))  # networkx has no node None
    return graphs


def _cyclic(graphs: Versions) -> set[Any]:
    return {
        k for k, g in graphs.items() if any(len(c) > 1 for c in nx.strongly_connected_components(g))
    }


def _versions(txns: list[Txn], opts: dict[str, Any]) -> tuple[Versions, bool]:
    """The union of all sources; a source that makes any key cyclic is dropped."""
    kept: list[list[tuple[Any, Any, Any]]] = []
    cyclic = False
    for source in _sources(txns, opts):
        bad = _cyclic(_union([*kept, source]))
        cyclic = cyclic or bool(bad)
        if not bad:
            kept.append(source)
    return _union(kept), cyclic


def analyse(txns: list[Txn], opts: dict[str, Any]) -> tuple[set[str], Edges]:
    """Anomalies that are no cycles, and the dependency edges.

    Only ok transactions take part; edges from a transaction to itself are kept.
    """
    found = _plain(txns)
    graphs, cyclic = _versions(txns, opts)
    found |= {"cyclic-versions"} if cyclic else set()
    edges: Edges = defaultdict(set)
    writers: dict[tuple[Any, Any], int] = {}
    readers: dict[tuple[Any, Any], list[int]] = defaultdict(list)
    for t in txns:
        reads, writes = external(t)
        for kv in writes.items() if t.ok else ():
            writers[kv] = t.id
        for kv in reads.items():
            readers[kv].append(t.id)
    for kv, ids in readers.items():
        for reader in ids:
            if kv in writers:
                edges[writers[kv], reader].add("wr")
    for k, graph in graphs.items():
        for (a,), (b,) in graph.edges:
            if (k, b) not in writers:
                continue
            if (k, a) in writers:
                edges[writers[k, a], writers[k, b]].add("ww")
            for reader in readers.get((k, a), ()):
                edges[reader, writers[k, b]].add("rw")
    return found, edges
