"""A slow, independent judge after Elle's list-append and rw-register checkers.

    check(history, "list-append", ["serializable"], {}) ->
        {"valid": False, "anomaly_types": ["G2-item"], "not": [...], "also_not": [...], ...}

It shares no code with the checkers. `found` lists every anomaly, demanded or not. `maybe`
names classes that a closed walk has too, with reasons that are not the strongest of their pairs or
with a transaction twice: a checker may name them, for they rule out nothing more.
"""

from __future__ import annotations

from typing import Any

from checkers.second import elle_list, elle_register
from checkers.second.elle_cycles import cycle_exists, cycle_types, possible_types
from checkers.second.elle_lattice import CYCLE_EXISTS, boundary, prohibited
from checkers.second.elle_txn import Edges, Txn, order_edges, transactions

_NO_VIOLATION = {"empty-transaction-graph"}


def _graph(edges: Edges, txns: list[Txn], demanded: set[str]) -> Edges:
    """Adds the one order that the demanded anomalies ask for, if any."""
    for kind in ("realtime", "process"):
        if any(a.endswith(f"-{kind}") for a in demanded):
            for pair in order_edges(txns, kind):
                edges[pair].add(kind)
            break
    return edges


def check(
    history: list[dict[str, Any]],
    workload: str,
    models: list[str] | None = None,
    opts: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Elle's answer as `valid`, `anomaly_types`, `not`, `also_not`; and `found`, `maybe`."""
    opts = opts or {}
    if models is None and "anomalies" not in opts:
        models = ["strict-serializable"]
    demanded = prohibited(models or [], opts.get("anomalies") or [])
    txns = transactions(history, workload)
    if workload == "list-append":
        found = elle_list.anomalies(txns)
        edges = elle_list.dependencies(txns)
    else:
        found, edges = elle_register.analyse(txns, opts)
    edges = _graph(edges, txns, demanded)
    cycles = cycle_types(edges)
    found |= cycles.found
    for name in cycle_exists(edges):
        if not any(CYCLE_EXISTS[name] in names for names in boundary(found)):
            found.add(name)
    if not edges:
        found.add("empty-transaction-graph")
    reported = found & (demanded | _NO_VIOLATION)
    answer: dict[str, Any] = {
        "valid": True,
        "anomaly_types": sorted(reported),
        "not": [],
        "also_not": [],
        "found": sorted(found),
        "maybe": sorted((cycles.maybe | possible_types(edges)) & demanded - reported),
    }
    if reported:
        answer["valid"] = False if reported - _NO_VIOLATION else "unknown"
        answer["not"], answer["also_not"] = boundary(found)
    return answer
