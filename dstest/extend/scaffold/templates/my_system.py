"""`my-system`: a server on each node; a register is where its hash is.

What to change:

- `packages`: Debian packages for the nodes; without one, `files` of a service bring the program.
- `services`: what runs on a node, its data, and a `Probe` that a server answers by itself.
- `healthy`: do clients get what they came for? `arrange`, where servers have to be made a cluster.
- `clients`: `do_<type>` for each operation of a capability (`dstest list --capabilities`). What is
  `Definite` had no effect (`definite_errors`: where is that written?); all else is unknown.
- The bases of the deployment open faults: `Durable` power and disk, `FullMesh` the network between
  members, `Leadership` of leaders, `Clocked` clocks; all else is in `dstest.core.protocols.System`.
"""

import json
import zlib
from typing import Any

from clusters.supervise import Durable, LineRequests, StreamClient, SupervisedSystem, residues
from dstest.core.node import Node
from dstest.core.protocols import OpDraft, Probe, Service

PORT, HOME = 7600, "/opt/my-system"
SERVER = rb"""
import contextlib, json, os, socketserver, sys, threading
lock, values, log = threading.Lock(), {}, open(sys.argv[2], "a+b")
log.seek(0)
for line in log:
    with contextlib.suppress(ValueError):  # a line that a crash has cut short
        values.update([json.loads(line)])
class Talk(socketserver.StreamRequestHandler):
    def handle(self):
        with contextlib.suppress(ConnectionError):
            for what, key, value in map(json.loads, self.rfile):
                with lock:
                    if what == "write":
                        log.write(b"\n%s\n" % json.dumps([key, value]).encode())
                        log.flush()
                        os.fsync(log.fileno())  # what is acknowledged is on the disk
                        values[key] = value
                    answer = values.get(key) if what == "read" else None
                self.wfile.write(b"%s\n" % json.dumps(answer).encode())
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, request_queue_size = True, 100
    handle_error = lambda *_: os._exit(1)  # a server whose disk refuses does not go on
Server((sys.argv[1], 7600), Talk).serve_forever()
"""


class MySystemDeployment(Durable):
    endpoint_kind = "seed"  # clients go where a key is; "any" where each member answers for itself

    def services(self, node: Node) -> list[Service]:
        program, data, log = f"{HOME}/server.py", f"{HOME}/data", f"{HOME}/log"
        argv = ("python3", program, node.info.address, f"{data}/writes")
        probe, files = Probe(PORT, b'["read", "probe", 0]\n', b"null"), {program: SERVER}
        return [Service(name="server", argv=argv, files=files, data=(data,), log=log, probe=probe)]

    async def healthy(self) -> dict[str, bool]:
        said = await self.answers(lambda node: self.line(node, PORT, b'["write", "health", 1]\n'))
        return {name: line == b"null\n" for name, line in said.items()}

    async def version(self) -> str:
        return "1"


class RegisterClient(StreamClient):
    async def do_read(self, op: OpDraft) -> Any:
        to = self.every[zlib.crc32(str(op.key).encode()) % len(self.every)]
        reader, writer = await self.link(to)
        self.calls += 1  # compared with what leaves this client: nothing is sent twice
        writer.write(json.dumps([op.op_type, str(op.key), op.input]).encode() + b"\n")
        return json.loads(await reader.readuntil(b"\n"))

    do_write = do_read


class MySystem(SupervisedSystem):
    name, doc = "my-system", "registers on servers that do not talk"
    services = ("server",)
    deployment = MySystemDeployment
    clients = {"register": RegisterClient}
    definite_errors = {"not-connected": "ours: there was no connection, so nothing was sent"}
    residues = residues((PORT,), HOME)
    client_port = PORT

    def request_counter(self) -> LineRequests:
        return LineRequests({})


SYSTEM = MySystem()
