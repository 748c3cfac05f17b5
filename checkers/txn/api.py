"""The check of a transactional history: columns in, a `CheckResult` out.

    check(columns, "list-append", ["serializable"])

Which anomalies count depends on the models asked: only those that a model proscribes are reported
and make the answer false. Once anything is reported, `not` and `also_not` say what all anomalies
that were found rule out, reported or not. The answer is `"unknown"` where there was nothing to
judge (no transaction read what another one wrote), where the budget ran out before anything was
found, and under a model whose characteristic anomalies nobody looks for yet (`models.UNTESTED`).

Options, spelled as in Elle:

    "anomalies"            ["G1", ..]   also report these and what is a case of them
    "wfr-keys?"            rw-register: a transaction's write follows the version it read
    "sequential-keys?"     rw-register: each session sees each key's versions in order
    "linearizable-keys?"   rw-register: each key's versions follow real time
    "transaction-order"    rw-register: {index of the completion: rank}, the order of all writes
"""

from __future__ import annotations

import resource
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

import numpy as np

from checkers.txn import _native, models
from checkers.txn.columns import I64, NIL, OK, READ, TxnColumns
from checkers.txn.explain import anomalies_of
from checkers.txn.tested import VACUOUS, reads_test
from checkers.txn.ties import value_hashes
from dstest.core.check import Budget, CheckResult, KeyCount, OpCount, Seconds, Valid
from dstest.core.clock import monotonic_ns

__all__ = ["DEFAULT_MODELS", "OPTIONS", "WORKLOADS", "check"]

WORKLOADS: Final = ("list-append", "rw-register")
DEFAULT_MODELS: Final = (models.STRONGEST,)
OPTIONS: Final = ("anomalies", *_native.SOURCES)

EMPTY: Final = "empty-transaction-graph"


@cache
def reportable(asked: tuple[str, ...], anomalies: tuple[str, ...]) -> frozenset[str]:
    """The anomalies that count when these models are asked."""
    wanted = set(anomalies).union(*(models.proscribed(m) for m in asked))
    return frozenset(a for a in models.ANOMALIES if models.anomalies_implied(a) & wanted)


def _between(wanted: frozenset[str]) -> int:
    """The order that the wanted anomalies need: 2 = realtime, 1 = process, 0 = none."""
    for i in (2, 1):
        if any(a.endswith(_native.BETWEEN[i]) for a in wanted):
            return i
    return 0


def _ordered(c: TxnColumns, between: int) -> bool:
    """Does the process or realtime order relate any two transactions?"""
    ok = c.outcome == OK
    if between == 2 and ok.any():
        return int(c.complete_pos[ok].min()) < int(c.invoke_pos.max())
    if between == 1:
        sessions = c.process[ok & (c.process >= 0)]
        return len(sessions) > len(np.unique(sessions))
    return False


def _given_order(c: TxnColumns, ranks: Mapping[Any, int] | None) -> I64:
    if ranks is None:
        return np.empty(0, np.int64)
    by_name = {int(k): int(v) for k, v in ranks.items()}
    return np.array([by_name.get(int(i), -1) for i in c.op_index], np.int64)


@cache
def _require(asked: tuple[str, ...], anomalies: tuple[str, ...]) -> None:
    """Raises ValueError for a question that no history could fail."""
    for model in asked:
        models.require_judged(model, _native.DETECTABLE)
    for name in anomalies:
        if name not in models.ANOMALIES:
            raise ValueError(f"unknown anomaly {name!r}; `dstest models` names them")
    if not reportable(asked, anomalies) & _native.DETECTABLE:
        said = f"none of {', '.join(anomalies)} can be found" if anomalies else "no model is asked"
        raise ValueError(f"{said}: no history could fail; for example {models.STRONGEST}")


