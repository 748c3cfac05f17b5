"""`dstest serve` in a thread of the test's own."""

from __future__ import annotations

import asyncio
import http.client
import threading
from pathlib import Path
from typing import NamedTuple

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from dstest.serve.http import application
from dstest.store.index import Cache, Index

__all__ = ["Answer", "Asker"]


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str


class Asker:
    """Asks a server that runs in a thread."""

    def __init__(self, store: Path) -> None:
        self.index = Index(store, Cache(None))
        self.index.refresh()
        self.store = store
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._ready.wait(30)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)

        async def listen() -> HTTPServer:
            server = HTTPServer(application(self.index, "127.0.0.1"))
            sockets = bind_sockets(0, "127.0.0.1")
            server.add_sockets(sockets)
            self.port = sockets[0].getsockname()[1]
            return server

        server = self._loop.run_until_complete(listen())
        self._ready.set()
        self._loop.run_forever()
        server.stop()
        self._loop.run_until_complete(server.close_all_connections())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    def ask(self, path: str, method: str = "GET", host: str | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True)
            connection.putheader("Host", host if host is not None else f"localhost:{self.port}")
            connection.endheaders()
            got = connection.getresponse()
            return Answer(got.status, dict(got.getheaders()), got.read().decode())
        finally:
            connection.close()
