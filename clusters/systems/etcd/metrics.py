"""What a member of etcd measures of itself, from `/metrics` at its client port."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from clusters.systems.etcd.clients.stub import CLIENT_PORT

TIMEOUT_S: Final = 2.0
DATE_TIMEOUT_S: Final = 1.0
_SYNC: Final = re.compile(r"^etcd_disk_wal_fsync_duration_seconds_(sum|count) (\S+)$", re.MULTILINE)


async def metrics(address: str) -> str | None:
    """The page; None where no member answers within two seconds."""
    return await http_get(address, "/metrics")


async def http_get(address: str, path: str) -> str | None:
    """A page at the client port, with its headers; None where no member answers in two seconds."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(address, CLIENT_PORT)
            try:
                writer.write(f"GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
                return (await reader.read(-1)).decode("utf-8", "replace")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None


async def http_date(address: str) -> str | None:
    """The `Date` of an answer, as soon as it is read; None where none comes within a second."""
    try:
        async with asyncio.timeout(DATE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(address, CLIENT_PORT)
            try:
                writer.write(b"GET /version HTTP/1.0\r\n\r\n")
                while line := await reader.readline():
                    key, _, value = line.decode("latin-1").partition(":")
                    if key.lower() == "date":
                        return value.strip()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    return None


def wal_syncs(page: str) -> tuple[int, float] | None:
    """Syncs of the write-ahead log since the start, and their seconds in all."""
    found = {name: float(value) for name, value in _SYNC.findall(page.replace("\r", ""))}
    if set(found) != {"sum", "count"}:
        return None
    return int(found["count"]), found["sum"]


def number(page: str, name: str) -> float | None:
    """The value of a metric without labels."""
    found = re.search(rf"^{re.escape(name)} (\S+)", page, re.MULTILINE)
    return float(found[1]) if found else None
