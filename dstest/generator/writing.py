"""Generated transactions as our JSONL, or as Jepsen's EDN."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from dstest.core.history import Header
from dstest.core.op import Op
from dstest.generator.histories import Event, Spec, Txn

FORMATS: Final = ("jsonl", "edn")


def _op(txn: Txn, workload: str) -> Op:
    known = txn.outcome == "ok"
    common: dict[str, Any] = {
        "op_id": txn.id,
        "process_id": txn.process,
        "invoke_ts": txn.begin_ns,
        "complete_ts": None if txn.outcome == "info" else txn.end_ns,
        "error": "definite-abort" if txn.outcome == "fail" else None,
        "timeout_marker": txn.outcome == "info",
    }
    if workload == "register":
        f, key, value = txn.mops[0]
        output = txn.results[0][2] if known and f == "r" and txn.results else None
        kind = "read" if f == "r" else "write"
        return Op(op_type=kind, key=key, input=value, output=output, **common)
    return Op(op_type="txn", input=txn.mops, output=txn.results if known else None, **common)


def _jsonl(events: Iterable[Event], spec: Spec) -> Iterator[bytes]:
    """Records in order of invocation: one waits until all before it have ended."""
    encode = msgspec.json.Encoder().encode
    header = Header(
        workload=spec.workload,
        model=None if spec.workload == "register" else spec.level,
        concurrency=spec.concurrency,
        seed=spec.seed,
        source="generated",
    )
    yield encode(header) + b"\n"
    waiting: deque[Txn] = deque()
    for kind, txn in events:
        if kind == "begin":
            waiting.append(txn)
        while waiting and waiting[0].end_ns is not None:
            yield encode(_op(waiting.popleft(), spec.workload)) + b"\n"


def _value(value: Any) -> str:
    if value is None:
        return "nil"
    if isinstance(value, list):
        return f"[{' '.join(map(str, value))}]"
    return str(value)


def _edn_value(txn: Txn, kind: str, workload: str) -> str:
    results = txn.results if kind == "ok" and txn.results is not None else txn.mops
    if workload == "register":
        _, key, value = results[0]
        return f"[{key} {_value(value)}]"
    return f"[{' '.join(f'[:{f} {k} {_value(v)}]' for f, k, v in results)}]"


def _edn(events: Iterable[Event], spec: Spec) -> Iterator[bytes]:
    for index, (what, txn) in enumerate(events):
        kind = "invoke" if what == "begin" else txn.outcome
        time = txn.begin_ns if what == "begin" else txn.end_ns
        f = "txn"
        if spec.workload == "register":
            f = "read" if txn.mops[0][0] == "r" else "write"
        value = _edn_value(txn, kind, spec.workload)
        yield (
            f"{{:index {index}, :type :{kind}, :process {txn.process}, :time {time}, "
            f":f :{f}, :value {value}}}\n"
        ).encode()


def lines(events: Iterable[Event], spec: Spec, fmt: str) -> Iterator[bytes]:
    """The lines of a history file, newlines included."""
    return _jsonl(events, spec) if fmt == "jsonl" else _edn(events, spec)
