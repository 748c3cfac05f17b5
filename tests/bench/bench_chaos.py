"""How many requests a second the chaos proxy hands on with one core, beside a server that does
nothing but answer them.

    .venv/bin/python tests/bench/bench_chaos.py [REQUESTS]

Proxy, server and clients are processes of their own. A rate is requests by CPU seconds of one
process, so it is what one core sustains, whatever else the host does. Every request is logged; a
tenth of them meets a fault in the second row.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvloop

from dstest.chaos.child import Command, Start
from dstest.chaos.conduct import Child
from dstest.chaos.http1 import Broken, Connection, Pool, Upstream
from dstest.chaos.records import Profile
from dstest.chaos.settings import Endpoint, ProxyAt, Settings

__all__ = ["main"]

REQUESTS: Final = 40_000
CLIENTS: Final = 32
REQUEST: Final = b"GET /a HTTP/1.1\r\nHost: x\r\ntraceparent: 00-%032x-%016x-01\r\n\r\n" % (1, 1)

_SERVER: Final = """
import asyncio, uvloop
OK = b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok"
class Answer(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(OK * data.count(b"\\r\\n\\r\\n"))
async def main():
    server = await asyncio.get_running_loop().create_server(Answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()
uvloop.run(main())
"""


@contextmanager
def _server() -> Iterator[tuple[int, int]]:
    """(pid, port)"""
    process = subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.pid, int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _cpu_s(pid: int) -> float:
    """Of a process: the sum of all its threads' time on a core."""
    text = Path(f"/proc/{pid}/schedstat").read_text()
    return int(text.split()[0]) / 1e9


async def _ask(port: int, count: int) -> int:
    """Closed loops of clients; how many were answered."""
    left = [count]
    answered = [0]

    async def client() -> None:
        pool = Pool(Upstream("127.0.0.1", port))
        while left[0] > 0:
            left[0] -= 1
            try:
                await pool.ask(b"GET", REQUEST, _thrown_away)
            except Broken:
                continue
            answered[0] += 1
        pool.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return answered[0]


def _thrown_away(data: bytes, source: Connection) -> None:
    """An answer's bytes."""


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdecimal() else REQUESTS
    with _server() as (server, port), tempfile.TemporaryDirectory() as folder:
        uvloop.run(_ask(port, 1000))
        before_s = _cpu_s(server)
        uvloop.run(_ask(port, count))
        alone = count / (_cpu_s(server) - before_s)
        sys.stdout.write(f"  a server that answers at once: {alone:,.0f} requests a core second\n")
        settings = Settings(
            target="http://127.0.0.1:1",
            endpoint=(Endpoint(path="/a"),),
            proxy=(ProxyAt(name="p", upstream=f"127.0.0.1:{port}", faults=Profile(error=0.1)),),
        )
        proxies = Child("proxies", Start(settings=settings, directory=folder))
        at = proxies.answer()["ports"]["p"]
        for what, share in (("all let through", 0.0), ("a tenth meets a fault", 0.1)):
            proxies.ask(Command(phase=what, share=share))
            uvloop.run(_ask(at, 1000))
            before_s = _cpu_s(proxies.pid)
            answered = uvloop.run(_ask(at, count))
            rate = count / (_cpu_s(proxies.pid) - before_s)
            sys.stdout.write(
                f"  the proxy, {what}: {rate:,.0f} requests a core second, "
                f"{alone / rate:.1f} times the server's work; "
                f"{answered:,} of {count:,} answered, each logged\n"
            )
        proxies.finish(10)


if __name__ == "__main__":
    main()
