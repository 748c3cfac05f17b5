"""What etcd's members have applied, in the order of revisions (`-o audit=yes`).

A change of the store has the next revision, and a member tells all of them from the first one on to
whoever watches from there (etcd's rpc.proto, WatchCreateRequest, start_revision), from its own
store. So the changes of all members are read when nobody writes any more, and are held against what
clients asked for and were told (`dstest/judge/server_journal.py`). What was compacted is gone: then
an effect that is missing proves nothing.

    {"rev": 7, "key": "/dstest/0-1", "value": "3"}     a put
    {"rev": 8, "changes": [[1, "/dstest/0-1", ""]]}    a deletion; a transaction has several
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

from clusters.supervise.applied import ValuesApplied
from clusters.systems.etcd.clients.connection import ROOT, Stub
from clusters.systems.etcd.wire import message
from dstest.core.errors import LabError
from dstest.core.protocols import Effect

FILE: Final = "revisions.jsonl"

_FIRST: Final = 2
"""Of an empty store the revision is 1."""

_PUT: Final = 0
_EVERY: Final = b"\0"
"""As a key and as the end of a range: all keys."""


class EtcdEffects(ValuesApplied):
    """Puts of registers, sets and watched keys."""

    file = FILE
    first = _FIRST

    def __init__(self, root: str = ROOT) -> None:
        self._root = f"{root}/"

    def types_of(self, workload: str) -> frozenset[str]:
        return frozenset({"write"}) if workload == "watch" else super().types_of(workload)

    def effect_of(self, record: dict[str, Any]) -> tuple[int, Effect | None]:
        """A line: its revision, and the put."""
        index = int(record["rev"])
        if "key" not in record:
            return index, None
        inside = record["key"].startswith(self._root)
        match record["key"].removeprefix(self._root).split("/") if inside else []:
            case [key]:
                op_type = "write"
            case ["set", key, _]:
                op_type = "add"
            case ["watch", "k", key]:
                op_type = "write"
            case _:
                return index, None
        value = _value(record["value"])
        return index, Effect(index=index, op_type=op_type, key=key, input=value, result=None)


def _value(text: str) -> Any:
    """What clients write is JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


async def applied(stub: Stub, wait_s: float) -> AsyncIterator[bytes]:
    """The lines of a member, from the first revision that it still has. Raises LabError where it
    does not come to its newest one, or says nothing for `wait_s`."""
    import grpc.aio

    newest = message("RangeRequest")(key=ROOT.encode(), serializable=True)
    last, call = _FIRST - 1, stub.watch()
    try:
        async with asyncio.timeout(wait_s):
            head = int((await stub.range(newest)).header.revision)
            await call.write(_from(_FIRST))
        while last < head:
            async with asyncio.timeout(wait_s):
                response = await call.read()
            if response is grpc.aio.EOF:
                raise LabError(f"the watch ended at revision {last} of {head}")
            if response.compact_revision >= head:  # which may be a deletion that is gone
                return
            if response.compact_revision:
                last = response.compact_revision - 1
                await call.write(_from(response.compact_revision))
            elif response.canceled:
                raise LabError(f"the watch was cancelled: {response.cancel_reason}")
            for revision, line in _lines(response.events):
                last = revision
                yield line
    except (TimeoutError, grpc.aio.AioRpcError) as error:
        raise LabError(f"at revision {last}: {type(error).__name__}") from None
    finally:
        call.cancel()


def _from(revision: int) -> Any:
    """A request for all changes from a revision on."""
    create = message("WatchCreateRequest")(key=_EVERY, range_end=_EVERY, start_revision=revision)
    return message("WatchRequest")(create_request=create)


def _lines(events: Sequence[Any]) -> list[tuple[int, bytes]]:
    """(revision, line) by revision; etcd does not tell the changes of one in two answers, unless
    that is asked for."""
    changes: dict[int, list[Any]] = {}
    for event in events:
        changes.setdefault(int(event.kv.mod_revision), []).append(event)
    return [(revision, _line(revision, rows)) for revision, rows in changes.items()]


def _line(revision: int, changes: Sequence[Any]) -> bytes:
    rows = [(one.type, _text(one.kv.key), _text(one.kv.value)) for one in changes]
    row: dict[str, Any] = {"rev": revision, "changes": rows}
    if len(rows) == 1 and rows[0][0] == _PUT:
        row = {"rev": revision, "key": rows[0][1], "value": rows[0][2]}
    return msgspec.json.encode(row) + b"\n"


def _text(given: bytes) -> str:
    return given.decode("utf-8", "backslashreplace")
