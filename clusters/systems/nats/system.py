"""NATS JetStream: streams that are replicated by Raft, kept in files.

A publish is acknowledged when a majority has it; the server of Debian 12 syncs its files once a
minute (Jepsen, NATS 2.12.1, 2025, for the default of later ones). Clients speak to the server of
their node, which passes on what is for the leader of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from clusters.supervise import LineRequests, SupervisedSystem
from clusters.supervise.documented import NATS
from clusters.supervise.log_forms import NATS_LINES
from clusters.systems.nats.clients import (
    BUSY,
    NO_RESPONDERS,
    NOT_OFFERED,
    LogClient,
    QueueClient,
)
from clusters.systems.nats.deployment import HOME, MONITOR, ROUTES, NatsDeployment
from clusters.systems.nats.link import PORT
from dstest.core.protocols import Option

REPLICAS_MAX: Final = 5
KEPT: Final = "NATS JetStream, Consumers: what is not acknowledged stays, and is handed out again"


class NatsRequests(LineRequests):
    """Messages of a client; what it says of its connection and its inboxes is none."""

    def __init__(self) -> None:
        super().__init__({"PUB": -1, "HPUB": -1})

    def _take(self, line: bytes) -> None:
        before = self.requests
        super()._take(line)
        if not line.startswith((b"PUB ", b"HPUB ")):
            self.requests = before


class Nats(SupervisedSystem):
    name = "nats"
    doc = "NATS 2.9 from Debian with JetStream: replicated streams, as logs and as queues"
    packages = ("nats-server",)
    services = ("nats",)
    deployment = NatsDeployment
    client_packages = ("nats-py",)
    clients = {"log": LogClient, "queue": QueueClient}
    options: Mapping[str, Option] = {
        "replicas": Option(
            type=int, default=REPLICAS_MAX, least=1, most=REPLICAS_MAX, help="copies of a stream"
        ),
    }
    definite_errors = {
        NO_RESPONDERS: "NATS, Request-Reply: nobody has subscribed, so nobody got the message",
        BUSY: f"{KEPT}; another client has the next one",
        NOT_OFFERED: KEPT,
    }
    conflict_errors = frozenset({BUSY})
    cautions = NATS
    log_reader = NATS_LINES
    log_alarms = (
        "[FTL]",
        "Critical write error",
        "Snapshot corrupt",
        # A copy of a stream is not what was agreed on, and is made anew. A publisher that expected
        # another number is told "wrong last sequence".
        "last sequence mismatch",
    )
    ports = (PORT, MONITOR, ROUTES)
    client_port = PORT
    home = HOME
    request_counter = NatsRequests


SYSTEM = Nats()
