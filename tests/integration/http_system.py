"""`small-http`: registers over HTTP, on servers that do not talk. The example of docs/new-system.md
for what speaks HTTP, takes an option and counts its requests."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from clusters.supervise import Durable, HttpClient, HttpRequests, SupervisedSystem, residues, wire
from dstest.core.node import Node
from dstest.core.protocols import OpDraft, Option, Probe, Service

__all__ = ["SYSTEM"]

PORT, HOME = 7610, "/opt/small-http"
SERVER = rb"""
import http.server, json, os, sys, threading
lock, values, log, sync = threading.Lock(), {}, open(sys.argv[2], "a+b"), sys.argv[3] == "always"
log.seek(0)
for line in log:
    if line.endswith(b"]\n"):  # no line that a crash has cut short
        values.update([json.loads(line)])
class Talk(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def say(self, what):
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.say(values.get(self.path))
    def do_PUT(self):
        value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with lock:
            log.write(b"\n%s\n" % json.dumps([self.path, value]).encode())
            log.flush()
            if sync:
                os.fsync(log.fileno())
            values[self.path] = value
        self.say(value)
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 100
Server((sys.argv[1], 7610), Talk).serve_forever()
"""


class SmallHttpDeployment(Durable):
    endpoint_kind = "seed"

    def services(self, node: Node) -> Sequence[Service]:
        program, data, log = f"{HOME}/server.py", f"{HOME}/data", f"{HOME}/log"
        argv = ("python3", program, node.info.address, f"{data}/writes", self.options["sync"])
        probe, files = Probe(PORT, wire.get("/probe"), b"HTTP/1.1 200"), {program: SERVER}
        return [Service(name="server", argv=argv, files=files, data=(data,), log=log, probe=probe)]

    async def healthy(self) -> dict[str, bool]:
        said = await self.answers(lambda node: wire.fetched(node.info.address, PORT, "/health"))
        return {name: page is not None and page[0] == 200 for name, page in said.items()}

    async def version(self) -> str:
        return "1"


class RegisterClient(HttpClient):
    async def ask(self, op: OpDraft, method: str, body: bytes = b"") -> Any:
        to = self.every[zlib.crc32(str(op.key).encode()) % len(self.every)]
        status, said = await self.request(to, method, f"/k/{op.key}", body)
        if status != 200:
            raise OSError(f"{status}: {said[:100]!r}")  # whatever it may have done: unknown
        return json.loads(said)

    async def do_read(self, op: OpDraft) -> Any:
        return await self.ask(op, "GET")

    async def do_write(self, op: OpDraft) -> None:
        await self.ask(op, "PUT", json.dumps(op.input).encode())


class SmallHttp(SupervisedSystem):
    name, doc = "small-http", "registers over HTTP, on servers that do not talk"
    services = ("server",)
    deployment = SmallHttpDeployment
    clients = {"register": RegisterClient}
    residues = residues((PORT,), HOME)
    options = {"sync": Option(type=str, default="always", choices=("always", "no"), help="when")}
    client_port = PORT

    def request_counter(self) -> HttpRequests:
        return HttpRequests()


SYSTEM = SmallHttp()
