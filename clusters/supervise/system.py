"""`SupervisedSystem`: what a system says of itself, as attributes, with the option `members` of
systems that run on some of the nodes; what supervised services may leave on a node; and what the
documentation of systems warns of, for whoever reads a failure of theirs.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from clusters.remote.agent_groups import STARTED
from clusters.supervise.attached import AttachedDeployment
from clusters.supervise.deployment import SupervisedDeployment
from clusters.supervise.member_set import GROUPS, HOME, PROGRAM
from clusters.supervise.ops import NOT_CONNECTED
from dstest.core import limits
from dstest.core.errors import ConfigError
from dstest.core.node import Node
from dstest.core.protocols import (
    Caution,
    Client,
    Deployment,
    Endpoint,
    EndpointKind,
    Option,
    System,
    SystemLogs,
)
from dstest.core.residue import Residue

__all__ = [
    "FROZEN",
    "SERVERS",
    "STRAYS",
    "STRAY_FILES",
    "foreign",
    "residues",
]

_LOOK: Final = f"[ ! -x {PROGRAM} ] || {PROGRAM} residue look"

STRAYS: Final = Residue(
    name="stray servers",
    mark="it is in the control group of a service whose main process has ended",
    look=f"{_LOOK} | sed -n 's/^stray server/ours stray server/p'",
    remove=f"[ ! -x {PROGRAM} ] || {PROGRAM} residue strays",
    rank=45,
)

SERVERS: Final = Residue(
    name="servers",
    mark="it is in the control group of a service of ours",
    look=f"{_LOOK} | sed -n 's/^server/ours server/; s/$/ of an earlier run/; /^ours/p'",
    remove=f"[ ! -x {PROGRAM} ] || {PROGRAM} residue all",
    rank=60,
    janitor=False,
    kept=True,
)

FROZEN: Final = Residue(
    name="frozen services",
    mark="the control group is that of a service of ours",
    look=f"[ ! -x {PROGRAM} ] || {PROGRAM} residue frozen",
    remove=f"[ ! -x {PROGRAM} ] || {PROGRAM} thaw",
    rank=5,
)

_FILES: Final = f"{HOME}/*/override.json {GROUPS} {HOME}/*.dstest.*"

STRAY_FILES: Final = Residue(
    name="service files",
    mark=f"it is in {HOME}, where nothing but ours is",
    look=f"for path in {_FILES}; do [ ! -e $path ] || echo ours file $path; done",
    remove=f"rm -f {_FILES}",
    rank=70,
)

MEMBERS: Final[Mapping[str, Option]] = {
    "members": Option(
        type=int,
        default=0,
        least=0,
        most=limits.NODES_MAX,
        help="how many nodes carry a member, the first ones; 0 = all of the lab",
    )
}

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
        power=True,
    ),
)

MARIADB: Final[tuple[Caution, ...]] = (
    Caution(
        says="REPEATABLE READ lets a transaction change a row that others have changed since "
        "it read it",
        source="MariaDB, innodb_snapshot_isolation",
        when={"isolation": ("repeatable-read",), "snapshot_isolation": (False,)},
        instead={"snapshot_isolation": True},
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
        instead={"sync_wait": 1},
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
        power=True,
    ),
)

POSTGRESQL: Final[tuple[Caution, ...]] = (
    Caution(
        says="a power cut may lose or damage what was acknowledged",
        source="PostgreSQL 15, 20.5 Write Ahead Log: fsync",
        when={"fsync": ("off",)},
        power=True,
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
        instead={"replication": "synchronous"},
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
        says="it replicates asynchronously: what was acknowledged may be lost in a failover, and "
        "less of it where a primary without replicas stops writing (min-replicas-to-write)",
        source="Redis, High availability with Redis Sentinel",
        instead={"min_replicas": 2},
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
        power=True,
        instead={"appendfsync": "always"},
    ),
    Caution(
        says="a power cut may lose what the operating system had not written yet",
        source="Redis, Persistence: How durable is the append only file?",
        when={"appendfsync": ("no",)},
        power=True,
    ),
)

TARANTOOL: Final[tuple[Caution, ...]] = (
    Caution(
        says="it replicates asynchronously: what was acknowledged may be lost with a member",
        source="Tarantool, Replication: Synchronous replication",
        when={"replication": ("asynchronous",)},
        instead={"replication": "synchronous"},
    ),
    Caution(
        says="without its transaction manager a reader sees what is not confirmed yet and may "
        "be rolled back",
        source="Tarantool, Transactions: memtx_use_mvcc_engine",
        when={"replication": ("synchronous",), "reads": ("local",)},
        instead={"reads": "confirmed"},
    ),
    Caution(
        says="it syncs nothing: a power cut may lose what was acknowledged",
        source="Tarantool, wal_mode",
        when={"wal_mode": ("none", "write")},
        power=True,
        instead={"wal_mode": "fsync"},
    ),
)


def foreign(ports: Sequence[int], home: str = "") -> Residue:
    """What others have put where a system's services go: listeners at its ports, mounts at `home`.

    A file system that a fault lays under the data is ours, and looked for by its own residue.
    """
    wanted = " or ".join(f"sport = :{port}" for port in ports)
    place = shlex.quote(home or "/nowhere")
    return Residue(
        name=f"place of ports {', '.join(map(str, ports))}",
        mark="none: this is about what others have put there",
        look=f"""\
