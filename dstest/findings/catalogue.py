"""What was published of the versions that Debian ships, as runs that find it, and their controls.

A finding is a run that must fail in its own way; a control is one that must pass: the same system,
load and faults, with the setting that the documentation promises to be safe.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["CATALOGUE", "Finding", "by_id"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`command` are the words behind `dstest`; `expect` is the exit code. A run that is expected to
    fail must find one of `anomalies`. `control` names the entry that must pass beside it."""

    id: str
    claim: str
    source: str
    command: tuple[str, ...]
    expect: int
    anomalies: tuple[str, ...] = ()
    control: str = ""

    @property
    def system(self) -> str:
        """What it is about."""
        return self.command[self.command.index("--system") + 1]


def _run(system: str, workload: str, nemesis: str, *more: str) -> tuple[str, ...]:
    return ("run", "--system", system, "--workload", workload, "--nemesis", nemesis, *more)


def _options(*pairs: str) -> tuple[str, ...]:
    return tuple(word for pair in pairs for word in ("-o", pair))


_STOP: Final = ("--time-limit", "60", "--stop-on-violation")
_PG: Final = ("postgresql", "list-append", "none")
_BUSY: Final = ("key_count=4", "key_dist=uniform", "txn_length_min=2")

CATALOGUE: Final[tuple[Finding, ...]] = (
    Finding(
        id="P1",
        claim="READ COMMITTED loses updates and sees read skew: weaker than snapshot isolation",
        source="PostgreSQL 15, 13.2.1 Read Committed Isolation Level",
        command=_run(
            *_PG,
            "--model",
            "snapshot-isolation",
            *_options("isolation=read-committed", "writes=read-then-write", *_BUSY),
            *_STOP,
        ),
        expect=1,
        anomalies=("lost-update", "G-single", "G-nonadjacent", "incompatible-order"),
        control="P2-control",
    ),
    Finding(
        id="P2",
        claim="REPEATABLE READ is snapshot isolation: write skew",
        source="Jepsen, PostgreSQL 12.3 (2020)",
        command=_run(
            *_PG, "--model", "serializable", *_options("isolation=repeatable-read", *_BUSY), *_STOP
        ),
        expect=1,
        anomalies=("G2-item", "G-nonadjacent"),
        control="P2-control",
    ),
    Finding(
        id="P2-control",
        claim="REPEATABLE READ keeps snapshot isolation",
        source="Jepsen, PostgreSQL 12.3 (2020)",
        command=_run(
            *_PG, "--model", "snapshot-isolation", *_options("isolation=repeatable-read", *_BUSY)
        ),
        expect=0,
    ),
    Finding(
        id="C-2",
        claim="SERIALIZABLE is serializable on one node",
        source="PostgreSQL 15, 13.2.3 Serializable Isolation Level",
        command=_run(
            "postgresql",
            "list-append",
            "kill",
            "--model",
            "serializable",
            *_options("isolation=serializable"),
        ),
        expect=0,
    ),
    Finding(
        id="M1",
        claim="REPEATABLE READ of InnoDB as it comes loses updates",
        source="Jepsen, MySQL 8.0.34 (2023), for MariaDB too; MDEV-35124",
        command=_run(
            "mariadb",
            "list-append",
            "none",
            "--model",
            "snapshot-isolation",
            *_options("isolation=repeatable-read", "writes=read-then-write", *_BUSY),
            *_STOP,
        ),
        expect=1,
        anomalies=("lost-update", "G-single", "internal", "incompatible-order"),
        control="C-5",
    ),
    Finding(
        id="C-5",
        claim="with innodb_snapshot_isolation REPEATABLE READ is snapshot isolation",
        source="MariaDB, innodb_snapshot_isolation",
        command=_run(
            "mariadb",
            "list-append",
            "none",
            "--model",
            "snapshot-isolation",
            *_options("isolation=repeatable-read", "snapshot_isolation=true", *_BUSY),
        ),
        expect=0,
    ),
    Finding(
        id="G1",
        claim="a member of Galera serves old values, as it comes",
        source="Galera Cluster, wsrep_sync_wait",
        command=_run("galera", "register", "none", *_options("sync_wait=0"), *_STOP),
        expect=1,
        control="G1-control",
    ),
    Finding(
        id="G1-control",
        claim="with wsrep_sync_wait reads see what was committed before",
        source="Galera Cluster, wsrep_sync_wait",
        command=_run("galera", "register", "none", *_options("sync_wait=7")),
        expect=0,
    ),
    Finding(
        id="R1",
        claim="a partition of the primary loses writes that were acknowledged",
        source="Redis, High availability with Redis Sentinel; Jepsen, Redis (2013)",
        command=_run("redis-sentinel", "set", "partition", "--time-limit", "25"),
        expect=1,
        anomalies=("lost",),
        control="R1-control",
    ),
    Finding(
        id="R1-control",
        claim="without a fault nothing is lost",
        source="Redis, High availability with Redis Sentinel",
        command=_run("redis-sentinel", "set", "none", "--time-limit", "25"),
        expect=0,
    ),
    Finding(
        id="Z1",
        claim="a read without sync may be old",
        source="ZooKeeper Programmer's Guide, Consistency Guarantees",
        command=_run("zookeeper", "register", "partition", *_options("reads=local"), *_STOP),
        expect=1,
        control="C-6",
    ),
    Finding(
        id="C-6",
        claim="writes and conditional updates are linearizable, and reads after sync",
        source="ZooKeeper Programmer's Guide, Consistency Guarantees",
        command=_run("zookeeper", "cas-register", "partition", *_options("reads=sync")),
        expect=0,
    ),
    Finding(
        id="E2",
        claim="serializable reads may be old",
        source="etcd API guarantees",
        command=_run("etcd", "register", "partition", *_options("reads=serializable"), *_STOP),
        expect=1,
        control="C-1",
    ),
    Finding(
        id="C-1",
        claim="keys and values are strictly serializable",
        source="Jepsen, etcd 3.4.3 (2020)",
        command=_run("etcd", "register", "partition,kill"),
        expect=0,
    ),
)


def by_id(id_: str) -> Finding | None:
    """The entry of that name."""
    return next((finding for finding in CATALOGUE if finding.id == id_), None)
