"""etcd as locks and leases: a key that exists belongs to whoever created it.

`lock`: created if absent, deleted if it is still the one that was created. It has no time to live,
so it is kept by whoever got it, and a lock whose acquire or release got lost stays taken. With
`-o lock_ttl_s` it is bound to an etcd lease that the client keeps alive, as etcd's own lock is
(`concurrency.Mutex`): it expires when etcd is not reached in time, whatever its holder does.

`lease`: as a lock, and bound to an etcd lease of some seconds that is renewed by keep-alive. The
fencing token is the revision that created the key. A renewal that etcd answers with no time to
live failed definitely: the lease is gone.

`-o guard=none` creates the key whether it is there or not.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import grpc.aio

from clusters.systems.etcd.clients.definite import CONFLICT
from clusters.systems.etcd.clients.ops import EtcdOps, created_at, delete, put
from clusters.systems.etcd.clients.register import classify
from clusters.systems.etcd.wire import message
from dstest.core.protocols import NOT_HELD, Definite, Indefinite, OpDraft

EXPIRED: Final = "expired"
"""Definite: the lease is gone, so nothing was renewed."""


class EtcdLockClient(EtcdOps):
    """acquire (output: {"token": revision}, or false where it is taken), release."""

    name = "lock"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._held: dict[Any, int] = {}
        self._ttl_s = int(self._options.get("lock_ttl_s", 0))
        self._keepers: dict[Any, asyncio.Task[None]] = {}

    @property
    def expires(self) -> bool:
        """May a hold end without a release? Else etcd must not have forgotten it."""
        return self._ttl_s > 0

    async def do_acquire(self, op: OpDraft) -> Any:
        if (await self.look(self.path(op.key))).kvs:
            return False
        if not self._ttl_s:
            return await self._create(op.key, 0)
        lease = await self._grant(self._ttl_s)
        taken = await self._create(op.key, lease)
        if taken is not False:
            self._keepers[op.key] = asyncio.create_task(self._keep(lease))
        return taken

    async def _grant(self, ttl_s: int) -> int:
        """A new lease, which holds nothing until a key is bound to it."""
        try:
            granted = await self.stub.grant(
                message("LeaseGrantRequest")(TTL=ttl_s), timeout=self.left_s()
            )
        except grpc.aio.AioRpcError as error:
            raise Definite(f"grant phase: {classify(error)}") from None
        return int(granted.ID)

    async def _keep(self, lease: int) -> None:
        """Until somebody stops it: a keep-alive after each third of the time to live."""
        every_s = self._ttl_s / 3
        while True:
            await asyncio.sleep(every_s)
            with suppress(Exception):
                await self._keep_alive(lease, every_s)

    async def _keep_alive(self, lease: int, timeout_s: float) -> Any:
        """What etcd answers to one keep-alive."""
        call = self.stub.keepalive(timeout=timeout_s)
        try:
            await call.write(message("LeaseKeepAliveRequest")(ID=lease))
            async with asyncio.timeout(timeout_s):
                return await call.read()
        finally:
            call.cancel()

    async def close(self) -> None:
        for keeper in self._keepers.values():
            keeper.cancel()
        self._keepers.clear()
        await super().close()

    async def _create(self, key: Any, lease: int) -> Any:
        path = self.path(key)
        try:
            response = await self.commit([created_at(path, 0)], [put(path, self._node, lease)])
        except Definite as error:
            if str(error) == CONFLICT:
                return False
            raise
        self._held[key] = int(response.header.revision)
        return {"token": self._held[key]}

    async def do_release(self, op: OpDraft) -> None:
        token = self._held.pop(op.key, None)
        if token is None:
            raise Definite(NOT_HELD)
        path = self.path(op.key)
        keeper = self._keepers.pop(op.key, None)
        if keeper is not None:
            keeper.cancel()
        try:
            await self.commit([created_at(path, token)], [delete(path)])
        except Definite as error:
            if str(error) == CONFLICT and self.expires:
                raise Definite(f"{NOT_HELD}: it has expired, or is another one's") from None
            if keeper is not None:
                raise Indefinite(f"left to expire: {error}") from None
            raise


class EtcdLeaseClient(EtcdLockClient):
    """acquire and renew with {"ttl_ns": n} (whole seconds), release."""

    name = "lease"
    expires = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._leases: dict[Any, int] = {}

    async def do_acquire(self, op: OpDraft) -> Any:
        # Looked at first, so that a lease is granted only where there is something to win.
        if (await self.look(self.path(op.key))).kvs:
            return False
        lease = await self._grant(op.input["ttl_ns"] // 1_000_000_000)
        taken = await self._create(op.key, lease)
        if taken is not False:
            self._leases[op.key] = lease
        return taken

    async def do_renew(self, op: OpDraft) -> None:
        lease = self._leases.get(op.key)
        if lease is None:
            raise Definite(NOT_HELD)
        try:
            response = await self._keep_alive(lease, self.left_s())
        except TimeoutError:
            raise Indefinite("no answer to the keep-alive") from None
        if response is grpc.aio.EOF:
            raise Indefinite("the keep-alive stream ended")
        if response.TTL <= 0:
            raise Definite(EXPIRED)

    async def do_release(self, op: OpDraft) -> None:
        self._leases.pop(op.key, None)
        await super().do_release(op)
