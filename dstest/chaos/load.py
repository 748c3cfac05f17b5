"""The load: an open loop of requests, each written down when it has ended, with whether its answer
is a success."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import msgspec

from dstest.chaos.http1 import Broken, Connection, Pool, Upstream, id_headers
from dstest.chaos.records import Entry, Trouble
from dstest.chaos.settings import Endpoint, Load
from dstest.core.clock import monotonic_ns


def why_failed(endpoint: Endpoint, status: int, body: bytes) -> str:
    """Why an answer is none, in words; empty for a success."""
    if status not in endpoint.status:
        return f"status {status}"
    if not endpoint.json_keys:
        return ""
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return "no JSON"
    if not isinstance(answer, dict):
        return "no JSON object"
    missing = [key for key in endpoint.json_keys if key not in answer]
    return f"no {missing[0]!r} in the answer" if missing else ""


_BODY_MAX: Final = 32_000_000
"""Bytes of an answer; more are no success, since nobody looked at them."""

_KEPT: Final = 6000
"""Characters of a failure's answer: a traceback has room in it."""


class _BodyTaker:
    """Takes an answer's bytes and keeps what follows its head."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def __call__(self, data: bytes, source: Connection) -> None:
        if self._size <= _BODY_MAX:
            self._parts.append(data)
        self._size += len(data)

    @property
    def cut(self) -> bool:
        return self._size > _BODY_MAX

    def body(self, chunked: bool) -> bytes:
        raw = b"".join(self._parts)
        while raw.startswith(b"HTTP/1.1 1"):
            raw = raw.partition(b"\r\n\r\n")[2]
        body = raw.partition(b"\r\n\r\n")[2]
        return _unchunked(body) if chunked else body


def _unchunked(body: bytes) -> bytes:
    whole = []
    while body:
        line, _, rest = body.partition(b"\r\n")
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            break
        if not size:
            break
        whole.append(rest[:size])
        body = rest[size + 2 :]
    return b"".join(whole)


class OpenLoop:
    """Sends the endpoints' requests in turn at a fixed rate until it is stopped."""

    def __init__(
        self,
        upstream: Upstream,
        endpoints: Sequence[Endpoint],
        load: Load,
        log: Callable[[Entry], None],
    ) -> None:
        self._endpoints = endpoints
        self._load = load
        self._log = log
        self._pool = Pool(upstream)
        self._heads = [_head(one, upstream) for one in endpoints]
        self._room = asyncio.Semaphore(load.in_flight)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`; those in flight may end within their timeout."""
        start_ns, n = monotonic_ns(), 0
        while not stop.is_set():
            due_ns = start_ns + int(n * 1e9 / self._load.rate)
            wait_s = (due_ns - monotonic_ns()) / 1e9
            if wait_s > 0:
                try:
                    await asyncio.wait_for(stop.wait(), wait_s)
                    break
                except TimeoutError:
                    pass
            n += 1
            task = asyncio.get_running_loop().create_task(self._one(n, due_ns))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            if len(self._tasks) >= 4 * self._load.in_flight:  # the backlog has a bound
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._load.timeout_s + 1)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._pool.close()

    async def _one(self, n: int, due_ns: int) -> None:
        which = (n - 1) % len(self._endpoints)
        begin_ns = due_ns
        told: dict[str, Any] = {"trouble": "unfinished", "why": "the load was stopped before"}
        try:
            async with self._room:
                begin_ns = max(due_ns, monotonic_ns())  # a loop may wake a little early
                told = await entry_fields(
                    self._pool, self._endpoints[which], self._heads[which], n, self._load.timeout_s
                )
        finally:
            self._log(
                Entry(
                    n=n,
                    endpoint=self._endpoints[which].name,
                    due_ns=due_ns,
                    begin_ns=begin_ns,
                    end_ns=max(begin_ns, monotonic_ns()),
                    **told,
                )
            )


def _head(endpoint: Endpoint, upstream: Upstream) -> tuple[bytes, bytes]:
    """What comes before and after the lines that tell requests apart."""
    own = {name.lower() for name in endpoint.headers}
    lines = [f"{endpoint.method} {endpoint.path} HTTP/1.1"]
    if "host" not in own:
        lines.append(f"Host: {upstream.address}")
    lines += [f"{name}: {value}" for name, value in endpoint.headers.items()]
    if endpoint.body and "content-type" not in own:
        lines.append("Content-Type: application/json")
    body = endpoint.body.encode()
    after = b""
    if body or endpoint.method in ("POST", "PUT", "PATCH"):
        after = b"Content-Length: %d\r\n" % len(body)
    return "\r\n".join(lines).encode() + b"\r\n", after + b"\r\n" + body


async def entry_fields(
    pool: Pool, endpoint: Endpoint, head: tuple[bytes, bytes], n: int, timeout_s: float
) -> dict[str, Any]:
    """Ask once: the fields of an entry that the answer decides."""
    taken = _BodyTaker()
    request = head[0] + id_headers(n) + head[1]
    try:
        async with asyncio.timeout(timeout_s):
            answer = await pool.ask(endpoint.method.encode(), request, taken)
    except TimeoutError:
        return {"trouble": "timeout", "why": f"no answer within {timeout_s:g} s"}
    except Broken as error:
        return {"trouble": cast(Trouble, error.trouble), "why": f"connection {error.trouble}"}
    headers = dict(answer.headers)
    chunked = b"chunked" in headers.get(b"transfer-encoding", b"").lower()
    body = taken.body(chunked)
    why = "an answer of more than 32 MB" if taken.cut and endpoint.json_keys else ""
    why = why or why_failed(endpoint, answer.status, body)
    chaos_id = headers.get(b"x-chaos-id")
    return {
        "status": answer.status,
        "chaos_id": chaos_id.decode("latin-1") if chaos_id is not None else None,
        "ok": not why,
        "why": why,
        "body": body.decode(errors="replace")[:_KEPT] if why else "",
    }


async def ask_once(upstream: Upstream, endpoint: Endpoint, timeout_s: float) -> dict[str, Any]:
    """One request that belongs to no load; is anybody there?"""
    pool = Pool(upstream)
    try:
        return await entry_fields(pool, endpoint, _head(endpoint, upstream), 0, timeout_s)
    finally:
        pool.close()
