"""A user's client that hangs does not hang the load."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dstest.core.protocols import Client, OpDraft, Reply
from dstest.runner import worker
from dstest.runner.worker import BoundedClient, Worker
from dstest.runner.worker_config import client_of

READ = OpDraft("read", "k")


class Hanging:
    """Keeps to no timeout."""

    def __init__(self, *_: Any) -> None:
        self.open_now = False

    async def open(self) -> None:
        self.open_now = True

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        await asyncio.sleep(60.0)
        return Reply(None, "n1")

    async def close(self) -> None:
        self.open_now = False


def test_it_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "BEYOND_S", 0.2)
    inner = Hanging()

    async def process() -> float:
        client = BoundedClient(inner)
        await client.open()
        assert inner.open_now
        began_s = time.monotonic()
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await client.invoke(READ, 0.1)
        await client.close()
        assert not inner.open_now
        return time.monotonic() - began_s

    assert 0.6 <= asyncio.run(process()) < 30.0


def test_so_is_every_client_of_a_load_worker() -> None:
    made = Worker.__new__(Worker)
    made._dialed = []
    made._config = cast(
        Any, SimpleNamespace(slots=[(0, 0)], endpoints=["n1"], capability="register", options={})
    )
    made._system = cast(Any, SimpleNamespace(client=Hanging))
    made._make = client_of
    client: Client = made._client(0, 0)
    assert isinstance(client, BoundedClient)
