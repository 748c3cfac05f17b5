"""Directed probes: which node's datagrams arrive at which node, right now.

Each node sends a few UDP datagrams to every peer over both address families, and each receiver
counts them by source. A path's result is the number that arrived over its worse family, so an
IPv4-only cut shows as a path that is still half open. Unlike a ping, a datagram needs no way back:
the two directions are told apart.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from typing import Final

from dstest.core import clock
from dstest.core.errors import RemoteError
from dstest.core.limits import PROBE_UDP_PORT
from dstest.core.node import Node
from nemeses.grudges import Path

__all__ = ["PROBES", "Reach", "listen", "probe"]

PROBES: Final = 3
"""Datagrams per path, family and round: one lost to chance must not decide."""

_SETTLE_S: Final = 0.05
_PORT_WAIT_S: Final = 25.0

Reach = dict[Path, tuple[int, int]]
"""Path -> datagrams that arrived over (IPv4, IPv6); -1 where the path has no such family."""


async def listen(nodes: Sequence[Node]) -> None:
    """Let every node's agent count probe datagrams.

    The agent of a connection that was cut off holds the port until the node's sshd notices, which
    takes about ten seconds.
    """

    async def one(node: Node) -> None:
        deadline_ns = clock.monotonic_ns() + int(_PORT_WAIT_S * 1e9)
        while True:
            try:
                await node.call("probe_listen", port=PROBE_UDP_PORT)
                return
            except RemoteError as error:
                if error.status != errno.EADDRINUSE or clock.monotonic_ns() > deadline_ns:
                    raise
            await asyncio.sleep(0.5)

    await asyncio.gather(*map(one, nodes))


async def probe(
    nodes: Sequence[Node], token: str, *, count: int = PROBES, spacing_ms: int = 1
) -> Reach:
    """Send `count` datagrams between all pairs and count what arrived. `token` must be new."""

    async def send(node: Node) -> None:
        targets = [
            address
            for peer in nodes
            if peer.name != node.name
            for address in (peer.info.address, peer.info.address6)
            if address
        ]
        await node.call(
            "probe_send",
            targets=targets,
            port=PROBE_UDP_PORT,
            token=token,
            count=count,
            spacing_ms=spacing_ms,
        )

    await asyncio.gather(*map(send, nodes))
    await asyncio.sleep(_SETTLE_S)
    counts = await asyncio.gather(*(n.call("probe_counts", token=token) for n in nodes))
    reach: Reach = {}
    for destination, seen in zip(nodes, counts, strict=True):
        for source in nodes:
            if source.name != destination.name:
                v6 = source.info.address6
                reach[source.name, destination.name] = (
                    int(seen.get(source.info.address, 0)),
                    int(seen.get(v6, 0)) if v6 else -1,
                )
    return reach
