"""PostgreSQL, MariaDB and what is built on them."""

from __future__ import annotations

from typing import Final

from dstest.campaign.known_bugs.entries.entry import Finding, options, pair, run
from dstest.core.errors import Exit

_STOP: Final = ("--time-limit", "30", "--stop-on-violation")
_SHORT: Final = ("--time-limit", "30")
_FAILOVER: Final = ("--time-limit", "60")
_BUSY: Final = ("key_count=4", "key_dist=uniform", "txn_length_min=2")
_BACK: Final = ("writes=read-then-write", *_BUSY)
_CUT: Final = ("shape=leader", "fault_s=30")
_RELIABILITY: Final = "PostgreSQL 15, 30.1 Reliability and 20.5 Write Ahead Log"
_PG: Final = "Jepsen, PostgreSQL 12.3 (2020)"
_GALERA: Final = "Jepsen, MariaDB Galera Cluster 12.1.2 (2026); MDEV-38974"
_SYNC_WAIT: Final = "Galera Cluster, wsrep_sync_wait"
_PREDICATES: Final = (
    "Adya (1999), section 4.2; PostgreSQL 15, 13.2.2 Repeatable Read Isolation Level"
)
_INNODB: Final = "MariaDB, innodb_snapshot_isolation"
_UPDATES: Final = ("lost-update", "incompatible-order")
_UPDATES_BESIDE: Final = (
    *("internal", "G0", "G1c", "G-single", "G-single-item"),
    *("G-nonadjacent", "G-nonadjacent-item", "G2-item"),
)
"""An update that is lost leaves reads that contradict each other, and cycles of any kind."""


def _append(system: str, model: str, *settings: str) -> tuple[str, ...]:
    """list-append without a fault, judged at this model."""
    return run(system, "list-append", "none", "--model", model, *options(*settings), *_STOP)


def _forks(system: str) -> tuple[str, ...]:
    """Groups of many keys, each written once, and read as a whole."""
    model = ("--model", "snapshot-isolation", "--concurrency", "40")
    groups = options("keys=1", "group_size=60", "ops_per_key=120")
    return run(system, "long-fork", "none", *model, *groups, *_STOP)


def _anomaly(system: str, workload: str, model: str, *settings: str) -> tuple[str, ...]:
    """A workload of one anomaly, without a fault, judged at this model."""
    return run(system, workload, "none", "--model", model, *options(*settings), *_STOP)


