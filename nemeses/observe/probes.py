"""Directed probes: which node's datagrams arrive at which node, right now.

Each node sends a few UDP datagrams to every peer over both address families, and each receiver
counts them by source. A path's result is the number that arrived over its worse family, so an
IPv4-only cut shows as a path that is still half open. Unlike a ping, a datagram needs no way back:
the two directions are told apart.

The datagrams are numbered, so `arrivals` tells what came twice or late. `round_trips` has its
datagrams answered: how long both ways take together, on clocks of one node each. `connects` opens
connections: whether that can be done is another question than whether datagrams arrive.
"""

from __future__ import annotations

import asyncio
import errno
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core import clock
from dstest.core.errors import RemoteError
from dstest.core.limits import PROBE_UDP_PORT
from dstest.core.node import Node

PROBES: Final = 3
"""Datagrams per path, family and round: one lost to chance must not decide."""

_SETTLE_S: Final = 0.05
_PORT_WAIT_S: Final = 25.0

Path = tuple[str, str]
"""From this node to that one."""

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


def _addresses(nodes: Sequence[Node], asker: Node) -> list[str]:
    """Every address of every other node."""
    return [
        address
        for peer in nodes
        if peer.name != asker.name
        for address in (peer.info.address, peer.info.address6)
        if address
    ]


async def _send(nodes: Sequence[Node], token: str, count: int, spacing_ms: int) -> None:
    async def send(node: Node) -> None:
        await node.call(
            "probe_send",
            targets=_addresses(nodes, node),
            port=PROBE_UDP_PORT,
            token=token,
            count=count,
            spacing_ms=spacing_ms,
        )

    await asyncio.gather(*map(send, nodes))


async def probe(
    nodes: Sequence[Node], token: str, *, count: int = PROBES, spacing_ms: int = 1
) -> Reach:
    """Send `count` datagrams between all pairs and count what arrived. `token` must be new."""
    await _send(nodes, token, count, spacing_ms)
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


class Arrivals(msgspec.Struct, frozen=True):
    """Datagrams of a burst over one path, both families together.

    `came` counts copies, `different` does not; `late` came after one that was sent after them.
    """

    sent: int
    came: int
    different: int
    late: int


async def arrivals(
    nodes: Sequence[Node], token: str, *, count: int, spacing_ms: int, settle_s: float
) -> dict[Path, Arrivals]:
    """Send `count` numbered datagrams between all pairs; what arrived `settle_s` after the last."""
    await _send(nodes, token, count, spacing_ms)
    await asyncio.sleep(settle_s)
    found = await asyncio.gather(*(n.call("probe_arrivals", token=token) for n in nodes))
    result = {}
    for destination, seen in zip(nodes, found, strict=True):
        for source in nodes:
            if source.name == destination.name:
                continue
            addresses = [a for a in (source.info.address, source.info.address6) if a]
            rows: list[Mapping[str, Any]] = [seen.get(a, {}) for a in addresses]
            result[source.name, destination.name] = Arrivals(
                count * len(addresses),
                *(sum(int(row.get(k, 0)) for row in rows) for k in ("came", "different", "late")),
            )
    return result


async def round_trips(
    nodes: Sequence[Node], token: str, *, count: int, spacing_ms: int, wait_s: float
) -> Reach:
    """(asker, answerer) -> median round trip in microseconds over (IPv4, IPv6).

    0 where less than half came back, -1 where the path has no such family.
    """

    async def ask(node: Node) -> Mapping[str, list[int]]:
        answer: Mapping[str, list[int]] = await node.call(
            "probe_round_trips",
            targets=_addresses(nodes, node),
            port=PROBE_UDP_PORT,
            token=f"{token}-{node.name}",
            count=count,
            spacing_ms=spacing_ms,
            wait_s=wait_s,
            timeout_s=5.0 + wait_s + count * spacing_ms / 1e3,
        )
        return answer

    def median(times: Sequence[int]) -> int:
        return max(1, round(statistics.median(times))) if 2 * len(times) >= count else 0

    found = await asyncio.gather(*map(ask, nodes))
    return {
        (asker.name, peer.name): (
            median(times.get(peer.info.address, [])),
            median(times.get(peer.info.address6, [])) if peer.info.address6 else -1,
        )
        for asker, times in zip(nodes, found, strict=True)
        for peer in nodes
        if peer.name != asker.name
    }


async def connects(nodes: Sequence[Node], *, wait_s: float) -> Reach:
    """(opener, listener) -> 1 where a connection was opened over (IPv4, IPv6), else 0.

    -1 where the path has no such family.
    """

    async def ask(node: Node) -> Mapping[str, str]:
        answer: Mapping[str, str] = await node.call(
            "probe_connect",
            targets=_addresses(nodes, node),
            port=PROBE_UDP_PORT,
            wait_s=wait_s,
            timeout_s=5.0 + wait_s,
        )
        return answer

    found = await asyncio.gather(*map(ask, nodes))
    return {
        (opener.name, peer.name): (
            int(problems[peer.info.address] == ""),
            int(problems[peer.info.address6] == "") if peer.info.address6 else -1,
        )
        for opener, problems in zip(nodes, found, strict=True)
        for peer in nodes
        if peer.name != opener.name
    }
