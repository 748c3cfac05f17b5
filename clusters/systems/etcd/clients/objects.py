"""etcd as sets, queues, counters, banks, ledgers, id generators, groups of keys, locks and leases.

| capability | how it is kept |
|---|---|
| set | one key per element; a read is one range over the prefix |
| queue | one key per element in order of creation; the oldest is deleted if it is still as read |
| counter, unique-ids | one key; read, then put if it is still as read |
| bank | one key per account, absent = initial balance; a transfer puts two if both are as read |
| ledger | one key per business id, put if it is absent; its version says how often it was put |
| group | one key per member, a put each; a read is one range over the prefix |
| lock, lease | a key that exists belongs to whoever created it |

A guard that fails has applied nothing, so the client reads again until its time is up, as users'
code does; then the operation failed definitely. `-o guard=none` compares nothing: updates get lost,
elements come out twice, ids are given twice, payments are made twice, locks have several owners.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import grpc.aio

from clusters.systems.etcd.clients.connection import CONFLICT, MemberClient
from clusters.systems.etcd.clients.register import classify
from clusters.systems.etcd.wire import (
    COMPARE_CREATE,
    COMPARE_EQUAL,
    COMPARE_MOD,
    SORT_ASCEND,
    SORT_BY_CREATE,
    after_prefix,
    message,
)
from dstest.core import clock
from dstest.core.protocols import NOT_HELD, Definite, Indefinite, OpDraft, Reply

__all__ = [
    "EtcdOps",
    "created_at",
    "delete",
    "modified_at",
    "put",
]


"""Definite: etcd answered that a comparison failed, so nothing was applied."""

EXPIRED: Final = "expired"
"""Definite: the lease is gone, so nothing was renewed."""


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


class EtcdOps(MemberClient):
    """Base of the clients: connection, deadline, outcomes, small requests. `guarded` is false under
    `-o guard=none`: writes compare nothing.

    A client has one method per operation, `do_<op_type>(op)`, which returns the output. What is
    read before anything is written goes through `look`: its failure is definite, because nothing
    was sent that could have had an effect. A write that is refused by its guard is
    `Definite("conflict")`.
    """

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
        """`<root>/<name>/<parts>`."""
        return "/".join([self.root, self.name, *map(str, parts)]).encode()

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


_TRIES: Final = 12


async def _retry(step: Callable[[], Awaitable[Any]]) -> Any:
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
        return await _retry(lambda: self._take(self.path(op.key, "")))

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
        found: int = await _retry(lambda: self._add(self.path(op.key), op.input))
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
        found: int = await _retry(lambda: self._add(self.path("next"), 1))
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
        found: bool = await _retry(lambda: self._move(op.input))
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


class EtcdLockClient(EtcdOps):
    """acquire (output: {"token": revision}, or false where it is taken), release.

    Created if absent, deleted if it is still the one that was created. It has no time to live, so
    it is kept by whoever got it, and a lock whose acquire or release got lost stays taken. With `-o
    lock_ttl_s` it is bound to an etcd lease that the client keeps alive, as etcd's own lock is
    (`concurrency.Mutex`): it expires when etcd is not reached in time, whatever its holder does.
    """

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
    """acquire and renew with {"ttl_ns": n} (whole seconds), release.

    As a lock, and bound to an etcd lease of some seconds that is renewed by keep-alive. The fencing
    token is the revision that created the key. A renewal that etcd answers with no time to live
    failed definitely: the lease is gone.
    """

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
