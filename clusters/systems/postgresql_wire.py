"""How PostgreSQL is spoken to: connections by asyncpg, and requests as they are counted on the
wire."""

from __future__ import annotations

import functools
from typing import Any, Final

from clusters.sql import ISOLATION
from clusters.supervise import FramedRequests

SSL_ASKED: Final = bytes.fromhex("00000008 04d2162f")
"""The first request: is the connection to be encrypted?"""


@functools.cache
def number_marks(text: str) -> str:
    """A statement with `$1`, `$2` for each `?`."""
    parts = text.split("?")
    return "".join(f"{part}${i}" for i, part in enumerate(parts[:-1], 1)) + parts[-1]


class Link:
    """A `SqlLink`."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def rows(self, text: str, *given: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._connection.fetch(number_marks(text), *given)]

    async def change(self, text: str, *given: Any) -> int:
        last = (await self._connection.execute(number_marks(text), *given)).split()[-1]
        return int(last) if last.isdigit() else 0

    async def begin(self) -> None:
        await self._connection.execute("BEGIN")

    async def commit(self) -> bool:
        return bool(await self._connection.execute("COMMIT") == "COMMIT")

    async def rollback(self) -> None:
        await self._connection.execute("ROLLBACK")

    async def aclose(self) -> None:
        self._connection.terminate()


async def connect(
    address: str, port: int, wait_s: float, isolation: str, wanted: str = "any"
) -> Link:
    """A connection by the library `asyncpg`, which retries nothing; to a server that is `wanted`
    (`any`, `primary`, `standby`)."""
    import asyncpg
    from asyncpg.connect_utils import SessionAttribute

    made = await asyncpg.connect(
        host=address,
        port=port,
        user="postgres",
        database="postgres",
        ssl=False,
        timeout=wait_s,
        target_session_attrs=SessionAttribute(wanted),
        server_settings={"default_transaction_isolation": ISOLATION[isolation].lower()},
    )
    return Link(made)


class PostgresqlRequests(FramedRequests):
    """Queries, and the ends of extended ones (PostgreSQL, Message Formats)."""

    def frame(self, head: bytes, number: int) -> tuple[int, bool] | None:
        """The first message, and whatever comes before it, has no letter."""
        if number == 0 or (number == 1 and self._asked_ssl):
            if len(head) < 8:
                return None
            self._asked_ssl = head == SSL_ASKED
            return int.from_bytes(head[:4], "big"), False
        if len(head) < 5:
            return None
        if head[:1] not in b"BCDEFHPQSXcdfp":
            raise ValueError(head[:1])
        return 1 + int.from_bytes(head[1:5], "big"), head[:1] in b"QS"

    _asked_ssl = False
