"""Which model and which kind of judgement a claim asks for (discipline 5.1 and 1.6).

A row names the models that checkers of this kind know, as plug-ins say themselves, so that a
checker of the user's own is picked like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from dstest.core import registry
from dstest.judge.budgeted import model_of


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of `category` about a `model` is judged by `kind`: a checker that knows one of
    `judged_by`. `promise` is such a claim in a sentence, `word` the beginning of its scenario's
    name. `options` are what the checker must be told before the run; each choice of the option
    `arms_by` of a workload is a surface. `ours`: a row that the published table lacks."""

    model: str
    category: str
    kind: str
    judged_by: frozenset[str]
    promise: str
    word: str
    options: Mapping[str, str] = MappingProxyType({})
    arms_by: str = ""
    ours: bool = False


def _row(
    model: str,
    category: str,
    word: str,
    kind: str,
    promise: str,
    *judged_by: str,
    options: Mapping[str, str] = MappingProxyType({}),
    arms_by: str = "",
    ours: bool = False,
) -> Choice:
    return Choice(
        model=model,
        category=category,
        kind=kind,
        judged_by=frozenset(judged_by),
        promise=promise,
        word=word,
        options=options,
        arms_by=arms_by,
        ours=ours,
    )


_TXN: Final = (
    *("strict-serializable", "strong-serializable", "serializable", "snapshot-isolation"),
    *("repeatable-read", "read-committed", "monotonic-atomic-view"),
)
_QUEUES: Final = ("exactly-once", "at-least-once")
_SESSION: Final = ("session", "monotonic-reads")

_PUBLISHED: Final = (
    _row(
        *("register", "safety", "linearizable", "linearizability"),
        "a read or write of a register takes effect once, between its call and its answer",
        *("register", "cas-register"),
    ),
    _row(
        *("log", "durability", "durable", "no lost ack, and replay"),
        "what was acknowledged is there afterwards, whatever fails in between",
        *("durable", "eventual", "linearizable", "kafka"),
    ),
    _row(
        *("map", "isolation", "isolated", "serializability, per key and across keys"),
        "transactions on several keys have the effects of some order, one after another",
        *_TXN,
    ),
    _row(
        *("session", "safety", "monotonic", "guarantees of sessions, monotonic reads"),
        "a session never reads anything older than what it has read or written",
        *_SESSION,
    ),
    _row(
        *("ledger", "idempotency", "exactly_once", "exactly once by the business key"),
        "a request that is sent again under its key has its effect once",
        "ledger",
    ),
    _row(
        *("membership-table", "membership", "agreeing", "replicas agree at rest"),
        "once nobody writes any more, all members hold the same, whoever joined or left",
        "converged",
    ),
    _row(
        *("queue", "ordering", "ordered", "prefix and order"),
        "elements leave a queue in the order in which they came",
        "fifo",
    ),
    _row(
        *("counter", "safety", "bounded", "linearizability, or a bound at the end"),
        "a counter is never below what was acknowledged, nor above what was asked for",
        *("counter-bounds", "counter", "invariant"),
    ),
    _row(
        *("lock", "safety", "exclusive", "exclusion"),
        "a lock has one holder at a time",
        *("lock", "mutex"),
    ),
    _row(
        *("lease", "safety", "exclusive", "exclusion, with times to live"),
        "a lease has one holder at a time, and ends when its time is over",
        "lease",
    ),
    _row(
        *("any", "fairness", "fair", "a formula for each group"),
        "no group of clients is served much worse than the others",
        "fair",
        arms_by="fairness_by",
    ),
)
"""The published table."""

_OURS: Final = (
    _row(
        *("any", "performance-SLO", "latency", "levels declared before the run"),
        "requests are served within the declared levels",
        "slo",
        options={"slo": "p99_ms<=2000,ok_ratio>=0.5"},
        ours=True,
    ),
    _row(
        *("any", "liveness", "progress", "the longest stretch without service"),
        "service comes back within a bounded time of a fault",
        "slo",
        options={"slo": "gap_s<=30"},
        ours=True,
    ),
    _row(
        *("any", "operational", "available", "levels that hold while somebody operates it"),
        "the service keeps to its levels while it is restarted, changed or upgraded",
        "slo",
        options={"slo": "ok_ratio>=0.5,gap_s<=30"},
        ours=True,
    ),
    _row(
        *("log", "ordering", "ordered", "the order of a log by its offsets"),
        "readers of a log see its elements by their offsets, without gaps",
        *("linearizable", "kafka"),
        ours=True,
    ),
    _row(
        *("log", "safety", "never_lost", "no element is lost or made up"),
        "an element that was seen once is seen from then on",
        *("linearizable", "kafka"),
        ours=True,
    ),
    _row(
        *("feed", "ordering", "ordered", "streams without gaps, repeats or detours"),
        "a watcher sees every change once, and in the order in which they were made",
        "watch",
        ours=True,
    ),
    _row(
        *("session", "ordering", "monotonic", "guarantees of sessions"),
        "a session sees its own writes, and the writes of others in one order",
        *_SESSION,
        ours=True,
    ),
    _row(
        *("causal", "safety", "causal", "causal order"),
        "who sees a write sees all that it was based on",
        "causal",
        ours=True,
    ),
    _row(
        *("queue", "safety", "never_lost", "every element is accounted for"),
        "an element that was accepted is delivered, and as often as promised",
        *_QUEUES,
        ours=True,
    ),
    _row(
        *("id-generator", "safety", "unique", "unique, or increasing"),
        "no two clients are given the same id",
        *("unique", "increasing"),
        ours=True,
    ),
)

PICKER: Final = (*_PUBLISHED, *_OURS)

MODELS: Final = (*dict.fromkeys(row.model for row in PICKER if row.model != "any"), "other")
"""What section 7.M may name as its model; `other(name)` for anything else."""


def rows_of(category: str, model: str | None = None) -> list[Choice]:
    """The rows for a category of claims, and for one model where it is given."""
    return [
        row
        for row in PICKER
        if row.category == category and (model is None or row.model in (model, "any"))
    ]


def checkers_of(rows: Iterable[Choice]) -> list[str]:
    """The registered checkers that these rows ask for, by name."""
    asked = frozenset().union(*(row.judged_by for row in rows))
    return [
        name
        for name in registry.names("checkers")
        if asked & {*registry.load("checkers", name).models}
    ]


def models_of(workload: Any) -> frozenset[str]:
    """The models by which a workload's checkers judge it."""
    checkers = [registry.load("checkers", name) for name in workload.checkers]
    return frozenset(model_of(checker, workload.model) for checker in checkers)


def workloads_of(row: Choice) -> list[str]:
    """The workloads that are judged as the row asks; those that claim it, where any does."""
    found = {name: registry.load("workloads", name) for name in registry.names("workloads")}
    judged = {name: work for name, work in found.items() if row.judged_by & models_of(work)}
    claimed = [name for name, work in judged.items() if row.category in work.claims]
    return claimed or [*judged]
