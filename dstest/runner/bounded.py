"""A client that is given up where it does not keep to its timeout."""

from __future__ import annotations

from typing import Final

from dstest.core.protocols import Client, OpDraft, Reply
from dstest.core.reusable_timeout import ReusableTimeout

BEYOND_S: Final = 1.0
"""Seconds beyond its timeout that a client has to return; the audit of a history grants two."""


class BoundedClient:
    """Goes between a load worker and the client of a system, which may be the user's own."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._timeout = ReusableTimeout()

    @property
    def seen(self) -> str | None:
        """The node that the last operation went to, where the client knows."""
        seen: str | None = getattr(self._client, "seen", None)
        return seen

    async def open(self) -> None:
        await self._client.open()

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """As the client does. Raises TimeoutError as well."""
        reply = self._client.invoke(op, timeout_s)
        return await self._timeout.wait_for(reply, timeout_s + BEYOND_S)

    async def close(self) -> None:
        await self._client.close()
