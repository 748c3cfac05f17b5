"""The replicated state: what commands do to it, and what queries find in it.

A command is an object with `op`, mostly `key` and `value`; `id` names a request that may be sent
more than once. What is answered is `{"ok": result}`, or `{"no": code}` where nothing was done. All
that decides is in the command, its index and its stamp, so that every replica comes to the same.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Iterator
from typing import Any

__all__ = ["COMMANDS", "QUERIES", "Answer", "Machine"]

Answer = dict[str, Any]

QUERIES = frozenset(
    {
        *("read", "version", "count", "elements", "balances", "audit", "poll"),
        *("fetch", "keys", "size"),
    }
)

COMMANDS = frozenset(
    {
        *("write", "cas", "inc", "add", "enqueue", "dequeue", "acquire", "renew", "release"),
        *("transfer", "credit", "txn", "send", "put", "drop"),
    }
)
"""What clients may have applied."""

NOT_HELD: Answer = {"no": "not-held"}


class Machine:
    """One replica's state."""

    def __init__(self, bug: str = "none") -> None:
        self._bug = bug
        self.values: dict[str, list[Any]] = {}
        """Register -> value, index of its last write."""
        self.counters: dict[str, int] = {}
        self.sets: dict[str, list[Any]] = {}
        self.queues: dict[str, list[tuple[int, int, Any]]] = {}
        self.locks: dict[str, tuple[int, int | None]] = {}
        """Lock -> token of its holder, stamp at which it expires."""
        self.reserved: tuple[int, int] = (1, 1)
        """The ids of the newest block: from, up to and without."""
        self.accounts: dict[str, int] = {}
        self.effects: dict[str, list[str]] = {}
        self.rows: dict[str, Any] = {}
        self.logs: dict[str, list[Any]] = {}
        self.owned: dict[str, Any] = {}
        """Tenant and key, joined -> value."""
        self.done: dict[str, Answer] = {}
        """Request -> what it was answered, of those that may be sent again."""

    def apply(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        """Does a command, unless it has been done."""
        request = command.get("id")
        if request is not None and request in self.done:
            return {**self.done[request], "again": True}
        act = getattr(self, f"do_{command['op']}", None)
        try:
            answer: Answer = {"ok": None} if act is None else act(index, stamp, command)
        except (LookupError, TypeError, ValueError):
            answer = {"no": "malformed"}
        if request is not None:
            self.done[request] = answer
        return answer

    def query(self, request: dict[str, Any]) -> Answer:
        """What there is."""
        try:
            return {"ok": getattr(self, f"see_{request['op']}")(request)}
        except (LookupError, TypeError, ValueError):
            return {"no": "malformed"}

    def digest(self) -> str:
        """Equal where the states are."""
        state = {k: v for k, v in vars(self).items() if k not in ("_bug", "done")}
        return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:16]

    def do_write(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        self.values[command["key"]] = [command["value"], index]
        return {"ok": index}

    def do_cas(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        old, new = command["value"]
        if self.values.get(command["key"], [None])[0] != old:
            return {"ok": False}
        self.values[command["key"]] = [new, index]
        return {"ok": True}

    def see_read(self, request: dict[str, Any]) -> Any:
        return self.values.get(request["key"], [None])[0]

    def see_version(self, request: dict[str, Any]) -> Any:
        value, version = self.values.get(request["key"], [None, 0])
        return {"version": version, "value": value}

    def do_inc(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        self.counters[command["key"]] = self.counters.get(command["key"], 0) + command["value"]
        return {"ok": self.counters[command["key"]]}

    def see_count(self, request: dict[str, Any]) -> Any:
        return self.counters.get(request["key"], 0)

    def do_add(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        self.sets.setdefault(command["key"], []).append(command["value"])
        return {"ok": None}

    def see_elements(self, request: dict[str, Any]) -> Any:
        return self.sets.get(request["key"], [])

    def do_enqueue(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        """Elements leave in the order of their places, which are those of the log."""
        place = command.get("place", index)
        heapq.heappush(self.queues.setdefault(command["key"], []), (place, index, command["value"]))
        return {"ok": None}

    def do_dequeue(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        queue = self.queues.get(command["key"])
        return {"ok": heapq.heappop(queue)[2] if queue else None}

    def holds(self, key: str, token: int, stamp: int) -> bool:
        """Is a lock held, at this time, by who has this token?"""
        held, expires = self.locks.get(key, (0, None))
        return held == token and (expires is None or stamp < expires)

    def do_acquire(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        """The token is the index: it grows from holder to holder."""
        held, _ = self.locks.get(command["key"], (0, None))
        if held and self.holds(command["key"], held, stamp):
            return {"ok": False}
        ttl_ns = command["value"]
        self.locks[command["key"]] = (index, None if ttl_ns is None else stamp + ttl_ns)
        return {"ok": {"token": index}}

    def do_renew(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        ttl_ns, token = command["value"]
        if not self.holds(command["key"], token, stamp):
            return NOT_HELD
        self.locks[command["key"]] = (token, stamp + ttl_ns)
        return {"ok": None}

    def do_release(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        if not self.holds(command["key"], command["value"], stamp):
            return NOT_HELD
        del self.locks[command["key"]]
        return {"ok": None}

    def do_reserve(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        self.reserved = (self.reserved[1], self.reserved[1] + command["value"])
        return {"ok": list(self.reserved)}

    def transfer(self, command: dict[str, Any]) -> Iterator[Answer]:
        """Debits, yields, and then either credits or takes the debit back; yields the answer."""
        moved, start = command["value"], command["balance"]
        source, target, amount = str(moved["from"]), str(moved["to"]), moved["amount"]
        for account in (source, target):
            self.accounts.setdefault(account, start)
        self.accounts[source] -= amount
        yield {}
        enough = self.accounts[source] >= 0
        self.accounts[target if enough else source] += amount
        yield {"ok": enough}

    def do_transfer(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        return list(self.transfer(command))[-1]

    def see_balances(self, request: dict[str, Any]) -> Any:
        start = request["balance"]
        return {str(i): self.accounts.get(str(i), start) for i in range(request["accounts"])}

    def do_credit(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        self.effects.setdefault(command["key"], []).append(command["id"])
        return {"ok": True}

    def see_audit(self, request: dict[str, Any]) -> Any:
        return self.effects.get(request["key"], [])

    def do_txn(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        """Lists and registers have the same names, and are never used together."""
        out = []
        for kind, key, value in command["value"]:
            name = str(key)
            if kind == "append":
                self.rows[name] = [*(self.rows.get(name) or ()), value]
            elif kind == "w":
                self.rows[name] = value
            out.append([kind, key, self.rows.get(name) if kind == "r" else value])
        return {"ok": out}

    def do_send(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        log = self.logs.setdefault(command["key"], [])
        log.append(command["value"])
        return {"ok": {"offset": len(log) - 1}}

    def see_poll(self, request: dict[str, Any]) -> Any:
        start, limit = request["value"]["from"], request["value"]["limit"]
        log = self.logs.get(request["key"], [])
        page = log[start : start + limit]
        found = {
            "records": [[start + at, record] for at, record in enumerate(page)],
            "to": start + len(page) - 1,
        }
        return {**found, "more": True} if start + len(page) < len(log) else found

    def _owner(self, tenant: str) -> str:
        """How the names of all that a tenant owns begin; the key follows as it is."""
        if self._bug != "tenants-joined":
            tenant = tenant.replace("%", "%25").replace(":", "%3A")
        return f"{tenant}:"

    def do_put(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        self.owned[self._owner(command["key"]) + command["name"]] = command["value"]
        return {"ok": None}

    def do_drop(self, index: int, stamp: int, command: dict[str, Any]) -> Answer:
        """All keys of a tenant."""
        owner = self._owner(command["key"])
        self.owned = {k: v for k, v in self.owned.items() if not k.startswith(owner)}
        return {"ok": None}

    def see_fetch(self, request: dict[str, Any]) -> Any:
        return self.owned.get(self._owner(request["key"]) + request["name"])

    def see_keys(self, request: dict[str, Any]) -> Any:
        owner = self._owner(request["key"])
        names = sorted(name for name in self.owned if name.startswith(owner))
        return [[name.removeprefix(owner), self.owned[name]] for name in names]

    def see_size(self, request: dict[str, Any]) -> Any:
        """How many keys a tenant has."""
        owner = self._owner(request["key"])
        if self._bug == "count-of-neighbours":
            owner = owner.removesuffix(":")
        return sum(name.startswith(owner) for name in self.owned)
