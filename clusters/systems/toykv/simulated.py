"""toykv in a simulation: the same servers and clients, on simulated hosts."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from clusters.systems.toykv.agents.around import Around
from clusters.systems.toykv.agents.server import Server
from clusters.systems.toykv.deployment import AGENTS, CLIENT_PORT, JOURNAL, PEER_PORT, SPANS
from clusters.systems.toykv.simulated_members import JOIN, LEARNER, SimulatedAdministration
from dstest.core.protocols import Simulable

__all__ = ["SIMULATED", "SimulatedToykv"]

ASK_S: Final = 1.0


class SimulatedToykv:
    """What a simulation asks for."""

    port = CLIENT_PORT
    left_out = frozenset({"audit"})
    administration = SimulatedAdministration
    modules = tuple(
        f"{AGENTS}.{name}"
        for name in (
            *("around", "consensus", "disk", "front", "journal", "leading", "machine"),
            *("membership", "server", "spans", "wire"),
        )
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
            spans=_kept(world, host, SPANS, options.get("spans")),
            keep=_kept(world, host, JOURNAL, options.get("journal")),
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


def _kept(world: Any, host: Any, file: str, wanted: Any) -> Callable[[str], None] | None:
    """Who takes lines of this file of a host; nobody where they are not asked for."""
    return partial(world.keep, host.name, file) if wanted == "yes" else None


SIMULATED: Final[Simulable] = SimulatedToykv()
