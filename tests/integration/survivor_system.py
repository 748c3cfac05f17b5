"""A system for tests whose servers survive a disk that refuses: they refuse writes, and run on.

Every server logs a write to its own disk, then asks the first one, which holds the registers in
memory. `-o waits=true`: a server whose disk refuses tries again until it does not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.protocols import (
    DataDir,
    Definite,
    Indefinite,
    LogFiles,
    OpDraft,
    Option,
    Probed,
    Reply,
    Supervised,
)

PORT = 7400
HOME, DATA = "/opt/survivor", "/opt/survivor/data"
START_LOOKS = 100
PROGRAM, LOG = f"{HOME}/server.py", f"{HOME}/log"

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


class Survivor(DataDir, LogFiles, Probed, Supervised):
    """The servers on the nodes of one lab."""

    service_port, service_request = PORT, "ping\n"

    def __init__(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._first = nodes[0].info.address if nodes else ""
        self._waits = str(int(bool(options.get("waits"))))

    async def _on_all(self, names: Sequence[str], script: str) -> None:
        argv = ["sh", "-c", script]
        await asyncio.gather(*(self._nodes[n].run(argv, check=False) for n in names))

    def data_dir(self) -> str:
        return DATA

    def log_files(self) -> list[str]:
        return [LOG]

    async def install(self) -> None:
        await self._on_all(list(self._nodes), f"mkdir -p {DATA}")
        await asyncio.gather(*(n.put(PROGRAM, SERVER.encode()) for n in self._nodes.values()))

    def restart_command(self, name: str) -> list[str]:
        first = "" if self._nodes[name].info.address == self._first else self._first
        start = f"setsid python3 {PROGRAM} '{first}' {self._waits} {DATA} >>{LOG} 2>&1 </dev/null &"
        return ["sh", "-c", f"pgrep -f '^python3 {PROGRAM}' >/dev/null || {start}"]

    async def start(self) -> None:
        await self.restart(list(self._nodes))

    async def restart(self, names: Sequence[str]) -> None:
        await asyncio.gather(*(self._nodes[n].run(self.restart_command(n)) for n in names))
        for _ in range(START_LOOKS):
            healthy = await self.healthy()
            if all(healthy[n] for n in names):
                return
            await asyncio.sleep(0.1)
        raise LabError(f"not all of {', '.join(names)} serve")

    async def kill(self, names: Sequence[str]) -> None:
        await self._on_all(names, f"pkill -9 -f '^python3 {PROGRAM}'; sleep 0.2")

    async def stop(self) -> None:
        await self.kill(list(self._nodes))

    async def wipe(self) -> None:
        await self._on_all(list(self._nodes), f"rm -rf {HOME}")

    async def version(self) -> str:
        return "1"

    async def processes(self) -> dict[str, tuple[int, int]]:
        found = {}
        for name, node in self._nodes.items():
            pids = await node.run(["pgrep", "-f", f"^python3 {PROGRAM}"], check=False)
            for pid in pids.stdout.split()[:1]:
                info = await node.call("procinfo", pid=int(pid))
                if info["alive"]:
                    found[name] = (int(pid), int(info["start_time"]))
        return found

    async def healthy(self) -> dict[str, bool]:
        async def one(node: Node) -> bool:
            client = Client(node.name, node.info.address)
            try:
                await client.open()
                await client.invoke(OpDraft("write", "health"), 1.0)
            except (Definite, Indefinite, OSError):
                return False
            finally:
                await client.close()
            return True

        answers = await asyncio.gather(*map(one, self._nodes.values()))
        return dict(zip(self._nodes, answers, strict=True))


class Client:
    """Registers at one server, a connection for each client."""

    def __init__(self, node: str, address: str) -> None:
        self._node, self._address = node, address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> None:
        self._streams = await asyncio.open_connection(self._address, PORT)

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        try:
            async with asyncio.timeout(timeout_s):
                if self._streams is None:
                    await self.open()
                assert self._streams is not None
                reader, writer = self._streams
                writer.write(json.dumps([op.op_type, str(op.key), op.input]).encode() + b"\n")
                answer = json.loads(await reader.readline())
        except (OSError, TimeoutError, ValueError) as error:
            await self.close()
            raise Indefinite(repr(error)) from None
        if answer is None:
            raise Definite("REFUSED")
        return Reply(answer[0], self._node)


class System:
    """The `survivor` system."""

    name, doc = "survivor", "servers that refuse writes when their disk does"
    packages: tuple[str, ...] = ()
    deployment = Survivor
    capabilities = frozenset({"register"})
    definite_errors: Mapping[str, str] = {"REFUSED": "the server says so before it asks the first"}
    log_alarms: tuple[str, ...] = ()
    options: Mapping[str, Option] = {
        "waits": Option(type=bool, default=False, help="a server tries until its disk obeys")
    }
    client_port = PORT

    def deploy(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> Survivor:
        return Survivor(nodes, options)

    def client(
        self, capability: str, node: str, address: str, options: Mapping[str, Any]
    ) -> Client:
        return Client(node, address)


SYSTEM = System()
