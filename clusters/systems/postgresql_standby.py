"""PostgreSQL with streaming standbys: one primary, and replicas that are read.

Writes go to the primary, the first node, and nothing fails over. What only reads goes to the
client's own node: a standby shows transactions in the order of the log, the primary in that in
which they became visible, and the two may differ (Jepsen, Amazon RDS for PostgreSQL 17.4, 2025).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from clusters.sql import clients_on
from clusters.systems.postgresql import (
    DATA,
    HOME,
    OPTIONS,
    PORT,
    Postgresql,
    PostgresqlClient,
    PostgresqlDeployment,
    programs,
)
from dstest.core.node import Node
from dstest.core.protocols import Endpoint, Linked, OpDraft, Replication, Service, Timing, Unit

OWNED: Final = ("chmod", "700", DATA)
SENDING: Final = ("-c", "wal_keep_size=512MB", "-c", "max_wal_senders=20")
ANYBODY: Final = b"host all,replication all 0.0.0.0/0 trust\nhost all,replication all ::0/0 trust\n"
WHERE: Final = (
    "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
    " ELSE pg_current_wal_lsn() END - '0/0')::bigint"
)
FOLLOWS: Final = (
    "SELECT pg_is_in_recovery()"
    " AND EXISTS (SELECT 1 FROM pg_stat_wal_receiver WHERE status = 'streaming')"
)
CUT_OFF: Final = (
    "FATAL:  could not connect to the primary server",
    "FATAL:  could not receive data from WAL stream",
    "FATAL:  could not send data to WAL stream",
    "FATAL:  could not send end-of-streaming message to primary",
    "FATAL:  terminating walreceiver",
)
"""Of a receiver of a standby, which another one follows."""


class Streaming(PostgresqlDeployment, Replication):
    """A primary, and standbys that receive its log."""

    replication_unit = Unit("bytes", 1 << 20)

    async def serving(self, primaries: Sequence[str]) -> dict[str, bool]:
        """Does the primary write, and does each other member follow one? Of several primaries none
        does what it should."""
        if len(primaries) != 1:
            return dict.fromkeys(self.members, False)
        follows = await self.answers(lambda node: self.ask(node, FOLLOWS))
        return {name: bool(said) for name, said in follows.items()} | await self.writing(primaries)

    async def progress(self) -> dict[str, dict[str, int] | None]:
        said = await self.answers(lambda node: self.ask(node, WHERE))
        return {name: None if at is None else {"": int(at)} for name, at in said.items()}


class StandbyDeployment(Streaming, Linked):
    """The first node has the primary."""

    timing = Timing(start_s=90.0, rejoin_s=30.0, restart_s=60.0)
    endpoint_kind = "replica"

    def services(self, node: Node) -> Sequence[Service]:
        first = next(iter(self.nodes.values()))
        (service,) = super().services(node)
        service = msgspec.structs.replace(service, argv=(*service.argv, *SENDING))
        files = {f"{HOME}/hba.conf": ANYBODY}
        if node is first:
            return [msgspec.structs.replace(service, files=files)]
        words = ("-h", first.info.address, "-p", str(PORT), "-U", "postgres", "-D", DATA)
        copy = (
            f"{programs(self.options)}/pg_basebackup",
            *words,
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
        )
        argv = (*service.argv, "-c", "hot_standby_feedback=on")
        return [msgspec.structs.replace(service, argv=argv, files=files, prepare=(copy, OWNED))]

    def endpoints(self) -> list[Endpoint]:
        primary, *others = super().endpoints()
        return [msgspec.structs.replace(primary, kind="primary"), *others]

    def links(self) -> list[tuple[str, str]] | None:
        """Standbys talk to the primary alone."""
        primary, *others = self.members
        return [pair for name in others for pair in ((primary, name), (name, primary))]

    async def boot(self) -> None:
        """Standbys are copies of a primary that runs."""
        primary, *others = self.members
        await self._start(self.nodes[primary])
        await self.until(self.nodes[primary], lambda node: self.ask(node, "SELECT 1"))
        await self.each(others, self._start)

    async def healthy(self) -> dict[str, bool]:
        return await self.serving([next(iter(self.members))])


class StandbyClient(PostgresqlClient):
    """Reads where it is, and writes at the primary."""

    def target(self, op: OpDraft) -> Endpoint:
        return self.at if _only_reads(op) else self.every[0]


def _only_reads(op: OpDraft) -> bool:
    if op.op_type in ("txn", "look"):
        return all(kind == "r" for kind, _, _ in op.input)
    return op.op_type in ("read", "dump")


class PostgresqlStandby(Postgresql):
    name = "postgresql-standby"
    doc = "PostgreSQL 15 from Debian: a primary, and streaming standbys that are read"
    deployment = StandbyDeployment
    members_most = None
    clients = clients_on(StandbyClient)
    logs = msgspec.structs.replace(
        Postgresql.logs,
        harmless=(*Postgresql.logs.harmless, *CUT_OFF),
    )
    options = {
        **OPTIONS,
        "isolation": msgspec.structs.replace(OPTIONS["isolation"], default="repeatable-read"),
    }


SYSTEM = PostgresqlStandby()
