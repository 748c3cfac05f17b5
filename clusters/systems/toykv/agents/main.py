"""The server of toykv: `python3 -m clusters.systems.toykv.agents.main --help`.

With `--bootstrap` and no data the servers that `--cluster` names are the members, all of them.
Without it a server on no data asks them to be let in as a new member.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import zlib
from pathlib import Path
from typing import Any, TextIO

from clusters.systems.toykv.agents.around import Around, RealFiles, lines_into
from clusters.systems.toykv.agents.consensus import Consensus
from clusters.systems.toykv.agents.disk import Disk, Entry
from clusters.systems.toykv.agents.front import Front
from clusters.systems.toykv.agents.machine import Answer
from clusters.systems.toykv.agents.wire import Connection

__all__ = ["Server", "main"]

AGAIN_S = 0.2
JOIN_S = 3.0


def opened(path: str) -> TextIO | None:
    """A file to append to, if one is wanted; by lines: what a server has done is to be in it when
    it is killed."""
    return open(path, "a", buffering=1) if path else None


class Audit:
    """A line of JSON for each command that has been applied, if a file is wanted."""

    def __init__(self, path: str) -> None:
        self._file = opened(path)

    def applied(self, index: int, entry: Entry, answer: Answer, replayed: bool) -> None:
        """Write what a command did."""
        if self._file is None:
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
        self._file.write(json.dumps(row, separators=(",", ":")) + "\n")


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
        self._audit = Audit(given.audit)
        self._server = Consensus(self._disk, around, given.name, given.bug, self._audit.applied)
        self._front = Front(self._server)

    def _begin_anew(self) -> None:
        if self._given.bootstrap:
            members = [[first_id(n), n, a, True] for n, a in sorted(self._cluster.items())]
            self._disk.append((0, 0, {"op": "config", "value": members}))
            self._disk.save_meta(id=first_id(self._given.name))
        else:
            self._disk.save_meta(id=1 << 32 | self._around.numbers.getrandbits(32))

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


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(prog="toykv")
    parser.add_argument("--name", required=True)
    parser.add_argument("--cluster", required=True, help="NAME=HOST:PEER_PORT,..")
    parser.add_argument("--address", required=True, help="where it listens")
    parser.add_argument("--client-port", type=int, required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--bootstrap", action="store_true")
    parser.add_argument("--join", default="", help="file that says how: voter or learner")
    parser.add_argument("--audit", default="", help="file for what was applied")
    parser.add_argument("--spans", default="", help="file for what was done for whom")
    parser.add_argument("--journal", default="", help="file for the steps of the protocol")
    parser.add_argument("--bug", default="none")
    given = parser.parse_args()
    around = Around(RealFiles(Path(given.data)))
    if (spans := opened(given.spans)) is not None:
        around.spans = lambda line: print(line, file=spans)
    if given.journal:
        around.keep = lines_into(given.journal)
    how = Path(given.join)
    votes = not how.is_file() or how.read_text() != "learner"
    asyncio.run(Server(given, around, votes).run())


if __name__ == "__main__":
    main()
