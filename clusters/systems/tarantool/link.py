"""Requests to a Tarantool, by the library `asynctnt`."""

from __future__ import annotations

from typing import Any, Final

PORT: Final = 3301
WRITE: Final = "box.space.registers:replace{...}"


async def connected(address: str, port: int, wait_s: float) -> Any:
    """A connection by the library `asynctnt`, which is told not to connect again by itself, nor to
    send anything of its own."""
    import asynctnt

    link = asynctnt.Connection(
        host=address,
        port=port,
        fetch_schema=False,
        auto_refetch_schema=False,
        connect_timeout=wait_s,
        request_timeout=wait_s,
        reconnect_timeout=0,
        ping_timeout=0,
    )
    await link.connect()
    return link


async def answer(link: Any, text: str, *given: Any) -> Any:
    """What a piece of Lua returns."""
    body = (await link.eval(text, list(given))).body
    return body[0] if body else None
