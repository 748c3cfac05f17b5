"""toykv in a simulation: the same servers and clients, on simulated hosts; what its members are
asked, and how one is replaced by a new one at its host."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from clusters.systems.toykv.agents.server import Server
from clusters.systems.toykv.agents.storage import Around
from clusters.systems.toykv.deployment import (
    AGAIN_S,
    AGENTS,
    CLIENT_PORT,
    JOURNAL,
    PEER_PORT,
    SPANS,
    Administration,
    ToykvDeployment,
)
from dstest.core.errors import LabError
from dstest.core.protocols import Member, Simulable

__all__ = [
    "JOIN",
    "LEARNER",
    "SIMULATED",
    "SimulatedAdministration",
    "SimulatedToykv",
]

CONTROL: Final = "control"
"""The host of those who ask."""

JOIN: Final = "join"
REMOVED: Final = "removed"
"""What `Host.told` has: how to join, and which member is to go for good."""

LEARNER: Final = "learner"
REJOIN_S: Final = 25.5
"""As long as on nodes: three goes of eight and a half seconds."""


class SimulatedAdministration(Administration):
    """Of one world.

    Whoever asks is on a host of its own, as the control host of nodes is: no fault cuts it off.
    """

    def __init__(self, world: Any) -> None:
        self._world = world
        self.members = {name: Member(name, ()) for name in world.hosts}
        self.last_errors = {}

    async def asked(self, name: str, op: str, **given: Any) -> Any:
        said = await self._world.beside(_answer(name, {"op": op, **given}), CONTROL)
        if "ok" in said:
            self.last_errors.pop(name, None)
            return said["ok"]
        self.last_errors[name] = f"{op}: {said}"
        return None

    async def remember(self, name: str, member: int) -> None:
        self._world.hosts[name].told[REMOVED] = str(member)

    async def end(self, name: str) -> None:
        self._world.kill(name)
        self._world.wipe(name)

    async def rejoin(self, name: str, *, learner: bool) -> None:
        """As `agents.rejoin` does it on a node."""
        try:
            async with asyncio.timeout(REJOIN_S):
                await self._removed(name)
                self._world.hosts[name].told[JOIN] = LEARNER if learner else "voter"
                self._world.start(name)
                await _until(lambda: self._votes(name))
        except TimeoutError:
            raise LabError(f"{name} does not join again: {self.last_errors}") from None

    async def _removed(self, name: str) -> None:
        """The member that is to go is none any more, and has left nothing."""
        told = self._world.hosts[name].told
        if REMOVED not in told:
            return
        self._world.kill(name)
        request = {"op": "remove", "value": int(told[REMOVED])}
        await _until(lambda: self._granted(name, request))
        self._world.wipe(name)
        del told[REMOVED]

    async def _granted(self, name: str, request: Mapping[str, Any]) -> bool:
        """Does one of the others do as it is asked?"""
        for other in (n for n in self.members if n != name):
            if "ok" in await self._world.beside(_answer(other, request), CONTROL):
                return True
        return False

    async def _votes(self, name: str) -> bool:
        """Is this host's server a member that votes, by the word of all that answer?"""
        files = self._world.hosts[name].files
        mine = json.loads(files.read("meta"))["id"] if files.exists("meta") else 0
        rows = [said["members"] for said in (await self.statuses()).values() if said]
        return bool(rows) and all(any(m[0] == mine and m[3] for m in members) for members in rows)


async def _until(done: Callable[[], Awaitable[bool]]) -> None:
    while True:
        if await done():
            return
        await asyncio.sleep(AGAIN_S)


async def _answer(name: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """What a server answers; why it does not where it does not."""
    try:
        async with asyncio.timeout(ToykvDeployment.timing.answer_s):
            reader, writer = await asyncio.open_connection(name, CLIENT_PORT)
            try:
                writer.write(json.dumps(request).encode() + b"\n")
                found: dict[str, Any] = json.loads(await reader.readuntil(b"\n"))
                return found
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
        return {"silent": repr(error)}


ASK_S: Final = 1.0


class SimulatedToykv:
    """What a simulation asks for."""

    port = CLIENT_PORT
    left_out = frozenset({"audit"})
    administration = SimulatedAdministration
    modules = tuple(
        f"{AGENTS}.{name}"
        for name in ("consensus", "leading", "machine", "server", "storage", "wire")
    )

    def main(self, world: Any, host: Any, options: Mapping[str, Any]) -> Any:
        """The server of a host. Its first start makes the cluster; one on wiped files joins."""
        process = host.process
        given = argparse.Namespace(
            name=host.name,
            cluster=",".join(f"{name}={name}:{PEER_PORT}" for name in world.hosts),
            address=host.name,
            client_port=CLIENT_PORT,
            bootstrap=host.starts == 1,
            bug=options.get("bug", "none"),
        )
        around = Around(
            files=host.files,
            numbers=host.numbers,
            die=lambda code: world.die(process, f"ended with {code}"),
            now_s=world.loop.time,
            wall_ns=lambda: world.loop.time_ns,
            write=lambda text: world.log.say(f"{host.name}: {text.rstrip()}"),
            spans=_lines_of(world, host, SPANS, options.get("spans")),
            keep=_lines_of(world, host, JOURNAL, options.get("journal")),
        )
        server = Server(given, around, votes=host.told.get(JOIN) != LEARNER)
        host.status = server.status
        return server.run()

    async def serves(self, world: Any) -> bool:
        """Does each of them read by the word of a majority?"""
        return all((await self.serving(world)).values())

    async def serving(self, world: Any) -> dict[str, bool]:
        """Which of them do?"""
        answers = await asyncio.gather(*(self._answers(name) for name in world.hosts))
        return dict(zip(world.hosts, answers, strict=True))

    async def _answers(self, name: str) -> bool:
        try:
            async with asyncio.timeout(ASK_S):
                reader, writer = await asyncio.open_connection(name, CLIENT_PORT)
                writer.write(b'{"op":"read","key":"-"}\n')
                said = json.loads(await reader.readuntil(b"\n"))
                writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
            return False
        return "ok" in said


def _lines_of(world: Any, host: Any, file: str, wanted: Any) -> Callable[[str], None] | None:
    """Who takes lines of this file of a host; nobody where they are not asked for."""
    return partial(world.keep, host.name, file) if wanted == "yes" else None


SIMULATED: Final[Simulable] = SimulatedToykv()
