"""A RabbitMQ broker on each node, clustered before the load."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from clusters.supervise import Durable, FullMesh
from clusters.systems.rabbitmq.link import PORT, connected
from dstest.core.node import Node
from dstest.core.protocols import Ending, LogWords, Probe, Service, Timing

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
            link = await connected(node.info.address, PORT, wait_s)
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
            link = await connected(node.info.address, PORT, self.timing.answer_s)
            try:
                told = link.connection.transport.connection.server_properties
                return str(told["version"])
            finally:
                await link.aclose()

        return ", ".join(sorted({said for said in (await self.answers(one)).values() if said}))
