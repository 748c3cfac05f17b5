"""The workloads' operations as statements, those for single anomalies among them, over a library's
connection (`SqlLink`), in what dialects do not say alike; and the tables of all workloads, made
once before the load.

An operation is one statement, or a transaction that is begun and committed. What fails before its
COMMIT has been sent took no effect: a server commits nothing by itself. Which errors of a COMMIT
say as much is the library's to tell, see `refused`.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final, Protocol, TypeVar

import msgspec

from clusters.supervise.ops import LinkedClient, error_text
from dstest.core.protocols import Definite, OpDraft

KEYED: Final = ("registers", "lists", "counters", "elements", "members", "views", "pairs", "rows")
"""Kinds of tables of which there are several, with keys spread over them."""

READ_BY: Final[Mapping[str, str]] = {"key": "k", "index": "i", "scan": "s"}
"""Option -> the column by which registers and lists are looked up; each holds the key."""

LOOKED_UP: Final = ("registers", "lists")

_COLUMNS: Final[Mapping[str, str]] = {
    "registers": "k VARCHAR(64) PRIMARY KEY, v BIGINT",
    "lists": "k VARCHAR(64) PRIMARY KEY, v {text}",
    "counters": "k VARCHAR(64) PRIMARY KEY, v BIGINT NOT NULL",
    "elements": "k VARCHAR(64) NOT NULL, v BIGINT NOT NULL",
    "members": "k VARCHAR(64) NOT NULL, m VARCHAR(64) NOT NULL, v BIGINT, PRIMARY KEY (k, m)",
    "views": "k VARCHAR(64) PRIMARY KEY, v BIGINT NOT NULL, touched BIGINT DEFAULT 0",
    "pairs": "id BIGINT PRIMARY KEY, k VARCHAR(64) NOT NULL, v BIGINT NOT NULL",
    "rows": "g VARCHAR(64) NOT NULL, k BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (g, k)",
}

T = TypeVar("T")
ROLLED_BACK = "rolled-back"

_CHOSEN: Final = 30
"""The predicate holds of it; numbers that it holds of have no index."""

_SHOWN_MAX: Final = 100
"""Keys of which several rows stand that one read tells of."""


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """Statements with `?` where a value goes, and `{table}` where the table does.

    `put` writes a value whether the key is there or not, `append` puts one behind a comma, `add`
    adds a number. `text` is the type of long texts, `sequence` makes one of numbers, and
    `next_id` asks for one that nobody else gets; `version` asks for the server's, `time_us` for its
    clock in microseconds since 1970, `marks` how many indexes are named `dstest_mark…`.
    """

    put: str
    append: str
    add: str
    text: str
    next_id: str
    sequence: str
    version: str
    time_us: str
    marks: str


class SqlLink(Protocol):
    """A connection at the level of isolation that the run asks for. Each method but `aclose` is one
    request. Statements have `?` where a value goes."""

    async def rows(self, text: str, *given: Any) -> list[tuple[Any, ...]]:
        """What a statement gives."""
        ...

    async def change(self, text: str, *given: Any) -> int:
        """How many rows a statement has found to change."""
        ...

    async def begin(self) -> None:
        """Begin a transaction."""
        ...

    async def commit(self) -> bool:
        """False where the server says that it has rolled back."""
        ...

    async def rollback(self) -> None:
        """Give the transaction up."""
        ...

    async def aclose(self) -> None:
        """End the connection, whatever it is doing."""
        ...


def table_of(kind: str, key: Any, tables: int) -> str:
    """The table that holds this key."""
    return f"{kind}_{zlib.crc32(str(key).encode()) % tables}"


def tables_of(options: Mapping[str, Any]) -> list[str]:
    """All tables that clients use."""
    return [f"{kind}_{i}" for kind in KEYED for i in range(options["tables"])] + ["accounts"]


def schema(dialect: Dialect, options: Mapping[str, Any]) -> list[str]:
    """Statements that make all tables, and what stands in them at the start."""
    made, indexed = [], [("elements", "k"), ("pairs", "k"), ("rows", "v")]
    column = READ_BY[options["read_by"]]
    for kind in KEYED:
        columns = _COLUMNS[kind].replace("{text}", dialect.text)
        if kind in LOOKED_UP and column not in columns.split():
            columns += f", {column} VARCHAR(64) GENERATED ALWAYS AS (k) STORED"
        made += [f"CREATE TABLE {kind}_{i} ({columns})" for i in range(options["tables"])]
    if options["read_by"] == "index":
        indexed += [(kind, column) for kind in LOOKED_UP]
    made += [
        f"CREATE INDEX {kind}_{i}_{name} ON {kind}_{i} ({name})"
        for kind, name in indexed
        for i in range(options["tables"])
    ]
    made += [dialect.sequence, "CREATE TABLE accounts (id INT PRIMARY KEY, v BIGINT NOT NULL)"]
    balance = options.get("bank_balance", 0)
    rows = [f"({account}, {balance})" for account in range(options.get("bank_accounts", 0))]
    return [*made, f"INSERT INTO accounts VALUES {', '.join(rows)}"] if rows else made


class SqlClient(LinkedClient):
    """Base of clients; a system mixes in how it connects, and its dialect."""

    dialect: ClassVar[Dialect]

    def code_of(self, error: Exception) -> str | None:
        """The code of an error by which the server gave a transaction up; None for any other."""
        raise NotImplementedError

    def refused(self, error: Exception) -> str | None:
        """Also what is said of a COMMIT, and of a statement that commits by itself."""
        return self.code_of(error)

    async def rows(self, text: str, *given: Any) -> list[tuple[Any, ...]]:
        """What a statement gives."""
        link: SqlLink = await self.link()
        return await link.rows(text, *given)

    async def change(self, text: str, *given: Any) -> int:
        """How many rows a statement has changed."""
        link: SqlLink = await self.link()
        return await link.change(text, *given)

    async def transact(self, act: Callable[[], Awaitable[T]]) -> T:
        """What `act` gives, in a transaction that is committed then."""
        link: SqlLink = await self.link()
        await link.begin()
        try:
            found = await act()
        except Exception as error:
            await self._roll_back(link)
            if code := self.code_of(error):
                if code not in self.kept:
                    await self.close()
                raise Definite(error_text(code, error)) from None
            raise
        self.calls += 1
        try:
            if not await link.commit():
                raise Definite(ROLLED_BACK)
        except Exception:
            await self._roll_back(link)
            raise
        return found

    async def _roll_back(self, link: SqlLink) -> None:
        with suppress(Exception):
            self.calls += 1
            await link.rollback()

    def table(self, kind: str, key: Any) -> str:
        """The table that holds this key."""
        return table_of(kind, key, self.options["tables"])

    async def one(self, kind: str, key: Any) -> Any:
        """The value of a key; None without a row."""
        text = f"SELECT v FROM {self.table(kind, key)} WHERE {self.column(kind)} = ?"
        found = await self.rows(text, str(key))
        return found[0][0] if found else None

    def column(self, kind: str) -> str:
        """The column by which a key of such a table is looked up."""
        return READ_BY[self.options["read_by"]] if kind in LOOKED_UP else "k"

    async def put(self, kind: str, key: Any, value: Any) -> None:
        """Write a value."""
        if self.options["writes"] == "upsert":
            table = self.table(kind, key)
            await self.change(self.dialect.put.format(table=table), str(key), value)
        else:
            await self._write_back(kind, key, value, there=await self.one(kind, key) is not None)

    async def _write_back(self, kind: str, key: Any, value: Any, *, there: bool) -> None:
        table = self.table(kind, key)
        if there:
            await self.change(f"UPDATE {table} SET v = ? WHERE k = ?", value, str(key))
        else:
            await self.change(f"INSERT INTO {table} (k, v) VALUES (?, ?)", str(key), value)


class ViewsClient(SqlClient):
    """A member of a group is a row; all of them together are never read by one statement."""

    async def do_bump(self, op: OpDraft) -> list[int]:
        return await self.transact(lambda: self._bump(op.key, op.input))

    async def _bump(self, group: Any, members: list[Any]) -> list[int]:
        keys = [f"{group}/{member}" for member in members]
        for key in keys:
            await self.change(self.dialect.add.format(table=self.table("views", key)), key, 1)
        return [int(await self.one("views", key)) for key in keys]

    async def do_look(self, op: OpDraft) -> list[list[Any]]:
        return await self.transact(lambda: self._look(op.key, op.input))

    async def _look(self, group: Any, steps: list[list[Any]]) -> list[list[Any]]:
        seen = []
        for kind, member, _ in steps:
            key = f"{group}/{member}"
            if kind == "r":
                seen.append([kind, member, int(await self.one("views", key) or 0)])
            else:
                text = f"UPDATE {self.table('views', key)} SET touched = touched + 1 WHERE k = ?"
                await self.change(text, key)
                seen.append([kind, member, None])
        return seen


class PairsClient(SqlClient):
    """A row is put into one of two tables where neither has one that the predicate holds of."""

    async def do_insert(self, op: OpDraft) -> bool:
        side, number = op.input
        return await self.transact(lambda: self._insert(op.key, side, number))

    async def _insert(self, key: Any, side: str, number: int) -> bool:
        for table in dict.fromkeys(self.table("pairs", f"{key}/{one}") for one in ("a", "b")):
            if await self.rows(f"SELECT id FROM {table} WHERE k = ? AND v % 3 = 0", str(key)):
                return False
        table = self.table("pairs", f"{key}/{side}")
        text = f"INSERT INTO {table} (id, k, v) VALUES (?, ?, ?)"
        await self.change(text, number, str(key), _CHOSEN)
        return True

    async def do_read(self, op: OpDraft) -> dict[str, Any]:
        return await self.transact(self._read)

    async def _read(self) -> dict[str, Any]:
        tables = [f"pairs_{i}" for i in range(self.options["tables"])]
        every = " UNION ALL ".join(f"SELECT k FROM {table} WHERE v % 3 = 0" for table in tables)
        twice = f"SELECT k FROM ({every}) AS chosen GROUP BY k HAVING COUNT(*) > 1"
        keys = [row[0] for row in await self.rows(f"{twice} LIMIT {_SHOWN_MAX + 1}")]
        shown: dict[str, list[int]] = {str(key): [] for key in keys[:_SHOWN_MAX]}
        marks = ", ".join("?" for _ in shown)
        for table in tables if shown else ():
            text = f"SELECT k, id FROM {table} WHERE v % 3 = 0 AND k IN ({marks})"
            for row in await self.rows(text, *shown):
                shown[str(row[0])].append(int(row[1]))
        found = [[key, sorted(ids)] for key, ids in shown.items()]
        return {"pairs": found, "more": len(keys) > _SHOWN_MAX}


class PredicateClient(SqlClient):
    """Rows of a group, which all lie in one table.

    A transaction that would delete a row that is not there, or insert one that is, is rolled back:
    of one that is committed every change took effect, also where nobody hears of it. What writes a
    row makes it where it is not there: else an insert that failed would take all writes after it.
    """

    async def do_txn(self, op: OpDraft) -> list[list[Any]]:
        return await self.transact(lambda: self._steps(op.key, op.input))

    async def _steps(self, group: Any, steps: list[list[Any]]) -> list[list[Any]]:
        table, name, done = self.table("rows", group), str(group), []
        for step in steps:
            kind, what = step[:2]
            if kind == "rp":
                done.append([kind, what, await self._matching(table, name, what)])
            elif kind == "r":
                text = f"SELECT v FROM {table} WHERE g = ? AND k = ?"
                found = await self.rows(text, name, what)
                done.append([kind, what, int(found[0][0]) if found else None])
            else:
                await self._change_one(table, name, step)
                done.append(step)
        return done

    async def _matching(self, table: str, group: str, predicate: Any) -> list[list[int]]:
        where, given = "", []
        if predicate is not True:
            kind, *given = predicate
            where = " AND v = ?" if kind == "=" else " AND v % ? = ?"
        text = f"SELECT k, v FROM {table} WHERE g = ?{where}"
        return sorted([int(k), int(v)] for k, v in await self.rows(text, group, *given))

    async def _change_one(self, table: str, group: str, step: list[Any]) -> None:
        kind, key = step[:2]
        if kind == "insert":
            text, given = f"INSERT INTO {table} (v, g, k) VALUES (?, ?, ?)", [step[2]]
        elif kind == "delete":
            text, given = f"DELETE FROM {table} WHERE g = ? AND k = ?", []
        else:
            text, given = f"UPDATE {table} SET v = ? WHERE g = ? AND k = ?", [step[2]]
            if await self.change(text, *given, group, key) == 1:
                return
            text = f"INSERT INTO {table} (v, g, k) VALUES (?, ?, ?)"
        if await self.change(text, *given, group, key) != 1:
            raise Definite(ROLLED_BACK)


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
