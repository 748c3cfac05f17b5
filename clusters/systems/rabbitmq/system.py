"""RabbitMQ, by the library `aio-pika`: quorum queues, which are replicated by Raft, or mirrored
classic ones, with a broker on each node, clustered before the load.

A message is taken when the broker has confirmed it, and gone when it was acknowledged; what was
handed out and not acknowledged is handed out again (RabbitMQ, Consumer Acknowledgements and
Publisher Confirms).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from clusters.supervise import (
    Durable,
    FramedRequests,
    FullMesh,
    LinkedClient,
    SupervisedSystem,
    error_text,
)
from clusters.supervise.log_lines import RABBITMQ_LINES
from clusters.supervise.system import RABBITMQ
from dstest.core.node import Node
from dstest.core.protocols import (
    NOT_OFFERED,
    Definite,
    Ending,
    Endpoint,
    Indefinite,
    LogWords,
    OpDraft,
    Option,
    Probe,
    Service,
    SystemLogs,
    Timing,
)

PORT: Final = 5672
CLOSE_S: Final = 1.0
HEARTBEAT_S: Final = 2
"""The broker gives a client up after two or three of them, and requeues what it had sent there."""

QUEUES: Final = {
    "quorum": {"x-queue-type": "quorum"},
    "mirrored": {"x-queue-type": "classic"},
}

for _library in ("aio_pika", "aiormq"):
    # What it would print of a broker that is away is in the history as an operation's error.
    logging.getLogger(_library).setLevel(logging.CRITICAL)


class Link:
    """A connection of the library `aio-pika`, which does not reconnect, with one channel."""

    def __init__(self, connection: Any, channel: Any) -> None:
        self.connection = connection
        self.channel = channel
        self.queues: dict[str, Any] = {}

    async def queue(
        self, name: str, kind: str, wait_s: float, more: Mapping[str, Any] | None = None
    ) -> Any:
        """A queue, which is made where it is not there yet, with `more` arguments."""
        if name not in self.queues:
            self.queues[name] = await self.channel.declare_queue(
                name, durable=True, arguments={**QUEUES[kind], **(more or {})}, timeout=wait_s
            )
        return self.queues[name]

    async def put(self, name: str, body: bytes, wait_s: float) -> None:
        """Publish, and wait for the broker's confirmation. Raises Indefinite for anything else."""
        from aio_pika import DeliveryMode, Message

        message = Message(body, delivery_mode=DeliveryMode.PERSISTENT)
        said = await self.channel.default_exchange.publish(message, name, timeout=wait_s)
        if getattr(said, "name", "") != "Basic.Ack":
            raise Indefinite(error_text("not confirmed", repr(said)))

    async def aclose(self) -> None:
        with suppress(Exception):
            async with asyncio.timeout(CLOSE_S):
                await self.connection.close()


async def connect(address: str, port: int, wait_s: float) -> Link:
    """A connection that can be used at once."""
    import aio_pika

    async with asyncio.timeout(wait_s):
        connection = await aio_pika.connect(
            host=address, port=port, timeout=wait_s, heartbeat=HEARTBEAT_S
        )
        try:
            channel = await connection.channel(publisher_confirms=True)
        except BaseException:
            await connection.close()
            raise
    return Link(connection, channel)


HOME: Final = "/opt/rabbitmq"
USER: Final = "rabbitmq"
EPMD: Final = 4369
PEERS: Final = 25672
COOKIE: Final = "dstest"
PROGRAM: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"
CONTROL: Final = "/usr/lib/rabbitmq/bin/rabbitmqctl"
TICK_S: Final = 8
ERLANG: Final = f"-kernel net_ticktime {TICK_S} -setcookie {COOKIE} +S 1:1 +sbwt none"
CONFIG: Final = f"""\
listeners.tcp.1 = {{address}}:{PORT}
loopback_users = none
cluster_formation.peer_discovery_backend = classic_config
cluster_partition_handling = {{handling}}
log.console = true
log.console.level = info
log.file = false
"""
ADVANCED: Final = b"[{rabbit, [{dead_letter_worker_publisher_confirm_timeout, 5000}]}].\n"
"""After that many ms, and not three minutes, a dead letter is sent again that was not confirmed."""

HELLO: Final = b"AMQP\x00\x00\x09\x01"
NAMES: Final = b"\x00\x01n"
POLL_S: Final = 1.0
"""Each look takes a virtual machine to start."""

CONTROL_S: Final = 60.0
POLICY: Final = json.dumps({"ha-mode": "all", "ha-sync-mode": "automatic"})


