"""What both workloads of the oracle share: transactions out of Jepsen op maps, the rw-register
analysis, and the oracle's own copy of Elle's lattice.

An op map is `{"type", "process", "f", "value", "index", ...}`; a history is a list of them. Slow on
purpose: plain objects, no columns. The lattice is two directed acyclic graphs without their
transitive edges: what an anomaly implies, and what a model implies (corpora/elle/models.json).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import networkx as nx

Edges = dict[tuple[int, int], set[str]]
"""Kinds (`ww`, `wr`, `rw`, `process`, `realtime`) by pair of transactions."""

Versions = dict[Any, nx.DiGraph]
"""Per key a graph of values, older before newer."""

_IMPLIES = {
    "G-nonadjacent": ["G-nonadjacent-process", "G2"],
    "G-nonadjacent-item": ["G-nonadjacent", "G-nonadjacent-item-process", "G2-item"],
    "G-nonadjacent-item-process": [
        "G-nonadjacent-item-realtime",
        "G-nonadjacent-process",
        "G2-item-process",
    ],
    "G-nonadjacent-item-realtime": ["G-nonadjacent-realtime", "G2-item-realtime"],
    "G-nonadjacent-process": ["G-nonadjacent-realtime", "G2-process"],
    "G-nonadjacent-realtime": ["G2-realtime"],
    "G-single": ["G-nonadjacent", "G-single-process", "GSIb"],
    "G-single-item": ["G-nonadjacent-item", "G-single", "G-single-item-process"],
    "G-single-item-process": [
        "G-nonadjacent-item-process",
        "G-single-item-realtime",
        "G-single-process",
    ],
    "G-single-item-realtime": ["G-nonadjacent-item-realtime", "G-single-realtime"],
    "G-single-process": ["G-nonadjacent-process", "G-single-realtime"],
    "G-single-realtime": ["G-nonadjacent-realtime"],
    "G0": ["G0-process", "G1c"],
    "G0-process": ["G0-realtime", "G1c-process"],
    "G0-realtime": ["G1c-realtime"],
    "G1": ["G1-process"],
    "G1-process": ["G1-realtime"],
    "G1a": ["G1"],
    "G1b": ["G1"],
    "G1c": ["G1", "G1c-process"],
    "G1c-process": ["G1-process", "G1c-realtime"],
    "G1c-realtime": ["G1-realtime"],
    "G2": ["G2-process"],
    "G2-item": ["G2", "G2-item-process"],
    "G2-item-process": ["G2-item-realtime", "G2-process"],
    "G2-item-realtime": ["G2-realtime"],
    "G2-process": ["G2-realtime"],
    "GSIa": ["GSI"],
    "GSIb": ["GSI"],
    "dirty-update": ["G1a"],
    "future-read": ["G1c"],
    "incompatible-order": ["G1a"],
    "lost-update": ["G2-item", "write-skew"],
    "write-skew": ["G2"],
}

_STRONGER = {
    "1SR": [],
    "PRAM": ["monotonic-reads", "monotonic-writes", "read-your-writes"],
    "causal": ["PRAM", "writes-follow-reads"],
    "causal-cerone": ["read-atomic"],
    "consistent-view": ["cursor-stability", "monotonic-view"],
    "cursor-stability": ["read-committed"],
    "forward-consistent-view": ["consistent-view"],
    "linearizable": ["sequential"],
    "monotonic-atomic-view": ["read-committed"],
    "monotonic-snapshot-read": ["read-committed"],
    "monotonic-view": ["read-committed"],
    "parallel-snapshot-isolation": ["causal-cerone", "update-atomic"],
    "prefix": ["causal-cerone"],
    "read-atomic": ["monotonic-atomic-view"],
    "read-committed": ["read-uncommitted"],
    "repeatable-read": ["cursor-stability", "monotonic-atomic-view"],
    "sequential": ["causal"],
    "serializable": [
        "repeatable-read",
        "snapshot-isolation",
        "update-serializable",
        "view-serializable",
    ],
    "session-serializable": ["1SR"],
    "snapshot-isolation": [
        "forward-consistent-view",
        "monotonic-snapshot-read",
        "parallel-snapshot-isolation",
        "prefix",
    ],
    "strong-read-committed": ["strong-read-uncommitted", "strong-session-read-committed"],
    "strong-read-uncommitted": ["strong-session-read-uncommitted"],
    "strong-serializable": [
        "linearizable",
        "session-serializable",
        "strong-session-serializable",
        "strong-snapshot-isolation",
    ],
    "strong-session-read-committed": ["read-committed", "strong-session-read-uncommitted"],
    "strong-session-read-uncommitted": ["read-uncommitted"],
    "strong-session-serializable": ["serializable", "strong-session-snapshot-isolation"],
    "strong-session-snapshot-isolation": ["snapshot-isolation", "strong-session-read-committed"],
    "strong-snapshot-isolation": ["strong-read-committed", "strong-session-snapshot-isolation"],
    "update-atomic": ["read-atomic"],
    "update-serializable": ["forward-consistent-view"],
}

_FORBIDS = {
    "consistent-view": ["G-single"],
    "cursor-stability": ["G-cursor", "lost-update"],
    "forward-consistent-view": ["G-SIb"],
    "monotonic-snapshot-read": ["G-MSR"],
    "monotonic-view": ["G-monotonic"],
    "read-atomic": ["internal"],
    "read-committed": ["G1"],
    "read-uncommitted": ["G0", "cyclic-versions", "duplicate-elements", "garbage-read"],
    "repeatable-read": ["G2-item"],
    "serializable": ["G2", "predicate-read-miss"],
    "snapshot-isolation": ["G-SI", "G-nonadjacent"],
    "strong-read-committed": ["G1c-realtime"],
    "strong-read-uncommitted": ["G0-realtime"],
    "strong-serializable": ["G2-realtime"],
    "strong-session-read-committed": ["G1c-process"],
    "strong-session-read-uncommitted": ["G0-process"],
    "strong-session-serializable": ["G2-process"],
    "strong-session-snapshot-isolation": ["G-nonadjacent-process", "G1-process"],
    "strong-snapshot-isolation": ["G-nonadjacent-realtime", "G1-realtime"],
    "update-atomic": ["lost-update"],
    "update-serializable": ["G-update"],
}

CYCLE_EXISTS = {
    "PL-1-cycle-exists": "read-uncommitted",
    "PL-2-cycle-exists": "read-committed",
    "PL-SI-cycle-exists": "snapshot-isolation",
    "PL-2.99-cycle-exists": "repeatable-read",
    "PL-3-cycle-exists": "serializable",
    "strong-session-PL-1-cycle-exists": "strong-session-read-uncommitted",
    "strong-session-PL-2-cycle-exists": "strong-session-read-committed",
    "strong-session-snapshot-isolation-cycle-exists": "strong-session-snapshot-isolation",
    "strong-session-serializable-cycle-exists": "strong-session-serializable",
    "strong-PL-1-cycle-exists": "strong-read-uncommitted",
    "strong-PL-2-cycle-exists": "strong-read-committed",
    "strong-snapshot-isolation-cycle-exists": "strong-snapshot-isolation",
    "PL-SS-cycle-exists": "strong-serializable",
}
"""What only says that a graph which the model keeps acyclic is not; weakest models first."""

_ALIASES = {
    "PL-1": "read-uncommitted",
    "PL-2": "read-committed",
    "PL-2+": "consistent-view",
    "PL-2.99": "repeatable-read",
    "PL-2L": "monotonic-view",
    "PL-3": "serializable",
    "PL-3U": "update-serializable",
    "PL-CS": "cursor-stability",
    "PL-FCV": "forward-consistent-view",
    "PL-MSR": "monotonic-snapshot-read",
    "PL-SI": "snapshot-isolation",
    "PL-SS": "strong-serializable",
    "conflict-serializable": "serializable",
    "strict-serializable": "strong-serializable",
    "strong-PL-1": "strong-read-uncommitted",
    "strong-PL-2": "strong-read-committed",
    "strong-session-PL-1": "strong-session-read-uncommitted",
    "strong-session-PL-2": "strong-session-read-committed",
}


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


def reads_before_writes(txn: Txn) -> Iterator[tuple[Any, Any]]:
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


def _internal(txn: Txn) -> bool:
    known: dict[Any, Any] = {}
    for f, k, v in txn.mops:
        if f == "r" and k in known and known[k] != v:
            return True
        known[k] = v
    return False


def writers_of(txns: list[Txn]) -> dict[tuple[Any, Any], Txn]:
    """Who wrote a value to a key."""
    return {kv: t for t in txns for kv in t.writes()}


def _plain(txns: list[Txn]) -> set[str]:
    """Anomalies that need no version order."""
    found = set()
    writers = writers_of(txns)
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
        for k, v in reads_before_writes(t):
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


def _graph(edges: dict[str, list[str]]) -> nx.DiGraph:
    return nx.DiGraph([(a, b) for a, targets in edges.items() for b in targets])


_ANOMALIES = _graph(_IMPLIES)


_ANOMALIES.add_nodes_from(a for forbidden in _FORBIDS.values() for a in forbidden)


_MODELS = _graph(_STRONGER)


_MODELS.add_nodes_from(_FORBIDS)


for _name, _model in CYCLE_EXISTS.items():
    _FORBIDS[_model].append(_name)


ANOMALIES = frozenset(_ANOMALIES)


def friendly(model: str) -> str:
    """The name under which results list a model."""
    return _ALIASES.get(model, model)


def implied(anomaly: str) -> set[str]:
    """The anomaly and everything that it implies."""
    return {anomaly} | (nx.descendants(_ANOMALIES, anomaly) if anomaly in _ANOMALIES else set())


def _implying(anomalies: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for anomaly in anomalies:
        found.add(anomaly)
        if anomaly in _ANOMALIES:
            found |= nx.ancestors(_ANOMALIES, anomaly)
    return found


def prohibited(models: Iterable[str], anomalies: Iterable[str] = ()) -> set[str]:
    """What must not be found where these models, and the absence of `anomalies`, are demanded."""
    found = _implying(anomalies)
    for model in map(friendly, models):
        found |= _prohibited_by(model)
    return found


@cache
def _prohibited_by(model: str) -> frozenset[str]:
    return frozenset(_implying(a for m in {model} | _weaker(model) for a in _FORBIDS.get(m, [])))


@cache
def _weaker(model: str) -> frozenset[str]:
    return frozenset(nx.descendants(_MODELS, model) if model in _MODELS else ())


def boundary(found: Iterable[str]) -> tuple[list[str], list[str]]:
    """`not` and `also_not`: the weakest models that the anomalies exclude, and the others."""
    anomalies = set(found)
    impossible = {m for m in _MODELS if _prohibited_by(friendly(m)) & anomalies}
    weakest = {m for m in impossible if not _weaker(m) & impossible}
    return sorted(weakest), sorted(impossible - weakest)
