"""etcd clients: one logical process's view of one member, over gRPC.

Nothing is retried: gRPC's own retries are off, and a call is sent only on a connection that is
ready, so that a member that cannot be reached gives a *definite* failure (nothing left this host)
instead of an unknown one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import grpc
import grpc.aio

from clusters.systems.etcd.clients.dial import Dialed
from clusters.systems.etcd.clients.stub import CLIENT_PORT, Stub
from clusters.systems.etcd.wire import COMPARE_EQUAL, COMPARE_VALUE, message
from dstest.core.protocols import Definite, Indefinite, OpDraft, Reply

__all__ = ["CLIENT_PORT", "DEFINITE_ERRORS", "EtcdClient", "Stub", "classify"]

DEFINITE_ERRORS: Final[Mapping[str, str]] = {
    "not-connected": (
        "ours: the connection was not READY before the call, so no byte of it was sent"
    ),
    "conflict": (
        "etcd's rpc.proto, TxnRequest: 'success is a list of requests which will be applied when "
        "compare evaluates to true'; it did not, and there are no others"
    ),
    "expired": (
        "etcd's rpc.proto, LeaseKeepAliveResponse: 'TTL is the new time-to-live for the lease'; "
        "etcd answers 0 for a lease that it does not know any more"
    ),
    "not-held": "ours: the client holds nothing that it could renew or release, so nothing is sent",
    "read phase": "ours: the client reads before it writes anything, and the read failed",
    "grant phase": "ours: the client asks for a lease before it writes anything, and got none",
    "unsupported operation": "ours: the client knows no such operation, and sends nothing",
    "INVALID_ARGUMENT": (
        "gRPC status codes: 'The client specified an invalid argument'; etcd checks a request's "
        "shape before it proposes it"
    ),
    "UNIMPLEMENTED": (
        "gRPC status codes: 'The operation is not implemented or is not supported/enabled in this "
        "service'"
    ),
    "PERMISSION_DENIED": (
        "gRPC status codes: 'The caller does not have permission to execute the specified "
        "operation'"
    ),
    "UNAUTHENTICATED": (
        "gRPC status codes: 'The request does not have valid authentication credentials for the "
        "operation'"
    ),
}
"""Error code -> where it is documented that the request had no effect. All others are unknown:
UNAVAILABLE in particular, of which gRPC says that the server may have seen the request."""


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
