"""etcd as a store of tenants: `/dstest/tenants/<tenant>/<key>`, the tenant percent-encoded, so
that its name holds no slash, and the key as it is.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from clusters.systems.etcd.clients.objects import EtcdOps
from clusters.systems.etcd.wire import after_prefix, message
from dstest.core.protocols import OpDraft


class EtcdTenantClient(EtcdOps):
    """A tenant's keys are one range: it is listed, counted by the server, and deleted as such."""

    name = "tenants"

    def _all(self, op: OpDraft) -> bytes:
        return self.path(quote(str(op.key), safe=""), "")

    def _one(self, op: OpDraft) -> bytes:
        return self._all(op) + str(op.input["name"]).encode()

    async def do_put(self, op: OpDraft) -> None:
        await self.write(self._one(op), op.input["value"])

    async def do_drop(self, op: OpDraft) -> None:
        whole = self._all(op)
        request = message("DeleteRangeRequest")(key=whole, range_end=after_prefix(whole))
        await self.commit([], [message("RequestOp")(request_delete_range=request)])

    async def do_get(self, op: OpDraft) -> Any:
        kvs = (await self.range(self._one(op))).kvs
        return json.loads(kvs[0].value) if kvs else None

    async def do_list(self, op: OpDraft) -> list[list[Any]]:
        whole = self._all(op)
        kvs = (await self.range(whole, prefix=True)).kvs
        return [[kv.key.removeprefix(whole).decode(), json.loads(kv.value)] for kv in kvs]

    async def do_count(self, op: OpDraft) -> int:
        """All in the range, of which one is asked for."""
        return int((await self.range(self._all(op), prefix=True, limit=1)).count)

    do_probe, do_probe_list, do_probe_count = do_get, do_list, do_count
