"""The bugs that can be switched on, and the command that finds each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from dstest.core.run_words import run_words

__all__ = ["BUGS", "NONE", "Bug", "Claim", "Kind", "command"]

Kind = Literal[
    "timing",
    "ordering",
    "partition",
    "crash-recovery",
    "upgrade",
    "config",
    "fault-handling",
    "performance",
]
"""By what it takes to show a bug. Source: Leesatapornwongsa and others, "TaxDC" (2016)."""

Claim = Literal[
    "safety", "durability", "idempotency", "isolation", "ordering", "membership", "boundary"
]

NONE: Final = "none"


class Bug(msgspec.Struct, frozen=True, kw_only=True):
    """`says` is what the server does wrong. The run of `workload` and `nemesis` with these
    `options`, on so many `nodes`, for `time_limit_s`, fails by one of the `anomalies` of
    `checker`."""

    name: str
    says: str
    workload: str
    nemesis: str
    options: tuple[str, ...] = ()
    nodes: int = 5
    time_limit_s: int = 40
    checker: str
    anomalies: tuple[str, ...]
    kind: Kind
    claim: Claim


_ALL: Final = (
    Bug(
        name="acknowledged-before-replicated",
        says="A leader commits what is on its own disk, before any other member has it.",
        workload="set",
        nemesis="partition",
        options=("shape=leader", "direction=both"),
        checker="set-full",
        anomalies=("lost",),
        kind="partition",
        claim="durability",
    ),
    Bug(
        name="stale-follower-read",
        says="A follower that has heard its leader lately reads what it has, and asks nobody.",
        workload="register",
        nemesis="partition",
        options=("shape=one", "direction=both"),
        checker="linearizable",
        anomalies=("nonlinearizable",),
        kind="ordering",
        claim="safety",
    ),
    Bug(
        name="split-brain-write",
        says="A leader counts a majority of the members that answer it, and not of all.",
        workload="register",
        nemesis="partition",
        options=("shape=leader", "direction=both"),
        checker="linearizable",
        anomalies=("nonlinearizable",),
        kind="partition",
        claim="safety",
    ),
    Bug(
        name="lost-update-on-heal",
        says="A voter compares the term of a candidate's last entry, and not its index.",
        workload="set",
        nemesis="partition",
        options=("shape=one", "direction=both"),
        checker="set-full",
        anomalies=("lost",),
        kind="partition",
        claim="durability",
    ),
    Bug(
        name="duplicate-on-retry-after-restart",
        says="A server that has replayed its log forgets which of the requests in it are done.",
        workload="ledger",
        nemesis="kill",
        options=("scope=all",),
        checker="exactly-once",
        anomalies=("duplicated",),
        kind="crash-recovery",
        claim="idempotency",
    ),
    Bug(
        name="sequence-reuse",
        says="A new leader goes on from the beginning of the block of ids that the last one had.",
        workload="unique-ids",
        nemesis="kill",
        options=("scope=primaries",),
        checker="unique-ids",
        anomalies=("duplicated", "nonmonotonic"),
        kind="crash-recovery",
        claim="safety",
    ),
    Bug(
        name="lease-overlap-under-pause",
        says="A server renews leases that it got, by its count of ticks, which stops in a pause.",
        workload="lease",
        nemesis="pause",
        options=(
            *("scope=minority", "fault_s=4", "ttl_s=6", "hold_ms=12000"),
            *("keys=6", "ops_per_key=100000"),
        ),
        time_limit_s=60,
        checker="exclusion",
        anomalies=("overlapping-holds",),
        kind="timing",
        claim="safety",
    ),
    Bug(
        name="dirty-read",
        says="A server lets reads in between the two halves of a transfer.",
        workload="bank",
        nemesis="none",
        time_limit_s=30,
        checker="bank",
        anomalies=("wrong-total",),
        kind="ordering",
        claim="isolation",
    ),
    Bug(
        name="replica-divergence",
        says="A follower that has much to catch up with leaves out the last entry of each batch.",
        workload="bank-replicas",
        nemesis="kill",
        options=("scope=one",),
        checker="reconciliation",
        anomalies=("divergence",),
        kind="crash-recovery",
        claim="safety",
    ),
    Bug(
        name="unsynced-loss",
        says="A server syncs its log once a second, and acknowledges before.",
        workload="set",
        nemesis="power",
        options=("scope=all",),
        checker="set-full",
        anomalies=("lost",),
        kind="crash-recovery",
        claim="durability",
    ),
    Bug(
        name="reorder-in-queue",
        says="A leader gives elements their places by a count of its own, which begins anew.",
        workload="queue",
        nemesis="kill",
        options=("scope=primaries",),
        checker="order",
        anomalies=("reordered",),
        kind="crash-recovery",
        claim="ordering",
    ),
    Bug(
        name="membership-double-entry",
        says="A member that comes back is listed once more, and its vote counts for each time.",
        workload="set",
        nemesis="membership",
        options=("scope=primaries", "fault_s=3", "quiet_s=1"),
        nodes=3,
        time_limit_s=120,
        checker="set-full",
        anomalies=("lost",),
        kind="config",
        claim="membership",
    ),
    Bug(
        name="tenants-joined",
        says="A server joins tenant and key by a colon, and escapes no colon in a tenant.",
        workload="boundary",
        nemesis="none",
        time_limit_s=30,
        checker="boundary",
        anomalies=("leak",),
        kind="config",
        claim="boundary",
    ),
    Bug(
        name="count-of-neighbours",
        says="A server counts the keys of all tenants whose name begins as the one does.",
        workload="boundary",
        nemesis="none",
        time_limit_s=30,
        checker="boundary",
        anomalies=("count-off",),
        kind="config",
        claim="boundary",
    ),
)

BUGS: Final[Mapping[str, Bug]] = {bug.name: bug for bug in _ALL}
"""By name."""


def command(bug: Bug, system: str = "toykv", seed: int = 1) -> list[str]:
    """The words behind `dstest` that find it."""
    said = {
        "system": system,
        "workload": bug.workload,
        "nemesis": bug.nemesis,
        "nodes": bug.nodes,
        "time_limit_s": bug.time_limit_s,
        "seed": seed,
    }
    return run_words(said, [f"bug={bug.name}", *bug.options])
