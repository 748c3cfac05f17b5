"""A system for tests: a server that forks workers of its own, and a sidecar on each node.

The server's workers take connections, are replaced after some requests, and ask the sidecar of the
first node, which keeps the registers and the log of what was written. A follower, forked as well,
reads that log and burns processor time for each entry: how far it has come is its member's
position. Every worker tells the time of its own clock.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from clusters.supervise import FullMesh, OpsClient, SupervisedSystem
from dstest.core.node import Node
from dstest.core.protocols import (
    Clocked,
    Leadership,
    LeaderView,
    OpDraft,
    Probe,
    Replication,
    ServerTime,
    Service,
    Unit,
)  # fmt: skip

SERVER_PORT, SIDECAR_PORT = 7500, 7501

COMMON = """
import json, os, socket, sys, threading, time
def lines(connection):
    with connection, connection.makefile("rwb") as stream:
        for line in stream:
            yield line, lambda answer: (stream.write(json.dumps(answer).encode() + b"\\n"),
                                        stream.flush())
def listen(port):
    return socket.create_server(("", port), backlog=100, reuse_port=False)
def ask(stream, request):
    stream.write(json.dumps(request).encode() + b"\\n")
    stream.flush()
    return json.loads(stream.readline())
"""

SIDECAR = """
values, log, lock = {}, [], threading.Lock()
def serve(connection):
    for line, answer in lines(connection):
        op, key, value = json.loads(line)
        with lock:
            if op == "log":
                answer(len(log))
            elif op == "read":
                answer(values.get(key))
            else:
                done = op == "write" or values.get(key) == value[0]
                if done:
                    values[key] = value if op == "write" else value[1]
                    log.append(key)
                answer(done)
server = listen(7501)
while True:
    threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()
"""

SERVER = """
first, position = sys.argv[1], memoryview(__import__("mmap").mmap(-1, 8)).cast("q")
def reach():
    while True:
        try:
            return socket.create_connection((first, 7501)).makefile("rwb")
        except OSError:  # the first node may start after this one
            time.sleep(0.1)
def follow():
    stream = reach()
    while True:
        there = ask(stream, ["log", 0, 0])
        while position[0] < there:
            sum(range(4000))
            position[0] += 1
        time.sleep(0.01)
def work(server):
    store, left = None, 400
    while left > 0:
        connection = server.accept()[0]
        for line, answer in lines(connection):
            left -= 1
            op, key, value = json.loads(line)
            if op == "ping":
                answer("pong")
            elif op == "time":
                answer(time.time_ns())
            elif op == "position":
                answer(position[0])
            else:
                store = store or socket.create_connection((first, 7501)).makefile("rwb")
                answer([ask(store, [op, key, value])])
server = listen(7500)
def fork(task, *given):
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            task(*given)
        finally:
            os._exit(0)
    return pid
follower = fork(follow)
for _ in range(8):
    fork(work, server)
while True:
    if os.wait()[0] == follower:
        follower = fork(follow)
    else:
        fork(work, server)
"""


class Forking(FullMesh, Clocked, Leadership, Replication):
    """The first member leads, for ever: nobody takes over."""

    replication_unit = Unit("entries", 200)

    def services(self, node: Node) -> Sequence[Service]:
        first = next(iter(self.nodes.values())).info.address
        server, sidecar = "/opt/forking/server.py", "/opt/forking/sidecar.py"
        return [
            Service(
                name="server",
                argv=("python3", server, first),
                files={server: (COMMON + SERVER).encode()},
                log="/opt/forking/server.log",
                probe=Probe(SERVER_PORT, b'["ping", 0, 0]\n', b'"pong"\n'),
                after=("sidecar",),
            ),
            Service(
                name="sidecar",
                argv=("python3", sidecar),
                files={sidecar: (COMMON + SIDECAR).encode()},
                log="/opt/forking/sidecar.log",
                probe=Probe(SIDECAR_PORT, b'["log", 0, 0]\n'),
            ),
        ]

    async def ask(self, op: str) -> dict[str, Any]:
        request = json.dumps([op, "health", 0]).encode() + b"\n"
        said = await self.answers(lambda node: self.line(node, SERVER_PORT, request))
        return {name: json.loads(line) if line else None for name, line in said.items()}

    async def healthy(self) -> dict[str, bool]:
        return {name: said == [True] for name, said in (await self.ask("write")).items()}

    async def leaders(self) -> list[LeaderView]:
        first, said = next(iter(self.nodes)), await self.ask("ping")
        return [LeaderView(member=name, leader=first) for name in said if said[name]]

    async def claims(self, name: str, group: str) -> bool:
        return name == next(iter(self.nodes))

    async def progress(self) -> dict[str, dict[str, int] | None]:
        said = await self.ask("position")
        return {name: None if at is None else {"": at} for name, at in said.items()}

    async def server_time(self, name: str) -> ServerTime | None:
        said = (await self.ask("time"))[name]
        return None if said is None else ServerTime(said, 1)

    async def version(self) -> str:
        return "1"


class Client(OpsClient):
    """Registers, a connection for each operation: any worker may answer."""

    async def _do(self, op: OpDraft) -> Any:
        reader, writer = await asyncio.open_connection(self.at.address, SERVER_PORT)
        try:
            writer.write(json.dumps([op.op_type, str(op.key), op.input]).encode() + b"\n")
            answer = json.loads(await reader.readline())[0]
        finally:
            writer.close()
        return answer if op.op_type != "write" else None

    do_read = do_write = do_cas = _do


class System(SupervisedSystem):
    """The `forking` system."""

    name, doc = "forking", "a server that forks, and a sidecar"
    services = ("server", "sidecar")
    deployment = Forking
    clients = {"register": Client}
    ports, home = (SERVER_PORT, SIDECAR_PORT), "/opt/forking"


SYSTEM = System()
