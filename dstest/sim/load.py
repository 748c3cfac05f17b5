"""Clients of a simulated system: a workload's own operations, by the system's own clients,
recorded as any other history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dstest.core.op import Op
from dstest.core.protocols import (
    Answer,
    Client,
    Definite,
    Endpoint,
    Indefinite,
    MakesClients,
    Named,
    OpDraft,
    System,
    SystemTraits,
)

_PAUSE_S: Final = 0.05
"""After a failure, before the next operation."""

_FINAL: Final = 1_000_000
"""Process ids of the final phase begin there."""

_STEP: Final = 1000
"""Process ids of one logical client are so far apart."""


def client_of(
    system: System,
    capability: str,
    at: Endpoint,
    every: Sequence[Endpoint],
    options: Mapping[str, Any],
    name: str,
) -> Client:
    """The client that a run on nodes would have, on simulated connections."""
    simulable = SystemTraits.of(system).simulable
    if isinstance(simulable, MakesClients):
        return simulable.client(capability, at, every, options, name)
    made = system.client(capability, at, every, options)
    if isinstance(made, Named):
        made.named = name
    return made


class Load:
    """`client` makes one at an endpoint; `definite` are the codes after which nothing was done."""

    def __init__(
        self,
        *,
        now_ns: Callable[[], int],
        client: Callable[[Endpoint], Client],
        endpoints: Sequence[Endpoint],
        definite: frozenset[str],
        timeout_s: float,
    ) -> None:
        self._now_ns, self._client, self._endpoints = now_ns, client, list(endpoints)
        self._definite, self._timeout_s = definite, timeout_s
        self._count = 0
        self.ops: list[Op] = []

    async def process(
        self,
        slot: int,
        draw: Callable[[int, Answer | None], OpDraft],
        until_ns: int,
        pause_s: float,
    ) -> None:
        """One logical client, until the time is over; `pause_s` between two operations."""
        client = await self._opened(slot, self._endpoints[slot % len(self._endpoints)])
        last: Answer | None = None
        while self._now_ns() < until_ns:
            last = await client.does(draw(slot, last))
            await asyncio.sleep(pause_s if last.kind == "ok" else max(pause_s, _PAUSE_S))
        await client.close()

    async def _opened(self, process_id: int, end: Endpoint) -> _Process:
        made = _Process(self, process_id, end, self._client)
        await made.open()
        return made

    async def final(
        self, ask: Callable[[int, Answer | None], OpDraft | None], until_ns: int
    ) -> None:
        """The final state, node after node."""
        for node, end in enumerate(self._endpoints):
            client = await self._opened(_FINAL + node, end)
            last: Answer | None = None
            while self._now_ns() < until_ns:
                draft = ask(node, last)
                if draft is None:
                    break
                last = await client.does(draft)
                if last.kind != "ok":
                    await asyncio.sleep(_PAUSE_S)
            await client.close()

    async def operation(self, draft: OpDraft, process_id: int, node: str, client: Client) -> Answer:
        """One, recorded."""
        op_id, self._count = self._count, self._count + 1
        invoke_ns = self._now_ns()
        kind, output, error = "ok", None, None
        try:
            reply = await client.invoke(draft, self._timeout_s)
            output = reply.output
        except Definite as refused:
            kind = "fail" if refused.code in self._definite else "unknown"
            error = str(refused)
        except Indefinite as unknown:
            kind, error = "unknown", str(unknown)
        self.ops.append(
            Op(
                op_id=op_id,
                process_id=process_id,
                invoke_ts=invoke_ns,
                complete_ts=self._now_ns() if kind != "unknown" else None,
                op_type=draft.op_type,
                key=draft.key,
                input=draft.input,
                output=output,
                error=error,
                timeout_marker=kind == "unknown",
                node_seen=node,
            )
        )
        return Answer(draft, kind, output)

    def history(self) -> list[Op]:
        """In order of invocation."""
        return sorted(self.ops, key=lambda op: (op.invoke_ts, int(op.op_id)))


class _Process:
    """A logical process: after an unknown outcome another one, with a client of its own."""

    def __init__(
        self, load: Load, process_id: int, end: Endpoint, make: Callable[[Endpoint], Client]
    ) -> None:
        self._load, self._id, self._end, self._make = load, process_id, end, make
        self._client = make(end)

    async def open(self) -> None:
        """Before the first operation."""
        await self._client.open()

    async def close(self) -> None:
        """After the last one."""
        await self._client.close()

    async def does(self, draft: OpDraft) -> Answer:
        """One operation, when what it waits for is over."""
        if draft.after_ns:
            await asyncio.sleep(draft.after_ns / 1e9)
        answer = await self._load.operation(draft, self._id, self._end.node, self._client)
        if answer.kind == "unknown":
            self._id += _STEP
            await self._client.close()
            self._client = self._make(self._end)
            await self._client.open()
        return answer
