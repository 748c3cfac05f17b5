"""PostgreSQL on one node. Transactions are at the level that `isolation` names, as those of an
application are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from signal import SIGINT
from typing import Any, Final

from clusters.sql import (
    POSTGRESQL_RELAXED,
    ROLLED_BACK,
    SQL_OPTIONS,
    ChangingSchema,
    Dialect,
    SqlClient,
    clients_on,
)
from clusters.supervise import SupervisedSystem
from clusters.supervise.applied import AUDIT
from clusters.supervise.log_lines import POSTGRESQL_LINES
from clusters.supervise.system import POSTGRESQL
from clusters.systems.postgresql_audit import BEGIN, NEXT, PostgresqlEffects, lines
from clusters.systems.postgresql_wire import SSL_ASKED, Link, PostgresqlRequests, connect
from dstest.core.node import Node
from dstest.core.protocols import (
    AppliedOrder,
    Ending,
    Endpoint,
    Journals,
    LogWords,
    Option,
    Probe,
    Service,
    SystemLogs,
)

HOME: Final = "/opt/postgresql"
DATA: Final = f"{HOME}/data"
CONNECTIONS_MAX: Final = 300
PORT: Final = 5432
ANYBODY: Final = b"host all all 0.0.0.0/0 trust\nhost all all ::0/0 trust\n"
DIALECT: Final = Dialect(
    put="INSERT INTO {table} (k, v) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v",
    append="INSERT INTO {table} (k, v) VALUES (?, ?)"
    " ON CONFLICT (k) DO UPDATE SET v = {table}.v || ',' || excluded.v",
    add="INSERT INTO {table} (k, v) VALUES (?, ?)"
    " ON CONFLICT (k) DO UPDATE SET v = {table}.v + excluded.v",
    text="TEXT",
    sequence="CREATE SEQUENCE ids",
    next_id="SELECT nextval('ids')",
    version="SHOW server_version",
    time_us="SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    marks="SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'dstest_mark%'",
)


def programs(options: Mapping[str, Any]) -> str:
    """The directory of the programs that run."""
    return f"/usr/lib/postgresql/{options['major']}/bin"


class PostgresqlDeployment(ChangingSchema):
    """One server; all clients connect to it."""

    dialect = DIALECT

    def settings(self, node: Node) -> dict[str, Any]:
        """Parameters of the server."""
        return {
            "listen_addresses": f"{node.info.address},127.0.0.1",
            "port": PORT,
            "unix_socket_directories": "",
            "max_connections": CONNECTIONS_MAX,
            "shared_buffers": "64MB",
            "log_min_messages": "log",
            "log_timezone": "UTC",
            "deadlock_timeout": "200ms",
            "lock_timeout": "1s",
            "client_connection_check_interval": "500ms",
            "fsync": self.options["fsync"],
            "synchronous_commit": self.options["synchronous_commit"],
        }

    def services(self, node: Node) -> Sequence[Service]:
        found = programs(self.options)
        settings = {**self.settings(node), "hba_file": f"{HOME}/hba.conf"}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [
            Service(
                name="postgresql",
                argv=(f"{found}/postgres", "-D", DATA, *words),
                user="postgres",
                cwd=HOME,
                directories=(HOME,),
                data=(DATA,),
                prepare=((f"{found}/initdb", "-A", "trust", "-U", "postgres", "-D", DATA),),
                files={f"{HOME}/hba.conf": ANYBODY},
                log=f"{HOME}/log",
                probe=Probe(PORT, SSL_ASKED, b"N"),
                words=LogWords(shutdown=("database system is shut down",)),
                ending=Ending(signal=SIGINT.value, statuses=(0,)),
            )
        ]

    async def connection(self, node: Node, wait_s: float) -> Link:
        return await connect(node.info.address, PORT, wait_s, "read-committed")


class AuditedPostgresql(PostgresqlDeployment, AppliedOrder):
    """One server, which tells in the end what it has committed."""

    @property
    def audited(self) -> bool:
        return bool(self.options["audit"])

    def settings(self, node: Node) -> dict[str, Any]:
        """Parameters of the server."""
        more = {"wal_level": "logical"} if self.audited else {}
        return {**super().settings(node), **more}

    async def arrange(self) -> None:
        """Make the tables; from then on changes are kept."""
        await super().arrange()
        if self.audited:
            await self.ask(await self.writer(), BEGIN)

    async def applied(self, name: str) -> AsyncIterator[bytes]:
        """A line for each commit of clients."""
        link = await self.connection(self.nodes[name], self.timing.answer_s)
        number = 0
        try:
            while rows := await link.rows(NEXT):
                told, number = lines([str(row[0]) for row in rows], number)
                for line in told:
                    yield line
        finally:
            await link.aclose()


ABORTED: Final = (
    "PostgreSQL, Appendix A and COMMIT: the server said that the transaction failed; none of it was"
    " committed"
)
REFUSED: Final = {
    "40001": f"serialization_failure. {ABORTED}",
    "40P01": f"deadlock_detected. {ABORTED}",
    "55P03": f"lock_not_available. {ABORTED}",
    "23505": f"unique_violation. {ABORTED}",
    "0A000": f"feature_not_supported, as SERIALIZABLE on a standby. {ABORTED}",
    "25006": f"read_only_sql_transaction. {ABORTED}",
}


class PostgresqlClient(SqlClient):
    """Connects; each error of the server has a code, its SQLSTATE."""

    dialect = DIALECT
    # A server that only reads may have been demoted: another one is to be looked for.
    kept = frozenset({*REFUSED, ROLLED_BACK}) - {"25006"}

    async def connect(self, to: Endpoint) -> Any:
        isolation = self.options["isolation"]
        return await connect(to.dial or to.address, to.port, self.wait_s, isolation)

    def code_of(self, error: Exception) -> str | None:
        code = str(getattr(error, "sqlstate", "") or "")
        return code if code in REFUSED else None


OPTIONS: Final[Mapping[str, Option]] = {
    **SQL_OPTIONS,
    "major": Option(
        type=int,
        default=15,
        least=10,
        most=99,
        help="whose programs run; with a --system-version of another major version, that one",
    ),
    "fsync": Option(
        type=str, default="on", choices=("on", "off"), help="off: a power cut may lose data"
    ),
    "synchronous_commit": Option(
        type=str,
        default="on",
        choices=("on", "off"),
        help="off: a commit is acknowledged before it is on disk",
    ),
}
"""Of a server, whoever leads it."""


class Postgresql(SupervisedSystem):
    name = "postgresql"
    doc = "PostgreSQL 15 from Debian on one node; transactions at a level of your choice"
    packages: tuple[str, ...] = ("postgresql-15",)
    services: tuple[str, ...] = ("postgresql",)
    deployment: type[PostgresqlDeployment] = AuditedPostgresql
    journals = Journals(effects=PostgresqlEffects())
    client_packages = ("asyncpg",)
    clients = clients_on(PostgresqlClient)
    options: Mapping[str, Option] = {**OPTIONS, "audit": AUDIT}
    definite_errors = {
        ROLLED_BACK: "PostgreSQL, COMMIT: a failed transaction is rolled back, and says ROLLBACK",
        **REFUSED,
    }
    conflict_errors = frozenset({"40001", "40P01", "55P03", "23505", ROLLED_BACK})
    cautions = POSTGRESQL
    logs = SystemLogs(
        alarms=(
            "PANIC:",
            "invalid page in block",
            "could not fsync",
            "could not read block",
            "page verification failed",
            "missing chunk number",
            *("was terminated by signal 6", "was terminated by signal 11"),
        ),
        harmless=(
            "FATAL:  the database system is starting up",
            "FATAL:  the database system is shutting down",
            "FATAL:  the database system is not yet accepting connections",
            "FATAL:  the database system is in recovery mode",
            "FATAL:  terminating connection due to administrator command",
            "FATAL:  connection to client lost",
            # Of a backend that outlives its postmaster for a moment.
            "FATAL:  terminating connection due to unexpected postmaster exit",
            # Where the log ends, at the beginning of a page that was never written.
            "LOG:  invalid magic number 0000 in log segment",
            # Hints after each recovery that was interrupted.
            "If this has occurred more than once some data might be corrupted",
            "some data is corrupted and you will have to use the last backup",
        ),
        reader=POSTGRESQL_LINES,
    )
    relaxations = POSTGRESQL_RELAXED
    ports: tuple[int, ...] = (PORT,)
    client_port = PORT
    home = HOME
    members_most: int | None = 1
    own_image = True
    request_counter = PostgresqlRequests


SYSTEM = Postgresql()
