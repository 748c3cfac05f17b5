"""A second client of etcd: its JSON gateway over plain sockets, without gRPC and protobuf.

It exists to be compared with the first one: what only one of them sees is no bug of etcd's. Each
request has a connection of its own. Where none could be made, nothing was sent; whatever fails
later leaves the outcome unknown, but for requests that etcd calls malformed.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.supervise.wire import answer_of, post
from clusters.systems.etcd.clients.connection import ROOT
from clusters.systems.etcd.on_node import token_for
from dstest.core.protocols import Definite, Endpoint, Indefinite, OpDraft, Reply

_INVALID: Final = 3
"""The number of gRPC's INVALID_ARGUMENT, which the gateway gives as `code`."""


def _text(value: Any) -> str:
    """As the gateway has bytes."""
    return base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()


class RawRegister:
    """read, write and cas of the same keys as `EtcdClient`."""

    def __init__(self, at: Endpoint, every: Sequence[Endpoint], options: Mapping[str, Any]) -> None:
        self._node = at.node
        self._place = (at.dial or at.address, at.port)
        self._root = at.prefix or ROOT
        self._serializable = options.get("reads", "linearizable") == "serializable"
        token = token_for(options)
        self._headers = f"Authorization: {token}\r\n" if token else ""

    async def open(self) -> None:
        return

    async def close(self) -> None:
        return

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """read -> value; write -> None; cas [old, new] -> whether it was swapped."""
        act = getattr(self, f"do_{op.op_type}", None)
        if act is None:
            raise Definite(f"unsupported operation: {op.op_type}")
        try:
            async with asyncio.timeout(timeout_s):
                return Reply(await act(op, _text(f"{self._root}/{op.key}")), self._node)
        except TimeoutError:
            raise Indefinite("timeout") from None

    async def do_read(self, op: OpDraft, key: str) -> Any:
        asked = {"key": key, "serializable": self._serializable}
        found = (await self._ask("/v3/kv/range", asked)).get("kvs")
        return json.loads(base64.b64decode(found[0]["value"])) if found else None

    async def do_write(self, op: OpDraft, key: str) -> None:
        await self._ask("/v3/kv/put", {"key": key, "value": _text(json.dumps(op.input))})

    async def do_cas(self, op: OpDraft, key: str) -> bool:
        old, new = (_text(json.dumps(value)) for value in op.input)
        compare = {"result": "EQUAL", "target": "VALUE", "key": key, "value": old}
        put = {"requestPut": {"key": key, "value": new}}
        said = await self._ask("/v3/kv/txn", {"compare": [compare], "success": [put]})
        return bool(said.get("succeeded"))

    async def _ask(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            reader, writer = await asyncio.open_connection(*self._place)
        except OSError:
            raise Definite("not-connected") from None
        try:
            writer.write(post(path, json.dumps(asked).encode(), self._headers))
            status, body = answer_of(await reader.read())
            said = json.loads(body)
        except (OSError, ValueError) as error:
            raise Indefinite(f"{type(error).__name__}: {error}") from None
        finally:
            writer.close()
        if status == 200 and isinstance(said, dict):
            return said
        if isinstance(said, dict) and said.get("code") == _INVALID:
            raise Definite(f"INVALID_ARGUMENT: {said.get('error')}"[:200])
        raise Indefinite(f"{status}: {body[:200]}")


RAW_CLIENTS: Final = {"register": RawRegister}
"""By capability."""
