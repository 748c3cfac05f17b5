"""etcd as locks: one with a time to live is kept alive by its holder's client."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.systems.etcd.clients import CLIENTS, client_of
from clusters.systems.etcd.clients.connection import CONFLICT
from clusters.systems.etcd.clients.objects import EtcdLockClient
from dstest.core.protocols import NOT_HELD, Definite, Endpoint, OpDraft

pytestmark = pytest.mark.slow

END = Endpoint(node="n1", address="127.0.0.1", port=2379)


class Stub:
    """An etcd that gives each lock to whoever asks. `alive` are leases that were kept alive."""

    ready = True
    calls = 0

    def __init__(self) -> None:
        self.alive: list[int] = []
        self.bound: list[int] = []
        self.mine = True

    async def range(self, request: Any, **_: float) -> Any:
        return SimpleNamespace(kvs=[])

    async def grant(self, request: Any, **_: float) -> Any:
        assert request.TTL == 3
        return SimpleNamespace(ID=77)

    async def txn(self, request: Any, **_: float) -> Any:
        self.bound += [op.request_put.lease for op in request.success if op.request_put.key]
        return SimpleNamespace(succeeded=self.mine, header=SimpleNamespace(revision=5))

    def keepalive(self, **_: float) -> Any:
        async def write(request: Any) -> None:
            self.alive.append(request.ID)

        async def read() -> Any:
            return SimpleNamespace(TTL=3)

        return SimpleNamespace(write=write, read=read, cancel=lambda: None)

    async def close(self) -> None:
        return None


def locked(**options: Any) -> tuple[EtcdLockClient, Stub]:
    client, stub = EtcdLockClient("n1", "10.0.0.1:2379", options), Stub()
    client._stub = stub  # type: ignore[assignment]
    return client, stub


@pytest.mark.parametrize("ends", ["release", "close"])
def test_a_lock_with_a_time_to_live_is_kept_alive_until_it_is_given_up(
    monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    async def main() -> None:
        client, stub = locked(lock_ttl_s=3)
        monkeypatch.setattr(client, "_ttl_s", 3)
        await client.invoke(OpDraft("acquire", "l"), 1.0)
        assert stub.bound == [77]
        (keeper,) = client._keepers.values()
        await asyncio.sleep(1.2)
        assert stub.alive == [77]
        if ends == "release":
            await client.invoke(OpDraft("release", "l"), 1.0)
        else:
            await client.close()
        await asyncio.sleep(0)
        assert keeper.cancelled()
        assert not client._keepers

    asyncio.run(main())


@pytest.mark.parametrize(("ttl_s", "code"), [(0, CONFLICT), (3, NOT_HELD)])
def test_a_release_of_what_has_gone_says_that_it_is_not_held_where_it_may_expire(
    ttl_s: int, code: str
) -> None:
    async def main() -> tuple[str, str]:
        client, stub = locked(lock_ttl_s=ttl_s)
        await client.invoke(OpDraft("acquire", "l"), 1.0)
        stub.mine = False
        with pytest.raises(Definite) as gone:
            await client.invoke(OpDraft("release", "l"), 1.0)
        with pytest.raises(Definite) as again:
            await client.invoke(OpDraft("release", "l"), 1.0)
        return gone.value.code, again.value.code

    assert asyncio.run(main()) == (code, NOT_HELD)


@pytest.mark.parametrize("capability", CLIENTS)
def test_every_capability_has_a_client(capability: str) -> None:
    # They are imported by name, so that no import of the system shows one that is not there.
    assert client_of(capability, END, {})
