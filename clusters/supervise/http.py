"""Pages that servers show by HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Final

__all__ = ["fetched", "get", "page"]

_SAID_MAX: Final = 200
_STATUS: Final = re.compile(r"HTTP/\d\.\d (\d{3})\b")


def get(path: str) -> bytes:
    """The request for a page, after which a server ends the connection."""
    return f"GET {path} HTTP/1.0\r\n\r\n".encode()


async def fetched(address: str, port: int, path: str) -> tuple[int, str]:
    """The status and the body that a server answers. Raises OSError."""
    reader, writer = await asyncio.open_connection(address, port)
    try:
        writer.write(get(path))
        said = (await reader.read()).decode("utf-8", "replace")
    finally:
        writer.close()
    status = _STATUS.match(said)
    if status is None:
        raise OSError(f"{path}: no HTTP: {said[:_SAID_MAX]!r}")
    return int(status[1]), said.partition("\r\n\r\n")[2]


async def page(address: str, port: int, path: str) -> Any:
    """What a page has as JSON. Raises OSError where the server shows none."""
    status, body = await fetched(address, port, path)
    if status != 200:
        raise OSError(f"{path}: {status} {body[:_SAID_MAX]}")
    return json.loads(body)
