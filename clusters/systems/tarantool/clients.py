"""Registers and sets, each operation a piece of Lua."""

from __future__ import annotations

import json
from typing import Any, Final

from clusters.supervise import FramedRequests, LinkedClient
from clusters.systems.tarantool.link import WRITE, answer, connected
from dstest.core.protocols import Endpoint, OpDraft

REFUSED: Final = {7: "ER_READONLY", 116: "ER_LOADING"}
READ: Final = "local row = box.space.registers:get(...) return row and row[2]"
CAS: Final = (
    "local key, old, new = ... local row = box.space.registers:get(key)"
    " if not row or row[2] ~= old then return false end"
    " box.space.registers:replace{key, new} return true"
)
ADD: Final = "box.space.elements:replace{...}"
ELEMENTS: Final = (
    "local found = {} for _, row in box.space.elements:pairs({...}) do"
    " table.insert(found, row[2]) end return found"
)
CONFIRMED: Final = (
    "local function look(...) %s end"
    " box.begin() local seen = look(...)"
    " box.space.%s:replace{'dstest-confirms', ''}"
    " box.commit() return seen"
)
"""Is kept together with, so not before, what it has seen; is undone where that is."""


class Link:
    """A connection that closes as others do."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def aclose(self) -> None:
        await self.connection.disconnect()


class TarantoolClient(LinkedClient):
    """At the member of its node; synchronous, at the first one, which alone takes writes."""

    def target(self, op: OpDraft) -> Endpoint:
        return self.at if self.options["replication"] == "asynchronous" else self.every[0]

    async def connect(self, to: Endpoint) -> Link:
        return Link(await connected(to.dial or to.address, to.port, self.wait_s))

    async def ask(self, text: str, *given: Any) -> Any:
        """What a piece of Lua returns; nothing else runs beside it but where it waits to be
        written."""
        return await answer((await self.link()).connection, text, *given)

    async def look(self, space: str, text: str, *given: Any) -> Any:
        """What a piece of Lua sees that may write nothing, by the kind of read that was chosen."""
        if self.options["reads"] == "confirmed":
            text = CONFIRMED % (text, space)
        return await self.ask(text, *given)

    def refused(self, error: Exception) -> str | None:
        return REFUSED.get(getattr(error, "code", 0))


class RegisterClient(TarantoolClient):
    """read, write, cas: a value is JSON."""

    async def do_read(self, op: OpDraft) -> Any:
        return json.loads(await self.look("registers", READ, str(op.key)) or "null")

    async def do_write(self, op: OpDraft) -> None:
        await self.ask(WRITE, str(op.key), json.dumps(op.input))

    async def do_cas(self, op: OpDraft) -> bool:
        old, new = map(json.dumps, op.input)
        return bool(await self.look("registers", CAS, str(op.key), old, new))


class SetClient(TarantoolClient):
    """add, read: elements are JSON."""

    async def do_read(self, op: OpDraft) -> list[Any]:
        return [json.loads(text) for text in await self.look("elements", ELEMENTS, str(op.key))]

    async def do_add(self, op: OpDraft) -> None:
        await self.ask(ADD, str(op.key), json.dumps(op.input))


class IprotoRequests(FramedRequests):
    """Requests of Tarantool's binary protocol: a length of five bytes, and a message."""

    def frame(self, head: bytes, number: int) -> tuple[int, bool] | None:
        if len(head) < 5:
            return None
        if head[0] != 0xCE:
            raise ValueError(head[0])
        return 5 + int.from_bytes(head[1:5], "big"), True
