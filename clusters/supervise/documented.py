"""What the documentation of systems warns of, for whoever reads a failure of theirs."""

from __future__ import annotations

from typing import Final

from dstest.core.protocols import Caution

ETCD: Final[tuple[Caution, ...]] = (
    Caution(
        says="a lock goes with its lease: who holds it may not know that it has expired",
        source="etcd, etcd versus other key-value stores: Notes on the usage of lock and lease",
        unless={"lock_ttl_s": (0,)},
    ),
    Caution(
        says="a power cut may lose what was acknowledged",
        source="etcd, Configuration options: unsafe-no-fsync",
        when={"unsafe_no_fsync": (True,)},
    ),
)

MARIADB: Final[tuple[Caution, ...]] = (
    Caution(
        says="REPEATABLE READ lets a transaction change a row that others have changed since "
        "it read it",
        source="MariaDB, innodb_snapshot_isolation",
        when={"isolation": ("repeatable-read",), "snapshot_isolation": (False,)},
    ),
    Caution(
        says="what was committed in the last second may be lost in a crash",
        source="MariaDB, innodb_flush_log_at_trx_commit",
        when={"flush_log": (0, 2)},
    ),
)

GALERA: Final[tuple[Caution, ...]] = (
    *MARIADB,
    Caution(
        says="a read does not wait for what other members have committed",
        source="MariaDB, wsrep_sync_wait",
        when={"sync_wait": (0,)},
    ),
)

MEMCACHED: Final[tuple[Caution, ...]] = (
    Caution(
        says="an item may be gone before it expires, and is with its server",
        source="memcached, protocol.txt",
    ),
)

NATS: Final[tuple[Caution, ...]] = (
    Caution(
        says="it syncs its files every two minutes: a power cut of all servers may lose what "
        "was acknowledged",
        source="NATS, JetStream configuration: sync_interval",
    ),
)

POSTGRESQL: Final[tuple[Caution, ...]] = (
    Caution(
        says="a power cut may lose or damage what was acknowledged",
        source="PostgreSQL 15, 20.5 Write Ahead Log: fsync",
        when={"fsync": ("off",)},
    ),
    Caution(
        says="a crash may lose the last commits that were acknowledged",
        source="PostgreSQL 15, 30.4 Asynchronous Commit",
        when={"synchronous_commit": ("off",)},
    ),
)

PATRONI: Final[tuple[Caution, ...]] = (
    *POSTGRESQL,
    Caution(
        says="a failover may lose what the old primary had acknowledged",
        source="Patroni 3.0, Replication modes: Asynchronous mode durability",
        when={"replication": ("asynchronous",)},
    ),
)

RABBITMQ: Final[tuple[Caution, ...]] = (
    Caution(
        says="brokers that were apart drop what one side had taken in meanwhile",
        source="RabbitMQ 3.10, Clustering and Network Partitions",
        when={"queues": ("mirrored",), "partition_handling": ("autoheal",)},
    ),
    Caution(
        says="rejected messages may be lost on their way to the dead letters",
        source="RabbitMQ 3.10, Dead Letter Exchanges: Safety",
        when={"dead_letters": ("at-most-once",)},
    ),
)

REDIS_CLUSTER: Final[tuple[Caution, ...]] = (
    Caution(
        says="it replicates asynchronously: a partition or a failover may lose what was "
        "acknowledged",
        source="Redis Cluster specification, Write safety",
    ),
)

REDIS_SENTINEL: Final[tuple[Caution, ...]] = (
    Caution(
        says="it replicates asynchronously: what was acknowledged may be lost in a failover",
        source="Redis, High availability with Redis Sentinel",
    ),
    Caution(
        says="WAIT does not make it a strongly consistent store",
        source="Redis, WAIT: Consistency and WAIT",
        unless={"wait": (0,)},
    ),
    Caution(
        says="a power cut may lose the last second of what was acknowledged",
        source="Redis, Persistence: How durable is the append only file?",
        when={"appendfsync": ("everysec",)},
    ),
    Caution(
        says="a power cut may lose what the operating system had not written yet",
        source="Redis, Persistence: How durable is the append only file?",
        when={"appendfsync": ("no",)},
    ),
)

TARANTOOL: Final[tuple[Caution, ...]] = (
    Caution(
        says="it replicates asynchronously: what was acknowledged may be lost with a member",
        source="Tarantool, Replication: Synchronous replication",
        when={"replication": ("asynchronous",)},
    ),
    Caution(
        says="without its transaction manager a reader sees what is not confirmed yet and may "
        "be rolled back",
        source="Tarantool, Transactions: memtx_use_mvcc_engine",
        when={"replication": ("synchronous",), "reads": ("local",)},
    ),
    Caution(
        says="it syncs nothing: a power cut may lose what was acknowledged",
        source="Tarantool, wal_mode",
        when={"wal_mode": ("none", "write")},
    ),
)
