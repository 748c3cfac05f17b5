"""etcd as locks and leases: a key that exists belongs to whoever created it.

`lock`: created if absent, deleted if it is still the one that was created. It has no time to live,
so it is kept by whoever got it, and a lock whose acquire or release got lost stays taken.

`lease`: as a lock, and bound to an etcd lease of some seconds that is renewed by keep-alive. The
fencing token is the revision that created the key. A renewal that etcd answers with no time to
live failed definitely: the lease is gone.

`-o guard=none` creates the key whether it is there or not.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc.aio

from clusters.systems.etcd.clients.definite import CONFLICT
from clusters.systems.etcd.clients.ops import EtcdOps, created_at, delete, put
from clusters.systems.etcd.clients.register import classify
from clusters.systems.etcd.wire import message
from dstest.core.protocols import Definite, Indefinite, OpDraft

__all__ = ["EXPIRED", "EtcdLeaseClient", "EtcdLockClient"]

EXPIRED: Final = "expired"
"""Definite: the lease is gone, so nothing was renewed."""

NOT_HELD: Final = "not-held"
"""Definite, ours: this client holds no such lock, so nothing was sent."""


class EtcdLockClient(EtcdOps):
    """acquire (output: {"token": revision}, or false where it is taken), release."""

    name = "lock"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._held: dict[Any, int] = {}

    async def do_acquire(self, op: OpDraft) -> Any:
        if (await self.look(self.path(op.key))).kvs:
            return False
        return await self._create(op.key, 0)

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
        await self.commit([created_at(path, token)], [delete(path)])


class EtcdLeaseClient(EtcdLockClient):
    """acquire and renew with {"ttl_ns": n} (whole seconds), release."""

    name = "lease"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._leases: dict[Any, int] = {}

    async def do_acquire(self, op: OpDraft) -> Any:
        # Looked at first, so that a lease is granted only where there is something to win.
        if (await self.look(self.path(op.key))).kvs:
            return False
        ttl_s = op.input["ttl_ns"] // 1_000_000_000
        try:
            granted = await self.stub.grant(
                message("LeaseGrantRequest")(TTL=ttl_s), timeout=self.left_s()
            )
        except grpc.aio.AioRpcError as error:
            # A lease without a key holds nothing.
            raise Definite(f"grant phase: {classify(error)}") from None
        taken = await self._create(op.key, granted.ID)
        if taken is not False:
            self._leases[op.key] = granted.ID
        return taken

    async def do_renew(self, op: OpDraft) -> None:
        lease = self._leases.get(op.key)
        if lease is None:
            raise Definite(NOT_HELD)
        call = self.stub.keepalive(timeout=self.left_s())
        try:
            await call.write(message("LeaseKeepAliveRequest")(ID=lease))
            async with asyncio.timeout(self.left_s()):
                response = await call.read()
        except TimeoutError:
            raise Indefinite("no answer to the keep-alive") from None
        finally:
            call.cancel()
        if response is grpc.aio.EOF:
            raise Indefinite("the keep-alive stream ended")
        if response.TTL <= 0:
            raise Definite(EXPIRED)

    async def do_release(self, op: OpDraft) -> None:
        self._leases.pop(op.key, None)
        await super().do_release(op)
