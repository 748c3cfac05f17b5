"""What listens in a simulated network, as an application knows it."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Protocol

import msgspec

from dstest.sim.loop import VirtualLoop
from dstest.sim.process import Process


class Listener(msgspec.Struct):
    factory: Any
    process: Process | None
    context: Any


class Net(Protocol):
    """What a server asks of its network."""

    listeners: dict[tuple[str, int], Listener]

    @property
    def loop(self) -> VirtualLoop: ...


class Server(asyncio.AbstractServer):
    """What listens, as an application knows it: `asyncio.Server`."""

    def __init__(self, net: Net, at: tuple[str, int], listener: Listener) -> None:
        self._net, self._at, self._listener = net, at, listener
        self._closed = asyncio.Event()

    def get_loop(self) -> VirtualLoop:
        return self._net.loop

    def is_serving(self) -> bool:
        return self._net.listeners.get(self._at) is self._listener

    @property
    def sockets(self) -> tuple[Listening, ...]:
        return (Listening(self._at),) if self.is_serving() else ()

    async def start_serving(self) -> None:
        """It does from the beginning."""

    async def serve_forever(self) -> None:
        """Until it is cancelled, or closed by somebody else."""
        try:
            await self._closed.wait()
            raise asyncio.CancelledError
        finally:
            self.close()

    def close(self) -> None:
        if self.is_serving():
            del self._net.listeners[self._at]
        self._closed.set()

    async def wait_closed(self) -> None:
        """Nothing to wait for."""


class Listening(NamedTuple):
    """The socket of a server, as far as it has a name."""

    at: tuple[str, int]

    def getsockname(self) -> tuple[str, int]:
        return self.at
