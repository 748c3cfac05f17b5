"""PostgreSQL with Patroni: a primary with streaming standbys, and failover by a lock in etcd.

Replication is asynchronous, as it comes: what a primary has acknowledged and not passed on is lost
when another one takes over (Patroni, Replication modes). Clients ask the Patroni of their node for
the primary.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.sql import clients_on
from clusters.supervise import FullMesh, wire
from clusters.supervise.log_lines import PATRONI_LINES, POSTGRESQL_LINES, AnyOf
from clusters.supervise.system import PATRONI
from clusters.systems.etcd.system import READER as ETCD_LINES
from clusters.systems.etcd.system import Etcd
from clusters.systems.postgresql import (
    CONNECTIONS_MAX,
    OPTIONS,
    PORT,
    Postgresql,
    PostgresqlClient,
    programs,
)
from clusters.systems.postgresql_standby import CUT_OFF, Streaming
from clusters.systems.postgresql_wire import connect
from dstest.core.node import Node
from dstest.core.protocols import (
    Ending,
    Endpoint,
    Leadership,
    LeaderView,
    LogWords,
    Option,
    Probe,
    Service,
    Store,
    SystemLogs,
    Timing,
)

HOME: Final = "/opt/patroni"
REST: Final = 8008
STORE: Final = 2379
STORE_PEERS: Final = 2380
TTL_S: Final = 20
STORED: Final = f"{HOME}/data/etcd"
KEPT: Final = f"{HOME}/data/postgresql"
UNREACHED: Final = (
    "No more machines in the cluster",
    "DCS is not accessible",
    "ERROR: get_cluster",
)
ANYBODY: Final = ("host all all all trust", "host replication all all trust")


class PatroniDeployment(Streaming, FullMesh, Leadership):
    """A database with its Patroni on each node, and beside them the store of the lock."""

    timing = Timing(
        start_s=120.0, answer_s=2.0, failover_s=2.0 * TTL_S, rejoin_s=60.0, restart_s=60.0
    )
    endpoint_kind = "seed"
    endpoint_service = "patroni"

    def _store(self, node: Node) -> Service:
        peers = [f"{n.name}=http://{n.info.address}:{STORE_PEERS}" for n in self.nodes.values()]
        own = f"http://{node.info.address}"
        clients = f"{own}:{STORE}"
        words = {
            "name": node.name,
            "data-dir": STORED,
            "listen-peer-urls": f"{own}:{STORE_PEERS}",
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "initial-advertise-peer-urls": f"{own}:{STORE_PEERS}",
            "initial-cluster": ",".join(peers),
            "logger": "zap",
        }
        return Service(
            name="etcd",
            argv=(
                "etcd",
                *(word for name, value in words.items() for word in (f"--{name}", value)),
            ),
            data=(STORED,),
            log=f"{HOME}/etcd.log",
            probe=Probe(STORE, wire.get("/version"), b"HTTP/1."),
            ports={"peer": STORE_PEERS},
        )

    def _config(self, node: Node) -> dict[str, Any]:
        address = node.info.address
        wait = self.options["replication"]
        stores = [f"{other.info.address}:{STORE}" for other in self.nodes.values()]
        users = {"superuser": "postgres", "replication": "replicator", "rewind": "rewinder"}
        own = ("port", "listen_addresses", "max_connections")
        settings = {n: value for n, value in self.settings(node).items() if n not in own}
        return {
            "scope": "dstest",
            "name": node.name,
            "restapi": {"listen": f"{address}:{REST}", "connect_address": f"{address}:{REST}"},
            "etcd3": {"hosts": stores},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL_S,
                    "loop_wait": 2,
                    "retry_timeout": 5,
                    "synchronous_mode": wait != "asynchronous",
                    "synchronous_mode_strict": wait == "strict",
                    "postgresql": {
                        "use_pg_rewind": True,
                        "parameters": {"max_connections": CONNECTIONS_MAX},
                    },
                },
                "initdb": ["data-checksums", {"encoding": "UTF8"}, {"auth": "trust"}],
            },
            "postgresql": {
                "listen": f"{address},127.0.0.1:{PORT}",
                "connect_address": f"{address}:{PORT}",
                "data_dir": f"{KEPT}/db",
                "bin_dir": programs(self.options),
                "pgpass": f"{HOME}/pgpass",
                "pg_hba": list(ANYBODY),
                "authentication": {
                    role: {"username": user, "password": "dstest"} for role, user in users.items()
                },
                "parameters": settings,
            },
        }

    def services(self, node: Node) -> Sequence[Service]:
        config = f"{HOME}/patroni.yml"
        patroni = Service(
            name="patroni",
            argv=("patroni", config),
            user="postgres",
            cwd=HOME,
            directories=(HOME,),
            data=(KEPT,),
            files={config: json.dumps(self._config(node), indent=1).encode()},
            log=f"{HOME}/patroni.log",
            after=("etcd",),
            probe=Probe(REST, wire.get("/liveness"), b"HTTP/1."),
            ports={"client": PORT},
            words=LogWords(shutdown=("database system is shut down",)),
            ending=Ending(statuses=(0,)),
        )
        return [self._store(node), patroni]

    def store(self) -> Store:
        return Store(port=STORE, service="patroni", errors=UNREACHED)

    async def store_seen(self) -> dict[str, int | None]:
        return await self.answers(self._seen)

    async def _seen(self, node: Node) -> int:
        return int((await wire.page(node.info.address, REST, "/patroni"))["dcs_last_seen"])

    async def _cluster(self, node: Node) -> dict[str, dict[str, Any]]:
        """What the Patroni of a node knows of all."""
        rows = (await wire.page(node.info.address, REST, "/cluster"))["members"]
        return {row["name"]: row for row in rows}

    async def leaders(self) -> list[LeaderView]:
        """As each Patroni knows them; the epoch is the timeline."""
        found = []
        for name, rows in (await self.answers(self._cluster)).items():
            if rows is None:
                continue
            led = [row for row in rows.values() if row["role"] in ("leader", "standby_leader")]
            leader = led[0]["name"] if led else None
            epoch = led[0].get("timeline") if led else None
            found.append(LeaderView(member=name, leader=leader, epoch=epoch))
        return found

    async def _primaries(self) -> list[str]:
        """Those whose Patroni says that they run as one."""
        return [name for name, is_one in (await self.answers(self._is_primary)).items() if is_one]

    async def _is_primary(self, node: Node) -> bool:
        status, _ = await wire.fetched(node.info.address, REST, "/primary")
        return status == 200

    async def claims(self, name: str, group: str) -> bool:
        return bool(await self.answer(name, self._is_primary))

    async def writer(self) -> Node:
        views = [view.leader for view in await self.leaders() if view.leader]
        if not views:
            raise OSError("there is no primary yet")
        return self.nodes[views[0]]

    async def healthy(self) -> dict[str, bool]:
        return await self.serving(await self._primaries())


class PatroniClient(PostgresqlClient):
    """At the primary that the Patroni of the node names, asked anew after each broken connection
    and where it has been demoted; a server that is none is refused."""

    async def connect(self, to: Endpoint) -> Any:
        rows = (await wire.page(to.address, REST, "/cluster"))["members"]
        address, port = next(
            (row["host"], int(row["port"])) for row in rows if row["role"] == "leader"
        )
        self.seen = self.node_at(address)
        isolation = self.options["isolation"]
        return await connect(self.dial(address), port, self.wait_s, isolation, "primary")


class Patroni(Postgresql):
    name = "patroni"
    doc = (
        "PostgreSQL 15 from Debian with Patroni on etcd: asynchronous standbys, failover by a lock"
    )
    packages = ("patroni", "python3-etcd", "etcd-server", "postgresql-15")
    services = ("etcd", "patroni")
    deployment = PatroniDeployment
    members_most = None
    clients = clients_on(PatroniClient)
    options: Mapping[str, Option] = {
        **OPTIONS,
        "replication": Option(
            type=str,
            default="asynchronous",
            choices=("asynchronous", "synchronous", "strict"),
            help="synchronous: a commit waits for a standby while there is one; strict: always",
        ),
    }
    cautions = PATRONI
    logs = SystemLogs(
        alarms=(
            *Postgresql.logs.alarms,
            *Etcd.logs.alarms,
            # Mistakes of Patroni's own, whether it has handled them or not.
            *("AttributeError: ", "IndexError: ", "KeyError: ", "NameError: ", "TypeError: "),
        ),
        harmless=(
            *Postgresql.logs.harmless,
            *Etcd.logs.harmless,
            *CUT_OFF,
            "FATAL:  could not start WAL streaming",
            # Patroni may start a server twice at once; the lock lets one of the two live.
            'FATAL:  lock file "postmaster.pid" already exists',
            # Patroni tells all of an exception that it has handled; one that it has not ends it.
            "Traceback (most recent call last)",
            *(
                "psycopg2.OperationalError:",
                "urllib3.exceptions.",
                "etcd.Etcd",
                "patroni.dcs.etcd3.",
            ),
            "patroni.utils.Retry",
        ),
        reader=AnyOf(PATRONI_LINES, POSTGRESQL_LINES, ETCD_LINES),
    )
    ports = (PORT, REST, STORE, STORE_PEERS)
    home = HOME


SYSTEM = Patroni()
