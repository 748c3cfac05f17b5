"""etcd as sets, queues, counters, banks, ledgers, id generators and groups of keys.

| capability | how it is kept |
|---|---|
| set | one key per element; a read is one range over the prefix |
| queue | one key per element in order of creation; the oldest is deleted if it is still as read |
| counter, unique-ids | one key; read, then put if it is still as read |
| bank | one key per account, absent = initial balance; a transfer puts two if both are as read |
| ledger | one key per business id, put if it is absent; its version says how often it was put |
| group | one key per member, a put each; a read is one range over the prefix |

A guard that fails has applied nothing, so the client reads again until its time is up, as users'
code does; then the operation failed definitely. `-o guard=none` compares nothing: updates get lost,
elements come out twice, ids are given twice, payments are made twice.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from clusters.systems.etcd.clients.definite import CONFLICT
from clusters.systems.etcd.clients.ops import (
    EtcdOps,
    created_at,
    delete,
    modified_at,
    put,
)
from clusters.systems.etcd.wire import SORT_ASCEND, SORT_BY_CREATE
from dstest.core.protocols import Definite, OpDraft

_TRIES: Final = 12


async def _retried(step: Callable[[], Awaitable[Any]]) -> Any:
    """`step` again while its guard fails: each failure applied nothing."""
    for _ in range(_TRIES - 1):
        try:
            return await step()
        except Definite as error:
            if str(error) != CONFLICT:
                raise
    return await step()


class EtcdSetClient(EtcdOps):
    """add, read."""

    name = "set"

    async def do_add(self, op: OpDraft) -> None:
        await self.write(self.path(op.key, op.input), op.input)

    async def do_read(self, op: OpDraft) -> list[Any]:
        response = await self.range(self.path(op.key, ""), prefix=True)
        return [json.loads(kv.value) for kv in response.kvs]


class EtcdQueueClient(EtcdOps):
    """enqueue, dequeue; null where the queue is empty."""

    name = "queue"

    async def do_enqueue(self, op: OpDraft) -> None:
        await self.write(self.path(op.key, op.input), op.input)

    async def do_dequeue(self, op: OpDraft) -> Any:
        return await _retried(lambda: self._take(self.path(op.key, "")))

    async def _take(self, prefix: bytes) -> Any:
        response = await self.look(
            prefix, prefix=True, limit=1, sort_order=SORT_ASCEND, sort_target=SORT_BY_CREATE
        )
        if not response.kvs:
            return None
        head = response.kvs[0]
        await self.commit([modified_at(head.key, head.mod_revision)], [delete(head.key)])
        return json.loads(head.value)


class EtcdCounterClient(EtcdOps):
    """inc (output: the value after), read."""

    name = "counter"

    async def do_inc(self, op: OpDraft) -> int:
        found: int = await _retried(lambda: self._add(self.path(op.key), op.input))
        return found

    async def _add(self, key: bytes, delta: int) -> int:
        kvs = (await self.look(key)).kvs
        value = (json.loads(kvs[0].value) if kvs else 0) + delta
        revision = kvs[0].mod_revision if kvs else 0
        await self.commit([modified_at(key, revision)], [put(key, value)])
        return int(value)

    async def do_read(self, op: OpDraft) -> int:
        kvs = (await self.range(self.path(op.key))).kvs
        return int(json.loads(kvs[0].value)) if kvs else 0


class EtcdIdClient(EtcdCounterClient):
    """generate: the next number of one counter."""

    name = "ids"

    async def do_generate(self, op: OpDraft) -> int:
        found: int = await _retried(lambda: self._add(self.path("next"), 1))
        return found


class EtcdBankClient(EtcdOps):
    """transfer (output: whether there was enough money), read (all balances)."""

    name = "bank"

    def _accounts(self, response: Any) -> dict[str, tuple[int, int]]:
        """Balance and revision of each account."""
        start = int(self._options["bank_balance"])
        accounts = {str(i): (start, 0) for i in range(int(self._options["bank_accounts"]))}
        for kv in response.kvs:
            name = kv.key.rsplit(b"/", 1)[1].decode()
            accounts[name] = (int(json.loads(kv.value)), kv.mod_revision)
        return accounts

    async def do_read(self, op: OpDraft) -> dict[str, int]:
        response = await self.range(self.path("account", ""), prefix=True)
        return {name: balance for name, (balance, _) in self._accounts(response).items()}

    async def do_dump(self, op: OpDraft) -> dict[str, int]:
        """What this member itself holds, once it has applied all that was agreed upon before."""
        prefix = self.path("account", "")
        await self.range(prefix, prefix=True, limit=1, serializable=False)
        response = await self.range(prefix, prefix=True, serializable=True)
        return {name: balance for name, (balance, _) in self._accounts(response).items()}

    async def do_transfer(self, op: OpDraft) -> bool:
        found: bool = await _retried(lambda: self._move(op.input))
        return found

    async def _move(self, asked: dict[str, Any]) -> bool:
        accounts = self._accounts(await self.look(self.path("account", ""), prefix=True))
        a, b, amount = str(asked["from"]), str(asked["to"]), asked["amount"]
        if accounts[a][0] < amount:
            return False
        keys = {name: self.path("account", name) for name in (a, b)}
        await self.commit(
            [modified_at(keys[name], accounts[name][1]) for name in (a, b)],
            [put(keys[a], accounts[a][0] - amount), put(keys[b], accounts[b][0] + amount)],
        )
        return True


class EtcdLedgerClient(EtcdOps):
    """credit (output: whether it was the first), audit (ids of all effects of one account)."""

    name = "ledger"

    async def do_credit(self, op: OpDraft) -> bool:
        key = self.path(op.key, op.input["id"])
        try:
            await self.commit([created_at(key, 0)], [put(key, op.input["amount"])])
        except Definite as error:
            if str(error) != CONFLICT:
                raise
            return False
        return True

    async def do_audit(self, op: OpDraft) -> list[str]:
        response = await self.range(self.path(op.key, ""), prefix=True)
        effects = []
        for kv in response.kvs:
            effects += [kv.key.rsplit(b"/", 1)[1].decode()] * kv.version
        return effects


class EtcdGroupClient(EtcdOps):
    """write one member of a group, read the whole group."""

    name = "group"

    async def do_write(self, op: OpDraft) -> None:
        member, value = op.input
        await self.write(self.path(op.key, member), value)

    async def do_read(self, op: OpDraft) -> list[list[Any]]:
        response = await self.range(self.path(op.key, ""), prefix=True)
        return [[kv.key.rsplit(b"/", 1)[1].decode(), json.loads(kv.value)] for kv in response.kvs]
