"""Histories of true systems: every operation takes effect at one instant of its interval.

`history(name, seed, count)` simulates concurrent clients of one kind of object with unknown and
failed operations among them; nothing in it is a violation, whatever the size. A final phase follows
where a checker needs one.
"""

from __future__ import annotations

from collections.abc import Callable

from dstest.core.history import History
from dstest.generator import true_objects as objects
from dstest.generator import true_views as views
from dstest.generator.simulated_clients import MS, Sim


class Kind:
    """A kind of history: how it is made, which checker judges it under which model."""

    def __init__(self, make: Callable[[Sim, int], None], checker: str, model: str) -> None:
        self.make, self.checker, self.model = make, checker, model


KINDS = {
    "set-full": Kind(lambda s, n: objects.of_set(s, n), "set-full", "linearizable"),
    "set": Kind(lambda s, n: objects.of_set(s, n), "set", "eventual"),
    "no-lost-ack": Kind(lambda s, n: objects.of_set(s, n), "no-lost-ack", "durable"),
    "total-queue": Kind(objects.of_queue, "total-queue", "exactly-once"),
    "dead-letters": Kind(objects.of_dead_letters, "dead-letters", "at-least-once"),
    "fifo": Kind(objects.of_queue, "order", "fifo"),
    "prefix": Kind(objects.of_prefix, "order", "prefix"),
    "counter": Kind(lambda s, n: objects.of_counter(s, n), "counter-bounds", "counter-bounds"),
    "pn-counter": Kind(
        lambda s, n: objects.of_counter(s, n, True), "counter-bounds", "counter-bounds"
    ),
    "lock": Kind(lambda s, n: objects.of_lock(s, n), "exclusion", "lock"),
    "lease": Kind(lambda s, n: objects.of_lock(s, n, 20 * MS), "exclusion", "lease"),
    "atomic-view": Kind(views.of_views, "atomic-view", "strict-serializable"),
    "read-committed-view": Kind(
        lambda s, n: views.of_views(s, n, 4), "atomic-view", "monotonic-atomic-view"
    ),
    "g2": Kind(views.of_pairs, "g2", "serializable"),
    "closed-predicate": Kind(views.of_predicates, "closed-predicate", "strict-serializable"),
    "bank": Kind(views.of_bank, "bank", "strict-serializable"),
    "long-fork": Kind(views.of_long_fork, "long-fork", "strict-serializable"),
    "causal-reverse": Kind(views.of_long_fork, "causal-reverse", "strict-serializable"),
    "unique-ids": Kind(objects.of_ids, "unique-ids", "increasing"),
    "session": Kind(objects.of_versions, "sessions", "session"),
    "causal": Kind(objects.of_register, "causal", "causal"),
    "watch": Kind(objects.of_watch, "watch", "watch"),
    "kafka": Kind(objects.of_kafka, "kafka", "linearizable"),
    "exactly-once": Kind(views.of_ledger, "exactly-once", "ledger"),
    "reconciliation": Kind(views.of_dumps, "reconciliation", "converged"),
    "final-state": Kind(views.of_dumps, "final-state", "invariant"),
    "fairness": Kind(views.of_fair, "fairness", "fair"),
    "slo": Kind(views.of_served, "slo", "slo"),
}


def history(
    name: str,
    seed: int,
    count: int,
    *,
    processes: int = 6,
    unknown: float = 0.02,
    fail: float = 0.02,
) -> History:
    """A clean history of about `count` operations."""
    sim = Sim(seed, processes, unknown, fail)
    KINDS[name].make(sim, count)
    return sim.history()