SQL: Final[tuple[Finding, ...]] = (
    *pair(
        Finding(
            id="P1",
            claim="READ COMMITTED loses updates and sees read skew: weaker than snapshot isolation",
            source="PostgreSQL 15, 13.2.1 Read Committed Isolation Level",
            command=_append("postgresql", "snapshot-isolation", "isolation=read-committed", *_BACK),
            expect=Exit.FAIL,
            anomalies=_UPDATES,
            beside=_UPDATES_BESIDE,
        ),
        "isolation=read-committed",
        "isolation=repeatable-read",
        claim="REPEATABLE READ keeps snapshot isolation",
        source=_PG,
    ),
    *pair(
        Finding(
            id="P2",
            claim="REPEATABLE READ is snapshot isolation: write skew",
            source=_PG,
            command=_append("postgresql", "serializable", "isolation=repeatable-read", *_BUSY),
            expect=Exit.FAIL,
            anomalies=("G2-item",),
        ),
        "isolation=repeatable-read",
        "isolation=serializable",
        claim="SERIALIZABLE has no write skew",
        source="PostgreSQL 15, 13.2.3 Serializable Isolation Level",
    ),
    *pair(
        Finding(
            id="P2-G2",
            claim="REPEATABLE READ lets two transactions both find no row, and both insert one",
            source=_PREDICATES,
            command=_anomaly("postgresql", "g2", "serializable", "isolation=repeatable-read"),
            expect=Exit.FAIL,
            anomalies=("G2",),
        ),
        "isolation=repeatable-read",
        "isolation=serializable",
        claim="SERIALIZABLE keeps predicates",
        source="PostgreSQL 15, 13.2.3 Serializable Isolation Level",
    ),
    *pair(
        Finding(
            id="P3",
            claim="a standby shows commits in another order than the primary: a long fork",
            source="Jepsen, Amazon RDS for PostgreSQL 17.4 (2025)",
            command=_forks("postgresql-standby"),
            expect=Exit.FAIL,
            anomalies=("long-fork",),
        ),
        "postgresql-standby",
        "postgresql",
        claim="one server shows one order",
        source=_PG,
    ),
    Finding(
        id="C-2",
        claim="SERIALIZABLE is serializable on one node, killed again and again",
        source="PostgreSQL 15, 13.2.3 Serializable Isolation Level",
        command=run(
            "postgresql",
            "list-append",
            "kill",
            "--model",
            "serializable",
            *options("isolation=serializable"),
            *_SHORT,
        ),
        expect=Exit.PASS,
    ),
    Finding(
        id="PG-fsync",
        claim="with fsync=off a power cut loses what was acknowledged",
        source=_RELIABILITY,
        command=run("postgresql", "set", "power", *options("fsync=off"), *_SHORT),
        expect=Exit.FAIL,
        anomalies=("lost",),
        control="PG-power",
    ),
    Finding(
        id="PG-power",
        claim="what was acknowledged survives a power cut",
        source=_RELIABILITY,
        command=run("postgresql", "set", "power", *_SHORT),
        expect=Exit.PASS,
    ),
    Finding(
        id="PG-async",
        claim="with synchronous_commit=off a kill loses what was acknowledged",
        source="PostgreSQL 15, 30.4 Asynchronous Commit",
        command=run("postgresql", "set", "kill", *options("synchronous_commit=off"), *_SHORT),
        expect=Exit.FAIL,
        anomalies=("lost",),
        control="PG-kill",
    ),
    Finding(
        id="PG-kill",
        claim="what was acknowledged survives a kill",
        source=_RELIABILITY,
        command=run("postgresql", "set", "kill", *_SHORT),
        expect=Exit.PASS,
    ),
    Finding(
        id="P5",
        claim="a partition of the primary loses what it acknowledged alone",
        source="Patroni 3.0, Replication modes: Asynchronous mode durability",
        command=run("patroni", "set", "partition", *options(*_CUT), *_FAILOVER),
        expect=Exit.FAIL,
        anomalies=("lost",),
        control="P5-control",
    ),
    Finding(
        id="P5-control",
        claim="in strict synchronous mode nothing is lost",
        source="Patroni 3.0, Replication modes: PostgreSQL synchronous replication",
        command=run(
            "patroni", "set", "partition", *options("replication=strict", *_CUT), *_FAILOVER
        ),
        expect=Exit.PASS,
    ),
    *pair(
        Finding(
            id="M1",
            claim="REPEATABLE READ of InnoDB loses updates by default",
            source="Jepsen, MySQL 8.0.34 (2023), for MariaDB too; MDEV-35124",
            command=_append(
                "mariadb",
                "snapshot-isolation",
                "isolation=repeatable-read",
                "snapshot_isolation=false",
                *_BACK,
            ),
            expect=Exit.FAIL,
            anomalies=_UPDATES,
            beside=_UPDATES_BESIDE,
        ),
        "snapshot_isolation=false",
        "snapshot_isolation=true",
        id="C-5",
        claim="with innodb_snapshot_isolation REPEATABLE READ is snapshot isolation",
        source=_INNODB,
    ),
    *pair(
        Finding(
            id="M1-view",
            claim="REPEATABLE READ without snapshot isolation shows what it had hidden",
            source="Jepsen, MySQL 8.0.34 (2023), which names MariaDB as well",
            command=_anomaly(
                "mariadb",
                "atomic-view",
                "monotonic-atomic-view",
                "isolation=repeatable-read",
                "snapshot_isolation=false",
            ),
            expect=Exit.FAIL,
            anomalies=("nonmonotonic-view",),
            beside=("non-repeatable-read", "read-skew"),
        ),
        "snapshot_isolation=false",
        "snapshot_isolation=true",
        claim="innodb_snapshot_isolation shows one moment",
        source=_INNODB,
    ),
    *pair(
        Finding(
            id="G1",
            claim="a member of Galera serves old values by default",
            source=_SYNC_WAIT,
            command=run("galera", "register", "none", *options("sync_wait=0"), *_STOP),
            expect=Exit.FAIL,
            anomalies=("nonlinearizable",),
        ),
        "sync_wait=0",
        "sync_wait=7",
        claim="with wsrep_sync_wait reads see what was committed before",
        source=_SYNC_WAIT,
    ),
    Finding(
        id="G2",
        claim="by default REPEATABLE READ loses updates, of one member and of several",
        source=_GALERA,
        command=_append("galera", "snapshot-isolation", "isolation=repeatable-read", *_BACK),
        expect=Exit.FAIL,
        anomalies=_UPDATES,
        beside=_UPDATES_BESIDE,
        control="G2-control",
    ),
    Finding(
        id="G2-control",
        claim="with innodb_snapshot_isolation 10.11 shows none of what 12.1.2 did",
        source=_GALERA,
        command=_append(
            "galera",
            "snapshot-isolation",
            "isolation=repeatable-read",
            "snapshot_isolation=true",
            *_BACK,
        ),
        expect=Exit.PASS,
    ),
    *pair(
        Finding(
            id="G3",
            claim="with flush_log_at_trx_commit=0 what was committed is lost when all members die",
            source="Jepsen, MariaDB Galera Cluster 12.1.2 (2026)",
            command=run(
                "galera",
                "set",
                "kill",
                *options("scope=all", "sync_wait=7", "flush_log=0"),
                *_SHORT,
            ),
            expect=Exit.FAIL,
            anomalies=("lost",),
        ),
        "flush_log=0",
        "flush_log=1",
        claim="by default what was committed survives that",
        source="MariaDB, innodb_flush_log_at_trx_commit",
    ),
    Finding(
        id="G4",
        claim="a transfer between two accounts loses money",
        source="Jepsen, Percona XtraDB Cluster (2015)",
        command=_anomaly("galera", "bank", "snapshot-isolation", "isolation=repeatable-read"),
        expect=Exit.FAIL,
        anomalies=("wrong-total",),
        control="G4-control",
    ),
    Finding(
        id="G4-control",
        claim="with innodb_snapshot_isolation the total stays",
        source=_INNODB,
        command=_anomaly(
            "galera",
            "bank",
            "snapshot-isolation",
            "isolation=repeatable-read",
            "snapshot_isolation=true",
        ),
        expect=Exit.PASS,
    ),
)
