"""The oracle's own copy of Elle's lattice: which model forbids which anomaly.

Two directed acyclic graphs, written down without their transitive edges: what an anomaly implies,
and what a model implies. Source: the facts in corpora/elle/models.json.
"""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx

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
    direct = list(anomalies)
    for model in map(friendly, models):
        weaker = nx.descendants(_MODELS, model) if model in _MODELS else set()
        direct += [a for m in {model} | weaker for a in _FORBIDS.get(m, [])]
    return _implying(direct)


def boundary(found: Iterable[str]) -> tuple[list[str], list[str]]:
    """`not` and `also_not`: the weakest models that the anomalies exclude, and the others."""
    anomalies = set(found)
    impossible = {m for m in _MODELS if prohibited([m]) & anomalies}
    weakest = {m for m in impossible if not nx.descendants(_MODELS, m) & impossible}
    return sorted(weakest), sorted(impossible - weakest)
