"""etcd clients: one logical process's view of one member, over gRPC.

Nothing is retried: gRPC's own retries are off, and a call is sent only on a connection that is
ready, so that a member that cannot be reached gives a *definite* failure (nothing left this host)
instead of an unknown one.
"""

from __future__ import annotations

import json
from typing import Any

import grpc.aio

from clusters.systems.etcd.clients.definite import DEFINITE_ERRORS
from clusters.systems.etcd.clients.dial import Dialed
from clusters.systems.etcd.clients.stub import Stub
from clusters.systems.etcd.wire import COMPARE_EQUAL, COMPARE_VALUE, message
from dstest.core.protocols import Definite, Indefinite, OpDraft, Reply


def classify(error: grpc.aio.AioRpcError) -> Exception:
    """Definite where the table says so, unknown otherwise."""
    code = error.code().name
    text = f"{code}: {(error.details() or '')[:200]}"
    return Definite(text) if code in DEFINITE_ERRORS else Indefinite(text)


class EtcdClient(Dialed):
    """Registers under `/dstest/<key>`; values are JSON text. Reads of an absent key give None."""

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """read -> value; write -> None; cas [old, new] -> whether it was swapped."""
        stub = self._stub
        if stub is None or not stub.ready:
            raise Definite("not-connected")
        key = f"/dstest/{op.key}".encode()
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
