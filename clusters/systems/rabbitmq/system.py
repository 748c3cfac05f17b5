"""RabbitMQ: quorum queues, which are replicated by Raft, or mirrored classic ones.

A message is taken when the broker has confirmed it, and gone when it was acknowledged; what was
handed out and not acknowledged is handed out again (RabbitMQ, Consumer Acknowledgements and
Publisher Confirms).
"""

from __future__ import annotations

from collections.abc import Mapping

from clusters.supervise import SupervisedSystem
from clusters.supervise.documented import RABBITMQ
from clusters.supervise.log_forms import RABBITMQ_LINES
from clusters.systems.rabbitmq.clients import (
    DEAD_LETTERS,
    NOT_DECLARED,
    NOT_OFFERED,
    AmqpRequests,
    DeadLettersClient,
    QueueClient,
)
from clusters.systems.rabbitmq.deployment import EPMD, HOME, PEERS, RabbitmqDeployment
from clusters.systems.rabbitmq.link import PORT, QUEUES
from dstest.core.protocols import Option


class Rabbitmq(SupervisedSystem):
    name = "rabbitmq"
    doc = "RabbitMQ 3.10 from Debian: quorum queues, or mirrored ones"
    packages = ("rabbitmq-server",)
    services = ("epmd", "rabbitmq")
    deployment = RabbitmqDeployment
    client_packages = ("aio-pika", "aiormq")
    clients = {"queue": QueueClient, "dead-letters": DeadLettersClient}
    options: Mapping[str, Option] = {
        "queues": Option(
            type=str,
            default="quorum",
            choices=tuple(QUEUES),
            help="quorum: replicated by Raft; mirrored: classic queues, mirrored on all brokers",
        ),
        "partition_handling": Option(
            type=str,
            default="pause_minority",
            choices=("pause_minority", "autoheal", "ignore"),
            help="what brokers do that lose sight of others; ignore is as it comes",
        ),
        "dead_letters": Option(
            type=str,
            default="at-least-once",
            choices=tuple(DEAD_LETTERS),
            help="how rejected messages get to the dead letters; at-most-once is as it comes, and"
            " all that mirrored queues have",
        ),
    }
    definite_errors = {
        NOT_DECLARED: "ours: the queue was not there, so nothing was sent to it",
        NOT_OFFERED: "RabbitMQ, Consumer Acknowledgements: what was not acknowledged is requeued",
    }
    # Of Erlang's reports of processes that failed, those of servers with a name and of queues' Raft
    # servers. Others are not certain: connections, channels and queues' helpers fail, too, where a
    # client or another broker is gone, as `inconsistent_database` comes with each partition.
    cautions = RABBITMQ
    log_reader = RABBITMQ_LINES
    log_alarms = (
        "Crash dump is being written",
        "Kernel pid terminated",
        "BOOT FAILED",
        "** State machine ",
        "** Generic server rabbit_",
        "initial call: ra_server_proc:",
        "registered_name: ra_",
        "registered_name: rabbit_",
    )
    ports = (PORT, EPMD, PEERS)
    client_port = PORT
    home = HOME
    own_image = True
    request_counter = AmqpRequests


SYSTEM = Rabbitmq()
