"""Clients of toykv: a line out, a line back; a class for each capability."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any, Final

from clusters.supervise import OpsClient, StreamClient, error_text
from dstest.core.op import OPERATION
from dstest.core.protocols import Definite, Indefinite, OpDraft

__all__ = ["CLIENTS", "ToyClient"]


class ToyClient(StreamClient):
    """At its own node, which passes on what only the leader does. `named` is how it calls itself,
    where that is not left to chance."""

    named: str | None = None

    async def open(self) -> None:
        self._number = 0
        self._name = self.named or secrets.token_hex(4)
        self._tokens: dict[Any, int] = {}

    async def ask(self, op: OpDraft, verb: str = "", **more: Any) -> dict[str, Any]:
        """What the server answers to this operation, when it has done it. Sent once: an answer that
        does not come is unknown."""
        link = await self.link(self.at)
        self._number += 1
        request = {"op": verb or op.op_type, "key": str(op.key), "value": op.input, **more}
        request["client"], request["request"] = self._name, self._number
        if self.options.get("spans") == "yes" and (operation := OPERATION.get()) is not None:
            request["span"] = [operation, operation]
        self.calls += 1
        link[1].write(json.dumps(request, separators=(",", ":")).encode() + b"\n")
        said = json.loads(await link[0].readuntil(b"\n"))
        match said:
            case {"ok": _}:
                return dict(said)
            case {"no": code}:
                raise Definite(error_text(code, said.get("why", "")))
        raise Indefinite(error_text("unknown", said.get("unknown")))


class RegisterClient(ToyClient):
    async def do_read(self, op: OpDraft) -> Any:
        return (await self.ask(op))["ok"]

    async def do_write(self, op: OpDraft) -> None:
        await self.ask(op)

    async def do_cas(self, op: OpDraft) -> bool:
        return bool((await self.ask(op))["ok"])


class SessionClient(ToyClient):
    async def do_read(self, op: OpDraft) -> Any:
        return (await self.ask(op, "version"))["ok"]

    async def do_write(self, op: OpDraft) -> Any:
        return {"version": (await self.ask(op))["ok"]}


class CounterClient(ToyClient):
    async def do_inc(self, op: OpDraft) -> Any:
        return (await self.ask(op))["ok"]

    async def do_read(self, op: OpDraft) -> Any:
        return (await self.ask(op, "count"))["ok"]


class SetClient(ToyClient):
    async def do_add(self, op: OpDraft) -> None:
        await self.ask(op)

    async def do_read(self, op: OpDraft) -> Any:
        return (await self.ask(op, "elements"))["ok"]


class QueueClient(ToyClient):
    async def do_enqueue(self, op: OpDraft) -> None:
        await self.ask(op)

    async def do_dequeue(self, op: OpDraft) -> Any:
        return (await self.ask(op))["ok"]


class LockClient(ToyClient):
    """Locks, and leases: a lock is a lease that does not end. The server that grants one gives a
    token, by which its holder is known."""

    def _token(self, op: OpDraft) -> int:
        if op.key not in self._tokens:
            raise Definite("not-held")
        return self._tokens[op.key]

    async def do_acquire(self, op: OpDraft) -> Any:
        got = (await self.ask(op, value=op.input and op.input["ttl_ns"]))["ok"]
        if got:
            self._tokens[op.key] = got["token"]
        return got

    async def do_renew(self, op: OpDraft) -> None:
        await self.ask(op, value=[op.input["ttl_ns"], self._token(op)])

    async def do_release(self, op: OpDraft) -> None:
        await self.ask(op, value=self._token(op))
        del self._tokens[op.key]


class IdClient(ToyClient):
    async def do_generate(self, op: OpDraft) -> Any:
        return (await self.ask(op))["ok"]


class BankClient(ToyClient):
    async def do_transfer(self, op: OpDraft) -> bool:
        return bool((await self.ask(op, balance=self.options["bank_balance"]))["ok"])

    async def _balances(self, op: OpDraft, name: str) -> Any:
        given = {"accounts": self.options["bank_accounts"], "balance": self.options["bank_balance"]}
        return (await self.ask(op, name, **given))["ok"]

    async def do_read(self, op: OpDraft) -> Any:
        return await self._balances(op, "balances")

    async def do_dump(self, op: OpDraft) -> Any:
        return await self._balances(op, "dump")


class LedgerClient(ToyClient):
    """The key of a payment is the request's `id`, by which servers know what they have done."""

    async def do_credit(self, op: OpDraft) -> bool:
        said = await self.ask(op, id=f"{op.key}/{op.input['id']}", value=op.input["amount"])
        return "again" not in said

    async def do_audit(self, op: OpDraft) -> Any:
        return [effect.partition("/")[2] for effect in (await self.ask(op))["ok"]]


class TxnClient(ToyClient):
    async def do_txn(self, op: OpDraft) -> Any:
        return (await self.ask(op))["ok"]


class LogClient(ToyClient):
    async def do_send(self, op: OpDraft) -> Any:
        return (await self.ask(op))["ok"]

    async def do_poll(self, op: OpDraft) -> Any:
        return (await self.ask(op))["ok"]


class TenantClient(ToyClient):
    """The key of a request is the tenant; `name` is one of its keys."""

    async def do_put(self, op: OpDraft) -> None:
        await self.ask(op, name=op.input["name"], value=op.input["value"])

    async def do_drop(self, op: OpDraft) -> None:
        await self.ask(op, value=None)

    async def do_get(self, op: OpDraft) -> Any:
        return (await self.ask(op, "fetch", value=None, name=op.input["name"]))["ok"]

    async def do_list(self, op: OpDraft) -> Any:
        return (await self.ask(op, "keys", value=None))["ok"]

    async def do_count(self, op: OpDraft) -> Any:
        return (await self.ask(op, "size", value=None))["ok"]

    do_probe, do_probe_list, do_probe_count = do_get, do_list, do_count


CLIENTS: Final[Mapping[str, type[OpsClient]]] = {
    "bank": BankClient,
    "counter": CounterClient,
    "lease": LockClient,
    "ledger": LedgerClient,
    "lock": LockClient,
    "log": LogClient,
    "queue": QueueClient,
    "register": RegisterClient,
    "session": SessionClient,
    "set": SetClient,
    "tenants": TenantClient,
    "txn-append": TxnClient,
    "txn-register": TxnClient,
    "unique-ids": IdClient,
}
"""By capability."""
