"""Stores of keys and values: etcd, ZooKeeper, Redis, memcached."""

from __future__ import annotations

from typing import Final

from dstest.campaign.known_bugs.entries.entry import Finding, options, pair, run
from dstest.core.errors import Exit

_STOP: Final = ("--time-limit", "40", "--stop-on-violation")
_SHORT: Final = ("--time-limit", "25")
_HELD: Final = ("keys=20", "hold_ms=20000", "scope=minority", "fault_s=10")
_ASKING: Final = ("--concurrency", "60", "--rate", "100")
"""More clients than locks, so that each second somebody asks while the others hold one."""

_RECENT: Final = ("scope=all", "writeback_s=0.5")
"""Young enough that what the members were born with is on their disks."""

_ALONE: Final = ("reads=confirmed", "members=1")
"""Nobody from whom it could get back what it lost, and no reads of what is not kept yet."""

_ONE_MEMBER: Final = "The smoke budget asks for 3 nodes; this run had 1."
_COMPACTS: Final = ("targets=n1", "compaction_batch=10", "fault_s=5", "quiet_s=3")
"""A compaction is one batch, after which nothing is left of what it covers."""

_AT_COMMIT: Final = options(
    "at=mvcc.(*store).scheduleCompaction > return:backend.(*backend).ForceCommit", *_COMPACTS
)
_SLOWLY: Final = ("--nodes", "3", "--concurrency", "3", "--rate", "8", "--time-limit", "50")
"""Nothing is written while a compaction goes on."""

_SENTINEL: Final = "Redis, High availability with Redis Sentinel"

