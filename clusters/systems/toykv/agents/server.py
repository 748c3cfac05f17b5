"""`Server`: one process of toykv, the same on a node and in a simulation; and `Front`, its answers
to clients and other servers.

With `bootstrap` and no data the servers that `cluster` names are the members, all of them. Without
it a server on no data asks them to be let in as a new member.

A client sends a line `{"op", "key", "value"}`, with `id` where it may send the request again, and
gets `{"ok": result}`, `{"no": code}` where nothing was done, or `{"unknown": why}`. A member that
does not lead passes changes on to the leader, once, and reads its own state when the leader has
said which entry it must have applied.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import zlib
from collections.abc import Callable
from typing import Any

from clusters.systems.toykv.agents.consensus import ELECTION_S, TICK_S, Consensus
from clusters.systems.toykv.agents.leading import Deposed, Leading
from clusters.systems.toykv.agents.machine import COMMANDS, QUERIES, Answer
from clusters.systems.toykv.agents.storage import Around, Disk, Entry
from clusters.systems.toykv.agents.wire import Connection, NotSent, context_of

__all__ = [
    "Front",
    "Server",
    "first_id",
]

VERSION = "1.0"
OF_SERVERS = frozenset({"n", "by"})
"""What an answer between servers has besides."""

TICK_NS = TICK_S * 1e9
PATIENCE_S = 8.0
"""How long an answer of the leader may take: longer than clients wait."""

LEADER_S = 0.3
"""How long a request waits for a leader to be known, before it is refused."""

PAUSE_S = 0.05
"""Before a request is refused because the leader is gone: who asks again at once would take the
processor from those that elect another."""

SURE = 0.6
"""Share of a lease in which a server with the bug `lease-overlap-under-pause` asks nobody."""

AGAIN_S = 0.2
JOIN_S = 3.0


class Front:
    """Answers for one server."""

    def __init__(self, server: Consensus) -> None:
        self._server = server
        self._leases: dict[str, tuple[int, float]] = {}
        """Lock -> token, and the number of the tick until which it is sure to be held."""

    def from_client(self, link: Connection, message: dict[str, Any]) -> None:
        """One request, answered when it is done."""
        self._server.start(self._answer_client(link, message))

    def from_server(self, link: Connection, message: dict[str, Any]) -> None:
        """As `from_client`, with the number of the request in the answer."""
        self._server.start(self._answer_server(link, message))

    async def _answer_client(self, link: Connection, message: dict[str, Any]) -> None:
        asked, op = context_of(message), str(message.get("op"))
        with self._server.spans.span(op, "server", asked, key=message.get("key")) as span:
            answer = await self.answer(message)
            if "ok" not in answer:
                span.note(error=str(answer))
        link.send(answer)

    async def _answer_server(self, link: Connection, message: dict[str, Any]) -> None:
        journal = self._server.journal
        journal.heard(message.get("by"))
        with self._server.spans.span(message["t"], "server", context_of(message)):
            said = await self.answer_server(message)
        link.send({**said, "n": message["n"], "by": journal.stamp})

    async def answer_server(self, message: dict[str, Any]) -> dict[str, Any]:
        """What another server is told."""
        match message["t"]:
            case "append":
                return await self._server.on_append(message)
            case "vote":
                return self._server.on_vote(message)
            case "hello":
                return {}
            case "read":
                return await self._safely(self._read_index())
            case _:
                return await self.answer(message["request"], passed_on=True)

    async def answer(self, request: dict[str, Any], passed_on: bool = False) -> Answer:
        """What a request comes to. One that was passed on is not passed on again."""
        op = request.get("op")
        if op == "status":
            return {"ok": self.status()}
        if op in QUERIES:
            return await self._safely(self._read(request))
        if op in ("dump", "digest"):
            return await self._safely(self._own(request))
        if op in ("acquire", "renew") and self._server.bug == "lease-overlap-under-pause":
            return await self._leased(request, passed_on)
        if op in COMMANDS or op in ("generate", "join", "remove"):
            return await self._safely(self._change(request, passed_on))
        return {"no": "malformed"}

    async def _safely(self, work: Any) -> Answer:
        try:
            return await work  # type: ignore[no-any-return]
        except NotSent as error:
            await asyncio.sleep(PAUSE_S)
            return {"no": "no-leader", "why": str(error)}
        except (Deposed, OSError, TimeoutError) as error:
            return {"unknown": repr(error)}

    async def _leading(self) -> Leading | None:
        """What this server leads, if it does; waits for a moment where nobody is known to lead."""
        for _ in range(int(LEADER_S / 0.05)):
            if self._server.leading is not None or self._server.leader is not None:
                break
            await asyncio.sleep(0.05)
        return self._server.leading

    async def _to_leader(self, message: dict[str, Any]) -> Answer:
        """What the leader answers. Raises as `Peer.ask`."""
        leader = self._server.leader
        peer = None if leader in (None, self._server.id) else self._server.peer_of(leader or 0)
        if peer is None:
            raise NotSent("no leader is known")
        return await peer.ask(message, PATIENCE_S)

    async def _change(self, request: dict[str, Any], passed_on: bool) -> Answer:
        leading = await self._leading()
        if leading is None and passed_on:
            return {"no": "no-leader"}
        if leading is None:
            said = await self._to_leader({"t": "do", "request": request})
            return {k: v for k, v in said.items() if k not in OF_SERVERS}
        if request["op"] in ("join", "remove"):
            return await leading.change(request)
        if request["op"] == "generate":
            return await leading.generate()
        with self._server.spans.span("commit", "internal") as span:
            return await leading.propose(request, span.context)

    async def _leased(self, request: dict[str, Any], passed_on: bool) -> Answer:
        """A lease that was got here is renewed at once, for as long as the ticks say that it cannot
        have ended: they stand still while the server does."""
        key, value, ticks = request["key"], request["value"], self._server.ticks
        changing = self._safely(self._change(request, passed_on))
        if request["op"] == "renew" and not passed_on:
            token, until = self._leases.get(key, (0, 0.0))
            if token == value[1] and ticks < until:
                self._leases[key] = token, ticks + value[0] * SURE / TICK_NS
                self._server.start(changing)
                return {"ok": None}
        answer = await changing
        if request["op"] == "acquire" and value is not None and answer.get("ok"):
            self._leases[key] = answer["ok"]["token"], ticks + value * SURE / TICK_NS
        return answer

    async def _read_index(self) -> Answer:
        leading = await self._leading()
        if leading is None:
            return {"no": "no-leader"}
        return {"index": await self._confirmed(leading)}

    async def _confirmed(self, leading: Leading) -> int:
        with self._server.spans.span("confirm", "internal") as span:
            return await leading.confirm(span.context)

    async def _barrier(self) -> Answer | None:
        """Returns when the state has all that was acknowledged before; or why it cannot."""
        leading = await self._leading()
        if leading is not None:
            said: Answer = {"index": await self._confirmed(leading)}
        else:
            said = await self._to_leader({"t": "read"})
        if "index" not in said:
            return {k: v for k, v in said.items() if k not in OF_SERVERS}
        async with asyncio.timeout(PATIENCE_S):
            with self._server.spans.span("wait until applied", "internal"):
                await self._server.wait_applied(said["index"])
        return None

    async def _read(self, request: dict[str, Any]) -> Answer:
        server = self._server
        if server.bug == "stale-follower-read" and server.now() - server.heard < ELECTION_S:
            return server.machine.query(request)
        return await self._barrier() or server.machine.query(request)

    async def _own(self, request: dict[str, Any]) -> Answer:
        """The state that this member itself has, with all that was acknowledged before."""
        if refused := await self._barrier():
            return refused
        if request["op"] == "digest":
            return {"ok": self._server.machine.digest()}
        return self._server.machine.query({**request, "op": "balances"})

    def status(self) -> dict[str, Any]:
        """What this server says of itself, without the others."""
        server = self._server
        return {
            "version": VERSION,
            "id": server.id,
            "name": server.name,
            "term": server.term,
            "leads": server.leading is not None,
            "leader": server.leader,
            "commit": server.commit,
            "applied": server.applied,
            "last": server.disk.last,
            "members": server.members,
            "wall_ns": server.around.wall_ns(),
        }


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
