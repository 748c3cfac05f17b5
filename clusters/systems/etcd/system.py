"""The system `etcd`: what can be asked of it and of its members, what a line of its log says (JSON
of zap, with raft's own words in it), and what it and faults may leave on a node.

Sources: https://etcd.io/docs/v3.4/metrics/ for the names of metrics; raft/raft.go and
etcdserver/api/rafthttp of etcd 3.4 for what is logged when.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from clusters.supervise.applied import AUDIT
from clusters.supervise.attached import OPTIONS as ATTACHED
from clusters.supervise.system import ETCD, MEMBERS, first_members, residues
from clusters.systems.etcd import on_node
from clusters.systems.etcd.attached import AttachedEtcd
from clusters.systems.etcd.clients import CLIENTS, client_of
from clusters.systems.etcd.clients.connection import (
    CLIENT_PORT,
    CONFLICT,
    DEFINITE_ERRORS,
    Http2Requests,
)
from clusters.systems.etcd.clients.raw import RAW_CLIENTS
from clusters.systems.etcd.deployment import EtcdDeployment
from clusters.systems.etcd.effects import EtcdEffects
from clusters.systems.etcd.on_node import HOME, OTHER_BINARY, OTHER_HOME, PEER_PORT
from dstest.core.node import Node
from dstest.core.protocols import (
    Asks,
    Client,
    Deployment,
    Endpoint,
    Journals,
    LogReader,
    LogRecord,
    Option,
    Reading,
    Relaxation,
    System,
    SystemLogs,
)
from dstest.core.protocols.systems import Topic, Vote
from dstest.core.residue import Residue

_SYNC: Final = "etcd_disk_wal_fsync_duration_seconds"
_COMMIT: Final = "etcd_disk_backend_commit_duration_seconds"
_TRIP: Final = "etcd_network_peer_round_trip_time_seconds"

ASKS: Final = (
    Asks(
        port=CLIENT_PORT,
        send="GET /metrics HTTP/1.0\r\n\r\n",
        form="text",
        every_s=2.0,  # a page has a hundred kilobytes
        readings=(
            Reading(name="leads", unit="1", at="etcd_server_is_leader"),
            Reading(name="has_leader", unit="1", at="etcd_server_has_leader"),
            Reading(name="leader_changes", unit="1", at="etcd_server_leader_changes_seen_total"),
            Reading(name="commit", unit="1", at="etcd_server_proposals_committed_total"),
            Reading(name="applied", unit="1", at="etcd_server_proposals_applied_total"),
            Reading(name="queue", unit="1", at="etcd_server_proposals_pending"),
            Reading(
                name="proposals_failed",
                unit="1/s",
                at="etcd_server_proposals_failed_total",
                kind="rate",
            ),
            Reading(name="db_size", unit="B", at="etcd_mvcc_db_total_size_in_bytes"),
            Reading(
                name="fsync",
                unit="ms",
                at=f"{_SYNC}_sum",
                over=f"{_SYNC}_count",
                kind="mean",
                scale=1000,
            ),
            Reading(
                name="backend_commit",
                unit="ms",
                at=f"{_COMMIT}_sum",
                over=f"{_COMMIT}_count",
                kind="mean",
                scale=1000,
            ),
            Reading(
                name="peer_round_trip",
                unit="ms",
                at=f"{_TRIP}_sum",
                over=f"{_TRIP}_count",
                kind="mean",
                scale=1000,
            ),
            Reading(
                name="peer_sent",
                unit="B/s",
                at="etcd_network_peer_sent_bytes_total",
                kind="rate",
            ),
        ),
    ),
)

_LEVELS: Final = {
    "debug": "debug",
    "info": "info",
    "warn": "warning",
    "error": "error",
    **dict.fromkeys(("dpanic", "panic", "fatal"), "critical"),
}
_CAST: Final = re.compile(r"([0-9a-f]+) \[.*\] cast (?:MsgPreVote|MsgVote) for .* at term (\d+)")
_REJECTED: Final = re.compile(
    r"([0-9a-f]+) \[.*\] rejected (?:MsgPreVote|MsgVote) from .* at term (\d+)"
)
_CANDIDATE: Final = re.compile(r"([0-9a-f]+) became candidate at term (\d+)")
"""It votes for itself."""

_LATE: Final = (
    "timed out waiting for read index response",
    "stepped down to follower since quorum is not active",
)
_APART: Final = ("lost TCP streaming connection", "failed to reach the peer URL", "became inactive")
_FAILED: Final = (*_APART, "prober detected unhealthy status", "failed to dial", "failed to get ")
_PEERS: Final = ("remote-peer-id", "peer-id", "remote-member-id", "to")
_NOTHING: Final[frozenset[Topic]] = frozenset({"calm"})

_FILES: Final = " ".join(
    # A file that was only half written has its later name in its own.
    [*(p for p in on_node.STRAYS if p != on_node.REMOVED), f"{HOME}/*.dstest.*"]
)

FILES: Final = Residue(
    name="etcd's files",
    mark=f"it is in {HOME}, where nothing but ours is",
    look=f"for path in {_FILES}; do [ ! -e $path ] || echo ours file $path; done",
    remove=f"rm -rf {_FILES}",
    rank=70,
    home=HOME,
)

OTHER_BUILD: Final = Residue(
    name="etcd's other build",
    mark=f"it is in {OTHER_HOME}, where nothing but ours is",
    look=f"[ ! -e {OTHER_BINARY} ] || echo ours file {OTHER_BINARY}",
    remove=f"rm -rf {OTHER_BINARY}",
    rank=70,
    home=OTHER_HOME,
)

REMOVED: Final = Residue(
    name="etcd's membership",
    mark=f"{on_node.REMOVED} names the member",
    look=f"[ ! -e {on_node.REMOVED} ] || echo ours member that was removed and is not back",
    remove=f"rm -f {on_node.REMOVED}",
    rank=70,
    janitor=False,
    home=HOME,
)

RESIDUES: Final = (*residues((CLIENT_PORT, PEER_PORT), HOME), FILES, OTHER_BUILD, REMOVED)


class EtcdLines:
    """One JSON object each. Only slow requests are told of with their time, which says nothing of
    how long requests take."""

    form = "etcd's JSON"

    def record_of(self, line: str) -> LogRecord | None:
        if not line.startswith('{"level"'):
            return None
        try:
            fields: dict[str, Any] = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            return None
        message = str(fields.get("msg", ""))
        error = str(fields.get("error", ""))
        vote, ballot = _vote(message)
        level = _LEVELS.get(str(fields.get("level")), "")
        return LogRecord(
            message=f"{message}: {error}" if error else message,
            level=level,
            peer=next((str(fields[key]) for key in _PEERS if key in fields), ""),
            aliases=_aliases(fields),
            vote=vote,
            ballot=ballot,
            topics=_topics(message, level),
        )


def _vote(message: str) -> tuple[Vote, str]:
    if (found := _CAST.match(message)) or (found := _CANDIDATE.match(message)):
        return "granted", found[2]
    if found := _REJECTED.match(message):
        return "rejected", found[2]
    return "", ""


def _topics(message: str, level: str) -> frozenset[Topic]:
    """Nothing for lines of which its words do not tell; empty where they may."""
    found: set[Topic] = set()
    if any(words in message for words in _LATE):
        found.add("consensus-timeout")
    if any(words in message for words in _APART):
        found.add("cut-off")
    if any(words in message for words in _FAILED):
        found.add("connection")
    if found:
        return frozenset(found)
    return _NOTHING if level in ("info", "debug") else frozenset()


def _aliases(fields: Mapping[str, Any]) -> dict[str, str]:
    """Ids of members by the URLs at which they are, and of the one whose log it is."""
    found = {str(fields["local-member-id"]): ""} if "local-member-id" in fields else {}
    for id_, urls in (
        ("remote-peer-id", "remote-peer-urls"),
        ("added-peer-id", "added-peer-peer-urls"),
    ):
        told = fields.get(urls)
        if id_ in fields and isinstance(told, list) and told:
            found[str(fields[id_])] = str(told[0])
    return found


READER: Final[LogReader] = EtcdLines()


class AnyEtcd(System):
    """What is the same of etcd, whoever has started it."""

    name = "etcd"
    services: tuple[str, ...] = ("etcd",)
    client_packages = ("grpcio", "protobuf")
    definite_errors = DEFINITE_ERRORS
    conflict_errors = frozenset({CONFLICT})
    malformed_errors = frozenset({"INVALID_ARGUMENT", "UNIMPLEMENTED"})
    raw_clients: Mapping[str, Any] = RAW_CLIENTS
    relaxations = (
        Relaxation(
            model="sequential",
            source="etcd's rpc.proto, RangeRequest: serializable requests may return stale data",
            option="reads",
            value="serializable",
        ),
    )
    cautions = ETCD
    logs = SystemLogs(
        alarms=("cannot be repaired", "panic:", '"level":"fatal"'),
        harmless=(
            '"initial-corrupt-check"',
            '"corrupt-check-time-interval"',
            "starting initial corruption check",
            "initial corruption checking passed; no corruption",
        ),
        start='"starting an etcd server"',
        version=r'"etcd-version":"([^"]+)"',
        reader=READER,
    )
    journals = Journals(effects=EtcdEffects())

    def request_counter(self) -> Http2Requests:
        """Counts calls on the wire."""
        return Http2Requests()

    def client(
        self,
        capability: str,
        at: Endpoint,
        every: Sequence[Endpoint],
        options: Mapping[str, Any],
    ) -> Client:
        return client_of(capability, at, options)


OF_CLIENTS: Final[Mapping[str, Option]] = {
    "reads": Option(
        type=str,
        default="linearizable",
        choices=("linearizable", "serializable"),
        help="serializable reads are served by any member without consulting the others",
    ),
    "guard": Option(
        type=str,
        default="all",
        choices=("all", "written", "none"),
        help="keys that a transaction compares before it writes; fewer than all is unsafe",
    ),
    "lock_ttl_s": Option(
        type=int,
        default=0,
        least=0,
        most=3600,
        help="locks expire this long after their holder was last heard of; 0 = never",
    ),
}
"""Options that say what clients do, and not how servers are started."""


class RunningEtcd(AnyEtcd):
    """etcd that runs already: it has no files of ours, and its logs are its own."""

    doc = "etcd that runs already, gRPC v3 API without TLS and users"
    deployment: type[Deployment] = AttachedEtcd
    capabilities = frozenset(CLIENTS) - {"revisions"}  # which compacts the history of all keys
    client_port = 0
    options: Mapping[str, Option] = {**ATTACHED, **OF_CLIENTS}

    def deploy(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> AttachedEtcd:
        return AttachedEtcd(nodes, options)

    def members(self, nodes: Sequence[str], options: Mapping[str, Any]) -> list[str]:
        return list(nodes)


class Etcd(AnyEtcd):
    """The `etcd` system."""

    doc = "etcd 3.4 from Debian, five members, gRPC v3 API"
    packages: tuple[str, ...] = ("etcd-server",)
    deployment: type[Deployment] = EtcdDeployment
    capabilities = frozenset(CLIENTS)
    client_port = CLIENT_PORT
    residues = RESIDUES
    homes: tuple[str, ...] = (HOME, OTHER_HOME)
    asks: tuple[Asks, ...] = ASKS
    attached = RunningEtcd()
    options: Mapping[str, Option] = {
        **MEMBERS,
        "reads": OF_CLIENTS["reads"],
        "guard": OF_CLIENTS["guard"],
        "heartbeat_ms": Option(
            type=int, default=100, least=1, most=60_000, help="raft heartbeat interval"
        ),
        "election_ms": Option(
            type=int, default=1000, least=5, most=600_000, help="raft election timeout"
        ),
        "auth": Option(
            type=bool, default=False, help="members ask for tokens, and clients have them"
        ),
        "lock_ttl_s": OF_CLIENTS["lock_ttl_s"],
        "audit": AUDIT,
        "unsafe_no_fsync": Option(type=bool, default=False, help="never fsync the log"),
        "compaction_batch": Option(
            type=int,
            default=1000,
            least=1,
            most=1_000_000,
            help="revisions that a compaction looks through before it commits",
        ),
        "snapshot_count": Option(
            type=int,
            default=100_000,
            least=1,
            most=100_000_000,
            help="entries after which a member makes a snapshot; who lags by 5,000 more gets one",
        ),
    }

    def deploy(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> EtcdDeployment:
        return EtcdDeployment(nodes, options)

    def members(self, nodes: Sequence[str], options: Mapping[str, Any]) -> list[str]:
        return first_members(nodes, options)


SYSTEM = Etcd()
