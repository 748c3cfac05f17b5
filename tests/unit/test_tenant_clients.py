"""Clients of stores of tenants keep confusable names apart: they say what a plain dictionary says,
of all names of the workload, before sorted bytes, hashes, and the state of toykv."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.supervise.resp import TenantOps
from clusters.systems.etcd.clients import client_of
from clusters.systems.toykv.agents.machine import COMMANDS, QUERIES, Machine
from clusters.systems.toykv.clients import TenantClient
from dstest.core.protocols import Endpoint, OpDraft
from workloads.boundary import BOUNDARY

pytestmark = pytest.mark.slow

AT = Endpoint(node="n1", address="127.0.0.1", port=1)
Do = Callable[[OpDraft], Awaitable[Any]]


class Etcd:
    """Sorted bytes, as a member has them."""

    ready = True
    calls = 0

    def __init__(self) -> None:
        self.held: dict[bytes, bytes] = {}

    def _in(self, request: Any) -> list[bytes]:
        end = request.range_end or request.key + b"\x00"
        return sorted(key for key in self.held if request.key <= key < end)

    async def put(self, request: Any, **_: float) -> Any:
        self.held[request.key] = request.value
        return SimpleNamespace(header=SimpleNamespace(revision=1))

    async def range(self, request: Any, **_: float) -> Any:
        keys = self._in(request)
        shown = keys[: request.limit or None]
        kvs = [SimpleNamespace(key=key, value=self.held[key]) for key in shown]
        return SimpleNamespace(kvs=kvs, count=len(keys))

    async def txn(self, request: Any, **_: float) -> Any:
        assert not request.compare
        for one in request.success:
            for key in self._in(one.request_delete_range):
                del self.held[key]
        return SimpleNamespace(succeeded=True)


def etcd() -> Do:
    client: Any = client_of("tenants", AT, {})
    client._stub = Etcd()

    async def do(op: OpDraft) -> Any:
        return (await client.invoke(op, 1.0)).output

    return do


class Redis(TenantOps):
    """With a server that has hashes."""

    def __init__(self) -> None:
        super().__init__(AT, [AT], {"op_timeout_s": 1.0})
        self.held: dict[str, dict[str, str]] = {}

    async def do(self, verb: str, key: str, *words: Any) -> Any:
        mine = self.held.get(key, {})
        match verb:
            case "HSET":
                self.held.setdefault(key, {})[words[0]] = words[1]
                return 1
            case "DEL":
                return int(self.held.pop(key, None) is not None)
            case "HGET":
                return mine.get(words[0])
            case "HGETALL":
                return dict(mine)
        assert verb == "HLEN"
        return len(mine)


def redis() -> Do:
    client = Redis()

    async def do(op: OpDraft) -> Any:
        return (await client.invoke(op, 1.0)).output

    return do


class Toy(TenantClient):
    """With one replica's state; `bug` is one that it has."""

    def __init__(self, bug: str = "none") -> None:
        super().__init__(AT, [AT], {"op_timeout_s": 1.0})
        self.machine = Machine(bug)

    async def ask(self, op: OpDraft, verb: str = "", **more: Any) -> dict[str, Any]:
        asked = {"op": verb or op.op_type, "key": str(op.key), "value": op.input, **more}
        assert asked["op"] in COMMANDS | QUERIES
        change = asked["op"] in COMMANDS
        return self.machine.apply(1, 0, asked) if change else self.machine.query(asked)


def toykv(bug: str = "none") -> Do:
    client = Toy(bug)

    async def do(op: OpDraft) -> Any:
        return (await client.invoke(op, 1.0)).output

    return do


def plain() -> Do:
    held: dict[str, dict[str, Any]] = {}

    async def do(op: OpDraft) -> Any:
        mine = held.get(str(op.key), {})
        match op.op_type:
            case "put":
                held.setdefault(str(op.key), {})[op.input["name"]] = op.input["value"]
                return None
            case "drop":
                held.pop(str(op.key), None)
                return None
            case "get" | "probe":
                return mine.get(op.input["name"])
            case "list" | "probe_list":
                return [[name, value] for name, value in mine.items()]
        return len(mine)

    return do


async def differing(one: Do, other: Do, count: int = 6000) -> list[tuple[OpDraft, Any, Any]]:
    options = {name: option.default for name, option in BOUNDARY.options.items()}
    generator = BOUNDARY.generator(5, 1, 10, options)
    found = []
    for _ in range(count):
        op = generator.next()
        said, wanted = await one(op), await other(op)
        if op.op_type in ("list", "probe_list"):
            said, wanted = sorted(said), sorted(wanted)
        if said != wanted:
            found.append((op, said, wanted))
    return found


@pytest.mark.parametrize("store", [etcd, redis, toykv])
def test_what_a_client_says_is_what_is_there(store: Callable[[], Do]) -> None:
    assert asyncio.run(differing(store(), plain())) == []


@pytest.mark.parametrize("bug", ["tenants-joined", "count-of-neighbours"])
def test_with_a_planted_bug_it_is_not(bug: str) -> None:
    found = asyncio.run(differing(toykv(bug), plain()))
    kinds = {op.op_type for op, _, _ in found}
    joined = {"get", "list", "count"}
    assert kinds == {"count", "probe_count"} if bug == "count-of-neighbours" else kinds >= joined
