"""etcd clients of registers and of transactions: one logical process's view of one member, over
gRPC.

Nothing is retried: gRPC's own retries are off, and a call is sent only on a connection that is
ready, so that a member that cannot be reached gives a *definite* failure (nothing left this host)
instead of an unknown one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import grpc.aio

from clusters.systems.etcd.clients.connection import CONFLICT, DEFINITE_ERRORS, MemberClient, Stub
from clusters.systems.etcd.wire import COMPARE_EQUAL, COMPARE_MOD, COMPARE_VALUE, message
from dstest.core import clock
from dstest.core.protocols import Definite, Indefinite, OpDraft, Reply


def classify(error: grpc.aio.AioRpcError) -> Exception:
    """Definite where the table says so, unknown otherwise."""
    code = error.code().name
    text = f"{code}: {(error.details() or '')[:200]}"
    return Definite(text) if code in DEFINITE_ERRORS else Indefinite(text)


class EtcdClient(MemberClient):
    """Registers under `<root>/<key>`; values are JSON text. Reads of an absent key give None."""

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """read -> value; write -> None; cas [old, new] -> whether it was swapped."""
        stub = self._stub
        if stub is None or not stub.ready:
            raise Definite("not-connected")
        key = f"{self.root}/{op.key}".encode()
        try:
            if op.op_type == "read":
                return Reply(await self._read(stub, key, timeout_s), self._node)
            if op.op_type == "write":
                request = message("PutRequest")(key=key, value=json.dumps(op.input).encode())
                await stub.put(request, timeout=timeout_s)
                return Reply(None, self._node)
            if op.op_type == "cas":
                return Reply(await self._cas(stub, key, op.input, timeout_s), self._node)
        except grpc.aio.AioRpcError as error:
            raise classify(error) from None
        raise Definite(f"unsupported operation: {op.op_type}")

    async def _read(self, stub: Stub, key: bytes, timeout_s: float) -> Any:
        request = message("RangeRequest")(key=key, serializable=self._serializable)
        response = await stub.range(request, timeout=timeout_s)
        return json.loads(response.kvs[0].value) if response.kvs else None

    async def _cas(self, stub: Stub, key: bytes, pair: Any, timeout_s: float) -> bool:
        old, new = (json.dumps(v).encode() for v in pair)
        compare = message("Compare")(result=COMPARE_EQUAL, target=COMPARE_VALUE, key=key, value=old)
        put = message("RequestOp")(request_put=message("PutRequest")(key=key, value=new))
        request = message("TxnRequest")(compare=[compare], success=[put])
        response = await stub.txn(request, timeout=timeout_s)
        return bool(response.succeeded)


class EtcdTxnClient(MemberClient):
    """`["append"|"w"|"r", key, value]` micro-ops. Lists and values are JSON text.

    The keys are read in one etcd transaction, which is atomic. Appends and writes are worked out
    here and sent in a second one, guarded by comparing modification revisions: where another client
    was faster, nothing is written and the transaction failed definitely. Read-only transactions are
    over after the first step.

    `guard` says which keys are compared: `all` that were touched (serializable), the `written` ones
    alone (write skew becomes possible) or `none` (updates get lost). The last two exist to be
    caught.
    """

    def __init__(self, node: str, address: str, options: Mapping[str, Any]) -> None:
        super().__init__(node, address, options)
        self._guard = options.get("guard", "all")

    def _etcd_key(self, key: Any) -> bytes:
        return f"{self.root}/txn/{key}".encode()

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """One transaction; both steps share the time."""
        stub = self._stub
        if stub is None or not stub.ready:
            raise Definite("not-connected")
        if op.op_type != "txn":
            raise Definite(f"unsupported operation: {op.op_type}")
        deadline_ns = clock.monotonic_ns() + int(timeout_s * 1e9)
        try:
            seen, revisions = await self._read(stub, op.input, timeout_s)
        except grpc.aio.AioRpcError as error:
            # Nothing was sent yet that could write.
            raise Definite(f"read phase: {classify(error)}") from None
        output, changed = _apply(op.input, seen)
        if not changed:
            return Reply(output, self._node)
        left_s = max(0.001, (deadline_ns - clock.monotonic_ns()) / 1e9)
        try:
            await self._write(stub, changed, revisions, left_s)
        except grpc.aio.AioRpcError as error:
            raise classify(error) from None
        return Reply(output, self._node)

    async def _read(
        self, stub: Stub, micro_ops: list[list[Any]], timeout_s: float
    ) -> tuple[dict[Any, Any], dict[Any, int]]:
        keys = list(dict.fromkeys(key for _, key, _ in micro_ops))
        ranges = [
            message("RequestOp")(
                request_range=message("RangeRequest")(
                    key=self._etcd_key(key), serializable=self._serializable
                )
            )
            for key in keys
        ]
        reply = await stub.txn(message("TxnRequest")(success=ranges), timeout=timeout_s)
        seen: dict[Any, Any] = {}
        revisions: dict[Any, int] = {}
        for key, response in zip(keys, reply.responses, strict=True):
            pairs = response.response_range.kvs
            seen[key] = json.loads(pairs[0].value) if pairs else None
            revisions[key] = pairs[0].mod_revision if pairs else 0
        return seen, revisions

    async def _write(
        self, stub: Stub, changed: dict[Any, Any], revisions: dict[Any, int], timeout_s: float
    ) -> None:
        guarded = {"all": revisions, "written": changed, "none": {}}[self._guard]
        compares = [
            message("Compare")(
                result=COMPARE_EQUAL,
                target=COMPARE_MOD,
                key=self._etcd_key(key),
                mod_revision=revisions[key],
            )
            for key in guarded
        ]
        puts = [
            message("RequestOp")(
                request_put=message("PutRequest")(
                    key=self._etcd_key(key), value=json.dumps(value).encode()
                )
            )
            for key, value in changed.items()
        ]
        request = message("TxnRequest")(compare=compares, success=puts)
        reply = await stub.txn(request, timeout=timeout_s)
        if not reply.succeeded:
            raise Definite(CONFLICT)


def _apply(
    micro_ops: list[list[Any]], seen: dict[Any, Any]
) -> tuple[list[list[Any]], dict[Any, Any]]:
    """Results of the micro-ops in order, and the new values of written keys."""
    now = dict(seen)
    changed: dict[Any, Any] = {}
    output: list[list[Any]] = []
    for kind, key, value in micro_ops:
        if kind == "r":
            output.append(["r", key, now[key]])
            continue
        now[key] = [*(now[key] or []), value] if kind == "append" else value
        changed[key] = now[key]
        output.append([kind, key, value])
    return output, changed
