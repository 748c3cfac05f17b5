"""An ensemble: its members, their leader and how far each has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clusters.supervise import Durable
from dstest.core.node import Node
from dstest.core.protocols import (
    Ending,
    Leadership,
    LeaderView,
    Linked,
    Probe,
    Replication,
    Service,
    Timing,
    Unit,
)

HOME: Final = "/opt/zookeeper"
PORT: Final = 2181
JAVA: Final = ("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLASSES: Final = "/etc/zookeeper/conf:/usr/share/java/*"
MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
CONFIG: Final = f"""\
tickTime=500
initLimit=20
syncLimit=8
dataDir={HOME}/data
clientPort={PORT}
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
"""


class ZookeeperDeployment(Durable, Linked, Leadership, Replication):
    """A member on each node."""

    timing = Timing(start_s=60.0, failover_s=20.0, rejoin_s=20.0)
    replication_unit = Unit("transactions", 50)
    _leader: str | None = None

    def services(self, node: Node) -> Sequence[Service]:
        ids = {name: i for i, name in enumerate(self.nodes, 1)}
        peers = [
            f"server.{ids[name]}={peer.info.address}:2888:3888" for name, peer in self.nodes.items()
        ]
        data, config = f"{HOME}/data", f"{HOME}/zoo.cfg"
        return [
            Service(
                name="zookeeper",
                argv=(*JAVA, "-cp", CLASSES, MAIN, config),
                data=(data,),
                files={
                    config: (CONFIG + "\n".join(peers) + "\n").encode(),
                    f"{data}/myid": f"{ids[node.name]}\n".encode(),
                },
                log=f"{HOME}/log",
                probe=Probe(PORT, b"ruok", b"imok"),
                ports={"peer": 3888},
                # What a Java machine says that has run its hooks on SIGTERM.
                ending=Ending(statuses=(143,)),
            )
        ]

    async def _told(self, node: Node) -> dict[str, str]:
        """What a member says of itself; nothing where it is part of no quorum."""
        said = await self.text(node, PORT, b"srvr")
        rows = (line.partition(": ") for line in said.splitlines())
        return {name: value for name, _, value in rows}

    async def _srvr(self) -> dict[str, dict[str, str]]:
        """What each member says of itself."""
        found = {name: row or {} for name, row in (await self.answers(self._told)).items()}
        led = [name for name, row in found.items() if row.get("Mode") == "leader"]
        self._leader = led[0] if len(led) == 1 else self._leader
        return found

    def links(self) -> list[tuple[str, str]] | None:
        """The leader and each of the others, as last seen: followers have nothing to say to each
        other until they elect."""
        others = [name for name in self.members if name != self._leader]
        if self._leader is None:
            return None
        return [pair for n in others for pair in ((self._leader, n), (n, self._leader))]

    async def healthy(self) -> dict[str, bool]:
        """Is each member part of the quorum?"""
        return {name: "Mode" in row for name, row in (await self._srvr()).items()}

    async def version(self) -> str:
        rows = (await self._srvr()).values()
        told = (r["Zookeeper version"] for r in rows if "Zookeeper version" in r)
        return ", ".join(sorted({text.split("-")[0] for text in told}))

    async def leaders(self) -> list[LeaderView]:
        return [
            LeaderView(
                member=name,
                leader=name if row["Mode"] == "leader" else None,
                epoch=int(row["Zxid"], 16) >> 32,
                tells=row["Mode"] == "leader",
            )
            for name, row in (await self._srvr()).items()
            if "Mode" in row and "Zxid" in row
        ]

    async def claims(self, name: str, group: str) -> bool:
        row = await self.answer(name, self._told) or {}
        return row.get("Mode") == "leader"

    async def progress(self) -> dict[str, dict[str, int] | None]:
        rows = await self._srvr()
        return {
            n: {"": int(r["Zxid"], 16) & 0xFFFFFFFF} if "Zxid" in r else None
            for n, r in rows.items()
        }
