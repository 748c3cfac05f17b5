"""`Server`: one process of toykv, the same on a node and in a simulation.

With `bootstrap` and no data the servers that `cluster` names are the members, all of them. Without
it a server on no data asks them to be let in as a new member.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import zlib
from collections.abc import Callable
from typing import Any

from clusters.systems.toykv.agents.around import Around
from clusters.systems.toykv.agents.consensus import Consensus
from clusters.systems.toykv.agents.disk import Disk, Entry
from clusters.systems.toykv.agents.front import Front
from clusters.systems.toykv.agents.machine import Answer
from clusters.systems.toykv.agents.wire import Connection

__all__ = ["Server", "first_id"]

AGAIN_S = 0.2
JOIN_S = 3.0


class Audit:
    """A line of JSON for each command that has been applied, if one is wanted."""

    def __init__(self, write: Callable[[str], object] | None) -> None:
        self._write = write

    def applied(self, index: int, entry: Entry, answer: Answer, replayed: bool) -> None:
        """Write what a command did."""
        if self._write is None:
            return
        term, stamp, command = entry
        row = {
            "index": index,
            "term": term,
            "stamp_ns": stamp,
            "replayed": replayed,
            "client": command.get("client"),
            "request": command.get("request"),
            "id": command.get("id"),
            "op": command["op"],
            "key": command.get("key"),
            "value": command.get("value"),
            "result": answer,
        }
        self._write(json.dumps(row, separators=(",", ":")))


def first_id(name: str) -> int:
    """The id of a member that was there from the beginning."""
    return zlib.crc32(name.encode())


class Server:
    """One process. `votes`: where it joins, it is to be a voter at once."""

    def __init__(self, given: argparse.Namespace, around: Around, votes: bool = True) -> None:
        self._given = given
        self._around = around
        self._cluster = dict(part.split("=", 1) for part in given.cluster.split(","))
        self._disk = Disk(around, given.bug)
        self._fresh = self._disk.fresh
        if self._fresh:
            self._begin_anew()
        self._votes = votes
        self._audit = Audit(around.audit)
        self._server = Consensus(self._disk, around, given.name, given.bug, self._audit.applied)
        self._front = Front(self._server)

    def _begin_anew(self) -> None:
        if self._given.bootstrap:
            members = [[first_id(n), n, a, True] for n, a in sorted(self._cluster.items())]
            self._disk.append((0, 0, {"op": "config", "value": members}))
            self._disk.save_meta(id=first_id(self._given.name))
        else:
            self._disk.save_meta(id=1 << 32 | self._around.numbers.getrandbits(32))

    def status(self) -> dict[str, Any]:
        """What it answers when it is asked for its status."""
        return self._front.status()

    async def run(self) -> None:
        """Until the signal to end."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, ended.set)
        self._server.run()
        mine, (_, peer_port) = self._given, self._here()
        peers, clients = self._front.from_server, self._front.from_client
        host = mine.address
        await loop.create_server(lambda: Connection(peers), host, int(peer_port))
        await loop.create_server(lambda: Connection(clients), host, mine.client_port)
        self._around.say(f"serves as {self._server.id} with {self._disk.last} entries")
        self._server.start(self._announce())
        await ended.wait()
        self._around.say("shuts down")

    def _here(self) -> tuple[str, str]:
        host, _, port = self._cluster[self._given.name].rpartition(":")
        return host, port

    def _served(self) -> bool:
        """Is this server a member, with a vote unless it was to join without?"""
        return any(m[0] == self._server.id and m[3] for m in self._server.members)

    async def _announce(self) -> None:
        """Ask to be a member, or tell the others that this one is back, and where."""
        if self._fresh and self._given.bootstrap:
            return
        name = self._given.name
        ask = {"op": "join", "value": [self._server.id, name, self._cluster[name], self._votes]}
        told = False
        while not told or not self._served():
            answers = [await self._asked(to, ask) for to in sorted(self._cluster)]
            told = any("ok" in answer for answer in answers)
            await asyncio.sleep(AGAIN_S)

    async def _asked(self, to: str, ask: dict[str, Any]) -> Answer:
        if to == self._given.name:
            return {}
        try:
            peer = self._server.peer(self._cluster[to])
            return await peer.ask({"t": "do", "request": ask}, JOIN_S)
        except (OSError, TimeoutError):
            return {}
