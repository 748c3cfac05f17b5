"""The sixteen pitfalls that hypotheses come from, and the eight kinds of hypotheses.

Source: discipline 9.1 and 6.1. What tests a pitfall is said in words that plug-ins say of
themselves: numbers of faults (`Nemesis.faults`) and models (`Checker.models`).
"""

from __future__ import annotations

from typing import Final

import msgspec

KINDS: Final = (
    "correctness",
    "durability",
    "liveness",
    "partial failure",
    "idempotency/replay",
    "upgrade/rollback",
    "configuration",
    "performance/fairness",
)
"""Of hypotheses; a plan has some of each, or says why not."""


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """A way in which systems like this have failed. It falsifies claims of these `categories`;
    `statement` is a hypothesis of this `kind`, `faults` bring it about, best first, and a checker
    of one of the `models` sees it. `common`: looked at in most analyses."""

    number: int
    name: str
    kind: str
    categories: tuple[str, ...]
    statement: str
    because: str
    faults: tuple[str, ...]
    models: tuple[str, ...]
    common: bool = False


def _pattern(
    number: int, name: str, kind: str, categories: str, statement: str, because: str, *tested: str
) -> Pattern:
    """`tested` are the numbers of faults, then the models."""
    return Pattern(
        number=number,
        name=name,
        kind=kind,
        categories=tuple(categories.split()),
        statement=statement,
        because=because,
        faults=tuple(word for word in tested if word[:1] == "N" and word[1:].isdigit()),
        models=tuple(word for word in tested if not (word[:1] == "N" and word[1:].isdigit())),
        common=number <= 6,
    )


PITFALLS: Final = (
    _pattern(
        *(1, "lost update", "durability", "durability safety"),
        "of two concurrent updates during a partition one is acknowledged and then lost",
        "an update that is read, changed and written back needs a guard on both sides",
        *("N05", "N06", "N10", "register", "cas-register", "counter", "linearizable"),
    ),
    _pattern(
        *(2, "stale read", "correctness", "safety ordering"),
        "a session reads something older than what it has written or read before",
        "members answer reads from what they have applied, and one may lag",
        *("N08", "N27", "N05", "session", "monotonic-reads", "register"),
    ),
    _pattern(
        *(3, "divergent replicas", "partial failure", "membership durability safety"),
        "after a fault has healed, two replicas hold different states for good",
        "what was written on one side of a partition is merged by nobody",
        *("N05", "N01", "N33", "converged"),
    ),
    _pattern(
        *(4, "wrong under skewed clocks", "correctness", "safety"),
        "a read that is answered by the clock alone is stale once clocks are apart",
        "leases of leaders and of readers compare clocks of different machines",
        *("N23", "N24", "register", "cas-register"),
    ),
    _pattern(
        *(5, "lost ack, lost commit", "idempotency/replay", "durability idempotency"),
        "a server that dies at its commit has acknowledged what is lost, or done what it refused",
        "the answer and the commit are two steps, and a crash comes between",
        *("N01", "N06", "N17", "N04", "durable", "linearizable", "ledger"),
    ),
    _pattern(
        *(6, "races of a membership change", "configuration", "membership safety"),
        "while members are added and removed, writes are lost or two quorums decide",
        "the old and the new configuration count different majorities",
        *("N33", "N25", "converged", "register"),
    ),
    _pattern(
        *(7, "wrong recovery from a crash", "durability", "durability"),
        "after a crash a member serves a state that its log does not give",
        "what was acknowledged may not have been synced, or is replayed twice",
        *("N17", "N20", "N01", "durable", "linearizable", "eventual"),
    ),
    _pattern(
        *(8, "schema change in traffic", "upgrade/rollback", "operational safety"),
        "while the schema or the version changes, writes are refused or lost",
        "old and new code read what the other has written",
        *("N29", "N28", "N34", "durable", "linearizable"),
    ),
    _pattern(
        *(9, "colliding ids", "correctness", "safety"),
        "two clients are given the same id, or ids that go backwards",
        "a sequence is cached, or restarts at what was last persisted",
        *("N05", "N01", "unique", "increasing"),
    ),
    _pattern(
        *(10, "lost or repeated events", "partial failure", "ordering"),
        "a watcher misses an event, sees one twice, or sees them in another order than they were",
        "a stream is resumed on another member, from a place that it has dropped",
        *("N12", "N05", "N32", "watch", "fifo", "kafka"),
    ),
    _pattern(
        *(11, "half a transaction", "correctness", "isolation"),
        "a transaction on several keys is seen in part, or in two different orders",
        "what one member coordinates is done on several, and it may die in between",
        *("N01", "N05", "N12", "strict-serializable", "serializable"),
    ),
    _pattern(
        *(12, "safety by clocks", "correctness", "safety"),
        "two clients hold a lock at once when clocks are further apart than was assumed",
        "a lease ends by the clock of one, and is used by the clock of another",
        *("N23", "N24", "N03", "lease", "lock"),
    ),
    _pattern(
        *(13, "divergent rights or quotas", "configuration", "boundary"),
        "a member that missed a change of rights lets in whom the others refuse",
        "rights are cached by each member, and revoked on one at a time",
        *("N31", "N30", "N05", "fair"),
    ),
    _pattern(
        *(14, "leases under load", "liveness", "liveness safety"),
        "a holder that renews in time loses its lease under load, or keeps it after its end",
        "renewals wait behind other work, on disk or in a paused process",
        *("N03", "N18", "lease", "lock"),
    ),
    _pattern(
        *(15, "forgotten attempts", "idempotency/replay", "idempotency"),
        "a request that is tried again after a restart has its effect twice",
        "the memory of what was done is a cache, which a restart empties",
        *("N01", "N06", "N04", "ledger"),
    ),
    _pattern(
        *(16, "blocked by the first", "performance/fairness", "liveness fairness performance-SLO"),
        "one slow or poisonous entry keeps all that come after it waiting",
        "a queue has one head, and a group may stand behind another",
        *("N03", "N27", "N09", "fair", "at-least-once"),
    ),
)
