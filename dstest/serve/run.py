"""Listen, keep the index up to date, and end when told to."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable
from typing import NamedTuple

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from dstest.core.errors import ConfigError
from dstest.serve.http import application
from dstest.serve.index import Index

__all__ = ["Listening", "serve"]


class Listening(NamedTuple):
    """Where the pages are."""

    host: str
    port: int

    @property
    def url(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/"


def serve(index: Index, host: str, port: int, ready: Callable[[Listening], None]) -> None:
    """Until SIGINT or SIGTERM. Raises ConfigError where nobody can listen there."""
    sockets = _bound(host, port)
    # What a client did wrong is told to the client.
    logging.getLogger("tornado").setLevel(logging.CRITICAL)
    asyncio.run(_serve(index, host, sockets, ready))


def _bound(host: str, port: int) -> list[socket.socket]:
    try:
        sockets = bind_sockets(port, address=host)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"cannot listen at {host} port {port}: {getattr(error, 'strerror', None) or error}",
            remedy="--port 0 takes any that is free",
        ) from None
    if not sockets:
        raise ConfigError(f"{host} is no address of this machine", remedy="--host 127.0.0.1")
    return sockets


async def _serve(
    index: Index, host: str, sockets: list[socket.socket], ready: Callable[[Listening], None]
) -> None:
    server = HTTPServer(application(index, host), max_buffer_size=1 << 20, no_keep_alive=False)
    server.add_sockets(sockets)
    end, stop = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    follower = threading.Thread(target=index.follow, args=(stop,), name="index", daemon=True)
    follower.start()
    try:
        ready(Listening(host, sockets[0].getsockname()[1]))
        await end.wait()
    finally:
        stop.set()
        server.stop()
        await server.close_all_connections()
        follower.join(timeout=5)
