"""A second client of toykv: a connection for each request, and not a line of the first client's.

It exists to be compared with that one: what only one of them sees is no bug of the servers'. Where
no connection could be made nothing was sent; whatever fails later leaves the outcome unknown.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.protocols import Definite, Endpoint, Indefinite, OpDraft, Reply

__all__ = ["RAW_CLIENTS", "RawToy"]


class RawToy:
    """Every operation of every capability; `read` is another question to each kind of object."""

    reads: str = "read"

    def __init__(self, at: Endpoint, every: Sequence[Endpoint], options: Mapping[str, Any]) -> None:
        self._node = at.node
        self._place = (at.dial or at.address, at.port)
        self._options = options
        self._tokens: dict[Any, int] = {}

    async def open(self) -> None:
        return

    async def close(self) -> None:
        return

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """As the first client does, by the words of the servers' protocol."""
        asked = self._asked(op)
        try:
            async with asyncio.timeout(timeout_s):
                said = await self._send(asked)
        except TimeoutError:
            raise Indefinite("timeout") from None
        if "no" in said:
            raise Definite(f"{said['no']}: {said.get('why', '')}"[:200])
        if "ok" not in said:
            raise Indefinite(str(said)[:200])
        return Reply(self._told(op, said), self._node)

    def _asked(self, op: OpDraft) -> dict[str, Any]:
        name, value = op.op_type, op.input
        row: dict[str, Any] = {"op": name, "key": str(op.key), "value": value}
        if name in ("release", "renew") and op.key not in self._tokens:
            raise Definite("not-held")
        match name:
            case "read":
                row["op"] = self.reads
            case "acquire":
                row["value"] = value["ttl_ns"] if value else value
            case "renew":
                row["value"] = [value["ttl_ns"], self._tokens[op.key]]
            case "release":
                row["value"] = self._tokens[op.key]
            case "credit":
                row |= {"id": f"{op.key}/{value['id']}", "value": value["amount"]}
        if name == "transfer" or row["op"] in ("balances", "dump"):
            row["balance"] = self._options["bank_balance"]
            row["accounts"] = self._options["bank_accounts"]
        return {**row, "client": uuid.uuid4().hex[:8], "request": 1}

    def _told(self, op: OpDraft, said: dict[str, Any]) -> Any:
        found = said["ok"]
        match op.op_type:
            case "acquire":
                if found:
                    self._tokens[op.key] = found["token"]
                return found
            case "release":
                self._tokens.pop(op.key, None)
                return None
            case "write":
                return {"version": found} if self.reads == "version" else None
            case "add" | "enqueue" | "renew":
                return None
            case "credit":
                return "again" not in said
            case "cas" | "transfer":
                return bool(found)
            case "audit":
                return [effect.split("/", 1)[1] for effect in found]
        return found

    async def _send(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            reader, writer = await asyncio.open_connection(*self._place)
        except OSError:
            raise Definite("not-connected") from None
        try:
            writer.write(json.dumps(asked).encode() + b"\n")
            said = json.loads(await reader.readuntil(b"\n"))
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError) as error:
            raise Indefinite(f"{type(error).__name__}: {error}") from None
        finally:
            writer.close()
        if not isinstance(said, dict):
            raise Indefinite(str(said)[:200])
        return said


class _Versions(RawToy):
    reads = "version"


class _Counts(RawToy):
    reads = "count"


class _Elements(RawToy):
    reads = "elements"


class _Balances(RawToy):
    reads = "balances"


RAW_CLIENTS: Final[Mapping[str, type[RawToy]]] = {
    **dict.fromkeys(
        (
            *("lease", "ledger", "lock", "log", "queue", "register"),
            *("txn-append", "txn-register", "unique-ids"),
        ),
        RawToy,
    ),
    "bank": _Balances,
    "counter": _Counts,
    "session": _Versions,
    "set": _Elements,
}
"""By capability."""
