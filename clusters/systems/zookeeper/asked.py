"""What a running ZooKeeper is asked, whoever has started it: sessions of its library, and the
command `srvr` of four letters, which each member answers for itself.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from clusters.supervise.member_set import MemberSet
from dstest.core.node import Node
from dstest.core.protocols import Leadership, LeaderView, Linked, Replication, Timing, Unit

PORT: Final = 2181


class Session:
    """A session of the library `kazoo`, which is not told to retry."""

    def __init__(self, address: str, port: int, wait_s: float) -> None:
        from kazoo.client import KazooClient

        self.client = KazooClient(
            hosts=f"{address}:{port}",
            timeout=wait_s,
            connection_retry={"max_tries": 0},
            command_retry={"max_tries": 0},
        )
        try:
            self.client.start(timeout=wait_s)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with suppress(Exception):
            self.client.stop()
            self.client.close()


class ZookeeperAsked(MemberSet, Linked, Leadership, Replication):
    """Base of deployments of ZooKeeper, ours and others'."""

    timing = Timing(start_s=60.0, failover_s=20.0, rejoin_s=20.0)
    replication_unit = Unit("transactions", 50)
    _leader: str | None = None

    def port_at(self, node: Node) -> int:
        """Where this member is asked."""
        return PORT

    async def _told(self, node: Node) -> dict[str, str]:
        """What a member says of itself; nothing where it is part of no quorum."""
        said = await self.text(node, self.port_at(node), b"srvr")
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
