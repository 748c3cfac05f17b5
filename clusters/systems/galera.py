"""MariaDB with Galera: every member takes writes, and each commit is certified by all.

A member serves reads of what it has applied; with `sync_wait` a transaction waits first until its
member has caught up. Without it, as it comes, reads may be old.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from clusters.sql import clients_on
from clusters.supervise import FullMesh
from clusters.supervise.system import GALERA
from clusters.systems.mariadb import (
    CODES,
    PORT,
    Mariadb,
    MariadbClient,
    MariadbDeployment,
    connect,
)
from dstest.core.node import Node
from dstest.core.protocols import Option, Replication, Timing, Unit

GROUP: Final = 4567
GOOD: Final = ["Primary", "Synced"]
STATE: Final = ("wsrep_cluster_status", "wsrep_local_state_comment", "wsrep_last_committed")
PROVIDER: Final = {
    "evs.keepalive_period": "PT0.5S",
    "evs.inactive_check_period": "PT0.5S",
    "evs.suspect_timeout": "PT2S",
    "evs.inactive_timeout": "PT4S",
    "evs.install_timeout": "PT4S",
    "gcache.size": "64M",
}
START: Final = """\
at=$(/usr/sbin/mariadbd "$@" --wsrep-recover 2>&1 | sed -n 's/.*Recovered position: *//p')
exec /usr/sbin/mariadbd "$@" ${at:+--wsrep-start-position="$at"}
"""


class GaleraDeployment(MariadbDeployment, FullMesh, Replication):
    """A member on each node. The first one begins the cluster, the others join one by one."""

    timing = Timing(start_s=90.0, answer_s=3.0, failover_s=20.0, rejoin_s=40.0, restart_s=60.0)
    replication_unit = Unit("transactions", 50)
    # A killed member asks its own log how far it came, as Debian's unit does: without a position
    # none of them could be a donor after all were killed.
    program = ("/bin/sh", "-c", START, "mariadbd")

    def settings(self, node: Node) -> dict[str, Any]:
        peers = ",".join(other.info.address for other in self.nodes.values())
        return {
            **super().settings(node),
            "binlog-format": "ROW",
            "innodb-autoinc-lock-mode": 2,
            "wsrep-on": "ON",
            "wsrep-provider": "/usr/lib/galera/libgalera_smm.so",
            "wsrep-provider-options": ";".join(f"{k}={v}" for k, v in PROVIDER.items()),
            "wsrep-cluster-name": "dstest",
            "wsrep-cluster-address": f"gcomm://{peers}",
            "wsrep-node-name": node.name,
            "wsrep-node-address": node.info.address,
            "wsrep-sst-method": "rsync",
            "wsrep-sync-wait": self.options["sync_wait"],
        }

    async def boot(self) -> None:
        """One after the other: two at once wait for the same donor."""
        first, *others = self.members
        await self.override(first, "mariadb", ["--wsrep-new-cluster"])
        await self._begun(first)
        await self.clear_override(first, "mariadb")
        for name in others:
            await self._begun(name)

    async def _begun(self, name: str) -> None:
        await self._start(self.nodes[name])
        await self.until(self.nodes[name], self._joined)

    async def _joined(self, node: Node) -> bool:
        state = await self._state(node)
        return [*map(state.get, STATE[:2])] == GOOD

    async def _state(self, node: Node) -> dict[str, str]:
        link = await connect(node.info.address, PORT, self.timing.answer_s)
        try:
            names = ", ".join(f"'{name}'" for name in STATE)
            rows = await link.rows(f"SHOW STATUS WHERE Variable_name IN ({names})")
            return {str(name): str(value) for name, value in rows}
        finally:
            await link.aclose()

    async def healthy(self) -> dict[str, bool]:
        """Is each member in step with the primary component, and does it write?"""
        states = await self.answers(self._state)
        good = {n for n, s in states.items() if s and [*map(s.get, STATE[:2])] == GOOD}
        return {name: writes and name in good for name, writes in (await super().healthy()).items()}

    async def progress(self) -> dict[str, dict[str, int] | None]:
        states = await self.answers(self._state)
        return {name: {"": int(s[STATE[2]])} if s else None for name, s in states.items()}


NOT_READY: Final = {
    "1047": "ER_UNKNOWN_COM_ERROR: WSREP has not yet prepared the node for application use",
}


class GaleraClient(MariadbClient):
    """A commit that a member refuses may have been ordered by the others before it lost them: what
    it says of a COMMIT, or of a statement that commits by itself, proves nothing."""

    codes = CODES | NOT_READY.keys()

    def refused(self, error: Exception) -> str | None:
        return None


class Galera(Mariadb):
    name = "galera"
    doc = "MariaDB 10.11 from Debian with Galera 4: every member takes writes"
    packages = ("galera-4", "mariadb-server", "rsync")
    deployment = GaleraDeployment
    members_most = None
    options: Mapping[str, Option] = {
        **Mariadb.options,
        "sync_wait": Option(
            type=int,
            default=0,
            least=0,
            most=15,
            help="wsrep_sync_wait: 0 as it comes, 1 reads wait for their member, 7 writes as well",
        ),
    }
    clients = clients_on(GaleraClient)
    definite_errors = {**Mariadb.definite_errors, **NOT_READY}
    cautions = GALERA
    logs = msgspec.structs.replace(
        Mariadb.logs,
        alarms=(
            *Mariadb.logs.alarms,
            "Inconsistency detected",
            "Inconsistent by consensus",
            # Of a vote on a write that failed on some members only.
            "is inconsistent with group",
        ),
    )
    ports = (*Mariadb.ports, GROUP, 4568, 4444)


SYSTEM = Galera()
