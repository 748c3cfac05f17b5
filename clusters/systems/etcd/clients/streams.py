"""etcd as versioned registers, a log with offsets and a change feed: all by its revisions.

| capability | how it is kept |
|---|---|
| revisions | a key per change; its number is the header's revision, compaction drops up to it |
| session | one key each; a write's version is its revision, a read's the key's mod_revision |
| log | one key per record; its offset is the revision that created it; a poll is one range |
| watch | one key each; a write returns its revision; a watch is etcd's own, by gRPC stream |
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Final

import grpc.aio

from clusters.systems.etcd.clients.objects import EtcdOps
from clusters.systems.etcd.wire import (
    SORT_ASCEND,
    SORT_BY_CREATE,
    SORT_BY_MOD,
    SORT_DESCEND,
    after_prefix,
    message,
)
from dstest.core.protocols import Indefinite, OpDraft

_WATCH_S: Final = 0.25
"""A watch gives back what has come in this time."""


class EtcdSessionClient(EtcdOps):
    """write (output: {"version"}), read (output: {"version", "value"})."""

    name = "session"

    async def do_write(self, op: OpDraft) -> dict[str, int]:
        return {"version": await self.write(self.path(op.key), op.input)}

    async def do_read(self, op: OpDraft) -> dict[str, Any]:
        kvs = (await self.range(self.path(op.key))).kvs
        if not kvs:
            return {"version": 0, "value": None}
        return {"version": kvs[0].mod_revision, "value": json.loads(kvs[0].value)}


class EtcdRevisionClient(EtcdOps):
    """generate: a put or a delete, perhaps with a compaction up to it (output: its revision)."""

    name = "revisions"

    async def do_generate(self, op: OpDraft) -> int:
        if "put" in op.input:
            return await self.write(self.path(op.input["put"]), 0)
        key = self.path(op.input["delete"])
        request = message("DeleteRangeRequest")(key=key)
        response = await self.stub.delete(request, timeout=self.left_s())
        if not response.deleted:  # its put has failed, and a deletion of nothing is no change
            await self.write(key, 0)
            response = await self.stub.delete(request, timeout=self.left_s())
        revision = int(response.header.revision)
        if op.input.get("compact"):
            compaction = message("CompactionRequest")(revision=revision)
            with suppress(grpc.aio.AioRpcError):  # the change has its number, whatever comes of it
                await self.stub.compact(compaction, timeout=self.left_s())
        return revision


class EtcdLogClient(EtcdOps):
    """send (output: {"offset"}), poll from an offset (output: {"records", "to", "more"})."""

    name = "log"

    async def do_send(self, op: OpDraft) -> dict[str, int]:
        return {"offset": await self.write(self.path(op.key, op.input), op.input)}

    async def do_poll(self, op: OpDraft) -> dict[str, Any]:
        response = await self.range(
            self.path(op.key, ""),
            prefix=True,
            limit=op.input.get("limit", 500),
            min_create_revision=op.input["from"],
            sort_order=SORT_ASCEND,
            sort_target=SORT_BY_CREATE,
        )
        records = [[kv.create_revision, json.loads(kv.value)] for kv in response.kvs]
        # A page that is full says nothing of what follows it.
        full = response.more and bool(records)
        if full:
            return {"records": records, "to": records[-1][0], "more": True}
        return {"records": records, "to": response.header.revision}


class EtcdWatchClient(EtcdOps):
    """write (output: {"revision"}), watch from a revision (output: {"events", "to"}).

    A stream stays open from one watch to the next while each goes on where the last one stopped.
    `{"until_now": true}` waits for the newest revision, which is read first, linearizably.
    """

    name = "watch"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._call: Any = None
        self._next: int | None = None
        self._read: asyncio.Task[Any] | None = None

    async def do_write(self, op: OpDraft) -> dict[str, int]:
        return {"revision": await self.write(self.path("k", op.key), op.input)}

    async def do_watch(self, op: OpDraft) -> dict[str, Any]:
        start = op.input["from"]
        until = await self._newest() if op.input.get("until_now") else None
        if self._call is None or self._next != start:
            await self._begin(start)
        events: list[dict[str, Any]] = []
        last = start - 1
        wait_s = self.left_s() if until is not None else min(_WATCH_S, self.left_s())
        try:
            async with asyncio.timeout(wait_s):
                while until is None or last < until:
                    response = await self._response()
                    events += [_event(event) for event in response.events]
                    last = max([last, *(event["revision"] for event in events[-1:])])
        except TimeoutError:
            if until is not None:
                await self._end()
                raise Indefinite(f"{last} of revision {until} reached") from None
        except BaseException:
            await self._end()
            raise
        self._next = last + 1
        return {"events": events, "to": last}

    async def _newest(self) -> int:
        """The newest revision of any watched key, 0 without one."""
        prefix = self.path("k", "")
        request = message("RangeRequest")(
            key=prefix,
            range_end=after_prefix(prefix),
            limit=1,
            sort_order=SORT_DESCEND,
            sort_target=SORT_BY_MOD,
        )
        kvs = (await self.stub.range(request, timeout=self.left_s())).kvs
        return int(kvs[0].mod_revision) if kvs else 0

    async def _begin(self, start: int) -> None:
        await self._end()
        prefix = self.path("k", "")
        create = message("WatchCreateRequest")(
            key=prefix, range_end=after_prefix(prefix), start_revision=start
        )
        self._call = self.stub.watch()
        await self._call.write(message("WatchRequest")(create_request=create))

    async def _response(self) -> Any:
        """The next response. A read that is not over yet goes on in the next operation, so that a
        timeout of ours loses no event."""
        if self._read is None:
            self._read = asyncio.ensure_future(self._call.read())
        response = await asyncio.shield(self._read)
        self._read = None
        if response is grpc.aio.EOF:
            raise Indefinite("the watch ended")
        if response.canceled:
            raise Indefinite(f"the watch was cancelled: {response.cancel_reason}")
        return response

    async def _end(self) -> None:
        if self._call is not None:
            self._call.cancel()
        if self._read is not None:
            self._read.cancel()
            await asyncio.gather(self._read, return_exceptions=True)
        self._call = self._read = self._next = None

    async def close(self) -> None:
        await self._end()
        await super().close()


def _event(event: Any) -> dict[str, Any]:
    return {
        "revision": event.kv.mod_revision,
        "key": event.kv.key.rsplit(b"/", 1)[1].decode(),
        "value": json.loads(event.kv.value) if event.kv.value else None,
    }
