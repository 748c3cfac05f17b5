"""A second client of systems that speak Redis' protocol: plain sockets, without the library.

It exists to be compared with the first one: what only one of them sees is no bug of the servers.
Each operation has a connection of its own. Source: Redis serialization protocol specification,
version 2.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from clusters.supervise.ops import NOT_CONNECTED
from dstest.core.protocols import Client, Definite, Endpoint, Indefinite, OpDraft, Reply

_BULK_MAX: Final = 16 << 20


class RespError(Exception):
    """What the server refused; its first word is the code."""


class Link:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, address: str, port: int) -> Link:
        """Raises OSError."""
        return cls(*await asyncio.open_connection(address, port))

    async def ask(self, *words: str | int) -> Any:
        """What is answered to a command. Raises RespError, ValueError, OSError, EOFError."""
        parts = [str(word).encode() for word in words]
        bulks = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self._writer.write(b"*%d\r\n%s" % (len(parts), bulks))
        return await self._answer()

    async def _answer(self) -> Any:
        line = (await self._reader.readuntil(b"\r\n"))[:-2].decode()
        kind, rest = line[:1], line[1:]
        if kind == "+":
            return rest
        if kind == "-":
            raise RespError(rest)
        if kind == ":":
            return int(rest)
        count = int(rest)
        if kind == "$":
            if count > _BULK_MAX:
                raise ValueError(f"a text of {count} bytes")
            return None if count < 0 else (await self._reader.readexactly(count + 2))[:-2].decode()
        if kind == "*":
            return None if count < 0 else [await self._answer() for _ in range(count)]
        raise ValueError(f"no RESP: {line!r}"[:200])

    def close(self) -> None:
        self._writer.close()


Where = Callable[[Endpoint], Any]
"""(address, port) of the server that takes an operation: a coroutine function."""


class RawResp:
    """Base: `do_<op_type>(link, op)` does an operation. `refusals` are the codes of errors after
    which nothing was done."""

    def __init__(
        self,
        where: Where,
        refusals: frozenset[str],
        at: Endpoint,
        every: Sequence[Endpoint],
        options: Mapping[str, Any],
    ) -> None:
        self._where, self._refusals = where, refusals
        self._at, self._every, self._options = at, every, options

    async def open(self) -> None:
        return

    async def close(self) -> None:
        return

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """As the first client does."""
        act = getattr(self, f"do_{op.op_type}", None)
        if act is None:
            raise Definite(f"unsupported operation: {op.op_type}")
        try:
            async with asyncio.timeout(timeout_s):
                return await self._at_server(act, op, timeout_s)
        except TimeoutError:
            raise Indefinite("timeout") from None

    async def _at_server(self, act: Any, op: OpDraft, timeout_s: float) -> Reply:
        try:
            address, port = await self._where(self._at)
            link = await Link.to(address, port)
        except (OSError, EOFError, ValueError, RespError) as error:
            raise Definite(f"{NOT_CONNECTED}: {error}"[:200]) from None
        try:
            try:
                output = await act(link, op)
            except RespError as error:
                code = str(error).partition(" ")[0]
                kind = Definite if code in self._refusals else Indefinite
                raise kind(f"{code}: {error}"[:200]) from None
            if op.op_type != "read":
                await self._replicated(link, timeout_s)
        except (OSError, EOFError, ValueError) as error:
            raise Indefinite(f"{type(error).__name__}: {error}"[:200]) from None
        finally:
            link.close()
        seen = next((end.node for end in self._every if end.address == address), None)
        return Reply(output, seen)

    async def _replicated(self, link: Link, timeout_s: float) -> None:
        """Where the system has the option `wait`: as many replicas have what was written."""
        wanted = self._options.get("wait", 0)
        if not wanted:
            return
        try:
            have = await link.ask("WAIT", wanted, int(timeout_s * 500))
        except RespError as error:
            raise Indefinite(f"written, but {error}"[:200]) from None
        if have < wanted:
            raise Indefinite(f"{have} of {wanted} replicas have it")


class RawRegister(RawResp):
    """read, write: the same keys as `RegisterOps`."""

    async def do_read(self, link: Link, op: OpDraft) -> Any:
        return json.loads(await link.ask("GET", f"register-{op.key}") or "null")

    async def do_write(self, link: Link, op: OpDraft) -> None:
        await link.ask("SET", f"register-{op.key}", json.dumps(op.input, separators=(",", ":")))


class RawSet(RawResp):
    """add, read: the same keys as `SetOps`."""

    async def do_read(self, link: Link, op: OpDraft) -> list[Any]:
        return [json.loads(text) for text in await link.ask("SMEMBERS", f"set-{op.key}")]

    async def do_add(self, link: Link, op: OpDraft) -> None:
        await link.ask("SADD", f"set-{op.key}", json.dumps(op.input, separators=(",", ":")))


def raw_clients(where: Where, refusals: frozenset[str]) -> dict[str, Callable[..., Client]]:
    """By capability, the clients that find their server so."""

    def made(kind: type[RawResp]) -> Callable[..., Client]:
        return lambda at, every, options: kind(where, refusals, at, every, options)

    return {"register": made(RawRegister), "set": made(RawSet)}


def by_sentinel(port: int, name: str, refusals: Mapping[str, str]) -> Mapping[str, Any]:
    """`raw_clients` of the primary that the sentinel of a client's node names."""

    async def primary(at: Endpoint) -> tuple[str, int]:
        sentinel = await Link.to(at.address, port)
        try:
            found = await sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
        finally:
            sentinel.close()
        if not isinstance(found, list) or len(found) != 2:
            raise ValueError(f"no primary: {found!r}")
        return found[0], int(found[1])

    return raw_clients(primary, frozenset(refusals.values()))
