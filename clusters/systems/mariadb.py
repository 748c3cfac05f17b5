"""MariaDB on one node, InnoDB.

Its REPEATABLE READ is weaker than snapshot isolation as it comes: a transaction may read one
version of a row and overwrite a later one (MDEV-35124). With `snapshot_isolation` it is refused
that, with error 1020.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.sql import (
    ISOLATION,
    ROLLED_BACK,
    SQL_OPTIONS,
    ChangingSchema,
    Dialect,
    SqlClient,
    clients_on,
)
from clusters.supervise import FramedRequests, SupervisedSystem
from clusters.supervise.log_lines import MARIADB_LINES
from clusters.supervise.system import MARIADB
from dstest.core.node import Node
from dstest.core.protocols import (
    Endpoint,
    LogWords,
    Option,
    Probe,
    Service,
    SystemLogs,
)

HOME: Final = "/opt/mariadb"
DATA: Final = f"{HOME}/data"
PORT: Final = 3306
DATABASE: Final = "dstest"
QUIT: Final = 1
DIALECT: Final = Dialect(
    put="INSERT INTO {table} (k, v) VALUES (?, ?) ON DUPLICATE KEY UPDATE v = VALUES(v)",
    append="INSERT INTO {table} (k, v) VALUES (?, ?)"
    " ON DUPLICATE KEY UPDATE v = CONCAT(v, ',', VALUES(v))",
    add="INSERT INTO {table} (k, v) VALUES (?, ?) ON DUPLICATE KEY UPDATE v = v + VALUES(v)",
    text="LONGTEXT",
    sequence="CREATE SEQUENCE ids NOCACHE",
    next_id="SELECT NEXTVAL(ids)",
    version="SELECT VERSION()",
    time_us="SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS INT)",
    marks="SELECT count(*) FROM information_schema.statistics WHERE index_name LIKE 'dstest_mark%'",
)


@functools.cache
def format_sql(text: str) -> str:
    """A statement as the library takes it, which fills in what is given by Python's `%`."""
    return text.replace("%", "%%").replace("?", "%s")


