"""What a system offers to be simulated (`dstest.sim`)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from dstest.core.protocols.clients import Client
from dstest.core.protocols.services import Endpoint

__all__ = ["Simulable"]


@runtime_checkable
class Simulable(Protocol):
    """Its servers and clients, to be run on simulated hosts. `port` is where clients connect.
    `modules` are those of its servers: they are held to call nothing that cannot be simulated.

    A `world` has `hosts` by name, `loop`, `log` and `die`; a `host` has `name`, `process`, `files`
    and `numbers`, from which all that is random is drawn. `world.die(process, why)` is how a server
    ends itself: a failure of the simulation, as is any end that no fault has asked for.
    """

    port: int
    modules: tuple[str, ...]

    def main(self, world: Any, host: Any, options: Mapping[str, Any]) -> Awaitable[None]:
        """What the process of a host does, until it ends."""
        ...

    async def serves(self, world: Any) -> bool:
        """Does each host answer by the word of the cluster?"""
        ...

    def client(
        self,
        capability: str,
        at: Endpoint,
        every: Sequence[Endpoint],
        options: Mapping[str, Any],
        name: str,
    ) -> Client:
        """One logical process's client; `name` is what it may call itself."""
        ...
