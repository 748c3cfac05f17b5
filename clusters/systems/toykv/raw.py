"""A second client of toykv: a connection for each request, and nothing of the first one's code.

What only one of the two sees is no bug of the servers. It knows no locks, leases, accounts and
payments.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from dstest.core.protocols import Client, Definite, Endpoint, Indefinite, OpDraft, Reply

__all__ = ["RAW_CLIENTS", "RawClient"]

_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "counter": {"inc": "inc", "read": "count"},
    "log": {"send": "send", "poll": "poll"},
    "queue": {"enqueue": "enqueue", "dequeue": "dequeue"},
    "register": {"read": "read", "write": "write", "cas": "cas"},
    "set": {"add": "add", "read": "elements"},
    "txn-append": {"txn": "txn"},
    "txn-register": {"txn": "txn"},
    "unique-ids": {"generate": "generate"},
}
"""By capability, what servers call each operation."""

_SILENT: Final = frozenset({"add", "enqueue", "write"})
"""Operations without an output."""

_LINE_MAX: Final = 16 << 20


class RawClient:
    """One logical process at one server."""

    def __init__(
        self,
        capability: str,
        at: Endpoint,
        every: Sequence[Endpoint],
        options: Mapping[str, Any],
    ) -> None:
        self._names = _NAMES[capability]
        self._node = at.node
        self._place = (at.dial or at.address, at.port)
        self._name = secrets.token_hex(4)
        self._number = 0

    async def open(self) -> None:
        return

    async def close(self) -> None:
        return

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """What the server says; unknown where it says nothing in time."""
        if op.op_type not in self._names:
            raise Definite(f"unsupported operation: {op.op_type}")
        self._number += 1
        asked = {"op": self._names[op.op_type], "key": str(op.key), "value": op.input}
        asked |= {"client": self._name, "request": self._number}
        try:
            async with asyncio.timeout(timeout_s):
                said = await self._ask(json.dumps(asked).encode() + b"\n")
        except (TimeoutError, OSError, ValueError, EOFError) as error:
            raise Indefinite(f"{type(error).__name__}: {error}") from None
        if "no" in said:
            raise Definite(f"{said['no']}: {said.get('why', '')}")
        if "ok" not in said:
            raise Indefinite(f"unknown: {said.get('unknown')}")
        output = said["ok"]
        if op.op_type in _SILENT:
            output = None
        elif op.op_type == "cas":
            output = bool(output)
        return Reply(output, self._node)

    async def _ask(self, line: bytes) -> dict[str, Any]:
        reader, writer = await asyncio.open_connection(*self._place, limit=_LINE_MAX)
        try:
            writer.write(line)
            said = json.loads(await reader.readuntil(b"\n"))
        finally:
            writer.close()
        if not isinstance(said, dict):
            raise ValueError(f"no answer: {said!r}"[:200])
        return said


RAW_CLIENTS: Final[Mapping[str, Callable[..., Client]]] = {
    capability: partial(RawClient, capability) for capability in _NAMES
}
"""By capability."""
