"""Changes of the tables while clients use them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from clusters.sql.deployment import SqlDeployment
from clusters.sql.link import SqlLink
from clusters.sql.schema import tables_of
from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.protocols import ChangesSchema

ADD: Final = (
    "ALTER TABLE {table} ADD COLUMN IF NOT EXISTS dstest_mark BIGINT DEFAULT 0",
    "CREATE INDEX IF NOT EXISTS dstest_mark_{table} ON {table} (dstest_mark)",
)
DROP: Final = ("ALTER TABLE {table} DROP COLUMN IF EXISTS dstest_mark",)
COLUMNS: Final = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'dstest_mark'"

TRIES: Final = 20
"""Transactions hold the tables; who waits for them is told to try again."""

AGAIN_S: Final = 0.05


class ChangingSchema(SqlDeployment, ChangesSchema):
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
