"""Members of a cluster asked what they say of themselves, all at once, for `dstest spec live`.

| address | what is asked | what is answered |
|---|---|---|
| HOST:PORT | a line, over TCP | a line, an object of JSON |
| http://.., https://.. | GET; with a text, POST of it | 2xx, an object of JSON |
| postgresql://USER@HOST:PORT/NAME | a query | {"rows": [{COLUMN: value, ..}, ..]} |

Who does not answer so within a second, or with more than a megabyte, has not answered.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, cast
from urllib.parse import SplitResult, urlsplit

from dstest.core import clock
from dstest.core.errors import ConfigError
from dstest.core.extras import need
from dstest.spec.live import Sample, no_number
from dstest.spec.merge import once

_SECRET: Final = re.compile(r"://[^/]*@")
"""Who asks, and by which password."""

WAIT_S: Final = 1.0
"""For an answer, to its end."""

ANSWER_BYTES: Final = 1 << 20
"""Of an answer, at most."""

LINE: Final = '{"op":"status"}'
"""What is asked over TCP where nobody says otherwise."""

Ask = Callable[[], Any]
"""Gives the answer. Raises OSError or ValueError where there is none."""


def sample_servers(
    addresses: Sequence[str], text: str | None, every_s: float, count: int | None
) -> Iterator[Sample]:
    """Samples of those at these addresses, all asked at once, so many or for ever. `text` is what
    they are asked. Raises ConfigError for what is no address, and for what it needs besides."""
    ways = {_name(one): _way(one, text) for one in dict.fromkeys(addresses)}
    with ThreadPoolExecutor(len(ways)) as asking:
        taken = 0
        while count is None or taken < count:
            begun_ns = clock.monotonic_ns()
            answers = asking.map(_answer, ways.values())
            yield dict(zip(ways, answers, strict=True))
            taken += 1
            if taken != count:
                spent_s = (clock.monotonic_ns() - begun_ns) / 1e9
                clock.sleep_s(max(0.0, every_s - spent_s))


def _name(address: str) -> str:
    """What it is called in a sample: without a name or a password of who asks."""
    scheme, apart, rest = address.partition("://")
    if not apart:
        return address
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _answer(ask: Ask) -> Any:
    """None for who does not answer in time, or no object."""
    try:
        said = ask()
    except (OSError, ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _way(address: str, text: str | None) -> Ask:
    scheme, apart, _ = address.partition("://")
    if not apart:
        return partial(_over_tcp, _place(address), LINE if text is None else text)
    if scheme not in _WAYS:
        raise ConfigError(
            f"{address!r}: nothing is asked over {scheme}",
            remedy=f"HOST:PORT, or {', '.join(f'{one}://..' for one in _WAYS)}",
        )
    try:
        url = urlsplit(address)
        there = bool(url.hostname) and url.port != 0
    except ValueError:
        there = False
    if not there or any(c.isspace() or not c.isprintable() for c in address):
        shown = _SECRET.sub("://..@", address)
        raise ConfigError(f"{shown!r} is no address", remedy=f"--ask {scheme}://HOST:PORT/..")
    return _WAYS[scheme](url, text)


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"{text!r} is no address", remedy="--ask HOST:PORT")
    return host, int(port)


def _object(text: bytes) -> Any:
    return json.loads(text, object_pairs_hook=once, parse_constant=no_number)


def _over_tcp(place: tuple[str, int], line: str) -> Any:
    text = _exchanged(place, line.encode() + b"\n", lambda found: b"\n" in found)
    return _object(text.partition(b"\n")[0] or b"null")


def _exchanged(
    place: tuple[str, int],
    asked: bytes,
    whole: Callable[[bytes], bool],
    tls: ssl.SSLContext | None = None,
) -> bytes:
    """What is answered, until it is whole or the connection ends. Raises OSError where it takes too
    long or is too much."""
    end_ns = clock.monotonic_ns() + int(WAIT_S * 1e9)
    found = bytearray()
    with socket.create_connection(place, WAIT_S) as plain:
        link = plain if tls is None else tls.wrap_socket(plain, server_hostname=place[0])
        with link:
            link.settimeout(WAIT_S)
            link.sendall(asked)
            while not whole(bytes(found)):
                left_s = (end_ns - clock.monotonic_ns()) / 1e9
                if left_s <= 0 or len(found) > ANSWER_BYTES:
                    raise TimeoutError
                link.settimeout(left_s)
                more = link.recv(1 << 16)
                if not more:
                    break
                found += more
    return bytes(found)


class _Received:
    """What was received, as http.client wants a socket."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._text)


def _over_http(url: SplitResult, text: str | None) -> Ask:
    secure = url.scheme == "https"
    host = str(url.hostname)
    place = host, url.port or (443 if secure else 80)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    body = b"" if text is None else text.encode()
    lines = [
        f"{'GET' if text is None else 'POST'} {path} HTTP/1.0",
        f"Host: {url.netloc.rpartition('@')[2]}",
        "Accept: application/json",
        "Connection: close",
    ]
    if text is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    asked = "\r\n".join([*lines, "", ""]).encode() + body
    tls = ssl.create_default_context() if secure else None

    def ask() -> Any:
        given = _exchanged(place, asked, _is_whole, tls)
        try:
            said = http.client.HTTPResponse(cast(socket.socket, _Received(given)))
            said.begin()
            if not 200 <= said.status < 300:
                raise ValueError(f"status {said.status}")
            return _object(said.read())
        except http.client.HTTPException as error:
            raise ValueError(str(error)) from None

    return ask


def _is_whole(found: bytes) -> bool:
    """Is there as much as the headers say? Where they do not say it, the connection's end does."""
    head, end, body = found.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n")[1:] if end else ():
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return len(body) >= int(value)
    return False


def _over_sql(url: SplitResult, text: str | None) -> Ask:
    if text is None:
        raise ConfigError(f"{url.scheme} is asked by a query", remedy="--line 'SELECT ..'")
    driver = need("asyncpg", "postgresql", "asking PostgreSQL")

    async def rows() -> list[Any]:
        async with asyncio.timeout(WAIT_S):
            link = await driver.connect(url.geturl(), timeout=WAIT_S)
            try:
                found: list[Any] = await link.fetch(text)
                return found
            finally:
                link.terminate()

    def ask() -> Any:
        try:
            found = asyncio.run(rows())
        except (driver.PostgresError, driver.InterfaceError) as error:
            raise OSError(str(error)) from None
        said = {"rows": [{name: _plain(value) for name, value in row.items()} for row in found]}
        if len(json.dumps(said)) > ANSWER_BYTES:
            raise OSError("more than an answer may be")
        return said

    return ask


def _plain(value: Any) -> Any:
    """As JSON has it; what that does not know as a text."""
    return value if isinstance(value, int | str | float | bool | None) else str(value)


_WAYS: Final[Mapping[str, Callable[[SplitResult, str | None], Ask]]] = {
    "http": _over_http,
    "https": _over_http,
    "postgresql": _over_sql,
}
"""Scheme of an address -> how it is asked."""
