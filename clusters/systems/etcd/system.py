"""The system `etcd`: what it is made of and what can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clusters.supervise.documented import ETCD
from clusters.supervise.some_nodes import MEMBERS, first_members
from clusters.systems.etcd.asked import ASKS
from clusters.systems.etcd.clients.definite import CONFLICT, DEFINITE_ERRORS
from clusters.systems.etcd.clients.http2 import Http2Requests
from clusters.systems.etcd.clients.offered import CLIENTS, client_of
from clusters.systems.etcd.clients.raw import RAW_CLIENTS
from clusters.systems.etcd.clients.stub import CLIENT_PORT
from clusters.systems.etcd.deployment import EtcdDeployment
from clusters.systems.etcd.log_lines import READER
from clusters.systems.etcd.on_node import HOME, OTHER_HOME
from clusters.systems.etcd.residues import RESIDUES
from dstest.core.node import Node
from dstest.core.protocols import Asks, Client, Deployment, Endpoint, LogReader, Option, Relaxation


class Etcd:
    """The `etcd` system."""

    name = "etcd"
    doc = "etcd 3.4 from Debian, five members, gRPC v3 API"
    packages: tuple[str, ...] = ("etcd-server",)
    deployment: type[Deployment] = EtcdDeployment
    services: tuple[str, ...] = ("etcd",)
    capabilities = frozenset(CLIENTS)
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
    client_port = CLIENT_PORT
    residues = RESIDUES
    homes = (HOME, OTHER_HOME)
    log_alarms: tuple[str, ...] = ("cannot be repaired", "panic:", '"level":"fatal"')
    log_harmless: tuple[str, ...] = (
        '"initial-corrupt-check"',
        '"corrupt-check-time-interval"',
        "starting initial corruption check",
        "initial corruption checking passed; no corruption",
    )
    log_reader: LogReader | None = READER
    log_start = '"starting an etcd server"'
    log_version = r'"etcd-version":"([^"]+)"'
    asks: tuple[Asks, ...] = ASKS
    options: Mapping[str, Option] = {
        **MEMBERS,
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
        "heartbeat_ms": Option(
            type=int, default=100, least=1, most=60_000, help="raft heartbeat interval"
        ),
        "election_ms": Option(
            type=int, default=1000, least=5, most=600_000, help="raft election timeout"
        ),
        "auth": Option(
            type=bool, default=False, help="members ask for tokens, and clients have them"
        ),
        "lock_ttl_s": Option(
            type=int,
            default=0,
            least=0,
            most=3600,
            help="locks expire this long after their holder was last heard of; 0 = never",
        ),
        "unsafe_no_fsync": Option(type=bool, default=False, help="never fsync the log"),
        "snapshot_count": Option(
            type=int,
            default=100_000,
            least=1,
            most=100_000_000,
            help="entries after which a member makes a snapshot; who lags by 5,000 more gets one",
        ),
    }

    def request_counter(self) -> Http2Requests:
        """Counts calls on the wire."""
        return Http2Requests()

    def deploy(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> EtcdDeployment:
        return EtcdDeployment(nodes, options)

    def members(self, nodes: Sequence[str], options: Mapping[str, Any]) -> list[str]:
        return first_members(nodes, options)

    def client(
        self,
        capability: str,
        at: Endpoint,
        every: Sequence[Endpoint],
        options: Mapping[str, Any],
    ) -> Client:
        return client_of(capability, at.node, at.dial or at.address, options)


SYSTEM = Etcd()