while read -r source mount _; do
    case "$mount" in {place} | {place}/*) ;; *) continue ;; esac
    [ "$source" = faultfs ] || echo "foreign mount of $source at $mount"
done </proc/mounts
listing=$(ss -Hltnp "( {wanted} )") || exit 1
pids=$(echo "$listing" | grep -o 'pid=[0-9]*' | sort -u)
# Asked only where somebody listens: each node is asked this of every system there is.
[ -n "$pids" ] || exit 0
known=" $([ ! -x {PROGRAM} ] || {PROGRAM} residue look | sed 's/.*server \\([0-9]*\\) of.*/\\1/' |
    tr '\\n' ' ') "
echo "$pids" | while IFS== read -r _ pid; do
    case "$known" in
    *" $pid "*) ;;
    *) echo "foreign process $pid ($(cat /proc/$pid/comm)) at a port of the system" ;;
    esac
done
""",
        remove=":",
        janitor=False,
        others=True,
    )


def residues(ports: Sequence[int], home: str = "") -> tuple[Residue, ...]:
    """All of them, for a system with these ports that keeps its files below `home`."""
    return (FROZEN, STRAYS, SERVERS, STRAY_FILES, foreign(ports, home))


def first_members(nodes: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """The first nodes, as many as `-o members` says. Raises ConfigError where there are fewer."""
    wanted = options["members"] or len(nodes)
    if wanted > len(nodes):
        raise ConfigError(
            f"-o members={wanted}: there are {len(nodes)} nodes", remedy=f"--nodes {wanted}"
        )
    return list(nodes[:wanted])


UNSENT: Final = "ours: there was no connection, so nothing was sent"

Deployments = type[SupervisedDeployment] | type[AttachedDeployment]
MakesClient = Callable[[Endpoint, Sequence[Endpoint], Mapping[str, Any]], Client]


class SupervisedSystem(System):
    """Base of systems on `SupervisedDeployment`. `clients` are by the capability that they offer;
    `definite_errors` are the codes after which an operation had no effect, with their sources; what
    `not-connected` means need not be among them."""

    deployment: Deployments
    clients: Mapping[str, MakesClient] = {}
    definite_errors: Mapping[str, str] = {NOT_CONNECTED: UNSENT}
    logs = SystemLogs(start=STARTED)
    ports: tuple[int, ...] = ()
    """All that its services listen at; whoever else does is found before a run."""

    home: str = ""
    """All of its files are below this directory, if it has any."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls.definite_errors = {NOT_CONNECTED: UNSENT, **cls.definite_errors}
        cls.logs = msgspec.structs.replace(cls.logs, start=cls.logs.start or STARTED)

    @property
    def residues(self) -> tuple[Residue, ...]:  # type: ignore[override]
        """What it may leave on a node."""
        return residues(self.ports, self.home) if self.ports else ()

    @property
    def homes(self) -> tuple[str, ...]:  # type: ignore[override]
        """As `System.homes`."""
        return (self.home,) if self.home else ()

    @property
    def endpoint_kind(self) -> EndpointKind:  # type: ignore[override]
        """Of the deployment's endpoints."""
        return self.deployment.endpoint_kind

    @property
    def capabilities(self) -> frozenset[str]:  # type: ignore[override]
        """Of the clients."""
        return frozenset(self.clients)

    def members(self, nodes: Sequence[str], options: Mapping[str, Any]) -> list[str]:
        """The first ones, as many as `members_most` and `-o members` say."""
        few = nodes[: self.members_most]
        takes = self.options.get("members") is MEMBERS["members"]
        return first_members(few, options) if takes else list(few)

    def deploy(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> Deployment:
        return self.deployment(nodes, options)

    def client(
        self,
        capability: str,
        at: Endpoint,
        every: Sequence[Endpoint],
        options: Mapping[str, Any],
    ) -> Client:
        return self.clients[capability](at, every, options)
