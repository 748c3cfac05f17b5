"""memcached: servers that know nothing of one another; a key is where its hash puts it.

Clients choose as users' pools do. Nothing is replicated, and nothing survives a restart.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from clusters.supervise import StreamClient, SupervisedDeployment, SupervisedSystem, wire
from clusters.supervise.ops import error_text
from clusters.supervise.system import MEMCACHED
from dstest.core.node import Node
from dstest.core.protocols import Indefinite, OpDraft, Probe, Service

PORT: Final = 11211
HOME: Final = "/opt/memcached"
AFTER_VALUE: Final = b"\r\nEND\r\n"
ANSWERS: Final = {b"gets": b"END", b"set": b"STORED", b"cas": b"STORED EXISTS NOT_FOUND"}


class MemcachedDeployment(SupervisedDeployment):
    """One server on each node."""

    endpoint_kind = "seed"

    def services(self, node: Node) -> Sequence[Service]:
        argv = ("memcached", "-u", "root", "-p", str(PORT), "-l", node.info.address, "-m", "64")
        probe = Probe(PORT, b"version\r\n", b"VERSION ")
        return [Service(name="memcached", argv=argv, probe=probe, log=f"{HOME}/log")]

    async def healthy(self) -> dict[str, bool]:
        """Does each server store a value?"""
        said = await self.lines(PORT, b"set dstest-health 0 0 1\r\n1\r\n")
        return {name: text == "STORED" for name, text in said.items()}

    async def version(self) -> str:
        said = (await self.lines(PORT, b"version\r\n")).values()
        return ", ".join(sorted({text.removeprefix("VERSION ") for text in said if text}))


class RegisterClient(StreamClient):
    """read, write, cas. pymemcache blocks, and aiomcache 0.8 has a loop that does not end where a
    server has closed the connection; of the protocol this needs three commands."""

    async def _ask(self, op: OpDraft, verb: bytes, more: bytes = b"") -> tuple[bytes, Any, bytes]:
        """What is answered: a word; for `VALUE` also the value and its unique number."""
        key = str(op.key).encode()
        reader, writer = await self.link(self.every[zlib.crc32(key) % len(self.every)])
        writer.write(b"%b %b%b\r\n" % (verb, key, more))
        self.calls += 1
        said = await reader.readuntil(b"\r\n")
        match said.split():
            case [b"VALUE", of, _, size, unique] if (verb, of) == (b"gets", key):
                data = await reader.readexactly(int(size) + len(AFTER_VALUE))
                if data.endswith(AFTER_VALUE):
                    return b"VALUE", msgspec.json.decode(data.removesuffix(AFTER_VALUE)), unique
            case [word] if word in ANSWERS[verb].split():
                return word, None, b""
        raise Indefinite(error_text("unexpected answer", said))

    async def do_read(self, op: OpDraft) -> Any:
        return (await self._ask(op, b"gets"))[1]

    async def do_write(self, op: OpDraft) -> None:
        data = msgspec.json.encode(op.input)
        await self._ask(op, b"set", b" 0 0 %d\r\n%b" % (len(data), data))

    async def do_cas(self, op: OpDraft) -> bool:
        expected, data = op.input[0], msgspec.json.encode(op.input[1])
        word, found, unique = await self._ask(op, b"gets")
        if word == b"END" or found != expected:
            return False
        block = b" 0 0 %d %b\r\n%b" % (len(data), unique, data)
        return (await self._ask(op, b"cas", block))[0] == b"STORED"


class Memcached(SupervisedSystem):
    name = "memcached"
    doc = "memcached from Debian: a pool of servers, keys by their hash; nothing is replicated"
    packages = ("memcached",)
    services = ("memcached",)
    deployment = MemcachedDeployment
    clients = {"register": RegisterClient}
    cautions = MEMCACHED
    ports = (PORT,)
    home = HOME
    client_port = PORT

    def request_counter(self) -> wire.LineRequests:
        return wire.LineRequests({"set": 4, "cas": 4})


SYSTEM = Memcached()
