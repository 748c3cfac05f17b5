"""A NATS server with JetStream on each node, and the streams that all workloads use."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from clusters.supervise import Durable, FullMesh, http
from clusters.systems.nats.link import (
    HEALTH,
    JOBS,
    PORT,
    RECORDS,
    call,
    checked,
    connected,
    request,
)
from dstest.core.node import Node
from dstest.core.protocols import (
    Clocked,
    Ending,
    Leadership,
    LeaderView,
    LogWords,
    Probe,
    Replication,
    ServerTime,
    Service,
    Timing,
    Unit,
)

HOME: Final = "/opt/nats"
MONITOR: Final = 8222
ROUTES: Final = 6222
CONFIG: Final = f"""\
server_name: "{{name}}"
listen: "{{address}}:{PORT}"
http: "{{address}}:{MONITOR}"
ping_interval: "1s"
jetstream {{{{ store_dir: "{HOME}/data", max_memory_store: 64MB, max_file_store: 1GB }}}}
cluster {{{{ name: "dstest", listen: "{{address}}:{ROUTES}", routes: [{{routes}}] }}}}
"""
RETENTION: Final = {JOBS: "workqueue", RECORDS: "limits", HEALTH: "limits"}
MAKE_S: Final = 5.0


class NatsDeployment(FullMesh, Durable, Clocked, Leadership, Replication):
    """A server on each node."""

    timing = Timing(failover_s=20.0, rejoin_s=30.0)
    replication_unit = Unit("messages", 500)

    def services(self, node: Node) -> Sequence[Service]:
        routes = [f'"nats://{n.info.address}:{ROUTES}"' for n in self.nodes.values()]
        config = CONFIG.format(name=node.name, address=node.info.address, routes=", ".join(routes))
        return [
            Service(
                name="nats",
                argv=("nats-server", "-c", f"{HOME}/nats.conf"),
                data=(f"{HOME}/data",),
                files={f"{HOME}/nats.conf": config.encode()},
                log=f"{HOME}/nats.log",
                probe=Probe(PORT, b"", b"INFO "),
                ports={"client": PORT, "monitor": MONITOR, "peer": ROUTES},
                words=LogWords(shutdown=("Server Exiting..",)),
                ending=Ending(statuses=(1,)),
                stuck_after=("write",),
            )
        ]

    async def _page(self, node: Node, path: str) -> dict[str, Any]:
        """What the monitor of a server says."""
        found: dict[str, Any] = await http.page(node.info.address, MONITOR, path)
        return found

    async def arrange(self) -> None:
        """Make the streams; the first ones wait for a leader of all."""
        first = next(iter(self.nodes.values()))
        replicas = min(len(self.members), self.options["replicas"])
        for name, retention in RETENTION.items():
            given = {"subjects": [f"{name}.>"], "retention": retention, "num_replicas": replicas}
            await self.until(first, functools.partial(self._make, name, given), MAKE_S)

    async def _make(self, name: str, given: Mapping[str, Any], node: Node) -> Any:
        link = await connected(node.info.address, PORT, self.timing.answer_s)
        try:
            return await call(
                link, f"STREAM.CREATE.{name}", MAKE_S, name=name, storage="file", **given
            )
        finally:
            await link.close()

    async def _publishes(self, node: Node) -> bool:
        link = await connected(node.info.address, PORT, self.timing.answer_s)
        try:
            said = await request(link, f"{HEALTH}.{node.name}", b"", self.timing.answer_s)
            return "seq" in checked(json.loads(said.data))
        finally:
            await link.close()

    async def healthy(self) -> dict[str, bool]:
        """Does each server have all of its streams, and is a message taken that is sent to it?"""

        async def one(node: Node) -> bool:
            fine = await self._page(node, "/healthz")
            return fine.get("status") == "ok" and await self._publishes(node)

        return {name: bool(fine) for name, fine in (await self.answers(one)).items()}

    async def version(self) -> str:
        pages = await self.answers(lambda node: self._page(node, "/varz"))
        return ", ".join(sorted({page["version"] for page in pages.values() if page}))

    async def server_time(self, name: str) -> ServerTime | None:
        page = await self._page(self.nodes[name], "/varz")
        stamp, _, fraction = page["now"].rstrip("Z").partition(".")
        whole_s = int(datetime.fromisoformat(f"{stamp}+00:00").timestamp())
        return ServerTime(whole_s * 10**9 + int(fraction.ljust(9, "0")[:9] or 0), 1)

    async def _state(self, node: Node) -> dict[str, Any]:
        return await self._page(node, "/jsz?accounts=true&streams=true")

    async def leaders(self) -> list[LeaderView]:
        """Of the streams, and of all servers."""
        pages = await self.answers(self._state)
        return [view for name, page in pages.items() for view in _views(name, page)]

    async def claims(self, name: str, group: str) -> bool:
        views = _views(name, await self.answer(name, self._state))
        return any(view.leader == name and view.group == group for view in views)

    async def progress(self) -> dict[str, dict[str, int] | None]:
        pages = await self.answers(self._state)
        return {
            name: page and {s["name"]: int(s["state"]["last_seq"]) for s in _streams(page)}
            for name, page in pages.items()
        }


def _views(name: str, page: dict[str, Any] | None) -> list[LeaderView]:
    """Those of a member, by what its page says."""
    if page is None:
        return []
    groups = {"meta": page.get("meta_cluster") or {}}
    groups |= {s["name"]: s.get("cluster") or {} for s in _streams(page)}
    return [
        LeaderView(member=name, leader=row.get("leader") or None, group=group)
        for group, row in groups.items()
    ]


def _streams(page: dict[str, Any]) -> list[dict[str, Any]]:
    accounts = page.get("account_details") or []
    return [stream for account in accounts for stream in account.get("stream_detail") or []]
