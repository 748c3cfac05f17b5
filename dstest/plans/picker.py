"""Which model and which kind of judgement a claim asks for (discipline 5.1 and 1.6).

A row names the models that checkers of this kind know, as plug-ins say themselves, so that a
checker of the user's own is picked like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from dstest.core import registry

__all__ = ["MODELS", "OWN", "PICKER", "Choice", "checkers_of", "choices", "rows_of"]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of `category` about a `model` is judged by `kind`: a checker that knows one of
    `judged_by`. `ours`: a row that the published table lacks."""

    model: str
    category: str
    kind: str
    judged_by: frozenset[str]
    ours: bool = False


def _row(model: str, category: str, kind: str, *judged_by: str, ours: bool = False) -> Choice:
    return Choice(
        model=model, category=category, kind=kind, judged_by=frozenset(judged_by), ours=ours
    )


_TXN: Final = (
    *("strict-serializable", "strong-serializable", "serializable", "snapshot-isolation"),
    *("repeatable-read", "read-committed", "monotonic-atomic-view"),
)
_ORDERED: Final = ("fifo", "prefix")
_QUEUES: Final = ("exactly-once", "at-least-once")

PICKER: Final = (
    _row("register", "safety", "linearizability", "register", "cas-register"),
    _row(
        "log", "durability", "no lost ack, replay", "durable", "eventual", "linearizable", "kafka"
    ),
    _row("map", "isolation", "serializability, per key and across keys", *_TXN),
    _row("session", "safety", "session guarantees, monotonic reads", "session", "monotonic-reads"),
    _row("ledger", "idempotency", "exactly once by the business key", "ledger"),
    _row("membership-table", "membership", "replicas agree at rest", "converged"),
    _row("queue", "ordering", "prefix and order", *_ORDERED),
    _row("counter", "safety", "linearizability, or a bound at the end", "counter", "invariant"),
    _row("lock", "safety", "exclusion", "lock", "mutex"),
    _row("lease", "safety", "exclusion, with times to live", "lease"),
    _row("any", "fairness", "a formula for each group", "fair"),
    _row("log", "ordering", "order of a log by its offsets", "kafka", *_ORDERED, ours=True),
    _row("log", "safety", "no element is lost or made up", "linearizable", "kafka", ours=True),
    _row("feed", "ordering", "streams without gaps, repeats or detours", "watch", ours=True),
    _row("session", "ordering", "session guarantees", "session", "monotonic-reads", ours=True),
    _row("session", "safety", "causal order", "causal", ours=True),
    _row("queue", "safety", "every element is accounted for", *_QUEUES, ours=True),
    _row("id-generator", "safety", "unique, or increasing", "unique", "increasing", ours=True),
)
"""In the order of the published table, ours last."""

MODELS: Final = (*dict.fromkeys(row.model for row in PICKER if row.model != "any"), "other")
"""What section 7.M may name as its model; `other(name)` for anything else."""

OWN: Final = "any"
"""Stands for all models in a row."""


def rows_of(category: str, model: str | None = None) -> list[Choice]:
    """The rows for a category of claims, and for one model where it is given."""
    return [
        row
        for row in PICKER
        if row.category == category and (model is None or row.model in (model, OWN))
    ]


def checkers_of(rows: Iterable[Choice]) -> list[str]:
    """The registered checkers that these rows ask for, by name."""
    asked = frozenset().union(*(row.judged_by for row in rows))
    return [
        name
        for name in registry.names("checkers")
        if asked & {*registry.load("checkers", name).models}
    ]


def choices(workload: Any, category: str) -> list[Choice]:
    """The rows by which the checkers of a workload judge claims of a category."""
    known = {
        model for name in workload.checkers for model in registry.load("checkers", name).models
    }
    return [row for row in rows_of(category) if row.judged_by & known]
