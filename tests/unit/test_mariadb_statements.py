"""Statements as the library of MariaDB's clients sends them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asyncmy.cursors import Cursor

from clusters.sql.clients import PairsClient
from clusters.systems.mariadb import DIALECT, MariadbClient, format_sql
from dstest.core.protocols import Endpoint, OpDraft

AT = Endpoint(node="n1", address="10.0.0.1", port=3306)
OPTIONS = {"tables": 3, "writes": "upsert", "read_by": "key", "op_timeout_s": 1.0}


class Connection:
    """What the library's cursor asks of its connection to fill in a statement."""

    loop = None

    def escape(self, value: Any, mapping: Any = None) -> str:
        return f"'{value}'" if isinstance(value, str) else str(value)

    literal = escape


def sent(text: str, *given: Any) -> str:
    """What would go over the wire."""
    connection: Any = Connection()
    cursor = Cursor(connection)
    return str(cursor.mogrify(format_sql(text), given))


@pytest.mark.parametrize(
    ("text", "given", "wire"),
    [
        ("SELECT id FROM p WHERE k = ? AND v % 3 = 0", ("a",), "WHERE k = 'a' AND v % 3 = 0"),
        (DIALECT.marks, (), "LIKE 'dstest_mark%'"),
        (DIALECT.version, (), "VERSION()"),
        ("UPDATE t SET v = ? WHERE k = ?", (1, "100%"), "v = 1 WHERE k = '100%'"),
    ],
)
def test_percent_signs_stay(text: str, given: tuple[Any, ...], wire: str) -> None:
    assert wire in sent(text, *given)


class Heard:
    """A `SqlLink` that fills in what it is asked, as the library does, and finds no row."""

    def __init__(self) -> None:
        self.wire: list[str] = []

    async def rows(self, text: str, *given: Any) -> list[tuple[Any, ...]]:
        self.wire.append(sent(text, *given))
        return []

    async def change(self, text: str, *given: Any) -> int:
        self.wire.append(sent(text, *given))
        return 1

    async def begin(self) -> None: ...

    async def commit(self) -> bool:
        return True

    async def rollback(self) -> None: ...

    async def aclose(self) -> None: ...


def test_a_pair_is_inserted() -> None:
    link = Heard()

    class Client(MariadbClient, PairsClient):
        async def connect(self, to: Endpoint) -> Any:
            return link

    client = Client(AT, [AT], OPTIONS)
    reply = asyncio.run(client.invoke(OpDraft("insert", "p1", ["a", 17]), 1.0))
    assert reply.output is True
    assert any("v % 3 = 0" in text for text in link.wire)
