"""Clients of a simulated system: a workload's own operations, by the system's own clients,
recorded as any other history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from dstest.core.op import Op
from dstest.core.protocols import Answer, Client, Definite, Endpoint, Indefinite, OpDraft

__all__ = ["Load"]

_PAUSE_S: Final = 0.05
"""After a failure, before the next operation."""

_STEP: Final = 1000
"""Process ids of one logical client are so far apart."""


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
        end = self._endpoints[slot % len(self._endpoints)]
        process_id = slot
        client = self._client(end)
        await client.open()
        last: Answer | None = None
        while self._now_ns() < until_ns:
            draft = draw(slot, last)
            if draft.after_ns:
                await asyncio.sleep(draft.after_ns / 1e9)
            last = await self.operation(draft, process_id, end.node, client)
            if last.kind == "unknown":
                process_id += _STEP
                await client.close()
                client = self._client(end)
                await client.open()
            await asyncio.sleep(pause_s if last.kind == "ok" else max(pause_s, _PAUSE_S))
        await client.close()

    async def final(
        self, ask: Callable[[int, Answer | None], OpDraft | None], until_ns: int
    ) -> None:
        """The final state, node after node."""
        for node, end in enumerate(self._endpoints):
            process_id = 1_000_000 + node
            client = self._client(end)
            await client.open()
            last: Answer | None = None
            while self._now_ns() < until_ns:
                draft = ask(node, last)
                if draft is None:
                    break
                if draft.after_ns:
                    await asyncio.sleep(draft.after_ns / 1e9)
                last = await self.operation(draft, process_id, end.node, client)
                if last.kind == "unknown":
                    process_id += _STEP
                    await client.close()
                    client = self._client(end)
                    await client.open()
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
