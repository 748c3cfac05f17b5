"""Pages that servers show by HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Final

__all__ = ["answer_of", "fetched", "get", "page", "post"]

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
