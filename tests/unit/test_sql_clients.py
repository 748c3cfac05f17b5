"""The workloads' operations as statements, on a database that is at hand: SQLite knows the dialect
of PostgreSQL but for its sequences."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from clusters.sql import SqlClient, clients_on
from clusters.sql.clients import schema, table_of
from clusters.systems.galera import GaleraClient
from clusters.systems.mariadb import DIALECT as MARIADB
from clusters.systems.postgresql import DIALECT, PostgresqlClient
from clusters.systems.postgresql import SYSTEM as POSTGRESQL
from clusters.systems.postgresql_wire import number_marks
from dstest.core.protocols import Definite, Endpoint, Indefinite, OpDraft

AT = Endpoint(node="n1", address="10.0.0.1", port=1)
OPTIONS = {
    "tables": 3,
    "writes": "upsert",
    "read_by": "key",
    "bank_accounts": 3,
    "bank_balance": 20,
}


class Refused(Exception):
    """What the server says of a transaction that raced."""


class Demoted(Exception):
    """What a server says that has become a standby."""


class Link:
    """SQLite as a `SqlLink`. `said` has what it was asked; `fails` may raise."""

    def __init__(self, base: sqlite3.Connection, fails: Callable[[str], None]) -> None:
        self.base = base
        self.fails = fails
        self.said: list[str] = []
        self.closed = False

    async def rows(self, text: str, *given: Any) -> list[tuple[Any, ...]]:
        self._heard(text)
        return self.base.execute(text, given).fetchall()

    async def change(self, text: str, *given: Any) -> int:
        self._heard(text)
        return self.base.execute(text, given).rowcount

    async def begin(self) -> None:
        self._heard("BEGIN")
        self.base.execute("BEGIN")

    async def commit(self) -> bool:
        self._heard("COMMIT")
        self.base.execute("COMMIT")
        return True

    async def rollback(self) -> None:
        self._heard("ROLLBACK")
        self.base.execute("ROLLBACK")

    async def aclose(self) -> None:
        self.closed = True

    def _heard(self, text: str) -> None:
        self.said.append(text.split()[0])
        self.fails(text)


class World:
    """One database and its clients."""

    def __init__(self, **options: Any) -> None:
        self.options = {**OPTIONS, **options}
        self.base = sqlite3.connect(":memory:", isolation_level=None)
        for text in schema(DIALECT, self.options):
            if text != DIALECT.sequence:
                self.base.execute(text)
        self.links: list[Link] = []
        self.fails: Callable[[str], None] = lambda text: None
        world = self

        class Connecting(SqlClient):
            dialect = DIALECT
            kept = frozenset({"40001"})

            def code_of(self, error: Exception) -> str | None:
                return {Refused: "40001", Demoted: "25006"}.get(type(error))

            async def connect(self, to: Endpoint) -> Link:
                world.links.append(Link(world.base, lambda text: world.fails(text)))
                return world.links[-1]

        self.clients = clients_on(Connecting)

    def client(self, capability: str) -> Any:
        return self.clients[capability](AT, [AT], self.options)

    def does(self, capability: str, *ops: OpDraft) -> list[Any]:
        """The outputs of these operations of one client."""

        async def all_of() -> list[Any]:
            client = self.client(capability)
            return [(await client.invoke(op, 1.0)).output for op in ops]

        return asyncio.run(all_of())


@pytest.mark.parametrize("writes", ["upsert", "read-then-write"])
def test_registers(writes: str) -> None:
    ops = [
        OpDraft("read", "k"),
        OpDraft("write", "k", 1),
        OpDraft("write", "k", 2),
        OpDraft("cas", "k", [1, 3]),
        OpDraft("cas", "k", [2, 4]),
        OpDraft("read", "k"),
    ]
    assert World(writes=writes).does("register", *ops) == [None, None, None, False, True, 4]


@pytest.mark.parametrize("writes", ["upsert", "read-then-write"])
def test_lists(writes: str) -> None:
    first = [["r", 1, None], ["append", 1, 5], ["append", 2, 6], ["r", 1, None]]
    second = [["append", 1, 7], ["r", 1, None], ["r", 2, None]]
    ops = [OpDraft("txn", None, first), OpDraft("txn", None, second)]
    assert World(writes=writes).does("txn-append", *ops) == [
        [["r", 1, None], ["append", 1, 5], ["append", 2, 6], ["r", 1, [5]]],
        [["append", 1, 7], ["r", 1, [5, 7]], ["r", 2, [6]]],
    ]


@pytest.mark.parametrize("writes", ["upsert", "read-then-write"])
def test_registers_in_transactions(writes: str) -> None:
    micro_ops = [["r", 1, None], ["w", 1, 5], ["w", 1, 6], ["r", 1, None]]
    (found,) = World(writes=writes).does("txn-register", OpDraft("txn", None, micro_ops))
    assert found == [["r", 1, None], ["w", 1, 5], ["w", 1, 6], ["r", 1, 6]]


def test_other_objects() -> None:
    world = World()
    ops = [OpDraft("add", "s", 3), OpDraft("add", "s", 4), OpDraft("read", "s")]
    assert world.does("set", *ops) == [None, None, [3, 4]]
    ops = [OpDraft("read", "c"), OpDraft("inc", "c", 3), OpDraft("inc", "c", -1)]
    assert world.does("counter", *ops) == [0, 3, 2]
    ops = [OpDraft("write", "g", ["m1", 1]), OpDraft("read", "g"), OpDraft("read", "h")]
    assert world.does("group", *ops) == [None, [["m1", 1]], []]
    ops = [
        OpDraft("transfer", None, {"from": 0, "to": 1, "amount": 15}),
        OpDraft("transfer", None, {"from": 0, "to": 1, "amount": 6}),
        OpDraft("read", None),
    ]
    assert world.does("bank", *ops) == [True, False, {"0": 5, "1": 35, "2": 20}]


@pytest.mark.parametrize("read_by", ["key", "index", "scan"])
def test_each_way_of_looking_up_finds_the_same(read_by: str) -> None:
    world = World(read_by=read_by, writes="read-then-write")
    micro_ops = [["append", 1, 5], ["append", 1, 6], ["r", 1, None]]
    (found,) = world.does("txn-append", OpDraft("txn", None, micro_ops))
    assert found[2] == ["r", 1, [5, 6]]
    column = {"key": "k", "index": "i", "scan": "s"}[read_by]
    ask = "EXPLAIN QUERY PLAN SELECT v FROM lists_{} WHERE {} = 1"
    plans = [str(world.base.execute(ask.format(i, column)).fetchall()) for i in range(3)]
    wanted = {"key": "autoindex", "index": "lists_", "scan": "SCAN"}[read_by]
    assert all(wanted in plan for plan in plans), plans


def test_groups_are_bumped_and_looked_at_member_by_member() -> None:
    look = [["r", 1, None], ["touch", 0, None], ["r", 0, None], ["r", 9, None]]
    ops = [OpDraft("bump", "g", [0, 1]), OpDraft("bump", "g", [0, 1]), OpDraft("look", "g", look)]
    world = World()
    assert world.does("views", *ops) == [
        [1, 1],
        [2, 2],
        [["r", 1, 2], ["touch", 0, None], ["r", 0, 2], ["r", 9, 0]],
    ]
    rows = " UNION ALL ".join(f"SELECT k FROM views_{i} WHERE touched = 1" for i in range(3))
    assert world.base.execute(rows).fetchall() == [("g/0",)]


def test_predicates_read_the_rows_of_a_group() -> None:
    world = World()
    steps = [["insert", 1, 4], ["insert", 2, 5], ["w", 1, 6], ["rp", ["mod", 2, 0]], ["r", 2]]
    more = [["delete", 2], ["r", 2], ["rp", True], ["rp", ["=", 6]]]
    ops = [
        OpDraft("txn", "g", steps),
        OpDraft("txn", "h", [["rp", True]]),
        OpDraft("txn", "g", more),
    ]
    assert world.does("predicates", *ops) == [
        [*steps[:3], ["rp", ["mod", 2, 0], [[1, 6]]], ["r", 2, 5]],
        [["rp", True, []]],
        [["delete", 2], ["r", 2, None], ["rp", True, [[1, 6]]], ["rp", ["=", 6], [[1, 6]]]],
    ]


def test_what_is_written_is_there_afterwards() -> None:
    """Whoever was to insert the row may have failed."""
    steps = [["w", 9, 1], ["w", 9, 2], ["rp", ["=", 2]]]
    assert World().does("predicates", OpDraft("txn", "g", steps)) == [
        [*steps[:2], ["rp", ["=", 2], [[9, 2]]]]
    ]


@pytest.mark.parametrize("step", [["delete", 9]])
def test_what_would_change_no_row_is_rolled_back(step: list[Any]) -> None:
    world = World()
    with pytest.raises(Definite, match="rolled-back"):
        world.does("predicates", OpDraft("txn", "g", [["insert", 1, 4], step]))
    assert world.does("predicates", OpDraft("txn", "g", [["rp", True]])) == [[["rp", True, []]]]


def test_one_insert_of_a_pair_finds_nothing() -> None:
    ops = [
        OpDraft("insert", key, [side, n])
        for n, (key, side) in enumerate(zip("ppq", "abb", strict=True))
    ]
    assert World().does("pairs", *ops) == [True, False, True]


def test_a_read_of_pairs_tells_of_those_that_stand_twice() -> None:
    world = World()
    ops = [OpDraft("insert", f"k{n}", ["a", n]) for n in range(200)]
    world.does("pairs", *ops)
    read = OpDraft("read", None)
    assert world.does("pairs", read) == [{"pairs": [], "more": False}]
    table = table_of("pairs", "k3/b", 3)
    world.base.execute(f"INSERT INTO {table} VALUES (900, 'k3', 30), (901, 'k4', 31)")
    assert world.does("pairs", read) == [{"pairs": [["k3", [3, 900]]], "more": False}]
    doubled = ", ".join(f"({n + 1000}, 'k{n}', 30)" for n in range(101))
    world.base.execute(f"INSERT INTO {table} VALUES {doubled}")
    (told,) = world.does("pairs", read)
    assert (len(told["pairs"]), told["more"]) == (100, True)


TXN = OpDraft("txn", None, [["append", 1, 5], ["append", 1, 6]])


def failing(at: str, error: Exception) -> Callable[[str], None]:
    def fails(text: str) -> None:
        if text.startswith(at):
            raise error

    return fails


@pytest.mark.parametrize("at", ["INSERT", "COMMIT"])
def test_what_raced_is_rolled_back_and_the_connection_kept(at: str) -> None:
    world = World()
    world.fails = failing(at, Refused("could not serialize"))

    async def twice() -> Any:
        client = world.client("txn-append")
        with pytest.raises(Definite, match="40001"):
            await client.invoke(TXN, 1.0)
        world.fails = lambda text: None
        reply = await client.invoke(OpDraft("txn", None, [["r", 1, None]]), 1.0)
        return reply.output, client.calls

    output, calls = asyncio.run(twice())
    assert output == [["r", 1, None]]
    (link,) = world.links
    assert "ROLLBACK" in link.said
    assert not link.closed
    assert calls == len(link.said), "each request is counted"


def test_a_connection_is_not_kept_after_a_code_that_speaks_against_it() -> None:
    """Of a server that has been demoted a transaction is refused each time."""
    world = World()
    world.fails = failing("INSERT", Demoted("read-only"))

    async def twice() -> Any:
        client = world.client("txn-append")
        with pytest.raises(Definite, match="25006: read-only"):
            await client.invoke(TXN, 1.0)
        world.fails = lambda text: None
        return await client.invoke(TXN, 1.0)

    asyncio.run(twice())
    first, second = world.links
    assert first.closed
    assert first.said[-1] == "ROLLBACK"
    assert not second.closed


def test_postgresql_keeps_connections_to_all_but_servers_that_only_read() -> None:
    codes = {*POSTGRESQL.definite_errors} - {"not-connected"}
    assert codes - PostgresqlClient.kept == {"25006"}
    assert "25006" not in POSTGRESQL.conflict_errors


def test_a_commit_without_an_answer_is_unknown() -> None:
    world = World()
    world.fails = failing("COMMIT", ConnectionResetError("gone"))
    with pytest.raises(Indefinite, match="ConnectionResetError"):
        world.does("txn-append", TXN)


def test_a_server_that_says_rollback_did_not_commit() -> None:
    world = World()

    async def says_rollback(link: Link) -> bool:
        link.said.append("COMMIT")
        return False

    async def one() -> None:
        client = world.client("txn-append")
        link = await client.link()
        link.commit = lambda: says_rollback(link)
        with pytest.raises(Definite, match="rolled-back"):
            await client.invoke(TXN, 1.0)

    asyncio.run(one())


@pytest.mark.parametrize("dialect", [DIALECT, MARIADB])
def test_dialects_have_places_for_the_table_and_two_values(dialect: Any) -> None:
    for text in (dialect.put, dialect.append, dialect.add):
        assert text.format(table="t_0").count("?") == 2
        assert "{" not in text.format(table="t_0")


def test_places_are_numbered() -> None:
    assert number_marks("UPDATE t SET v = ? WHERE k = ?") == "UPDATE t SET v = $1 WHERE k = $2"
    assert number_marks("BEGIN") == "BEGIN"


@pytest.mark.parametrize(("at", "certain"), [("INSERT", True), ("COMMIT", False)])
def test_what_galera_says_of_a_commit_proves_nothing(at: str, certain: bool) -> None:
    """Error 1213 of a statement is a deadlock; of a COMMIT, the others may have ordered it."""
    world = World()
    world.fails = failing(at, Refused(1213, "Deadlock found"))

    class Client(GaleraClient):
        dialect = DIALECT

        async def connect(self, to: Endpoint) -> Any:
            return Link(world.base, lambda text: world.fails(text))

    world.clients = clients_on(Client)
    with pytest.raises(Definite if certain else Indefinite, match="1213"):
        world.does("txn-append", TXN)
