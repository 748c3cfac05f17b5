"""beanstalkd: work queues on servers that know nothing of one another.

A queue is a tube on the node where its name's hash puts it. Every change is in a log on disk, and
synced before it is acknowledged. What a client has reserved goes back when its connection ends.
"""

import asyncio
import json
import zlib
from typing import Any

from clusters.supervise import (
    Durable,
    LineRequests,
    Link,
    StreamClient,
    SupervisedSystem,
    residues,
)  # fmt: skip
from dstest.core.node import Node
from dstest.core.protocols import Definite, Indefinite, OpDraft, Probe, Service

HOME, PORT = "/opt/beanstalkd", 11300
RESERVED_S = 5  # then a job goes back, whoever has it


async def answer(link: Link, command: str) -> list[str]:
    """The words that a server says to this command."""
    link[1].write(command.encode() + b"\r\n")
    return (await link[0].readuntil(b"\r\n")).decode().split()


class BeanstalkdDeployment(Durable):
    endpoint_kind = "seed"

    def services(self, node: Node) -> list[Service]:
        data, where = f"{HOME}/data", ("-l", node.info.address, "-p", str(PORT))
        return [
            Service(
                name="beanstalkd",
                argv=("beanstalkd", *where, "-b", data, "-f0"),  # -f0: sync at every change
                data=(data,),
                log=f"{HOME}/log",
                probe=Probe(PORT, b"list-tube-used\r\n", b"USING default"),
            )
        ]

    async def _serves(self, node: Node) -> bool:
        link = await asyncio.open_connection(node.info.address, PORT)
        try:
            job = await answer(link, "put 0 0 1 1\r\n1")
            return await answer(link, f"delete {job[1]}") == ["DELETED"]
        finally:
            link[1].close()

    async def healthy(self) -> dict[str, bool]:
        """Does each server take a job, and delete it?"""
        return {name: bool(good) for name, good in (await self.answers(self._serves)).items()}

    async def version(self) -> str:
        said = await self.each(list(self.nodes), lambda node: node.run(["beanstalkd", "-v"]))
        return ", ".join(sorted({done.stdout.strip() for done in said.values()}))


class QueueClient(StreamClient):
    """enqueue; dequeue, null where the queue is empty: a job is reserved, then deleted.

    Once put, reserve or delete has been sent, an answer that does not come is unknown: the job may
    be in or not, and one that was reserved goes back with the connection, or has been deleted.
    """

    async def open(self) -> None:
        self._tubes: dict[Link, str] = {}

    async def _ask(self, link: Link, command: str) -> list[str]:
        self.calls += 1
        return await answer(link, command)

    async def _tube(self, op: OpDraft) -> Link:
        """The connection to the server of this queue, whose tube it uses and watches alone."""
        tube = f"q{op.key}"
        link = await self.link(self.every[zlib.crc32(tube.encode()) % len(self.every)])
        before = self._tubes.get(link, "default")
        try:
            if before != tube:
                for command in (f"use {tube}", f"watch {tube}", f"ignore {before}"):
                    await self._ask(link, command)
        except (OSError, EOFError) as error:
            await self.close()
            raise Definite(f"not-connected: {error}") from None
        self._tubes[link] = tube
        return link

    async def do_enqueue(self, op: OpDraft) -> None:
        link, body = await self._tube(op), json.dumps(op.input)
        said = await self._ask(link, f"put 0 0 {RESERVED_S} {len(body)}\r\n{body}")
        if said[0] != "INSERTED":
            raise Indefinite(" ".join(said))

    async def do_dequeue(self, op: OpDraft) -> Any:
        link = await self._tube(op)
        said = await self._ask(link, "reserve-with-timeout 0")
        if said == ["TIMED_OUT"]:
            return None
        if said[0] != "RESERVED":
            raise Indefinite(" ".join(said))
        body = await link[0].readexactly(int(said[2]) + 2)
        deleted = await self._ask(link, f"delete {said[1]}")
        if deleted != ["DELETED"]:
            raise Indefinite(" ".join(deleted))
        return json.loads(body)


class Beanstalkd(SupervisedSystem):
    name = "beanstalkd"
    doc = "beanstalkd from Debian, synced: a queue is on one node, by its hash; none is replicated"
    packages = ("beanstalkd",)
    services = ("beanstalkd",)
    deployment = BeanstalkdDeployment
    clients = {"queue": QueueClient}
    definite_errors = {"not-connected": "ours: neither put nor reserve had been sent"}
    residues = residues((PORT,), HOME)
    client_port = PORT

    def request_counter(self) -> LineRequests:
        return LineRequests({"put": 4})


SYSTEM = Beanstalkd()
