"""Base of clients: statements and transactions.

An operation is one statement, or a transaction that is begun and committed. What fails before its
COMMIT has been sent took no effect: a server commits nothing by itself. Which errors of a COMMIT
say as much is the library's to tell, see `refused`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

from clusters.sql.dialect import Dialect
from clusters.sql.link import SqlLink
from clusters.sql.schema import LOOKED_UP, READ_BY, table_of
from clusters.supervise.ops import LinkedClient, told
from dstest.core.protocols import Definite

T = TypeVar("T")
ROLLED_BACK = "rolled-back"


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
                raise Definite(told(code, error)) from None
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
