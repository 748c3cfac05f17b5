"""Requests to a NATS server, by the library `nats`."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

PORT: Final = 4222
JOBS: Final = "jobs"
RECORDS: Final = "records"
HEALTH: Final = "health"
API: Final = "$JS.API"


class ApiError(Exception):
    """What a server answers to a request that it does not do."""


async def connected(address: str, port: int, wait_s: float) -> Any:
    """A connection of the library `nats`, which does not reconnect."""
    from nats.aio.client import Client

    async def silent(*_: Any) -> None:
        """The library would print each error that it raises as well."""

    link = Client()
    try:
        async with asyncio.timeout(wait_s):
            await link.connect(
                f"nats://{address}:{port}",
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=max(1, round(wait_s)),
                error_cb=silent,
            )
    except BaseException:
        await link.close()
        raise
    return link


async def request(link: Any, subject: str, data: bytes, wait_s: float) -> Any:
    """The one answer; a message that a consumer hands out keeps the subject it was sent to, which
    the library takes for somebody else's unless the inbox is the request's own."""
    return await link.request(subject, data, timeout=wait_s, old_style=True)


async def call(link: Any, verb: str, wait_s: float, **given: Any) -> dict[str, Any]:
    """What JetStream answers. Raises ApiError."""
    said = await request(link, f"{API}.{verb}", json.dumps(given).encode(), wait_s)
    return checked(json.loads(said.data))


def checked(said: dict[str, Any]) -> dict[str, Any]:
    """The answer, unless it is an error."""
    if "error" in said:
        raise ApiError(f"{said['error'].get('err_code')}: {said['error'].get('description')}")
    return said