def broker(node: Node) -> str:
    """Its name among its peers."""
    return f"rabbit@{node.info.address}"


class RabbitmqDeployment(FullMesh, Durable):
    """A broker on each node, and the port mapper by which they find each other."""

    timing = Timing(
        start_s=120.0,
        answer_s=3.0,
        keepalive_s=TICK_S / 4,
        failover_s=30.0,
        rejoin_s=60.0,
        restart_s=90.0,
    )
    endpoint_service = "rabbitmq"

    def services(self, node: Node) -> Sequence[Service]:
        config = CONFIG.format(
            address=node.info.address, handling=self.options["partition_handling"]
        )
        for i, peer in enumerate(self.nodes.values(), 1):
            config += f"cluster_formation.classic_config.nodes.{i} = {broker(peer)}\n"
        mapper = Service(
            name="epmd", argv=("epmd",), user=USER, log=f"{HOME}/epmd.log", probe=Probe(EPMD, NAMES)
        )
        server = Service(
            name="rabbitmq",
            argv=(PROGRAM,),
            user=USER,
            env={
                "HOME": HOME,
                "RABBITMQ_NODENAME": broker(node),
                "RABBITMQ_USE_LONGNAME": "true",
                "RABBITMQ_CONFIG_FILE": f"{HOME}/rabbitmq",
                "RABBITMQ_ADVANCED_CONFIG_FILE": f"{HOME}/advanced.config",
                "RABBITMQ_MNESIA_BASE": f"{HOME}/data",
                "RABBITMQ_LOG_BASE": f"{HOME}/log",
                "RABBITMQ_ENABLED_PLUGINS_FILE": f"{HOME}/plugins",
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ERLANG,
                # Otherwise a shell stays in front of the server and waits for signals.
                "RUNNING_UNDER_SYSTEMD": "true",
            },
            cwd=HOME,
            directories=(HOME, f"{HOME}/log"),
            data=(f"{HOME}/data",),
            files={
                f"{HOME}/rabbitmq.conf": config.encode(),
                f"{HOME}/advanced.config": ADVANCED,
                f"{HOME}/plugins": b"[].\n",
            },
            log=f"{HOME}/rabbitmq.log",
            after=("epmd",),
            probe=Probe(PORT, HELLO, b"\x01"),
            ports={"peer": PEERS},
            words=LogWords(shutdown=("SIGTERM received - shutting down",)),
            ending=Ending(statuses=(0,)),
            stuck_after=("write", "sync"),
            silent_without_majority=self.options["partition_handling"] == "pause_minority",
        )
        return [mapper, server]

    async def control(self, node: Node, *words: str) -> str:
        """What the tool of the broker prints. Raises LabError."""
        argv = ["env", f"HOME={HOME}", CONTROL, "--longnames", "--erlang-cookie", COOKIE]
        done = await node.run([*argv, "-q", "-n", broker(node), *words], timeout_s=CONTROL_S)
        return done.stdout

    async def boot(self) -> None:
        """Queues are placed on the brokers that are there when they are made."""
        await super().boot()
        first = next(iter(self.nodes.values()))
        await self.until(first, self._together, CONTROL_S, POLL_S)
        if self.options["queues"] == "mirrored":
            await self.control(first, "set_policy", "mirrored", ".*", POLICY)

    async def _together(self, node: Node) -> bool:
        """Does this broker see all others?"""
        said = json.loads(await self.control(node, "cluster_status", "--formatter", "json"))
        return len(said["running_nodes"]) == len(self.members)

    async def healthy(self) -> dict[str, bool]:
        """Does each broker take a message, and give it back?"""

        async def one(node: Node) -> bool:
            wait_s = self.timing.answer_s
            link = await connect(node.info.address, PORT, wait_s)
            try:
                queue = await link.queue(f"health-{node.name}", self.options["queues"], wait_s)
                await link.put(queue.name, b"x", wait_s)
                taken = await queue.get(no_ack=True, fail=False, timeout=wait_s)
                return taken is not None
            finally:
                await link.aclose()

        return {name: bool(fine) for name, fine in (await self.answers(one)).items()}

    async def version(self) -> str:
        """As brokers tell whoever connects."""

        async def one(node: Node) -> str:
            link = await connect(node.info.address, PORT, self.timing.answer_s)
            try:
                told = link.connection.transport.connection.server_properties
                return str(told["version"])
            finally:
                await link.aclose()

        return ", ".join(sorted({said for said in (await self.answers(one)).values() if said}))


