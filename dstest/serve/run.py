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

from dstest.core.errors import ConfigError
from dstest.serve.http import application
from dstest.serve.index import Index


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
    bound = _bound(host, port)
    # What a client did wrong is told to the client.
    logging.getLogger("tornado").setLevel(logging.CRITICAL)
    asyncio.run(_serve(index, host, bound, ready))


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family, backlog=128)
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"cannot listen at {host or 'no address'} port {port}: "
            f"{getattr(error, 'strerror', None) or error}",
            remedy="--port 0 takes any that is free; --host wants an address of this machine",
        ) from None
    made.setblocking(False)
    return made


async def _serve(
    index: Index, host: str, bound: socket.socket, ready: Callable[[Listening], None]
) -> None:
    server = HTTPServer(application(index, host), max_buffer_size=1 << 20, no_keep_alive=False)
    server.add_socket(bound)
    end, stop = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    follower = threading.Thread(target=index.follow, args=(stop,), name="index", daemon=True)
    follower.start()
    try:
        ready(Listening(host, bound.getsockname()[1]))
        await end.wait()
    finally:
        stop.set()
        server.stop()
        await server.close_all_connections()
        follower.join(timeout=5)
