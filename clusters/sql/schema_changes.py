"""Changes of the tables while clients use them."""

from __future__ import annotations

import asyncio
from typing import Final

from clusters.sql.deployment import SqlDeployment
from clusters.sql.link import SqlLink
from clusters.sql.schema import tables_of
from dstest.core.errors import LabError
from dstest.core.protocols import ChangesSchema

__all__ = ["ChangingSchema"]

COLUMN: Final = "dstest_mark"
ADD: Final = (
    "ALTER TABLE {table} ADD COLUMN IF NOT EXISTS dstest_mark BIGINT DEFAULT 0",
    "CREATE INDEX IF NOT EXISTS dstest_mark_{table} ON {table} (dstest_mark)",
)
DROP: Final = ("ALTER TABLE {table} DROP COLUMN IF EXISTS dstest_mark",)
COUNT: Final = f"SELECT count(*) FROM information_schema.columns WHERE column_name = '{COLUMN}'"

TRIES: Final = 20
"""Transactions hold the tables; who waits for them is told to try again."""

GAP_S: Final = 0.05
"""Between two tables, so that clients come in between."""


class ChangingSchema(SqlDeployment, ChangesSchema):
    """A `SqlDeployment` whose tables gain a column with an index, and lose it again."""

    async def change_schema(self) -> int:
        return await self._each(ADD)

    async def restore_schema(self) -> None:
        await self._each(DROP)

    async def changed_tables(self) -> dict[str, int | None]:
        return await self.answers(lambda node: self.ask(node, COUNT))

    async def _each(self, texts: tuple[str, ...]) -> int:
        tables = tables_of(self.options)
        link = await self._writing()
        try:
            for table in tables:
                for text in texts:
                    await _patiently(link, text.format(table=table))
                await asyncio.sleep(GAP_S)
        finally:
            await link.aclose()
        return len(tables)

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
            await asyncio.sleep(GAP_S)
        else:
            return