STORES: Final[tuple[Finding, ...]] = (
    *pair(
        Finding(
            id="R1",
            claim="a partition of the primary loses writes that were acknowledged",
            source="Redis, High availability with Redis Sentinel; Jepsen, Redis (2013)",
            command=run("redis-sentinel", "set", "partition", "--time-limit", "25"),
            expect=Exit.FAIL,
            anomalies=("lost",),
            beside=("stale",),
        ),
        "partition",
        "none",
        claim="without a fault nothing is lost",
        source="Redis, High availability with Redis Sentinel",
    ),
    Finding(
        id="R2",
        claim="min-replicas-to-write makes the window of loss smaller, not nothing",
        source=f"{_SENTINEL}: Example 2",
        command=run(
            "redis-sentinel",
            "set",
            "partition",
            *options("min_replicas=1", "shape=leader"),
            *_SHORT,
        ),
        expect=Exit.FAIL,
        anomalies=("lost",),
        beside=("stale",),
        control="R2-control",
    ),
    Finding(
        id="R2-control",
        claim="without a fault nothing is lost",
        source=f"{_SENTINEL}: Example 2",
        command=run("redis-sentinel", "set", "none", *options("min_replicas=1"), *_SHORT),
        expect=Exit.PASS,
    ),
    Finding(
        id="R3",
        claim="WAIT does not make a strongly consistent store",
        source="Redis, WAIT: Consistency and WAIT",
        command=run(
            "redis-sentinel",
            "register",
            "partition",
            *options("wait=3", "shape=leader"),
            *_STOP,
        ),
        expect=Exit.FAIL,
        anomalies=("nonlinearizable",),
        control="R3-control",
    ),
    Finding(
        id="R3-control",
        claim="without a fault it is one register",
        source="Redis, WAIT",
        command=run("redis-sentinel", "register", "none", *options("wait=3"), *_STOP),
        expect=Exit.PASS,
    ),
    *pair(
        Finding(
            id="R4",
            claim="a partition of a primary loses writes that were acknowledged",
            source="Redis Cluster specification, Write safety",
            command=run("redis-cluster", "set", "partition", *_SHORT),
            expect=Exit.FAIL,
            anomalies=("lost",),
            beside=("stale",),
        ),
        "partition",
        "none",
        claim="without a fault nothing is lost",
        source="Redis Cluster specification",
    ),
    *pair(
        Finding(
            id="R-fsync",
            claim="with appendfsync=no a power cut of all loses what was acknowledged",
            source="Redis, Persistence: How durable is the append only file?",
            command=run(
                "redis-sentinel", "set", "power", *options("appendfsync=no", "scope=all"), *_SHORT
            ),
            expect=Exit.FAIL,
            anomalies=("lost",),
        ),
        "power",
        "kill",
        id="R-kill",
        claim="a kill of all loses nothing: the operating system still writes what it was given",
        source="Redis, Persistence: How durable is the append only file?",
    ),
    Finding(
        id="C-1-append",
        claim="transactions that compare all keys they write are strictly serializable",
        source="Jepsen, etcd 3.4.3 (2020)",
        command=run("etcd", "list-append", "partition,kill", *_STOP),
        expect=Exit.PASS,
    ),
    Finding(
        id="T1",
        claim="readers see synchronous writes that are rolled back later",
        source="Tarantool, Synchronous replication; memtx_use_mvcc_engine came with 2.6.1",
        command=run("tarantool", "register", "none", *options("replication=synchronous"), *_STOP),
        expect=Exit.FAIL,
        anomalies=("nonlinearizable",),
        control="T1-control",
    ),
    Finding(
        id="T1-control",
        claim="a single member, which waits for nobody, is one register (and is no cluster)",
        source="Tarantool, Synchronous replication",
        command=run(
            "tarantool",
            "register",
            "none",
            *options("replication=synchronous", "members=1"),
            *_STOP,
        ),
        expect=Exit.NOT_PROVEN,
        short_of=_ONE_MEMBER,
    ),
    *pair(
        Finding(
            id="T-fsync",
            claim="with wal_mode=write a power cut loses what was acknowledged",
            source="Tarantool, wal_mode",
            command=run("tarantool", "set", "power", *options("wal_mode=write", *_ALONE), *_SHORT),
            expect=Exit.FAIL,
            anomalies=("lost",),
        ),
        "wal_mode=write",
        "wal_mode=fsync",
        id="T-power",
        claim="with wal_mode=fsync it survives (and one member is no cluster)",
        source="Tarantool, wal_mode",
        short_of=_ONE_MEMBER,
    ),
    *pair(
        Finding(
            id="K1",
            claim="a cache forgets: what was stored is lost with its server",
            source="memcached, Protocol",
            command=run("memcached", "register", "kill", *_STOP),
            expect=Exit.FAIL,
            anomalies=("nonlinearizable",),
        ),
        "kill",
        "none",
        claim="without a fault it keeps what it was given",
        source="memcached, Protocol",
    ),
    *pair(
        Finding(
            id="Z1",
            claim="a read without sync may be old",
            source="ZooKeeper Programmer's Guide, Consistency Guarantees",
            command=run("zookeeper", "register", "partition", *options("reads=local"), *_STOP),
            expect=Exit.FAIL,
            anomalies=("nonlinearizable",),
            by_fault=False,
        ),
        "reads=local",
        "reads=confirmed",
        claim="a read that a transaction has confirmed is not old",
        source="ZooKeeper Programmer's Guide, Consistency Guarantees",
    ),
    Finding(
        id="C-6",
        claim="writes and conditional updates are linearizable, and reads that they confirm",
        source="ZooKeeper Programmer's Guide, Consistency Guarantees",
        command=run("zookeeper", "cas-register", "partition", *options("reads=confirmed"), *_SHORT),
        expect=Exit.PASS,
    ),
    *pair(
        Finding(
            id="E1",
            claim="a lock that is bound to a lease is held by two at once",
            source="Jepsen, etcd 3.4.3 (2020); etcd#11457",
            command=run(
                "etcd",
                "critical-section",
                "pause",
                *options("lock_ttl_s=2", *_HELD),
                *_ASKING,
                *_SHORT,
            ),
            expect=Exit.FAIL,
            anomalies=("overlapping-holds",),
        ),
        "lock_ttl_s=2",
        "lock_ttl_s=0",
        claim="a lock that does not expire is held by one",
        source="etcd API guarantees",
    ),
    Finding(
        id="E5",
        claim="a member that is killed in a compaction gives the numbers of changes again",
        source="etcd#17780",
        command=run(
            "etcd",
            "revisions",
            "aimed",
            *_AT_COMMIT,
            *_SLOWLY,
            "--stop-on-violation",
        ),
        expect=Exit.FAIL,
        anomalies=("duplicated", "nonmonotonic"),
        control="E5-control",
    ),
    Finding(
        id="E5-control",
        claim="killed at any other moment it does not",
        source="etcd#17780",
        command=run("etcd", "revisions", "kill", *options(*_COMPACTS), *_SLOWLY),
        expect=Exit.PASS,
    ),
    Finding(
        id="E5-fixed",
        claim="nor does a version in which it is mended, killed at that point",
        source="etcd#17780, fixed before 3.5.16",
        command=run(
            "etcd",
            "revisions",
            "aimed",
            *_AT_COMMIT,
            *_SLOWLY,
            *("--system-version", "debian:trixie"),
        ),
        expect=Exit.PASS,
    ),
    *pair(
        Finding(
            id="E2",
            claim="serializable reads may be old",
            source="etcd API guarantees",
            command=run("etcd", "register", "partition", *options("reads=serializable"), *_STOP),
            expect=Exit.FAIL,
            anomalies=("nonlinearizable",),
            by_fault=False,
        ),
        "reads=serializable",
        "reads=linearizable",
        claim="reads by default are not old",
        source="etcd API guarantees",
    ),
    Finding(
        id="E4",
        claim="a watch goes back in time when its member gets a snapshot",
        source="etcd#15271, fixed in 3.4.25",
        command=run(
            "etcd",
            "watch",
            "partition",
            *options("snapshot_count=200", "shape=one", "fault_s=15"),
            *_STOP,
        ),
        expect=Exit.FAIL,
        anomalies=("unordered-event", "resumed-too-early", "duplicated-event"),
        control="E4-control",
    ),
    Finding(
        id="E4-control",
        claim="where no member needs a snapshot a watch is in order",
        source="etcd API guarantees: Watch APIs",
        command=run("etcd", "watch", "partition", *options("shape=one", "fault_s=15"), *_STOP),
        expect=Exit.PASS,
    ),
    Finding(
        id="C-1",
        claim="keys and values are strictly serializable",
        source="Jepsen, etcd 3.4.3 (2020)",
        command=run("etcd", "register", "partition,kill", *_STOP),
        expect=Exit.PASS,
    ),
    Finding(
        id="C-4",
        claim="a single member loses nothing when it is killed (and one member is no cluster)",
        source="etcd#14370, fixed in 3.4.21",
        command=run("etcd", "set", "kill", *options("members=1"), *_SHORT),
        expect=Exit.NOT_PROVEN,
        short_of=_ONE_MEMBER,
    ),
    Finding(
        id="E-fsync",
        claim="with --unsafe-no-fsync a power cut of all loses what was acknowledged",
        source="etcd, Configuration options: --unsafe-no-fsync",
        command=run("etcd", "set", "power", *options("unsafe_no_fsync=true", *_RECENT), *_SHORT),
        expect=Exit.FAIL,
        anomalies=("lost",),
        control="E-power",
    ),
    Finding(
        id="E-power",
        claim="what was acknowledged survives a power cut of all",
        source="etcd API guarantees, Durability",
        command=run("etcd", "set", "power", *options(*_RECENT), *_SHORT),
        expect=Exit.PASS,
    ),
)
