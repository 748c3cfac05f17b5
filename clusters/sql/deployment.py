"""`SqlDeployment`: servers that are asked by statements; changes of their tables while clients use
them; and what all SQL databases have: options, and the models that they document for isolation
levels, which may be weaker than what is asked for."""

from __future__ import annotations

import abc
import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Final

from clusters.sql.clients import READ_BY, Dialect, SqlLink, schema, tables_of
from clusters.supervise import Durable
from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.protocols import Clocked, Option, Relaxation, ServerTime

WRITE: Final = "INSERT INTO health (k) VALUES (?)"


class SqlDeployment(Durable, Clocked):
    """Base of deployments. The tables are made where `writer` says."""

    dialect: ClassVar[Dialect]

    @abc.abstractmethod
    async def connection(self, node: Node, wait_s: float) -> SqlLink:
        """A connection to the database of the tables."""

    async def create_database(self, node: Node) -> None:
        """Make that database, where it is not there from the start."""

    async def ask(self, node: Node, text: str) -> Any:
        """The first value that a statement gives."""
        link = await self.connection(node, self.timing.answer_s)
        try:
            return (await link.rows(text))[0][0]
        finally:
            await link.aclose()

    async def writer(self) -> Node:
        """A node whose member takes writes. Raises whatever a library does where there is none."""
        return next(iter(self.nodes.values()))

    async def arrange(self) -> None:
        """Make the tables."""
        link = await self.until(
            next(iter(self.nodes.values())), self._first_link, 3 * self.timing.answer_s
        )
        try:
            for text in [
                "CREATE TABLE health (k BIGINT PRIMARY KEY)",
                *schema(self.dialect, self.options),
            ]:
                await link.change(text)
        finally:
            await link.aclose()

    async def _first_link(self, node: Node) -> SqlLink:
        writer = await self.writer()
        await self.create_database(writer)
        return await self.connection(writer, self.timing.answer_s)

    async def _writes(self, node: Node) -> bool:
        """Does it take a row of its own? Members that write one row at once may be in conflict."""
        link = await self.connection(node, self.timing.answer_s)
        try:
            return await link.change(WRITE, secrets.randbits(62)) == 1
        finally:
            await link.aclose()

    async def healthy(self) -> dict[str, bool]:
        """Does each member write?"""
        return await self.writing(list(self.members))

    async def writing(self, names: Sequence[str]) -> dict[str, bool]:
        """Does each of these write?"""

        async def one(node: Node) -> bool:
            return node.name in names and await self._writes(node)

        found = await self.answers(one)
        return {name: bool(found[name]) for name in names}

    async def version(self) -> str:
        said = await self.answers(lambda node: self.ask(node, self.dialect.version))
        return ", ".join(sorted({str(text).split()[0] for text in said.values() if text}))

    async def server_time(self, name: str) -> ServerTime | None:
        return ServerTime(int(await self.ask(self.nodes[name], self.dialect.time_us)) * 1000, 1000)


ADD: Final = (
    "ALTER TABLE {table} ADD COLUMN IF NOT EXISTS dstest_mark BIGINT DEFAULT 0",
    "CREATE INDEX IF NOT EXISTS dstest_mark_{table} ON {table} (dstest_mark)",
)
DROP: Final = ("ALTER TABLE {table} DROP COLUMN IF EXISTS dstest_mark",)
COLUMNS: Final = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'dstest_mark'"

TRIES: Final = 20
"""Transactions hold the tables; who waits for them is told to try again."""

AGAIN_S: Final = 0.05


class ChangingSchema(SqlDeployment):
    """A `SqlDeployment` whose tables gain a column with an index, and lose it again."""

    def change_schema(self) -> AsyncGenerator[str]:
        return self._each(ADD)

    async def restore_schema(self) -> None:
        async with aclosing(self._each(DROP)) as changes:
            async for _ in changes:
                pass

    async def schema_changes(self) -> dict[str, int | None]:
        return await self.answers(self._changes_of)

    async def _changes_of(self, node: Node) -> int:
        return int(await self.ask(node, COLUMNS)) + int(await self.ask(node, self.dialect.marks))

    async def _each(self, texts: tuple[str, ...]) -> AsyncGenerator[str]:
        link = await self._writing()
        try:
            for table in tables_of(self.options):
                for text in texts:
                    change = text.format(table=table)
                    await _patiently(link, change)
                    yield change
        finally:
            await link.aclose()

    async def _writing(self) -> SqlLink:
        try:
            return await self.connection(await self.writer(), self.timing.answer_s)
        except Exception as error:
            raise LabError(f"no member takes a change of the schema: {error}") from error


async def _patiently(link: SqlLink, text: str) -> None:
    for left in reversed(range(TRIES)):
        try:
            await link.change(text)
        except Exception as error:
            if not left:
                raise LabError(f"{text}: {error}") from error
            await asyncio.sleep(AGAIN_S)
        else:
            return


ISOLATION: Final[Mapping[str, str]] = {
    "serializable": "SERIALIZABLE",
    "repeatable-read": "REPEATABLE READ",
    "read-committed": "READ COMMITTED",
    "read-uncommitted": "READ UNCOMMITTED",
}
"""Option -> the standard's name."""

SQL_OPTIONS: Final[Mapping[str, Option]] = {
    "isolation": Option(
        type=str,
        default="serializable",
        choices=tuple(ISOLATION),
        help="level of all transactions; `--model` says what it is held to",
    ),
    "tables": Option(
        type=int, default=3, least=1, most=50, help="tables over which keys are spread"
    ),
    "read_by": Option(
        type=str,
        default="key",
        choices=tuple(READ_BY),
        help="how registers and lists are looked up: by primary key, by a second index, by a scan",
    ),
    "writes": Option(
        type=str,
        default="upsert",
        choices=("upsert", "read-then-write"),
        help="how a value is put or appended: in one statement, or read first and written back",
    ),
}


def _by_isolation(model: str, level: str, source: str) -> Relaxation:
    return Relaxation(model=model, source=source, option="isolation", value=level)


POSTGRESQL_RELAXED: Final = (
    _by_isolation(
        "snapshot-isolation",
        "repeatable-read",
        "PostgreSQL 15, 13.2.2: Repeatable Read is implemented by snapshot isolation",
    ),
    _by_isolation(
        "read-committed",
        "read-committed",
        "PostgreSQL 15, 13.2.1: each command sees what was committed before it began",
    ),
)