def _require_kind(c: TxnColumns, workload: str) -> None:
    """Raises ValueError for reads of the other kind of object: they would be taken for empty."""
    if workload == "rw-register" and len(c.elem):
        raise ValueError("reads return lists: this is no rw-register history, but list-append")
    if workload == "list-append" and bool(((c.mop_kind == READ) & (c.mop_value != NIL)).any()):
        raise ValueError(
            "reads return single values: this is no list-append history, but rw-register"
        )


def _untested(asked: Sequence[str]) -> list[str]:
    """Why a clean history does not show that it satisfies these models."""
    found = {m: models.UNTESTED.get(models.canonical(m)) for m in asked}
    return [
        f"{model} is not decided yet: {missing} are not looked for; a stronger model is, for "
        "example snapshot-isolation or serializable"
        for model, missing in found.items()
        if missing
    ]


def _doubts(
    c: TxnColumns, asked: Sequence[str], analysis: _native.Analysis, between: int
) -> list[str]:
    """Why a history in which nothing was found is not valid for that."""
    why = []
    if analysis.status:
        why.append(f"{_native.STATUS[analysis.status]}; not everything was looked at")
    if not reads_test(c):
        why.append(VACUOUS)
    silent = int(np.count_nonzero((c.invoke_pos < 0) & (c.outcome == OK)))
    if between and silent:
        why.append(
            f"{silent} transactions have no invocation: what real time and sessions relate is "
            "not known"
        )
    why += [f"{n} {what}" for what, n in c.weak.items()]
    return [*why, *_untested(asked)]


def check(
    columns: TxnColumns,
    workload: str,
    models: Sequence[str] = DEFAULT_MODELS,
    opts: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
) -> CheckResult:
    """Judges a history. Raises ValueError for unknown names, for models that rule out nothing that
    can be detected, and for columns that break the rules of `TxnColumns` or write one value twice
    to a key."""
    return _check(columns, workload, models, dict(opts or {}), budget or Budget())


def _check(
    c: TxnColumns, workload: str, asked: Sequence[str], opts: dict[str, Any], budget: Budget
) -> CheckResult:
    started = monotonic_ns()
    if workload not in WORKLOADS:
        raise ValueError(f"workload {workload!r}: known are {', '.join(WORKLOADS)}")
    question = tuple(asked), tuple(opts.get("anomalies") or ())
    _require(*question)
    wanted = reportable(*question)
    between = _between(wanted)
    sources = sum(bit for name, bit in _native.SOURCES.items() if opts.get(name))
    order = _given_order(c, opts.get("transaction-order"))
    analyse = partial(
        _native.analyse,
        c,
        workload,
        between=between,
        sources=sources,
        order=order,
        budget=budget,
    )
    analysis = analyse()  # it also validates the columns
    _require_kind(c, workload)
    if analysis.counts["incompatible-order"] and analysis.status == 0:
        # Longest reads may contradict each other; only then does the choice among them matter.
        analysis = analyse(value_hash=value_hashes(c.value_names))
    empty = analysis.edges == 0 and not _ordered(c, between) and analysis.status == 0
    all_types = {t for t, n in analysis.counts.items() if n} | {y.type for y in analysis.cycles}
    types = sorted(all_types & wanted)
    boundary = models.boundary(all_types if types or empty else ())
    doubts = [] if types else _doubts(c, asked, analysis, between)
    if types and analysis.status:
        doubts = [f"{_native.STATUS[analysis.status]}; not everything was looked at"]
    valid: Valid = False if types else "unknown" if empty or doubts else True
    return CheckResult(
        checker=workload,
        valid=valid,
        workload=workload,
        model=",".join(asked) or None,
        anomaly_types=sorted([*types, EMPTY]) if empty else types,
        not_=boundary.not_,
        also_not=boundary.also_not,
        anomalies=anomalies_of(c, workload, analysis, types, sources),
        ops=OpCount(total=c.txns, consumed=c.txns, excluded=dict(c.skipped)),
        keys=KeyCount(total=len(c.key_names), decided=len(c.key_names)),
        seconds=Seconds(check=(monotonic_ns() - started) / 1e9),
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        reason="; ".join(doubts) or None,
    )
