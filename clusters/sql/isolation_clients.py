"""Clients for single anomalies: what one transaction sees of others, and of others' predicates."""

from __future__ import annotations

from typing import Any, Final

from clusters.sql.client import ROLLED_BACK, SqlClient
from dstest.core.protocols import Definite, OpDraft

_CHOSEN: Final = 30
"""The predicate holds of it; numbers that it holds of have no index."""

_SHOWN_MAX: Final = 100
"""Keys of which several rows stand that one read tells of."""


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
