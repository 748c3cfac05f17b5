"""The workloads' operations as statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters.sql.client import SqlClient
from clusters.sql.isolation_clients import PairsClient, PredicateClient, ViewsClient
from dstest.core.protocols import OpDraft


class RegisterClient(SqlClient):
    """read, write, cas."""

    async def do_read(self, op: OpDraft) -> Any:
        return await self.one("registers", op.key)

    async def do_write(self, op: OpDraft) -> None:
        if self.options["writes"] == "upsert":
            await self.put("registers", op.key, op.input)
        else:
            await self.transact(lambda: self.put("registers", op.key, op.input))

    async def do_cas(self, op: OpDraft) -> bool:
        old, new = op.input
        text = f"UPDATE {self.table('registers', op.key)} SET v = ? WHERE k = ? AND v = ?"
        return await self.change(text, new, str(op.key), old) == 1


class TxnClient(SqlClient):
    """Transactions of reads, writes and appends."""

    async def do_txn(self, op: OpDraft) -> list[list[Any]]:
        return await self.transact(lambda: self._all(op.input))

    async def _all(self, micro_ops: list[list[Any]]) -> list[list[Any]]:
        return [[kind, key, await self._micro_op(kind, key, v)] for kind, key, v in micro_ops]

    async def _micro_op(self, kind: str, key: Any, value: Any) -> Any:
        raise NotImplementedError


class TxnRegisterClient(TxnClient):
    async def _micro_op(self, kind: str, key: Any, value: Any) -> Any:
        if kind == "r":
            return await self.one("registers", key)
        await self.put("registers", key, value)
        return value


class TxnAppendClient(TxnClient):
    """A list is a text, with commas between its elements."""

    async def _micro_op(self, kind: str, key: Any, value: Any) -> Any:
        if kind == "r":
            found = await self.one("lists", key)
            return None if found is None else [int(word) for word in found.split(",")]
        if self.options["writes"] == "upsert":
            table = self.table("lists", key)
            await self.change(self.dialect.append.format(table=table), str(key), str(value))
        else:
            found = await self.one("lists", key)
            text = f"{found},{value}" if found else str(value)
            await self._write_back("lists", key, text, there=found is not None)
        return value


class SetClient(SqlClient):
    async def do_add(self, op: OpDraft) -> None:
        text = f"INSERT INTO {self.table('elements', op.key)} (k, v) VALUES (?, ?)"
        await self.change(text, str(op.key), op.input)

    async def do_read(self, op: OpDraft) -> list[Any]:
        text = f"SELECT v FROM {self.table('elements', op.key)} WHERE k = ?"
        return [row[0] for row in await self.rows(text, str(op.key))]


class CounterClient(SqlClient):
    async def do_inc(self, op: OpDraft) -> int:
        return await self.transact(lambda: self._inc(op.key, op.input))

    async def _inc(self, key: Any, amount: int) -> int:
        table = self.table("counters", key)
        await self.change(self.dialect.add.format(table=table), str(key), amount)
        return int(await self.one("counters", key))

    async def do_read(self, op: OpDraft) -> int:
        return int(await self.one("counters", op.key) or 0)


class BankClient(SqlClient):
    """Balances are read, and written back."""

    async def do_read(self, op: OpDraft) -> dict[str, int]:
        rows = await self.rows("SELECT id, v FROM accounts")
        return {str(account): int(balance) for account, balance in rows}

    async def do_dump(self, op: OpDraft) -> dict[str, int]:
        return await self.do_read(op)

    async def do_transfer(self, op: OpDraft) -> bool:
        return await self.transact(lambda: self._move(**_from_to(op.input)))

    async def _move(self, source: int, target: int, amount: int) -> bool:
        held = {
            account: (await self.rows("SELECT v FROM accounts WHERE id = ?", account))[0][0]
            for account in (source, target)
        }
        if held[source] < amount:
            return False
        for account, by in ((source, -amount), (target, amount)):
            text = "UPDATE accounts SET v = ? WHERE id = ?"
            await self.change(text, held[account] + by, account)
        return True


def _from_to(given: Mapping[str, int]) -> dict[str, int]:
    return {"source": given["from"], "target": given["to"], "amount": given["amount"]}


class GroupClient(SqlClient):
    async def do_write(self, op: OpDraft) -> None:
        member, value = op.input
        text = f"INSERT INTO {self.table('members', op.key)} (k, m, v) VALUES (?, ?, ?)"
        await self.change(text, str(op.key), member, value)

    async def do_read(self, op: OpDraft) -> list[list[Any]]:
        text = f"SELECT m, v FROM {self.table('members', op.key)} WHERE k = ?"
        return [list(row) for row in await self.rows(text, str(op.key))]


class IdsClient(SqlClient):
    async def do_generate(self, op: OpDraft) -> int:
        return int((await self.rows(self.dialect.next_id))[0][0])


_CLIENTS: Mapping[str, type[SqlClient]] = {
    "register": RegisterClient,
    "txn-register": TxnRegisterClient,
    "txn-append": TxnAppendClient,
    "set": SetClient,
    "counter": CounterClient,
    "bank": BankClient,
    "group": GroupClient,
    "unique-ids": IdsClient,
    "views": ViewsClient,
    "pairs": PairsClient,
    "predicates": PredicateClient,
}


def clients_on(connecting: type[SqlClient]) -> dict[str, Any]:
    """By capability, the clients that connect as this one does."""
    return {
        capability: type(kind.__name__, (kind, connecting), {})
        for capability, kind in _CLIENTS.items()
    }
