"""Requests on the wire, counted."""

from __future__ import annotations

from typing import Final

from clusters.supervise import FramedRequests

OWN: Final = frozenset({-11, 11, 100, 101, 105})
"""Types of requests that the library makes by itself: closing, pings, authentication, watches."""


class ZookeeperRequests(FramedRequests):
    """Requests of a session, without those of the library (ZooKeeper, zookeeper.jute)."""

    def frame(self, head: bytes, number: int) -> tuple[int, bool] | None:
        if len(head) < (4 if number == 0 else 12):
            return None
        length = int.from_bytes(head[:4], "big")
        if number == 0:
            return 4 + length, False
        return 4 + length, int.from_bytes(head[8:12], "big", signed=True) not in OWN
