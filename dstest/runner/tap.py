"""A tap on the wire between one client and its node: does its library send more than it was given?

A library that retries by itself makes one recorded operation out of several requests, and what
happened to the first one is nobody's knowledge. So one client of each worker dials a forwarder on a
loopback address instead of its node. What it sends is counted as requests by the system's own
counter, and compared with the calls that the client handed to its library.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

from dstest.core.protocols import RequestCounter

__all__ = ["Tap"]

_CHUNK_BYTES: Final = 1 << 16
_TRIES: Final = 16


class Tap:
    """Forwards to `(host, port)`; one counter per connection, made by `counter`."""

    def __init__(self, host: str, port: int, counter: Callable[[], RequestCounter]) -> None:
        self._upstream = (host, port)
        self._port = port
        self._make = counter
        self._counters: list[RequestCounter] = []
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def open(self, number: int) -> str:
        """Listen on the node's port at a loopback address of our own, which is returned.

        `number` keeps the taps of one run apart. Raises OSError where no address is free.
        """
        failure = OSError("no loopback address is free")
        for attempt in range(_TRIES):
            address = self.address_of(number * _TRIES + attempt)
            try:
                self._server = await asyncio.start_server(self._serve, address, self._port)
            except OSError as error:
                failure = error
            else:
                return address
        raise failure

    def address_of(self, number: int) -> str:
        """Where it may listen."""
        pid = os.getpid()
        return f"127.{64 + pid % 64}.{(pid >> 6) % 250 + 1}.{number % 254 + 1}"

    @property
    def requests(self) -> int:
        """Requests seen on all connections."""
        return sum(counter.requests for counter in self._counters)

    @property
    def connections(self) -> int:
        return len(self._counters)

    @property
    def known(self) -> bool:
        """Could each connection's bytes be read as requests?"""
        return all(counter.known for counter in self._counters)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counter = self._make()
        self._counters.append(counter)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._upstream)
        except OSError:
            writer.transport.abort()
            return
        there = asyncio.create_task(_pump(reader, far_writer, counter.feed))
        back = asyncio.create_task(_pump(far_reader, writer, None))
        self._tasks |= {there: None, back: None}
        try:
            # What ends one direction ends the connection, as it would without us.
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (there, back):
                task.cancel()
                self._tasks.pop(task, None)
            far_writer.transport.abort()
            writer.transport.abort()

    async def close(self) -> None:
        """Stop listening and end what is open."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.sleep(0)


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    seen: Callable[[bytes], None] | None,
) -> None:
    try:
        while data := await reader.read(_CHUNK_BYTES):
            if seen is not None:
                seen(data)
            writer.write(data)
            await writer.drain()
    except OSError:
        return
