"""What members of a simulated toykv are asked, and how one is replaced by a new one at its host.

Whoever asks is on a host of its own, as the control host of nodes is: no fault cuts it off.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from clusters.systems.toykv.administration import AGAIN_S, Administration
from clusters.systems.toykv.deployment import CLIENT_PORT, ToykvDeployment
from dstest.core.errors import LabError
from dstest.core.protocols import Member

__all__ = ["JOIN", "LEARNER", "SimulatedAdministration"]

CONTROL: Final = "control"
"""The host of those who ask."""

JOIN: Final = "join"
REMOVED: Final = "removed"
"""What `Host.told` has: how to join, and which member is to go for good."""

LEARNER: Final = "learner"
REJOIN_S: Final = 25.5
"""As long as on nodes: three goes of eight and a half seconds."""


class SimulatedAdministration(Administration):
    """Of one world."""

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
