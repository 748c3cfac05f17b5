"""HTTP: pages that servers show, and clients that keep their connections."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from clusters.supervise.ops import StreamClient
from dstest.core.protocols import Endpoint

__all__ = ["HttpClient", "answer_of", "fetched", "get", "page", "post"]

_SAID_MAX: Final = 200
_STATUS: Final = re.compile(r"HTTP/\d\.\d (\d{3})\b")


def get(path: str) -> bytes:
    """The request for a page, after which a server ends the connection."""
    return f"GET {path} HTTP/1.0\r\n\r\n".encode()


def post(path: str, body: bytes, headers: str = "") -> bytes:
    """The request that gives a page JSON, after which a server ends the connection. `headers` are
    lines with their ends."""
    head = f"POST {path} HTTP/1.0\r\n{headers}Content-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def answer_of(said: bytes) -> tuple[int, str]:
    """The status and the body of all that a server said. Raises OSError where that is no HTTP."""
    text = said.decode("utf-8", "replace")
    status = _STATUS.match(text)
    if status is None:
        raise OSError(f"no HTTP: {text[:_SAID_MAX]!r}")
    return int(status[1]), text.partition("\r\n\r\n")[2]


async def fetched(address: str, port: int, path: str) -> tuple[int, str]:
    """The status and the body that a server answers. Raises OSError."""
    reader, writer = await asyncio.open_connection(address, port)
    try:
        writer.write(get(path))
        said = await reader.read()
    finally:
        writer.close()
    try:
        return answer_of(said)
    except OSError as error:
        raise OSError(f"{path}: {error}") from None


async def page(address: str, port: int, path: str) -> Any:
    """What a page has as JSON. Raises OSError where the server shows none."""
    status, body = await fetched(address, port, path)
    if status != 200:
        raise OSError(f"{path}: {status} {body[:_SAID_MAX]}")
    return json.loads(body)


class HttpClient(StreamClient):
    """Base of clients that speak HTTP/1.1: a connection to each node, kept as long as the server
    keeps it. Its requests are counted by `HttpRequests`."""

    async def request(
        self,
        to: Endpoint,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] = {},
    ) -> tuple[int, bytes]:
        """The status and the body of the answer to one request, sent once. Raises `Definite`,
        `not-connected`, where nothing was sent; whatever it raises later, the request may have had
        its effect."""
        if to.node in self._links and self._links[to.node][0].at_eof():
            self._links.pop(to.node)[1].close()  # the server has ended it: nothing was asked of it
        reader, writer = await self.link(to)
        self.calls += 1
        lines = {"Host": f"{to.address}:{to.port}", "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        kept = False
        try:
            status, body, kept = await _answered(reader, method)
        finally:
            if not kept:
                self._links.pop(to.node, None)
                writer.close()
        return status, body


async def _answered(reader: asyncio.StreamReader, method: str) -> tuple[int, bytes, bool]:
    """Status and body of the next answer, and whether the connection can be used again."""
    status, named = 100, {}
    while status < 200:  # those before the answer, such as 100
        first, *rows = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        matched = _STATUS.match(first)
        if matched is None:
            raise OSError(f"no HTTP: {first[:_SAID_MAX]!r}")
        status = int(matched[1])
        pairs = (row.partition(":") for row in rows if row)
        named = {name.strip().lower(): value.strip().lower() for name, _, value in pairs}
    kept = first.startswith("HTTP/1.1") and named.get("connection") != "close"
    if method == "HEAD" or status in (204, 304):
        return status, b"", kept
    if named.get("transfer-encoding") == "chunked":
        body = b""
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:size]
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
        return status, body, kept
    if "content-length" in named:
        return status, await reader.readexactly(int(named["content-length"])), kept
    return status, await reader.read(), False
