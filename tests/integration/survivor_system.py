"""A system for tests whose servers survive a disk that refuses: they refuse writes, and run on.

Every server logs a write to its own disk, then asks the first one, which holds the registers in
memory. `-o waits=true`: a server whose disk refuses tries again until it does not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from clusters.supervise import Durable, OpsClient, SupervisedSystem
from dstest.core.node import Node
from dstest.core.protocols import Definite, OpDraft, Option, Probe, Service

PORT = 7400
HOME, DATA = "/opt/survivor", "/opt/survivor/data"

SERVER = """
import json, os, socket, socketserver, sys, threading, time
first, waits = sys.argv[1] or None, sys.argv[2] == "1"
values, lock, local = {}, threading.Lock(), threading.local()
log = os.open(sys.argv[3] + "/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

def keep(line):
    while True:
        try:
            os.write(log, line)
            os.fsync(log)
            return
        except OSError:
            if not waits:
                raise

def apply(op, key, value):
    with lock:
        old = values.get(key)
        if op == "read":
            return old
        if op == "cas" and old != value[0]:
            return False
        values[key] = value[1] if op == "cas" else value
        return True if op == "cas" else None

def ask_first(line):
    if not hasattr(local, "file"):
        local.file = socket.create_connection((first, 7400)).makefile("rwb")
    local.file.write(line)
    local.file.flush()
    return local.file.readline()

class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            if line == b"ping\\n":
                self.wfile.write(b"pong\\n")
                continue
            op, key, value = json.loads(line)
            try:
                if op != "read":
                    keep(line)
                answer = ask_first(line) if first else json.dumps([apply(op, key, value)]).encode()
            except OSError:
                answer = b"null"
            self.wfile.write(answer.strip() + b"\\n")

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 100

Server(("", 7400), Handler).serve_forever()
"""


class Survivor(Durable):
    """The servers on the nodes of one lab."""

    def services(self, node: Node) -> Sequence[Service]:
        first = next(iter(self.nodes.values()))
        to = "" if node is first else first.info.address
        waits = str(int(bool(self.options["waits"])))
        return [
            Service(
                name="server",
                argv=("python3", f"{HOME}/server.py", to, waits, DATA),
                files={f"{HOME}/server.py": SERVER.encode()},
                data=(DATA,),
                log=f"{HOME}/log",
                probe=Probe(PORT, b"ping\n", b"pong"),
            )
        ]

    async def healthy(self) -> dict[str, bool]:
        request = json.dumps(["write", "health", None]).encode() + b"\n"
        said = await self.answers(lambda node: self.line(node, PORT, request))
        return {name: line == b"[null]\n" for name, line in said.items()}

    async def version(self) -> str:
        return "1"


class Client(OpsClient):
    """Registers at one server, a connection for each client."""

    _streams: Any = None

    async def close(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()

    async def _do(self, op: OpDraft) -> Any:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.dial(self.at.address), PORT)
        reader, writer = self._streams
        self.calls += 1
        writer.write(json.dumps([op.op_type, str(op.key), op.input]).encode() + b"\n")
        answer = json.loads(await reader.readline())
        if answer is None:
            raise Definite("REFUSED")
        return answer[0]

    do_read = do_write = do_cas = _do


class System(SupervisedSystem):
    """The `survivor` system."""

    name, doc = "survivor", "servers that refuse writes when their disk does"
    services = ("server",)
    deployment = Survivor
    clients = {"register": Client}
    definite_errors = {"REFUSED": "the server says so before it asks the first"}
    options = {
        "waits": Option(type=bool, default=False, help="a server tries until its disk obeys")
    }


SYSTEM = System()
