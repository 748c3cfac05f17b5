"""Clients whose library blocks: a refusal closes one, and the next operation goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clusters.supervise import BlockingClient
from dstest.core.protocols import Definite, Endpoint, OpDraft

AT = Endpoint(node="n1", address="10.0.0.1", port=1)


class Client(BlockingClient):
    refusals = {"ValueError": "REFUSED"}
    refuses = True

    async def do_read(self, op: OpDraft) -> Any:
        return await self.blocking(self._read)

    def _read(self) -> int:
        if self.refuses:
            raise ValueError("no")
        return 5


def test_a_client_is_used_again_after_a_refusal() -> None:
    draft = OpDraft(op_type="read", key="1", input=None)

    async def both() -> Any:
        client = Client(AT, [AT], {})
        with pytest.raises(Definite, match="REFUSED"):
            await client.invoke(draft, 1.0)
        client.refuses = False
        reply = await client.invoke(draft, 1.0)
        await client.close()
        await client.close()
        return reply.output

    assert asyncio.run(both()) == 5