NOT_DECLARED: Final = "not-declared"
_HEADER: Final = 7
_TO_DEAD: Final = "x-dead-letter-routing-key"
_ASKED: Final = frozenset({(50, 10), (60, 40), (60, 70), (60, 80), (60, 90)})
"""queue.declare; basic.publish, .get, .ack, .reject (AMQP 0-9-1, 1.5 and 1.8)."""

DEAD_LETTERS: Final[dict[str, dict[str, str]]] = {
    "at-least-once": {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"},
    "at-most-once": {},
}


class QueueClient(LinkedClient):
    """enqueue: a confirmed publish. dequeue: get, then acknowledge; the channel does one thing
    after the other, so that its next answer comes after the acknowledgement was passed on.

    Until an acknowledgement is sent nothing has been taken: a connection that got no answer to a
    get is closed, and what the broker has sent there goes back to the queue.
    """

    async def connect(self, to: Endpoint) -> Link:
        return await connect(to.dial or to.address, to.port, self.wait_s)

    def more(self, key: Any) -> dict[str, str]:
        """Arguments of a queue."""
        return {}

    async def _queue(self, name: str, more: Mapping[str, str]) -> tuple[Link, Any]:
        """The connection, and the queue, whose dead letters have one already: what finds none is
        dropped. Raises Definite where there is none."""
        link: Link = await self.link()
        dead = more.get(_TO_DEAD)
        for each, arguments in [*([(dead, {})] if dead else []), (name, more)]:
            if each in link.queues:
                continue
            try:
                await link.queue(each, self.options["queues"], self.wait_s, arguments)
            except Exception as error:
                await self.close()
                raise Definite(error_text(NOT_DECLARED, repr(error))) from None
            link = await self.link()
        return link, link.queues[name]

    async def do_enqueue(self, op: OpDraft) -> None:
        link, queue = await self._queue(f"job-{op.key}", self.more(op.key))
        await link.put(queue.name, json.dumps(op.input).encode(), self.wait_s)

    async def do_dequeue(self, op: OpDraft) -> Any:
        return await self._take(f"job-{op.key}", self.more(op.key))

    async def _take(self, name: str, more: Mapping[str, str], *, refused: bool = False) -> Any:
        """Get one and acknowledge it, or refuse it for good; None where there is none."""
        _, queue = await self._queue(name, more)
        try:
            message = await queue.get(fail=False, timeout=self.wait_s / 2)
        except Exception as error:
            await self.close()
            raise Definite(error_text(NOT_OFFERED, repr(error))) from None
        if message is None:
            return None
        await self.link()
        await (message.reject(requeue=False) if refused else message.ack())
        again: Link = await self.link()
        await again.channel.declare_queue(queue.name, passive=True, timeout=self.wait_s)
        return json.loads(message.body)


class DeadLettersClient(QueueClient):
    """reject: get, then refuse for good. collect: a dequeue from the queue of dead letters."""

    def more(self, key: Any) -> dict[str, str]:
        to = {"x-dead-letter-exchange": "", _TO_DEAD: f"dead-{key}"}
        return {**to, **DEAD_LETTERS[self.options["dead_letters"]]}

    async def do_reject(self, op: OpDraft) -> Any:
        return await self._take(f"job-{op.key}", self.more(op.key), refused=True)

    async def do_collect(self, op: OpDraft) -> Any:
        return await self._take(f"dead-{op.key}", {})


class AmqpRequests(FramedRequests):
    """Methods of a client that are about messages (AMQP 0-9-1, 4.2 Frames)."""

    def frame(self, head: bytes, number: int) -> tuple[int, bool] | None:
        if number == 0:
            return (len(HELLO), False) if len(head) == len(HELLO) else None
        if len(head) < _HEADER:
            return None
        size = int.from_bytes(head[3:7], "big")
        if head[0] not in (1, 2, 3, 8):
            raise ValueError(head[0])
        if head[0] != 1:
            return _HEADER + size + 1, False
        if len(head) < _HEADER + 4:
            return None
        method = int.from_bytes(head[7:9], "big"), int.from_bytes(head[9:11], "big")
        return _HEADER + size + 1, method in _ASKED


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
    logs = SystemLogs(
        alarms=(
            "Crash dump is being written",
            "Kernel pid terminated",
            "BOOT FAILED",
            "** State machine ",
            "** Generic server rabbit_",
            "initial call: ra_server_proc:",
            "registered_name: ra_",
            "registered_name: rabbit_",
        ),
        reader=RABBITMQ_LINES,
    )
    ports = (PORT, EPMD, PEERS)
    client_port = PORT
    home = HOME
    own_image = True
    request_counter = AmqpRequests


SYSTEM = Rabbitmq()