class Link:
    """A `SqlLink`."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def rows(self, text: str, *given: Any) -> list[tuple[Any, ...]]:
        async with self._connection.cursor() as cursor:
            await cursor.execute(format_sql(text), given)
            return [tuple(row) for row in await cursor.fetchall()]

    async def change(self, text: str, *given: Any) -> int:
        async with self._connection.cursor() as cursor:
            return int(await cursor.execute(format_sql(text), given))

    async def begin(self) -> None:
        await self._connection.begin()

    async def commit(self) -> bool:
        await self._connection.commit()
        return True

    async def rollback(self) -> None:
        await self._connection.rollback()

    async def aclose(self) -> None:
        self._connection.close()


async def connect(address: str, port: int, wait_s: float, database: str | None = None) -> Link:
    """A connection by the library `asyncmy`, which retries nothing."""
    import asyncmy
    from asyncmy.constants.CLIENT import FOUND_ROWS

    made = await asyncmy.connect(
        host=address,
        port=port,
        user="root",
        password="",
        database=database,
        connect_timeout=wait_s,
        autocommit=True,
        client_flag=FOUND_ROWS,
    )
    return Link(made)


class MariadbDeployment(ChangingSchema):
    """One server; all clients connect to it."""

    dialect = DIALECT
    program: tuple[str, ...] = ("/usr/sbin/mariadbd",)

    def settings(self, node: Node) -> dict[str, Any]:
        """Options of the server."""
        return {
            "datadir": DATA,
            "bind-address": "*",
            "port": PORT,
            "socket": f"{HOME}/socket",
            "pid-file": f"{HOME}/pid",
            "max-connections": 300,
            "innodb-buffer-pool-size": "64M",
            "innodb-snapshot-isolation": "ON" if self.options["snapshot_isolation"] else "OFF",
            "innodb-flush-log-at-trx-commit": self.options["flush_log"],
            "log-warnings": 1,
        }

    def services(self, node: Node) -> Sequence[Service]:
        words = [f"--{name}={value}" for name, value in self.settings(node).items()]
        return [
            Service(
                name="mariadb",
                argv=(*self.program, "--no-defaults", *words, *FLAGS),
                user="mysql",
                cwd=HOME,
                directories=(HOME,),
                data=(DATA,),
                prepare=((*INSTALL, f"--datadir={DATA}"),),
                log=f"{HOME}/log",
                probe=Probe(PORT),
                words=LogWords(shutdown=("Shutdown complete",)),
            )
        ]

    async def connection(self, node: Node, wait_s: float) -> Link:
        return await connect(node.info.address, PORT, wait_s, DATABASE)

    async def create_database(self, node: Node) -> None:
        link = await connect(node.info.address, PORT, self.timing.answer_s)
        try:
            await link.change(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        finally:
            await link.aclose()


FLAGS: Final = ("--skip-grant-tables", "--skip-name-resolve", "--console")
INSTALL: Final = (
    "mariadb-install-db",
    "--no-defaults",
    "--auth-root-authentication-method=normal",
    "--skip-test-db",
)


class MariadbRequests(FramedRequests):
    """Packets that begin a command, but the one that ends the connection (MariaDB, Client/Server
    Protocol)."""

    def frame(self, head: bytes, number: int) -> tuple[int, bool] | None:
        if len(head) < 5:
            return None
        length = int.from_bytes(head[:3], "little")
        if not length:
            raise ValueError("an empty packet")
        return 4 + length, number > 0 and head[3] == 0 and head[4] != QUIT


ABORTED: Final = "the statement was refused, and the client rolls its transaction back"
REFUSED: Final = {
    "1020": f"ER_CHECKREAD, record has changed since last read: {ABORTED}",
    "1062": f"ER_DUP_ENTRY: {ABORTED}",
    "1205": f"ER_LOCK_WAIT_TIMEOUT: {ABORTED}",
    "1213": "ER_LOCK_DEADLOCK: the server has rolled the transaction back",
}
CODES: Final = frozenset(REFUSED)


class MariadbClient(SqlClient):
    """Connects; each error of the server has a number."""

    dialect = DIALECT
    codes = CODES
    kept = CODES | {ROLLED_BACK}

    async def connect(self, to: Endpoint) -> Any:
        link = await connect(to.dial or to.address, to.port, self.wait_s, DATABASE)
        # SET NAMES, by the library; the level, by us.
        self.calls += 2
        level = ISOLATION[self.options["isolation"]]
        try:
            await link.change(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        except BaseException:
            await link.aclose()
            raise
        return link

    def code_of(self, error: Exception) -> str | None:
        code = str(error.args[0]) if error.args else ""
        return code if code in self.codes else None


class Mariadb(SupervisedSystem):
    name = "mariadb"
    doc = "MariaDB 10.11 from Debian on one node; transactions at a level of your choice"
    packages: tuple[str, ...] = ("mariadb-server",)
    services = ("mariadb",)
    deployment = MariadbDeployment
    client_packages = ("asyncmy",)
    clients = clients_on(MariadbClient)
    options: Mapping[str, Option] = {
        **SQL_OPTIONS,
        "snapshot_isolation": Option(
            type=bool, default=False, help="innodb_snapshot_isolation: refuse what read an old row"
        ),
        "flush_log": Option(
            type=int,
            default=1,
            choices=(0, 1, 2),
            help="innodb_flush_log_at_trx_commit; less than 1 may lose what was acknowledged",
        ),
    }
    definite_errors = {
        "not-connected": "ours: there was no connection, so nothing was sent",
        ROLLED_BACK: "ours: the server did not commit",
        **REFUSED,
    }
    conflict_errors = CODES
    cautions = MARIADB
    logs = SystemLogs(
        alarms=("InnoDB: Assertion failure", "got signal", "is corrupted"),
        reader=MARIADB_LINES,
    )
    ports: tuple[int, ...] = (PORT,)
    client_port = PORT
    home = HOME
    members_most: int | None = 1
    own_image = True
    request_counter = MariadbRequests


SYSTEM = Mariadb()
