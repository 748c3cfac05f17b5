"""What all etcd clients of single objects share: connection, deadline, outcomes, small requests.

A client has one method per operation, `do_<op_type>(op)`, which returns the output. What is read
before anything is written goes through `look`: its failure is definite, because nothing was sent
that could have had an effect. A write that is refused by its guard is `Definite("conflict")`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import grpc.aio

from clusters.systems.etcd.clients.definite import CONFLICT
from clusters.systems.etcd.clients.dial import Dialed
from clusters.systems.etcd.clients.register import classify
from clusters.systems.etcd.wire import COMPARE_CREATE, COMPARE_EQUAL, COMPARE_MOD, message
from dstest.core import clock
from dstest.core.protocols import Definite, OpDraft, Reply

__all__ = ["EtcdOps", "after_prefix", "created_at", "delete", "modified_at", "put"]

"""Definite: etcd answered that a comparison failed, so nothing was applied."""


def after_prefix(prefix: bytes) -> bytes:
    """The `range_end` that makes a range out of a prefix."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def put(key: bytes, value: Any, lease: int = 0) -> Any:
    """A put inside a transaction; the value becomes JSON text."""
    request = message("PutRequest")(key=key, value=json.dumps(value).encode(), lease=lease)
    return message("RequestOp")(request_put=request)


def delete(key: bytes) -> Any:
    """A delete inside a transaction."""
    return message("RequestOp")(request_delete_range=message("DeleteRangeRequest")(key=key))


def modified_at(key: bytes, revision: int) -> Any:
    """The key was last modified at this revision; 0 = it does not exist."""
    return message("Compare")(
        result=COMPARE_EQUAL, target=COMPARE_MOD, key=key, mod_revision=revision
    )


def created_at(key: bytes, revision: int) -> Any:
    """The key was created at this revision; 0 = it does not exist."""
    return message("Compare")(
        result=COMPARE_EQUAL, target=COMPARE_CREATE, key=key, create_revision=revision
    )


class EtcdOps(Dialed):
    """Base of the clients. `guarded` is false under `-o guard=none`: writes compare nothing."""

    name = "ops"

    def __init__(self, node: str, address: str, options: Mapping[str, Any]) -> None:
        super().__init__(node, address, options)
        self._options = options
        self.guarded = options.get("guard", "all") != "none"
        self._deadline_ns = 0

    @property
    def stub(self) -> Any:
        """The connection, once opened."""
        assert self._stub is not None
        return self._stub

    def left_s(self) -> float:
        """Seconds that the operation still has."""
        return max(0.001, (self._deadline_ns - clock.monotonic_ns()) / 1e9)

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """Do the operation; all its steps share the time."""
        if self._stub is None or not self._stub.ready:
            raise Definite("not-connected")
        act = getattr(self, f"do_{op.op_type}", None)
        if act is None:
            raise Definite(f"unsupported operation: {op.op_type}")
        self._deadline_ns = clock.monotonic_ns() + int(timeout_s * 1e9)
        try:
            return Reply(await act(op), self._node)
        except grpc.aio.AioRpcError as error:
            raise classify(error) from None

    def path(self, *parts: Any) -> bytes:
        """`/dstest/<name>/<parts>`."""
        return "/".join(["/dstest", self.name, *map(str, parts)]).encode()

    async def range(self, key: bytes, *, prefix: bool = False, **fields: Any) -> Any:
        """A range request; with `prefix` all keys that begin with `key`."""
        if prefix:
            fields["range_end"] = after_prefix(key)
        fields.setdefault("serializable", self._serializable)
        request = message("RangeRequest")(key=key, **fields)
        return await self.stub.range(request, timeout=self.left_s())

    async def look(self, key: bytes, **fields: Any) -> Any:
        """A range request before a write: nothing was sent yet that could have an effect."""
        try:
            return await self.range(key, **fields)
        except grpc.aio.AioRpcError as error:
            raise Definite(f"read phase: {classify(error)}") from None

    async def write(self, key: bytes, value: Any) -> int:
        """A plain put; returns its revision."""
        request = message("PutRequest")(key=key, value=json.dumps(value).encode())
        response = await self.stub.put(request, timeout=self.left_s())
        return int(response.header.revision)

    async def commit(self, compares: Sequence[Any], operations: Sequence[Any]) -> Any:
        """A transaction; `compares` are dropped where guards are off. Raises Definite(conflict)."""
        request = message("TxnRequest")(
            compare=list(compares) if self.guarded else [], success=list(operations)
        )
        response = await self.stub.txn(request, timeout=self.left_s())
        if not response.succeeded:
            raise Definite(CONFLICT)
        return response
