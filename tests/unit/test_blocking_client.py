"""Clients whose library blocks: a refusal closes one, and the next operation goes on."""

from __future__ import annotations

import asyncio
import threading
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


class Link:
    """A library's connections are used in one thread, their end included."""

    def __init__(self) -> None:
        self.made_in, self.closed_in = threading.get_ident(), 0
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed_in = threading.get_ident()
        self.closed.set()


class Linked(Client):
    reachable = False

    def connect(self, to: Endpoint) -> Any:
        if not self.reachable:
            raise OSError("no route")
        return Link()

    async def do_read(self, op: OpDraft) -> Any:
        return await self.blocking(self.link, self.at)


def test_a_connection_is_made_at_need_and_anew_after_a_close() -> None:
    draft = OpDraft(op_type="read", key="1", input=None)

    async def use() -> None:
        client = Linked(AT, [AT], {})
        with pytest.raises(Definite, match="not-connected: OSError"):
            await client.invoke(draft, 1.0)
        assert client.calls == 0
        client.reachable = True
        first, again = [(await client.invoke(draft, 1.0)).output for _ in range(2)]
        assert first is again
        await client.close()
        assert await asyncio.to_thread(first.closed.wait, 5)
        assert first.closed_in == first.made_in
        assert (await client.invoke(draft, 1.0)).output is not first
        assert client.calls == 3
        await client.close()

    asyncio.run(use())


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
