"""`SqlDeployment`: servers that are asked by statements."""

from __future__ import annotations

import abc
import secrets
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from clusters.sql.dialect import Dialect
from clusters.sql.link import SqlLink
from clusters.sql.schema import schema
from clusters.supervise import Durable
from dstest.core.node import Node
from dstest.core.protocols import Clocked, ServerTime

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
