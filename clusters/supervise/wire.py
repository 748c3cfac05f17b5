"""Counters of requests in what a client sends, for protocols that many systems speak.

Each takes the bytes of one connection in any pieces; `requests` counts so far, and `known` is false
from where they cannot be read as requests.

HTTP: pages that servers show, and clients that keep their connections.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from clusters.supervise.ops import StreamClient
from dstest.core.protocols import Endpoint

__all__ = [
    "HttpClient",
    "answer_of",
    "fetched",
    "get",
    "page",
    "post",
]

_LINE_MAX: Final = 1 << 16


class _Lines:
    """What lines of a protocol have in common: `_take` reads each, and may set `_skip`, the bytes
    behind it that are none."""

    def __init__(self) -> None:
        self.requests = 0
        self.known = True
        self._line = bytearray()
        self._skip = 0

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        at = 0
        while at < len(data) and self.known:
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                continue
            end = data.find(b"\n", at)
            stop = len(data) if end < 0 else end + 1
            self._line += data[at:stop]
            at = stop
            if end >= 0:
                self._take(bytes(self._line))
                self._line.clear()
            self.known = self.known and len(self._line) <= _LINE_MAX

    def _take(self, line: bytes) -> None:
        raise NotImplementedError


class LineRequests(_Lines):
    """Commands that are lines, some with a block of data behind (memcached, beanstalk).

    `sizes` has for each of these verbs which word of its line is the size of the block in bytes;
    the block ends with CR LF, which the size does not count.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self._sizes = {verb.encode(): word for verb, word in sizes.items()}

    def _take(self, line: bytes) -> None:
        words = line.split()
        self.requests += 1
        word = self._sizes.get(words[0]) if words else None
        if word is not None:
            try:
                self._skip = int(words[word]) + 2
            except (IndexError, ValueError):
                self.known = False


class HttpRequests(_Lines):
    """Requests of HTTP/1.0 and 1.1 on connections that are kept or not, with bodies of a given
    length or in chunks. What comes after an upgrade to another protocol is not counted."""

    def __init__(self) -> None:
        super().__init__()
        self._next = self._request
        self._size = 0
        self._chunked = False

    def _take(self, line: bytes) -> None:
        self._next(line.rstrip(b"\r\n"))

    def _request(self, line: bytes) -> None:
        words = line.split(b" ")
        if len(words) == 3 and words[2] in (b"HTTP/1.1", b"HTTP/1.0"):
            self.requests += 1
            self._size, self._chunked, self._next = 0, False, self._header
        elif line:  # an empty one may come before a request
            self.known = False

    def _header(self, line: bytes) -> None:
        name, _, value = (part.strip().lower() for part in line.partition(b":"))
        if not line:
            self._skip = 0 if self._chunked else self._size
            self._next = self._chunk if self._chunked else self._request
        elif name == b"content-length":
            self.known = value.isdigit()
            self._size = int(value) if self.known else 0
        elif name == b"transfer-encoding":
            self._chunked = self.known = value == b"chunked"
        elif name == b"upgrade":
            self.known = False

    def _chunk(self, line: bytes) -> None:
        """Its size, in front of it; that of the last one is zero."""
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            self.known = False
            return
        self._skip = size and size + len(b"\r\n")
        self._next = self._chunk if size else self._trailer

    def _trailer(self, line: bytes) -> None:
        if not line:
            self._next = self._request


class RespRequests(_Lines):
    """Commands of the Redis serialization protocol: arrays of bulk strings."""

    def __init__(self) -> None:
        super().__init__()
        self._left = 0

    def _take(self, line: bytes) -> None:
        """`*N` begins a command of N strings, `$N` a string of N bytes and CR LF."""
        line = line.strip()
        begins, size = (b"$" if self._left else b"*"), line[1:]
        if line[:1] != begins or not size.isdigit():
            self.known = False
        elif self._left:
            self._left -= 1
            self._skip = int(size) + 2
        else:
            self._left = int(size)
            self.requests += 1


class FramedRequests:
    """Messages that say how long they are: `frame` gives, of the bytes from a message's beginning,
    its whole length and whether it is a request; None where they do not say yet, ValueError where
    they are no message. `number` is how many messages came before."""

    def __init__(self) -> None:
        self.requests = 0
        self.known = True
        self._head = bytearray()
        self._skip = 0
        self._number = 0

    def frame(self, head: bytes, number: int) -> tuple[int, bool] | None:
        raise NotImplementedError

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        at = 0
        while at < len(data) and self.known:
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                continue
            self._head.append(data[at])
            at += 1
            try:
                found = self.frame(bytes(self._head), self._number)
            except ValueError:
                self.known = False
                return
            if found is not None:
                length, request = found
                self.requests += request
                self._number += 1
                self._skip = length - len(self._head)
                self.known = self._skip >= 0
                self._head.clear()


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
